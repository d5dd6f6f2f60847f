"""The words of one index: which languages the notes are written in, and which forms of a foreign word they have."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from clawbot.memory.search.protocols import ChunkReader
from clawbot.text.inflection import Language, beginnings_of_forms, stems_of_forms, without_accents
from clawbot.text.stems import stem

SCRIPTS: dict[Language, tuple[str, str]] = {
    "zh": ("\u3400", "\ua000"),
    "ja": ("\u3041", "\u3100"),
    "ko": ("\uac00", "\ud7a4"),
}
"""The characters that tell a language, up to but without the last one."""

FREQUENT: dict[Language, tuple[str, ...]] = {
    "de": ("und", "nicht", "ist", "mit", "für", "auf", "der", "das", "ein", "wir", "zu", "den"),
    "es": ("el", "los", "las", "con", "por", "para", "una", "del", "que", "muy", "está", "es"),
    "fr": ("les", "pour", "avec", "est", "une", "dans", "des", "du", "sur", "pas", "nous", "et"),
}
"""Frequent words that tell a language."""

_ENOUGH = 2
_MOST_FORMS = 200
_SAME = 2
LAST = "\U0010ffff"
"""Behind every character of a stem."""


class IndexWords:
    """`NoteWords` of the index that `reader` reads; what was looked up is kept by `cache`."""

    def __init__(self, reader: ChunkReader, cache: WordCache) -> None:
        self._reader = reader
        self._kept = cache.of(reader.generation)

    @property
    def languages(self) -> frozenset[Language]:
        """The languages that occur by their script or several frequent words; English always. Blocks: a millisecond,
        once."""
        kept = self._kept
        if kept.languages is None:
            by_script = {name for name, (first, end) in SCRIPTS.items() if self._reader.stems_between(first, end, 1)}
            by_words = {name for name, words in FREQUENT.items() if sum(map(self.has, words)) >= _ENOUGH}
            kept.languages = frozenset(by_script | by_words | {"en"})
        return kept.languages

    def forms(self, word: str, language: Language) -> Sequence[str]:
        """The stems that are forms of the dictionary form `word`. Blocks: 20 µs for a new one."""
        known = self._kept.forms.get((word, language))
        if known is None:
            wanted = stems_of_forms(word, language)
            found = {stem for first in _beginnings(wanted) for stem in self._from(first)}
            known = self._kept.forms[word, language] = tuple(sorted(found & wanted))
        return known

    def variants(self, word: str, language: Language) -> Sequence[str]:
        """The stems of the other forms of the word that `word` is a form of. Blocks: 40 µs for a new one."""
        known = self._kept.variants.get((word, language))
        if known is None:
            begun = beginnings_of_forms(word, language)
            stems = {each for first in _shortest(base for base, _ in begun) for each in self._from(first)}
            found = {each for each in stems for base, ends in begun if _continues(each, base, ends)}
            known = self._kept.variants[word, language] = tuple(sorted(found - {stem(without_accents(word))}))
        return known

    def has(self, word: str) -> bool:
        """Whether a note has `word`, in an English form of it. Blocks: 20 µs."""
        stemmed = stem(without_accents(word))
        return stemmed in self._reader.stems_between(stemmed, stemmed + LAST, 1)

    def _from(self, beginning: str) -> Sequence[str]:
        return self._reader.stems_between(beginning, beginning + LAST, _MOST_FORMS)


def _beginnings(stems: Iterable[str]) -> Iterator[str]:
    """What groups of `stems` that begin with the same letters have in common."""
    for _, group in groupby(sorted(stems), key=lambda stem: stem[:_SAME]):
        first, *_, last = [*group] * 2
        same = 0
        while same < min(len(first), len(last)) and first[same] == last[same]:
            same += 1
        yield first[:same]


def _shortest(words: Iterable[str]) -> Iterator[str]:
    """Those of `words`, in order, that begin with none of the others."""
    last = None
    for word in words:
        if last is None or not word.startswith(last):
            last = word
            yield word


def _continues(word: str, base: str, endings: frozenset[str]) -> bool:
    return word.startswith(base) and word[len(base) :] in endings


class _Kept:
    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.languages: frozenset[Language] | None = None
        self.forms: dict[tuple[str, Language], tuple[str, ...]] = {}
        self.variants: dict[tuple[str, Language], tuple[str, ...]] = {}


class WordCache:
    """What is known of the words of one index, until the index changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = _Kept(-1)

    def of(self, generation: int) -> _Kept:
        """What is known in this generation of the index."""
        with self._lock:
            if self._kept.generation != generation:
                self._kept = _Kept(generation)
            return self._kept
