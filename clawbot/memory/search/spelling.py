"""The words of one index: the languages and word forms in it, and what the misspelt words of a question may mean: one
slip turns these into it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby

from msgspec import Struct

from clawbot.languages.inflection import (
    INFLECTED,
    beginnings_of_forms,
    irregular_forms,
    is_irregular,
    languages_of,
    stems_of_forms,
    without_accents,
)
from clawbot.languages.stems import bases, stem
from clawbot.languages.tables import Language
from clawbot.memory.embeddings.offline import is_frequent_word
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.protocols import ChunkReader
from clawbot.memory.translations import Translations
from clawbot.text.language import CALENDAR_WORDS, FOREIGN_STOP_WORDS, STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import CJK_RUN, words_of

SCRIPTS: dict[Language, tuple[str, str]] = {
    "zh": ("\u3400", "\ua000"),
    "ja": ("\u3041", "\u3100"),
    "ko": ("\uac00", "\ud7a4"),
}
"""The characters that identify a language, up to but without the last one."""

FREQUENT: dict[Language, tuple[str, ...]] = {
    "de": ("und", "nicht", "ist", "mit", "für", "auf", "der", "das", "ein", "wir", "zu", "den"),
    "es": ("el", "los", "las", "con", "por", "para", "una", "del", "que", "muy", "está", "es"),
    "fr": ("les", "pour", "avec", "est", "une", "dans", "des", "du", "sur", "pas", "nous", "et"),
}
"""Frequent words that identify a language."""

_ENOUGH = 2
_MAX_FORMS = 200
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
        """Return the stems that are forms of the dictionary form `word`. Blocks: 20 µs for a new one."""
        known = self._kept.forms.get((word, language))
        if known is None:
            wanted = stems_of_forms(word, language)
            found = {stem for first in _beginnings(wanted) for stem in self._from(first)}
            known = self._kept.forms[word, language] = tuple(sorted(found & wanted))
        return known

    def variants(self, word: str, language: Language) -> Sequence[str]:
        """Return the stems of the other forms of the word that `word` is a form of. Blocks: 40 µs for a new one."""
        known = self._kept.variants.get((word, language))
        if known is None:
            begun = beginnings_of_forms(word, language)
            stems = {each for first in _shortest(base for base, _ in begun) for each in self._from(first)}
            begun_by = ((each, base, ends) for each in stems for base, ends in begun if each.startswith(base))
            found = {each for each, base, ends in begun_by if each[len(base) :] in ends}
            known = self._kept.variants[word, language] = tuple(sorted(found - {stem(without_accents(word))}))
        return known

    def has(self, word: str) -> bool:
        """Return whether a note has `word`, in an English form of it. Blocks: 20 µs for a new one."""
        if word not in self._kept.has:
            self._kept.has[word] = _is_noted(stem(without_accents(word)), self._reader)
        return self._kept.has[word]

    def _from(self, beginning: str) -> Sequence[str]:
        return self._reader.stems_between(beginning, beginning + LAST, _MAX_FORMS)


def _beginnings(stems: Iterable[str]) -> Iterator[str]:
    """Yield the common beginnings of groups of `stems` with the same first letters."""
    for _, group in groupby(sorted(stems), key=lambda stem: stem[:_SAME]):
        first, *_, last = [*group] * 2
        same = 0
        while same < min(len(first), len(last)) and first[same] == last[same]:
            same += 1
        yield first[:same]


def _shortest(words: Iterable[str]) -> Iterator[str]:
    """Yield those of `words`, in order, that begin with none of the others."""
    last = None
    for word in words:
        if last is None or not word.startswith(last):
            last = word
            yield word


class _Kept:
    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.languages: frozenset[Language] | None = None
        self.forms: dict[tuple[str, Language], tuple[str, ...]] = {}
        self.variants: dict[tuple[str, Language], tuple[str, ...]] = {}
        self.has: dict[str, bool] = {}


class WordCache:
    """What is known of the words of one index, until the index changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = _Kept(-1)

    def of(self, generation: int) -> _Kept:
        """Return the facts about this generation of the index."""
        with self._lock:
            if self._kept.generation != generation:
                self._kept = _Kept(generation)
            return self._kept


SHORTEST = 5
"""Letters below which too many words are one slip apart: for shorter ones only some slips are forgiven."""

SHORTEST_OF_ALL = 3

LONG = 12
"""Letters from which a second slip is allowed."""

LIMIT = 2
"""Words proposed for one."""

MISSPELT = 5
"""Words of a question that are corrected: one with more is of another language, or no question."""

_MIN_STEM = 3
_USUAL = STOP_WORDS | FOREIGN_STOP_WORDS | CALENDAR_WORDS
# A word by itself, not in quotes: no part of an identifier, a path or an address.
_CANDIDATE = lazy_re(r"(?<![\w@#./:\\\"-])[^\W\d_]{3,}(?![\w@#/:\\\"-]|\.\w)")
_STARTS = lazy_re(r"(?:^|[.!?。！？:\n])[\s\"“'(¿¡]*$")
_ASKING = frozenset({"what", "when", "where", "which", "who", "whom", "whose", "how", "why", "long", "many", "much"})
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# The index holds stems: these endings make them words again.
_ENDINGS = ("", "s", "es", "e", "ed", "d", "ing", "y", "er", "n", "en")


class Corrected(Struct, frozen=True):
    """A question with the words that it may mean instead of misspelt ones, and for each of these, in lower case, the
    words that replaced it."""

    text: str
    words: Mapping[str, Sequence[str]] = {}


class Spelling:
    """The words of one index, as of the last call. Thread-safe."""

    def __init__(self, lexicon: Lexicon, is_frequent: Callable[[str], bool] = is_frequent_word) -> None:
        """Words of `lexicon` and frequent ones are spelled right."""
        self._lexicon = lexicon
        self._is_frequent = is_frequent
        self._busy = threading.Lock()
        self._generation: int | None = None
        self._words: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        self._known: dict[str, tuple[str, ...]] = {}

    def correct(self, text: str, reader: ChunkReader, names: Iterable[str] = (), *, finished: bool = True) -> Corrected:
        """Return `text` with its misspelt words replaced: those that neither a note, a language nor `names` have, and
        that are a slip away from a word that one of them has. An unfinished last word is left alone. Blocks.

        Replacing them first lets dates, speakers and synonyms be found as well.
        """
        people = {word for name in names for word in name.lower().split()}
        languages = languages_of(text)
        foreign = [Translations.load(name) for name in INFLECTED if name in languages and "en" not in languages]
        found: dict[str, tuple[str, ...]] = {}

        def respelled(match: re.Match[str]) -> str:
            if not finished and match.end() == len(text):
                return match[0]
            word = match[0].lower()
            is_right = any(each.knows(word) or is_irregular(word, each.language) for each in foreign)
            meant = () if is_right or len(found) == MISSPELT else self.near(word, reader, people)
            # German nouns have a capital letter, too.
            if match[0][0].isupper() and "de" not in languages and not _STARTS.search(text, 0, match.start()):
                meant = tuple(
                    each for each in meant if each in people or each in CALENDAR_WORDS or _is_turned(word, each)
                )
            elif not word.isascii():
                meant = tuple(each for each in meant if not (self._is_frequent(each) or self._is_word(each)))
            if meant:
                found[word] = meant
            return " ".join(meant) or match[0]

        corrected = _CANDIDATE.sub(respelled, text)
        return Corrected(corrected, found)

    def near(self, word: str, reader: ChunkReader, names: Set[str] = frozenset()) -> tuple[str, ...]:
        """Return the words that `word` may mean, likeliest first: at most LIMIT. Words that only notes have are stems.

        A slip is a missing, additional or wrong letter, or two in the wrong order (Damerau, 1964); the first letter is
        taken as right, but not its position. Of short words see `_short`. Blocks: a few milliseconds for 30,000
        different words, and once for each first letter as long as it takes to read those with it.
        """
        spelled = "".join(words_of(word))
        if len(spelled) < SHORTEST_OF_ALL or not spelled.isalpha() or spelled in names or self._is_word(spelled):
            return ()
        if self._is_right(word, spelled, reader) or (not names and CJK_RUN.search(spelled)):
            return ()
        with self._busy:
            generation = reader.generation
            if generation != self._generation:
                self._words, self._known, self._generation = {}, {}, generation
            if spelled not in self._known:
                # Without the words of the notes nothing can be decided.
                has_words = bool(reader.stems_between("", LAST, 1))
                self._known[spelled] = self._nearest(spelled, names, reader) if has_words else ()
            return self._known[spelled]

    def _is_word(self, word: str) -> bool:
        return (
            word in _USUAL
            or any(map(self._lexicon.knows, (*bases(word), f"{word}s")))
            or bool(irregular_forms(word, "en"))
        )

    def _is_right(self, word: str, spelled: str, reader: ChunkReader) -> bool:
        root = stem(spelled)
        return len(root) < _MIN_STEM or _is_noted(root, reader) or self._is_frequent(word)

    def _beginning(self, letter: str, reader: ChunkReader) -> tuple[Sequence[str], Sequence[str]]:
        """Return the stems of the notes that begin with `letter`, most frequent first, and the usual words."""
        if letter not in self._words:
            usual = [each for each in (*_USUAL, *self._lexicon.words()) if each[0] == letter]
            self._words[letter] = reader.stems(_MIN_STEM, letter), usual
        return self._words[letter]

    def _nearest(self, word: str, names: Set[str], reader: ChunkReader) -> tuple[str, ...]:
        stems, usual = self._beginning(word[0], reader)
        if len(word) < SHORTEST:
            return tuple(_short(word, names, frozenset(stems)))[:LIMIT]
        turned = f"{word[1]}{word[0]}{word[2:]}"
        if turned in names or self._is_word(turned) or (turned != word and _is_noted(stem(turned), reader)):
            return (turned,)
        found = _nearest(word, stems, [*(each for each in names if each[0] == word[0]), *usual])
        if found and found[0] in STOP_WORDS:
            return found[:1]
        if len(word) == SHORTEST:
            found = tuple(each for each in found if len(each) > SHORTEST or each in _USUAL or _is_turned(word, each))
        return found[:LIMIT]


def _is_noted(root: str, reader: ChunkReader) -> bool:
    return root in reader.stems_between(root, root + LAST, 1)


def _is_turned(word: str, other: str) -> bool:
    """Return whether `word` is `other`, or a form of that stem, with two adjacent letters in the wrong order."""
    swapped = {f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}" for at in range(len(word) - 1)}
    return any(other + ending in swapped - {word} for ending in _ENDINGS)


def _short(word: str, names: Set[str], stems: Set[str]) -> list[str]:
    """What a `word` of a few letters may mean: a word that asks by any slip, a name, a month or a weekday by any but a
    wrong letter, else one of `stems` by two letters in the wrong order or, from four letters on, a missing one."""
    ends = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    swapped = [f"{left}{right[1]}{right[0]}{right[2:]}" for left, right in ends if len(right) > 1]
    longer = [f"{left}{letter}{right}" for left, right in ends[1:] for letter in _LETTERS]
    shorter = [f"{left}{right[1:]}" for left, right in ends[1:] if right]
    wrong = [f"{left}{letter}{right[1:]}" for left, right in ends[1:] if right for letter in _LETTERS]
    usual = _ASKING | names | CALENDAR_WORDS
    found = [each for each in (*swapped, *longer, *shorter) if each in usual]
    found += [each for each in wrong if each in _ASKING]
    if found:
        return list(dict.fromkeys(found))[:1]
    near = [*swapped[1:], *(longer if len(word) == SHORTEST - 1 else ())]
    return list(dict.fromkeys(stem(each) for each in near if each != word and stem(each) in stems))


def _nearest(word: str, stems: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
    """Return those of `stems`, most frequent first, and of the `usual` words near `word`: the nearest first."""
    # Deferred: 15 ms, for misspelt words alone.
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract_iter

    most = 2 if len(word) >= LONG else 1
    root = stem(word)
    found: dict[str, tuple[int, int, int]] = {}
    for known, slips, index in extract_iter(word, usual, scorer=OSA.distance, score_cutoff=most):
        found.setdefault(known, (slips, slips, index))
    written = {stem(known): known for known in found}
    for spelled in {word, root}:
        for known, _, index in extract_iter(spelled, stems, scorer=OSA.distance, score_cutoff=most + 2):
            slips = min(OSA.distance(root, known), *(OSA.distance(word, known + ending) for ending in _ENDINGS))
            if slips <= most:
                # A word of a note is likelier than a usual one.
                found[written.get(known, known)] = (slips, OSA.distance(word, known), index - len(stems))
    return tuple(sorted(found, key=lambda known: found[known]))


def also_searched(corrected: Mapping[str, Sequence[str]], texts: Iterable[str]) -> tuple[str, ...]:
    """Return notices about `corrected` words (as typed, with the words searched instead): those that occur in `texts`,
    the results."""
    wanted = {stem(meant): typed for typed, words in corrected.items() for meant in words}
    found: dict[str, str] = {}
    first_letters = {each[:1] for each in wanted}
    for word in (word for text in texts if wanted for word in words_of(text) if word[:1] in first_letters):
        typed = wanted.pop(stem(word), None)
        if typed is not None:
            found[word] = typed
    return tuple(f"Also searched: {word} (for {typed})." for word, typed in found.items())
