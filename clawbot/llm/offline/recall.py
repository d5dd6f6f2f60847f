"""Answering from the notes: searching them, and quoting what fits with file and line."""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import date, datetime, timedelta

from clawbot.llm.offline import ranking
from clawbot.llm.offline.answers import say
from clawbot.llm.offline.compacted import read_compacted
from clawbot.llm.offline.intents import MAX_REQUEST, Intent, is_question
from clawbot.llm.offline.language import fold
from clawbot.llm.offline.markers import asks, sentences
from clawbot.llm.offline.notes import Line, Search, can_search, grep_day, grep_notes, match_strength, search
from clawbot.llm.offline.quoting import bare, quote, quoted_lines
from clawbot.llm.offline.ranking import Ranked, rank
from clawbot.llm.offline.turn import Call, Outcome, Plan, Turn
from clawbot.llm.offline.words import Term, normalise, stems, terms
from clawbot.messages import UserMessage

_Found = Generator[list[Call], list[Outcome], Search | str]

FULL = 0.5
"""From this share of the question's words on, a line counts as an answer and not only as near."""

NEAR = 0.25
"""Below this share a line has to do with a request only by accident."""

NEWEST_NOTES = 8
ANY_ITEM = r"^\s*(?:[-*+]|\d+[.)])\s+\S"
ANY_TODO = r"\[ \]|\b(?:todo|to-do)\b|待办"

# Lines of a note that say nothing of what was talked about: headings, the facts of the session, what was left out.
_FACT = re.compile(r"#|- \*\*|\[\.\.\. ")
_HEADING = re.compile(r"^#.*$", re.MULTILINE)
_ISO_DAY = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAYS_BACK = (
    (re.compile(r"\bday before yesterday\b|前天", re.IGNORECASE), 2),
    (re.compile(r"\byesterday\b|昨天|昨日", re.IGNORECASE), 1),
    (re.compile(r"\b(?:today|this morning)\b|今天|今日", re.IGNORECASE), 0),
)


def recall(turn: Turn, intent: Intent) -> Plan:
    """Answer a question about what the user once said."""
    question = intent.text or turn.text
    day = mentioned_day(question, turn.now.date())
    wanted = terms(_ISO_DAY.sub(" ", question) if day else question)
    if day is not None:
        found = yield from _recall_day(turn, day, wanted)
        if isinstance(found, str):
            return found
        if found.lines:
            return say(turn.language, "recalled_day", day=day.isoformat(), quotes=quotes(found.lines))
        if not wanted:
            return say(turn.language, "not_found_day", day=day.isoformat())
    if not wanted:
        return (yield from recall_all(turn, intent))
    return (yield from _recall_words(turn, wanted))


def _recall_words(turn: Turn, wanted: list[Term]) -> Plan:
    found = yield from _search(turn, wanted)
    if isinstance(found, str):
        return found
    ranked = _ranked(found, wanted, turn.text)
    if ranked.lines:
        key = "recalled" if ranked.coverage >= FULL else "recalled_near"
        return say(turn.language, key, quotes=quotes(ranked.lines))
    return _from_conversation(turn, wanted) or say(turn.language, "not_found", **_looked(turn, wanted))


def recall_all(turn: Turn, intent: Intent) -> Plan:
    """Show the newest notes."""
    found = yield from _grep(turn, ANY_ITEM)
    if isinstance(found, str):
        return found
    lines = ranking.newest([line for line in found.lines if line.path.lower() != "user.md"], NEWEST_NOTES)
    if not lines:
        return say(turn.language, "not_found_all")
    return say(turn.language, "recalled_all", quotes=quotes(lines))


def last_talk(turn: Turn, intent: Intent) -> Plan:
    """Tell what the last conversation was about, from the note of it that this session begins with."""
    kept = next((note for note in turn.quoted if note.is_of_conversation), None) or next(iter(turn.quoted), None)
    lines = [line for line in kept.text.splitlines() if line.strip() and not _FACT.match(line)] if kept else []
    if kept is None or not lines:
        return (yield from recall(turn, intent))
    shown = quoted_lines("\n".join(lines[-NEWEST_NOTES:]), NEWEST_NOTES)
    return say(turn.language, "last_talk", path=kept.path, quotes=shown)


def todos(turn: Turn, intent: Intent) -> Plan:
    """Show the open todos among the notes."""
    found = yield from _grep(turn, ANY_TODO)
    if isinstance(found, str):
        return found
    lines = ranking.newest([line for line in found.lines if not is_question(bare(line.text))], NEWEST_NOTES)
    if not lines:
        return say(turn.language, "not_found", where=say(turn.language, "memory_places"), words="todo, 待办, [ ]")
    return say(turn.language, "recalled", quotes=quotes(lines))


def other(turn: Turn, intent: Intent) -> Plan:
    """Something that only a language model could answer: say so, and show what the notes hold on it."""
    wanted = terms(intent.text)
    if not wanted or not can_search(turn):
        return say(turn.language, "cannot_answer")
    found = yield from _search(turn, wanted)
    if isinstance(found, str):
        return found
    ranked = _ranked(found, wanted, turn.text)
    if not ranked.lines or ranked.coverage < NEAR:
        return say(turn.language, "not_found_other", **_looked(turn, wanted))
    key = "recalled_other" if ranked.coverage >= FULL else "near_other"
    return say(turn.language, key, quotes=quotes(ranked.lines))


def quotes(lines: list[Line]) -> str:
    """The lines as block quotes, each with its source."""
    return "\n\n".join(quote(bare(line.text), line.source) for line in lines)


def _search(turn: Turn, wanted: list[Term]) -> _Found:
    """Search the notes; a reply instead of what was found when that was not possible."""
    if not can_search(turn):
        return _from_conversation(turn, wanted) or say(turn.language, "no_tool", tool="grep")
    return _or_trouble(turn, (yield from search(turn, wanted)))


def _grep(turn: Turn, regex: str) -> _Found:
    """All lines of the notes that fit `regex`, or a reply."""
    if "grep" not in turn.tools:
        return say(turn.language, "no_tool", tool="grep")
    return _or_trouble(turn, (yield from grep_notes(turn, regex, [])))


def _or_trouble(turn: Turn, found: Search) -> Search | str:
    if found.trouble is None:
        return found
    reason = quoted_lines(found.trouble.text)
    return say(turn.language, "search_failed", tool=found.trouble.call.name, reason=reason)


def _recall_day(turn: Turn, day: date, wanted: list[Term]) -> _Found:
    """What the notes of one day hold: on the question's words, or all of it when there are none. None of it fits: an
    empty result."""
    if "grep" not in turn.tools:
        return say(turn.language, "no_tool", tool="grep")
    found = _or_trouble(turn, (yield from grep_day(day, ANY_ITEM)))
    if isinstance(found, str):
        return found
    lines = rank(found.lines, wanted, turn.text).lines if wanted else ranking.newest(found.lines, NEWEST_NOTES)
    return Search(lines)


def _ranked(found: Search, wanted: list[Term], question: str) -> Ranked:
    """The lines by their words; when no word fits, what a search by meaning put first, as something near."""
    ranked = rank(found.lines, wanted, question)
    if ranked.lines or not found.ranked:
        return ranked
    return Ranked(found.lines[:1], 0.0)


def _from_conversation(turn: Turn, wanted: list[Term]) -> str:
    """What the user said on it earlier in this conversation; empty when nothing."""
    for message in reversed(turn.earlier):
        if not isinstance(message, UserMessage):
            continue
        summary = read_compacted(message.text)
        if found := _fitting(summary.question if summary else message.text, wanted):
            # A summary has the time of the compaction.
            when = "" if summary else _when(turn, message.timestamp)
            return say(turn.language, "said_here", when=when, quotes=quote(found))
        if summary and (found := _fitting(_HEADING.sub("", summary.summary), wanted)):
            return say(turn.language, "said_before", quotes=quote(bare(found)))
    return ""


def _fitting(text: str, wanted: list[Term]) -> str:
    """The first sentence that states something with at least half of the words; empty when none does."""
    for sentence in sentences(text[:MAX_REQUEST]):
        fits = [match_strength(normalise(sentence), set(stems(sentence)), term) for term in wanted]
        if not asks(sentence) and sum(value > 0 for value in fits) * 2 >= max(len(wanted), 1):
            return sentence
    return ""


def _when(turn: Turn, timestamp: int) -> str:
    if not timestamp:
        return ""
    moment = datetime.fromtimestamp(timestamp / 1000, turn.now.tzinfo)
    return f" at {moment:%H:%M}" if turn.language == "en" else f" {moment:%H:%M} "


def _looked(turn: Turn, wanted: list[Term]) -> dict[str, str]:
    """Where was looked, and for which words."""
    return {"where": say(turn.language, "memory_places"), "words": ", ".join(term.shown for term in wanted)}


def mentioned_day(question: str, today: date) -> date | None:
    """The day that a question is about, if it names one."""
    if (found := _ISO_DAY.search(question)) is not None:
        try:
            return date(*map(int, found.groups()))
        except ValueError:
            return None
    folded = fold(question)
    return next((today - timedelta(days=back) for pattern, back in _DAYS_BACK if pattern.search(folded)), None)
