"""Plans: when an answer in plan mode holds one, and the words by which the user accepts it."""

from __future__ import annotations

from collections.abc import Iterable

from clawbot.languages.tables import pattern_in, text_in
from clawbot.messages import AssistantMessage, Message, UserMessage
from clawbot.text.language import detect
from clawbot.text.patterns import lazy_re

# Models are told to write `## Plan`. They take another level, bold type, more words and their user's language for it.
_NAMES = rf"{pattern_in('plan')}|\bpiano\b|\bplano\b|план"
_HEADING = lazy_re(rf"(?im)^ {{0,3}}(?:\#{{1,6}}[ \t]+|\*\*|__)[^\n]{{0,80}}?(?:{_NAMES})[^\n]*$")
_FENCE = lazy_re(r"(?ms)^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1|\Z)")


def plan_in(answer: str) -> str:
    """The plan of an answer in plan mode: from the heading that names it to the end, "" where there is none. A heading
    in a block of code, and one with nothing below it, are none."""
    hidden = _FENCE.sub(lambda fence: " " * len(fence.group()), answer)
    for heading in _HEADING.finditer(hidden):
        if answer[heading.end() :].strip():
            return answer[heading.start() :].strip()
    return ""


def plan_of(message: Message | None) -> str:
    """Return the plan of a complete answer in plan mode, "" for any other message."""
    is_whole = isinstance(message, AssistantMessage) and not message.tool_calls and not message.broken
    return plan_in(message.text) if message is not None and is_whole else ""


def last_plan(messages: Iterable[Message]) -> str:
    """Return the plan that the user was asked last to accept in `messages`, oldest first; "" where there was none."""
    plan, planning = "", False
    for message in messages:
        if isinstance(message, UserMessage):
            planning = message.planning is True and message.scheduled is not True
        elif planning:
            plan = plan_of(message) or plan
    return plan


def acceptance(plan: str) -> str:
    """What the user says by accepting `plan`, in its language."""
    return text_in("plan_accepted", detect(plan) or "en")
