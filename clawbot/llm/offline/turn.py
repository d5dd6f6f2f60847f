"""One turn as the offline model sees it: what the user said last, what the tools have answered since, what comes next.

A capability is a plan: a generator that yields the tool calls it wants, gets their outcomes sent back, and returns the
reply. The model keeps no state between its calls, so a plan is run again from its start each time, fed with the
outcomes that the messages hold, up to the point where it wants something new.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from clawbot.llm.offline.answers import quote, say
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, quotes_notes, read_compacted
from clawbot.text.language import Language, detect_last

WRITERS = {"append": "content", "write": "content", "edit": "new"}
"""The tools that write a file -> the argument that holds what they put there."""


class PlannedCall(Struct, frozen=True):
    """A tool call that a plan wants."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


class CallOutcome(Struct, frozen=True):
    """A call that was made, and what came of it. An answer that is missing counts as an error, one that the user
    `declined` as well."""

    call: PlannedCall
    text: str
    is_error: bool = False
    declined: bool = False


Plan = Generator[list[PlannedCall], list[CallOutcome], str]
Step = list[PlannedCall] | str


class Turn(Struct, frozen=True):
    """What a plan works with. `earlier` was said before `text`, the user's last message, oldest first; `rounds` are the
    tool calls since, with their outcomes. `now` is in the user's zone. `resumed`: the turn was compacted in its middle,
    so `text` comes from what stands for its beginning ("" when it is not whole there), and `rounds` may miss the first.
    """

    text: str
    language: Language
    earlier: tuple[Message, ...]
    rounds: tuple[tuple[CallOutcome, ...], ...]
    tools: frozenset[str]
    now: datetime
    resumed: bool = False


def read_turn(request: ChatRequest, now: datetime) -> Turn:
    """Find the turn in the messages of `request`. Notes that are quoted as a session begins were said by nobody."""
    messages = tuple(message for message in request.messages if not quotes_notes(message))
    last = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], UserMessage)), len(messages))
    user = messages[last] if last < len(messages) else None
    spoken = [message.text for message in reversed(messages[: last + 1]) if isinstance(message, UserMessage)]
    return Turn(
        text=asked(user) if isinstance(user, UserMessage) else "",
        language=detect_last(old.spoken if (old := read_compacted(text)) else text for text in spoken),
        earlier=messages[:last],
        rounds=_rounds(messages[last + 1 :]),
        tools=frozenset(spec.name for spec in request.tools),
        now=now,
        resumed=isinstance(user, UserMessage) and read_compacted(user.text) is not None,
    )


def asked(message: UserMessage) -> str:
    """What the user said in it; of a summary the request behind it."""
    compacted = read_compacted(message.text)
    if compacted:
        return compacted.question
    text = message.text
    for label in message.attached:
        name = label.partition(" · ")[0]
        text = text.replace(f"@{name}", name)
    return text


def _rounds(messages: Sequence[Message]) -> tuple[tuple[CallOutcome, ...], ...]:
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    return tuple(
        tuple(_outcome(PlannedCall(call.name, call.arguments), results.get(call.id)) for call in message.tool_calls)
        for message in messages
        if isinstance(message, AssistantMessage) and message.tool_calls
    )


def _outcome(call: PlannedCall, result: ToolResultMessage | None) -> CallOutcome:
    if result is None:
        return CallOutcome(call, "no answer", is_error=True)
    declined = isinstance(result.details, dict) and result.details.get("declined") is True
    return CallOutcome(call, result.text, result.is_error, declined)


def follow(plan: Plan, turn: Turn) -> Step:
    """The next step of `plan`, or the end of the turn. Nothing is done a second time."""
    step = _advance(plan, turn)
    if step is None:
        return what_was_done(turn)
    if isinstance(step, str):
        return step
    may_repeat = turn.resumed and not turn.rounds and any(call.name in (*WRITERS, "shell") for call in step)
    return say(turn.language, "resumed_unknown", tool=step[0].name) if may_repeat else step


def _advance(plan: Plan, turn: Turn) -> Step | None:
    """Run `plan` past the rounds that were made: the calls that it wants next, or its reply; None when the rounds are
    not its own: another model began the turn, or its beginning was compacted."""
    try:
        wanted = next(plan)
        for outcomes in turn.rounds:
            made = [outcome.call for outcome in outcomes]
            # Where the beginning may be missing, a later round may be of the same tools as the first.
            if [call.name for call in wanted] != [call.name for call in made] or (turn.resumed and wanted != made):
                return None
            wanted = plan.send(list(outcomes))
    except StopIteration as end:
        return str(end.value)
    return wanted


def what_was_done(turn: Turn) -> str:
    """The end of a turn that can't go on: what was written where, and else what the last tool said."""
    outcomes = [outcome for outcomes in turn.rounds for outcome in outcomes]
    written = [outcome.call for outcome in outcomes if outcome.call.name in WRITERS and not outcome.is_error]
    if turn.resumed and written:
        done = dict.fromkeys(f"`{call.name}` `{call.arguments.get('path', '?')}`" for call in written)
        return say(turn.language, "resumed_written", done=", ".join(done))
    return say(turn.language, "cut_off", tool=outcomes[-1].call.name, reason=quote(outcomes[-1].text))
