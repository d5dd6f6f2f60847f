"""One turn as the offline model sees it: what the user said last, and what the tools have answered since.

A capability is a plan: a generator that yields the tool calls it wants, gets their outcomes sent back, and returns the
reply. The model keeps no state between its calls, so a plan is run again from its start each time, fed with the
outcomes that the messages hold, up to the point where it wants something new.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from clawbot.llm.offline.compacted import read_compacted
from clawbot.llm.offline.language import Language, detect_last
from clawbot.llm.offline.quoted import QuotedNote, read_quoted, without_quoted
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

MAX_ROUNDS = 3
"""Rounds of tool calls for one message of the user. No plan needs more; a loop has to end."""

WRITERS = {"append": "content", "write": "content", "edit": "new"}
"""The tools that write a file -> the argument that holds what they put there."""


class Call(Struct, frozen=True):
    """A tool call that a plan wants."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


class Outcome(Struct, frozen=True):
    """A call that was made, and what came of it. An answer that is missing counts as an error."""

    call: Call
    text: str
    is_error: bool = False


Plan = Generator[list[Call], list[Outcome], str]
Step = list[Call] | str


class TakenOverError(Exception):
    """The rounds of this turn are not those of the plan: another model began it, or its beginning was compacted."""


class Turn(Struct, frozen=True):
    """What a plan works with.

    `text` is the user's last message, `earlier` what came before it, oldest first; `rounds` are the tool calls that
    were made since, with their outcomes. `now` is in the user's zone. `resumed`: the turn was compacted in its middle,
    so `text` comes from what stands for its beginning ("" when it is not whole there), and `rounds` may be the last of
    more. `quoted` are the notes that the session begins with; nobody said them.
    """

    text: str
    language: Language
    earlier: tuple[Message, ...]
    rounds: tuple[tuple[Outcome, ...], ...]
    tools: frozenset[str]
    system: str
    now: datetime
    resumed: bool = False
    quoted: tuple[QuotedNote, ...] = ()

    @property
    def earlier_user_texts(self) -> list[str]:
        """What the user said before, oldest first; of a summary the request that follows it."""
        return [text for message in self.earlier if isinstance(message, UserMessage) and (text := _asked(message))]


def read_turn(request: ChatRequest, now: datetime) -> Turn:
    """Find the turn in the messages of `request`."""
    messages = without_quoted(request.messages)
    last = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], UserMessage)), len(messages))
    user = messages[last] if last < len(messages) else None
    earlier = messages[:last]
    spoken = [message for message in reversed(messages[: last + 1]) if isinstance(message, UserMessage)]
    return Turn(
        text=_asked(user) if isinstance(user, UserMessage) else "",
        language=detect_last(map(_words, spoken)),
        earlier=earlier,
        rounds=_rounds(messages[last + 1 :]),
        tools=frozenset(spec.name for spec in request.tools),
        system=request.system,
        now=now,
        resumed=isinstance(user, UserMessage) and read_compacted(user.text) is not None,
        quoted=tuple(note for message in request.messages for note in read_quoted(message)),
    )


def _asked(message: UserMessage) -> str:
    """What the user said in it."""
    summary = read_compacted(message.text)
    return summary.question if summary else message.text


def _words(message: UserMessage) -> str:
    """Words in the user's language."""
    summary = read_compacted(message.text)
    return summary.spoken if summary else message.text


def _rounds(messages: Sequence[Message]) -> tuple[tuple[Outcome, ...], ...]:
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    return tuple(
        tuple(_outcome(Call(call.name, call.arguments), results.get(call.id)) for call in message.tool_calls)
        for message in messages
        if isinstance(message, AssistantMessage) and message.tool_calls
    )


def _outcome(call: Call, result: ToolResultMessage | None) -> Outcome:
    if result is None:
        return Outcome(call, "The tool gave no answer.", is_error=True)
    return Outcome(call, result.text, result.is_error)


def advance(plan: Plan, rounds: Sequence[Sequence[Outcome]], *, exactly: bool = False) -> Step:
    """Run `plan` past the rounds that were made: the calls that it wants next, or its reply.

    Raises TakenOverError when the rounds are of other tools than the plan asks for, or, with `exactly`, of other calls:
    a later round may be of the same tools as the first.
    """
    try:
        wanted = next(plan)
        for outcomes in rounds:
            made = [outcome.call for outcome in outcomes]
            if [call.name for call in wanted] != [call.name for call in made] or (exactly and wanted != made):
                raise TakenOverError
            wanted = plan.send(list(outcomes))
    except StopIteration as end:
        return str(end.value)
    return wanted
