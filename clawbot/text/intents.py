"""Intents: what the user wants to be reminded of when a topic comes up. Recognised in a message, read from
`memory/intents.md` (`- when the dentist: ask for the bill`), and found for a later message, all by words.

Pure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from msgspec import Struct

from clawbot.languages.inflection import INFLECTED, irregular_forms, languages_of, stems_of_forms, without_accents
from clawbot.languages.stems import stem
from clawbot.languages.tables import LANGUAGES, Language, pattern_in, table, words_in
from clawbot.text.language import FOREIGN_STOP_WORDS, SHARED_STOP_WORDS, STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.query import parse_query
from clawbot.text.tokens import CJK_RUN, plain_forms, words_of

INTENTS = "memory/intents.md"

MAX_BYTES, MAX_INTENTS = 256 * 1024, 500
"""Size of the file beyond which nothing of it is read, and the intents that are read."""
MAX_LINE = 400
_MAX_SENTENCE, _MAX_READ = 400, 4_000  # characters of a message

_HINT = lazy_re(pattern_in("states_intent"), re.IGNORECASE)
_CODE = lazy_re(
    r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)|\Z)|^(?: {4}|\t| {0,3}>).*$|`[^`\n]*`", re.DOTALL | re.MULTILINE
)
_SENTENCE = lazy_re(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_TOPIC = r"[\"“«「]?(?P<topic>[^,;:.?!，；：。？！\"“”«»「」\n]{1,60}?)[\"”»」]?"
_WHAT = r"(?P<what>[^?？\n]{2,300}?)"
_ASKED = lazy_re(r"(?:can|could|will|would) you\b", re.IGNORECASE)
_ENDS = ".!?。！？ "
_WHEN = "|".join(sorted(words_in("intent_when"), key=len, reverse=True))
_LINE = lazy_re(
    rf"[ \t]*[-*+][ \t]+(?:\[ \][ \t]+)?(?P<when>{_WHEN})(?:[ \t]+|(?<=[^\x00-\x7f]))"
    r"(?P<topic>[^:：\n]{1,100})[:：][ \t]*(?P<what>\S.*?)[ \t]*",
    re.IGNORECASE,
)
_DONE = lazy_re(r"[(（]done(?:[ \t]+[0-9-]+)?[)）][ \t]*\Z", re.IGNORECASE)
_LITTLE = STOP_WORDS | FOREIGN_STOP_WORDS | SHARED_STOP_WORDS


class Intent(Struct, frozen=True):
    """What to be reminded of when `topic` comes up; `line` is its number in the file, from 1 (0: not written yet), and
    `when` the word that begins it, in the language of the user."""

    topic: str
    what: str
    line: int = 0
    when: str = "when"

    @property
    def text(self) -> str:
        """The line of the file, without its marker: `when the dentist: ask for the bill`."""
        return f"{self.when} {self.topic}: {self.what}"


def stated_in(message: str) -> Intent | None:
    """Return the first intent that `message` states in a sentence of its own; none in questions, quotes and code."""
    if _HINT.search(message[:_MAX_READ]) is None:
        return None
    for sentence in _SENTENCE.split(_CODE.sub("\n", message[:_MAX_READ])):
        if not _HINT.search(sentence) or (sentence.rstrip().endswith(("?", "？")) and not _ASKED.search(sentence)):
            continue
        plain = sentence.strip().rstrip(_ENDS)[:_MAX_SENTENCE]
        when, found = next(
            ((when, match) for when, each in _patterns() if (match := each.fullmatch(plain))), ("", None)
        )
        # "When you talk about the dentist you remind me" states none.
        if found and words_of_topic(found["topic"]) and found["topic"].split()[-1].lower() not in _LITTLE:
            return Intent(" ".join(found["topic"].split()), " ".join(found["what"].split()), when=when)
    return None


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The patterns of all languages, each with the word for "when" that a line of the file begins with."""
    found: list[tuple[str, re.Pattern[str]]] = []
    for each in LANGUAGES:
        when = table(each).get("intent_when", "when").split()[0]
        text = table(each, "patterns").get("intents", "").replace("{topic}", _TOPIC).replace("{what}", _WHAT)
        found += [(when, re.compile(line, re.IGNORECASE)) for line in text.strip().splitlines()]
    return tuple(found)


def intents_in(text: str) -> list[Intent]:
    """Return the intents that the lines of the file `text` hold and that are not done."""
    found: list[Intent] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line.rstrip("\r")) if len(line) <= MAX_LINE else None
        if match and not _DONE.search(match["what"]):
            found.append(Intent(match["topic"].strip(), match["what"], number, match["when"]))
    return found[:MAX_INTENTS]


def with_done(text: str, number: int, day: date) -> str:
    """Return `text` with the intent in line `number` marked as done on `day`."""
    lines = text.split("\n")
    line = lines[number - 1].rstrip()
    ending = "\r" if lines[number - 1].endswith("\r") else ""
    lines[number - 1] = f"{line} (done {day}){ending}"
    return "\n".join(lines)


def is_done_word(message: str) -> bool:
    """Return whether a message is only the word that ends an intent."""
    return plain_forms(message).strip().strip(_ENDS).lower() in words_in("intent_done")


def brought_up(message: str, intents: Iterable[Intent]) -> Iterator[Intent]:
    """Yield those of `intents` whose topic `message` has: all content words of it, in any form."""
    plain = plain_forms(_CODE.sub("\n", message[:_MAX_READ])).lower()
    forms = {word: stem(word) for word in words_of(without_accents(plain))}
    for intent in intents:
        languages = languages_of(f"{intent.topic} {intent.what}")
        wanted = words_of_topic(intent.topic)
        if wanted and all(_has(plain, forms, word, languages) for word in wanted):
            yield intent


def _has(plain: str, forms: Mapping[str, str], wanted: str, languages: Iterable[Language]) -> bool:
    """Return whether the text `plain` has the word `wanted`; `forms` are its words with their stems."""
    if not wanted.isascii() and CJK_RUN.match(wanted):
        return wanted in plain
    if not wanted.isalpha():
        return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", plain) is not None
    root = stem(without_accents(wanted))
    if root in forms.values():
        return True
    for language in languages:
        others = {*irregular_forms(wanted, language)}
        known = stems_of_forms(wanted, language) if language in INFLECTED else frozenset[str]()
        for word, word_stem in forms.items():
            is_base = language in INFLECTED and word.isalpha() and root in stems_of_forms(word, language)
            if word in others or word_stem in known or is_base:
                return True
    return False


@functools.lru_cache(maxsize=1_024)
def words_of_topic(topic: str) -> tuple[str, ...]:
    """Return the content words of a topic in lower case, of Chinese, Japanese and Korean the runs of characters."""
    words = parse_query(topic)
    return () if words.is_little else tuple(word for word in words.content_words if word not in _LITTLE)
