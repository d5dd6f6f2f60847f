"""The end of a turn that was compacted in its middle: what was done is told, nothing is done a second time."""

from __future__ import annotations

from clawbot.llm.offline.answers import say
from clawbot.llm.offline.markers import holds_secret
from clawbot.llm.offline.notes import lines_in
from clawbot.llm.offline.quoting import quoted_lines
from clawbot.llm.offline.recall import NEWEST_NOTES, quotes
from clawbot.llm.offline.turn import WRITERS, Call, Outcome, Turn

MOST_WRITES = 3
"""So many files are named, the newest."""

_HIDDEN = "> •••••"


def reply(turn: Turn) -> str:
    """What was written where in the rounds that are left, and else what the last tool said."""
    outcomes = [outcome for outcomes in turn.rounds for outcome in outcomes]
    written = [_written(turn, outcome) for outcome in outcomes if outcome.call.name in WRITERS and not outcome.is_error]
    if not written:
        return say(turn.language, "resumed", last=_last(turn, outcomes[-1]))
    done = "\n\n".join(written[-MOST_WRITES:])
    if outcomes[-1].is_error:
        done = f"{done}\n\n{_last(turn, outcomes[-1])}"
    return say(turn.language, "resumed_written", done=done)


def may_repeat(turn: Turn, calls: list[Call]) -> bool:
    """Whether `calls` change something that they may have changed already: of the rounds of the turn none is left."""
    return turn.resumed and not turn.rounds and any(call.name in WRITERS or call.name == "shell" for call in calls)


def _written(turn: Turn, outcome: Outcome) -> str:
    call = outcome.call
    text = str(call.arguments.get(WRITERS[call.name], ""))
    quoted = _HIDDEN if holds_secret(text) else quoted_lines(text)
    return say(turn.language, "resumed_place", tool=call.name, path=call.arguments.get("path", "?"), quote=quoted)


def _last(turn: Turn, outcome: Outcome) -> str:
    if outcome.is_error:
        return say(turn.language, "resumed_failed", tool=outcome.call.name, reason=quoted_lines(outcome.text))
    lines = lines_in(outcome)[:NEWEST_NOTES]
    found = quotes(lines) if lines else quoted_lines(outcome.text)
    return say(turn.language, "resumed_answer", tool=outcome.call.name, quote=found)
