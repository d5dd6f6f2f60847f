"""Writing down what the user wants kept: one list line in the file of the day, never twice."""

from __future__ import annotations

import re

from clawbot.llm.offline.answers import say
from clawbot.llm.offline.intents import Intent
from clawbot.llm.offline.language import clean
from clawbot.llm.offline.markers import asks, holds_secret
from clawbot.llm.offline.notebook import as_item, daily_file, look_before
from clawbot.llm.offline.notes import can_search, grep_notes, search
from clawbot.llm.offline.quoting import bare, quote, quoted_lines
from clawbot.llm.offline.ranking import rank
from clawbot.llm.offline.recall import quotes
from clawbot.llm.offline.turn import Call, Outcome, Plan, Turn
from clawbot.llm.offline.words import terms, tokens

MAX_FACT = 4_000
"""What one note may hold, in characters; more belongs into a file of its own."""

_LIST_MARK = re.compile(r"\s{0,8}(?:[-*+]\s{1,4})(?:\[[ xX]\]\s{1,4})?")
_TRAILING = re.compile(
    r"(?:\s*(?:please|ok\??|okay\??|thanks?(?: you)?|谢谢|好吗|可以吗|行吗)[.!?。!?]*)$", re.IGNORECASE
)


def remember(turn: Turn, intent: Intent) -> Plan:
    """Store a fact in the user's own words."""
    return (yield from _store(turn, intent.text or _statement_before(turn), is_todo=False))


def remember_todo(turn: Turn, intent: Intent) -> Plan:
    """Store something that is to be done as an open todo."""
    return (yield from _store(turn, intent.text, is_todo=True))


def forget(turn: Turn, intent: Intent) -> Plan:
    """Notes are not deleted: say where the line stands, so that the user can."""
    wanted = terms(intent.text)
    if not can_search(turn):
        return say(turn.language, "no_tool", tool="grep")
    found = yield from search(turn, wanted) if wanted else grep_notes(turn, r"^\s*[-*+]\s", [])
    if found.trouble is not None:
        return say(
            turn.language, "search_failed", tool=found.trouble.call.name, reason=quoted_lines(found.trouble.text)
        )
    lines = rank(found.lines, wanted, turn.text).lines
    if not lines:
        words = ", ".join(term.shown for term in wanted) or intent.text
        return say(turn.language, "forget_none", where=say(turn.language, "memory_places"), words=words)
    return say(turn.language, "forget_found", path=lines[0].path, quotes=quotes(lines))


def tidy(text: str) -> str:
    """A fact without the wrapping of the request: control characters, a list mark, a closing "please"."""
    fact = clean(text).strip()
    fact = _LIST_MARK.sub("", fact, count=1) if _LIST_MARK.match(fact) else fact
    return _TRAILING.sub("", fact).strip(" \n,，;；") if len(fact) <= MAX_FACT else fact


def _statement_before(turn: Turn) -> str:
    """What a bare "remember that" points at: the last thing the user said, if it stated something."""
    before = next((text for text in reversed(turn.earlier_user_texts) if text.strip()), "")
    return "" if asks(before) else before


def _store(turn: Turn, text: str, *, is_todo: bool) -> Plan:
    fact = tidy(text)
    if not tokens(fact):
        return say(turn.language, "remember_what")
    if len(fact) > MAX_FACT:
        return say(turn.language, "fact_too_long", size=len(fact), limit=MAX_FACT)
    if "append" not in turn.tools:
        return say(turn.language, "no_tool", tool="append")
    path = daily_file(turn)
    looked = yield from look_before(turn, [fact], path)
    known = looked.known(fact)
    if known is not None:
        return say(turn.language, "already_noted", fact=bare(known.text), source=known.source)
    item = as_item(fact, is_todo=is_todo)
    outcomes = yield [Call("append", {"path": path, "content": looked.heading(path) + item})]
    return _confirm(turn, outcomes[0], fact, "remembered_todo" if is_todo else "remembered")


def _confirm(turn: Turn, outcome: Outcome, fact: str, key: str) -> str:
    if outcome.is_error:
        return say(turn.language, "stored_nothing", tool="append", reason=quoted_lines(outcome.text))
    path = str(outcome.call.arguments.get("path", ""))
    if not holds_secret(fact):
        return say(turn.language, key, path=path, fact=quote(fact).removeprefix("> "))
    return say(turn.language, key, path=path, fact="•••••") + say(turn.language, "secret_warning", path=path)
