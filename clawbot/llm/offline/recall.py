"""Answering from the notes and from the conversation: what a memory search puts first is quoted with its position."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from clawbot.clock import epoch_ms, moment_of
from clawbot.languages.stems import stem
from clawbot.languages.tables import pattern_in, table, words_in
from clawbot.llm.offline.turn import (
    MAX_REQUEST,
    CallOutcome,
    Intent,
    Plan,
    PlannedCall,
    Turn,
    asked,
    bare,
    classify,
    one_line,
    quote,
)
from clawbot.llm.offline.workspace import key, list_files, tidy
from clawbot.messages import UserMessage, read_compacted
from clawbot.text.language import (
    CHAT_WORDS,
    CHINESE_CHAT_WORDS,
    CHINESE_STOP_PHRASES,
    HAN,
    STOP_WORDS,
    Language,
    detect,
)
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean_line
from clawbot.text.secrets import MARK, holds_secret
from clawbot.text.statements import asks, is_question, is_refusal, marks, sentences
from clawbot.text.topics import words

MAX_QUERY, MAX_QUOTES, MAX_LINES = 400, 3, 8
SESSION_TOOL, MAX_AROUND = "sessions_read", 40
PAUSE_MS = 3 * 3_600_000  # after such a pause what precedes it was another time
NEAR = 0.58  # a hit that scores less is near at best: it may not be shown as the answer
OTHER_WORDS, OTHER_LANGUAGE = 0.7, 0.62  # least score of a hit without a word of the question
WORD_STEM = 5  # so many letters distinguish words
OF_BEST = 0.82  # a hit that scores less than this share of the best is not quoted with it

_FACTS = ("remember", "recall", "ask", "statement")
_WRITTEN = ("create", "append")
"""What a message with content may be, and what holds a text for a file."""

_SPEAKER = lazy_re(r"(?:(?:\d{4}-\d{2}-\d{2} )?\d{2}:\d{2} )?(?:(user)|assistant): ", re.IGNORECASE)
# Headings, comments and hints of a template, facts of a session, empty fields: lines that state nothing.
_NO_FACT = lazy_re(r"\s*(?:#|<!--|---|```|_.*_\s*\Z|- \*\*(?:Session (?:Key|ID)|Source|Reason)\*\*|.*[:：]\**\s*\Z)")
_SUMMARY_FRAME = lazy_re(r"^#.*$|^- \(none\)$", re.MULTILINE)
# What the program wrote of itself, and where the note of a session omits what another note has.
_PROGRAM = lazy_re(r"`(?:/[a-z]|offline`|clawbot )|\[quoted: [^\]\n]*\]")
_YESTERDAY = lazy_re(pattern_in("yesterday"), re.IGNORECASE)
_DAY = lazy_re(r"\d{4}-\d{2}-\d{2}")
_WEEKDAYS = words_in("weekdays")  # who asks for one means it
_STOP_PHRASES = {*CHINESE_STOP_PHRASES, *CHINESE_CHAT_WORDS, *words_in("more_stop_phrases")} - _WEEKDAYS
_HAN_STOP = lazy_re("|".join(sorted(_STOP_PHRASES, key=len, reverse=True)))
_NAMED = lazy_re(pattern_in("asks_for_name"))
_TOKEN = lazy_re(f"[{HAN}]|[^{HAN}]+")


class RecalledLine(Struct, frozen=True):
    """A line that a search found at `position`, about the day and line of `age`, if any. `origin` is the author: file,
    user, agent, the last also of the program `by`; `score` is 0 to 1."""

    position: str
    age: tuple[str, str, int]
    text: str
    origin: str
    score: float
    by: str = ""


def recall(turn: Turn, intent: Intent) -> Plan:
    """Answer a question from the user's statements in this conversation, or from the notes."""
    question = intent.text or turn.text
    hits: list[RecalledLine] = []
    if "memory_search" in turn.tools:
        [outcome] = yield [PlannedCall("memory_search", {"query": question[:MAX_QUERY]})]
        answer = _answer(outcome)
        if outcome.is_error or answer.get("disabled"):
            why = f"{answer.get('error', outcome.text)} {answer.get('action', '')}"
            return _from_here(turn, question) or turn.reply("search_failed", reason=one_line(why))
        if answer.get("evidence") != "weak":
            hits = _chosen(answer, question, is_personal=intent.kind == "recall")
        if _YESTERDAY.search(question):
            hits = [hit for hit in hits if hit.age[0] == f"{turn.now - timedelta(days=1):%Y-%m-%d}"]
    here = _from_here(turn, question, hits)
    answers = bool(hits) and hits[0].score >= NEAR
    if not answers and (here or not hits or intent.kind == "ask"):
        return here or turn.reply("not_found" if intent.kind == "recall" else "refused")
    key = "nearest" if not answers else "newest_first" if _supersedes(hits, question) else "recalled"
    return "\n\n".join(filter(None, (here, turn.reply(key, quotes=_quotes(turn, hits)))))


def recall_here(turn: Turn, intent: Intent) -> Plan:
    """Quote the user's last statements in this conversation; without any, those of the one before."""
    lines = [text for _, text in _statements(turn)]
    if lines:
        return turn.reply("said_here", quotes=_quoted_lines(lines))
    if SESSION_TOOL not in turn.tools:
        return turn.reply("told_nothing")
    return (yield from last(turn, intent))


def last(turn: Turn, intent: Intent) -> Plan:
    """Quote the user's last statements before the last long pause, or of the conversation before, with their time."""
    messages = _before_pause(turn)
    if lines := [line for message in reversed(messages) for line in _stated(asked(message), turn.language)]:
        when = f"{moment_of(messages[-1].timestamp, turn.now.tzinfo):%Y-%m-%d %H:%M}"
        return turn.reply("said_last", when=when, quotes=_quoted_lines(lines))
    if SESSION_TOOL not in turn.tools:
        return (yield from list_files(turn, Intent("notes")))
    [outcome] = yield [PlannedCall(SESSION_TOOL, {"place": "last", "around": MAX_AROUND})]
    texts = [] if outcome.is_error else _answer(outcome).get("said")
    spoken = [one for one in texts if one.get("who") == "user"] if isinstance(texts, list) else []
    lines = [line for one in reversed(spoken) for line in _stated(str(one.get("text", "")), turn.language)]
    if not lines:
        return turn.reply("no_last")
    when = str(spoken[-1].get("at", ""))[:16].replace("T", " ")
    return turn.reply("said_last", when=when, quotes=_quoted_lines(lines))


def _before_pause(turn: Turn) -> list[UserMessage]:
    """Return the user's messages before the last long pause, back to the one before that."""
    texts = [message for message in turn.earlier if isinstance(message, UserMessage) and message.timestamp]
    times = [*(message.timestamp for message in texts), epoch_ms(turn.now)]
    pauses = [at for at, (one, next_one) in enumerate(itertools.pairwise(times), 1) if next_one - one >= PAUSE_MS]
    return texts[pauses[-2] if len(pauses) > 1 else 0 : pauses[-1]] if pauses else []


def _quoted_lines(lines: Sequence[str]) -> str:
    """Quote the newest of `lines` (newest first) in their order, a paragraph each; questions only without
    statements."""
    kept = [at for at, line in enumerate(lines) if not asks(line)] or list(range(len(lines)))
    return "\n>\n".join(quote(lines[at]) for at in reversed(kept[:MAX_LINES]))


def key_stems(text: str) -> frozenset[str]:
    """Return the stems of the significant words of `text`; of Chinese each character, and one for all of a name."""
    plain = _HAN_STOP.sub(" ", _NAMED.sub(f" {table('zh')['name']} ", text))
    tokens = {token for word in words(plain) for token in _TOKEN.findall(word)}
    return frozenset(map(stem, tokens - STOP_WORDS - CHAT_WORDS))


def _answer(outcome: CallOutcome) -> dict[str, Any]:
    try:
        answer = json.loads(outcome.text)
    except ValueError:
        # The hits of a search are quoted as text, and data beside it.
        answer = outcome.details
    return answer if isinstance(answer, dict) else {}


def _chosen(answer: dict[str, Any], question: str, *, is_personal: bool) -> list[RecalledLine]:
    """Return the hits to quote, in the search's order: one line of each result, each text once. Of two about one thing
    the newer one is first."""
    wanted = key_stems(question)
    found: dict[tuple[str, ...], RecalledLine] = {}
    for result in filter(lambda result: isinstance(result, dict), answer.get("results") or ()):
        lines = [hit for hit in _lines(result) if words(hit.text)]
        best = _best(lines, question, wanted) if _is_meant(lines, question, wanted, is_personal=is_personal) else None
        if best:
            found.setdefault(tuple(words(best.text)), best)
    # A wish to remember, in the note of a session, repeats what it led to.
    hits = [hit for hit in found.values() if _remembered(hit) not in found]
    hits = [hit for hit in hits if hit.score >= OF_BEST * hits[0].score][:MAX_QUOTES]
    newer = next((hit for hit in reversed(hits[1:]) if _supersedes([hit, hits[0]], question)), None)
    return [newer, *(hit for hit in hits if hit is not newer)] if newer else hits


def _is_meant(lines: Sequence[RecalledLine], question: str, wanted: frozenset[str], *, is_personal: bool) -> bool:
    """Whether a result may be quoted: it has a word of the question, or such a score that it must mean the same in
    another language or, in questions of the user about himself, in other words."""
    text = " ".join(hit.text for hit in lines)
    near = {word[:WORD_STEM] for word in key_stems(text)} & {word[:WORD_STEM] for word in wanted}
    # One character that is shared may be part of another word.
    is_shared = len(near) >= (min(2, len(wanted)) if detect(question) == "zh" else 1)
    is_other = detect(text) != detect(question)
    least = OTHER_LANGUAGE if is_other else OTHER_WORDS if is_personal else 1.0
    return is_shared or any(hit.score >= least for hit in lines)


def _best(lines: Sequence[RecalledLine], question: str, wanted: frozenset[str]) -> RecalledLine | None:
    """Return the line of a result to quote: a result may hold lines around the one that fits. If only lines fit that
    are not quoted, such as the same question asked before, the next line may be the answer, unless it is the user's. If
    no line of a conversation has a word of the question, only a single statement may be meant."""
    fits = [len(wanted & key_stems(hit.text)) for hit in lines]
    states = [_is_statement(hit, question) for hit in lines]
    if not any(fits) and any(hit.origin != "file" for hit in lines):
        facts = [
            hit for hit, state in zip(lines, states, strict=True) if state and (not asks(hit.text) or marks(hit.text))
        ]
        return facts[0] if len(facts) == 1 else None
    at = max(range(len(lines)), key=lambda at: (states[at], fits[at]), default=None)
    if at is not None and not fits[at] and any(fits):
        at = next(at for at, fit in enumerate(fits) if fit) + 1
        states = [state and hit.origin != "user" for state, hit in zip(states, lines, strict=True)]
    return lines[at] if at is not None and at < len(lines) and states[at] else None


def _remembered(hit: RecalledLine) -> tuple[str, ...] | None:
    """Return the words of the fact that the user asked to remember with this line; None for any other line."""
    wish = classify(hit.text, "en") if hit.origin == "user" else None
    return key(tidy(wish.text)) if wish and wish.kind == "remember" else None


def _lines(result: dict[str, Any]) -> Iterator[RecalledLine]:
    path, start, text, score = (result.get(name) for name in ("path", "startLine", "snippet", "score"))
    if isinstance(path, str) and isinstance(start, int) and isinstance(text, str) and isinstance(score, int | float):
        day = _DAY.search(path)
        last = start + text.count("\n")
        end = result.get("endLine", last)
        by = clean_line(str((result.get("said") or {}).get("by") or ""))
        items = [bare(str(line.get("text", ""))) for line in result.get("below") or () if isinstance(line, dict)]
        for at, line in enumerate(text.split("\n"), start):
            # Lines without content may be left out of a snippet.
            position = f"{path}:{at}" if end == last else f"{path}:{start}-{end}"
            leads = items and at == last
            texts = f"{bare(line)} {'; '.join(items)}" if leads else "" if _NO_FACT.match(line) else bare(line)
            who = _SPEAKER.match(texts)
            origin = ("user" if who[1] else "agent") if who else str(result.get("origin"))
            age = (day[0] if day else "", path, at)
            yield RecalledLine(position, age, texts[who.end() if who else 0 :], origin, score, by)


def _is_statement(hit: RecalledLine, question: str) -> bool:
    """Whether a line states something: no question, of the user no request or chat, of the agent no refusal and
    no quote of a note."""
    if not words(hit.text) or words(hit.text) == words(question) or is_question(hit.text) or MARK in hit.text:
        return False
    if hit.origin == "user" and classify(hit.text, "en").kind not in (*_FACTS, *_WRITTEN):
        return False
    return hit.origin != "agent" or not (is_refusal(hit.text) or _PROGRAM.search(hit.text))


def _supersedes(hits: Sequence[RecalledLine], question: str) -> bool:
    """Whether the first hit is newer than the second, has its words of the `question`, and most of its other words."""
    if len(hits) < 2:
        return False
    first, second, wanted = key_stems(hits[0].text), key_stems(hits[1].text), key_stems(question)
    besides = min(len(first - wanted), len(second - wanted))
    (day, path, _), (other, other_path, _) = hits[0].age, hits[1].age
    is_newer = "" < other < day or (path == other_path and hits[0].age > hits[1].age)
    return is_newer and second & wanted <= first and len(first & second) >= max(besides, 1)


def _quotes(turn: Turn, hits: Sequence[RecalledLine]) -> str:
    keys = {"user": "by_user", "agent": "by_agent"}
    found = ((hit, "by_other" if hit.by and hit.origin == "agent" else keys.get(hit.origin)) for hit in hits)
    texts = ((hit, turn.reply(key, by=hit.by) if key else "") for hit, key in found)
    return "\n\n".join(quote(whose + hit.text, hit.position) for hit, whose in texts)


def _from_here(turn: Turn, question: str, hits: Sequence[RecalledLine] = ()) -> str:
    wanted = key_stems(question)
    known = [words(hit.text) for hit in hits]
    found = (
        (_weight(wanted & key_stems(text)), key, text) for key, text in _statements(turn) if words(text) not in known
    )
    least = max(min(2, _weight(wanted)), _weight(wanted) / 2)
    fits = [(count, key, text) for count, key, text in found if count and count >= least
            and not (is_question(text) or (asks(text) and not marks(text)))]  # fmt: skip
    _, key, text = max(fits, key=lambda fit: (fit[0], -len(key_stems(fit[2]))), default=(0, "", ""))
    return turn.reply(key, quotes=quote(text)) if key else ""


def _weight(tokens: frozenset[str]) -> int:
    """Weigh `tokens`: a character of Chinese, which may be part of another word, counts half as much as a word."""
    return sum(min(2, len(token)) for token in tokens)


def _statements(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield the key of the answer and the text of each sentence in this conversation, newest first, without secrets and
    chat."""
    for message in reversed(turn.earlier):
        if isinstance(message, UserMessage):
            old = read_compacted(message.text)
            yield from (("said_here", line) for line in _stated(asked(message)[:MAX_REQUEST], turn.language))
            lines = [bare(line) for line in _SUMMARY_FRAME.sub("", old.summary).splitlines()] if old else []
            yield from (("summed_up", line) for line in lines if line)


def _stated(texts: str, language: Language) -> Iterator[str]:
    """Yield the sentences of a message, last one first, without secrets, chat and requests, but with texts for
    files."""
    intent = classify(texts, language)
    lines = list(sentences(intent.text)) if intent.kind in (*_FACTS, *_WRITTEN) else []
    return (bare(line) for line in reversed(lines) if not holds_secret(line) and MARK not in line)
