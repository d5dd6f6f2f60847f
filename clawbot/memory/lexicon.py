"""Reads the thesaurus of English and Chinese, and expands the words of a query with it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Set
from functools import cached_property, lru_cache
from itertools import chain, product, zip_longest

from msgspec import Struct

from clawbot.languages.stems import bases
from clawbot.languages.tables import THESAURUS, Language

# Length of the longest entries, in words for English and in characters for Chinese.
PHRASE_WORDS = 4
CHINESE_CHARACTERS = 8
_CHINESE_PHRASE = 4
PER_WORD = 24
IN_ALL = 60

_FIRST_WORD = re.compile(r", | > | \| ")
_LATIN = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)*(?:\+\+|#)?")


class Expansion(Struct, frozen=True):
    """An additional word for a word of the query.

    `source` is the query's word or phrase (case-folded), `word` the thesaurus' word for it; `broader`: `word` is more
    general than `source` (coffee: drink). `translated`: it is of another language, and occurs as `forms` in the notes.
    `inflected`: it is the same word in other `forms`.
    """

    source: str
    word: str
    broader: bool
    translated: bool = False
    inflected: bool = False
    forms: tuple[str, ...] = ()


class Concept(Struct, frozen=True):
    """One line of the file: the words for the concept itself, and those for narrower ones."""

    words: tuple[str, ...]
    narrower: tuple[str, ...]


class Match(Struct, frozen=True):
    """A word of the file that occurs in a query: as spelled in the query, and in the file."""

    source: str
    word: str


class Lexicon:
    """The concepts of a file, indexed by all their words."""

    def __init__(self, text: str) -> None:
        """Parse `text`, the content of a concepts file; the details of a line are parsed on demand."""
        self._lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        # Most words occur in one line: a plain number takes a third of the memory of a tuple.
        self._first: dict[str, int] = {}
        self._further: dict[str, list[int]] = {}
        self._words: set[str] = set()
        first = self._first
        flat = plain("\n".join(self._lines)).replace(" | ", ", ").replace(" > ", ", ")
        for number, line in enumerate(flat.split("\n")):
            for word in line.split(", "):
                if first.setdefault(word, number) != number:
                    self._further.setdefault(word, []).append(number)

    @staticmethod
    def load() -> Lexicon:
        """Return the shipped thesaurus, read once per process. Blocks."""
        return _shipped()

    def expand(self, text: str) -> tuple[Expansion, ...]:
        """Return additional words for the words of `text`, of any length and language.

        Grouped by the query's words in order; for each first synonyms in both languages, then broader and narrower
        words. At most PER_WORD per word; if there are more than IN_ALL, each word keeps its best ones.
        """
        matches = tuple(dict.fromkeys(self._matches(fold(text))))
        sources = {match.source for match in matches}
        groups = [self._others(match, sources) for match in matches]
        ranked = chain.from_iterable(zip_longest(*groups))
        kept: dict[str, Expansion] = {}
        for expansion in ranked:
            if expansion is not None and len(kept) < IN_ALL:
                kept.setdefault(expansion.word, expansion)
        return tuple(expansion for group in groups for expansion in group if kept.get(expansion.word) is expansion)

    def knows(self, word: str) -> bool:
        """Return whether `word` (case-folded) is a word of an entry, or of a phrase among them."""
        return word in self.words()

    def words(self) -> Set[str]:
        """Return the words of all entries, those of phrases each."""
        if not self._words:
            self._words = set(" ".join(self._first).split())
        return self._words

    def concepts(self) -> Iterator[Concept]:
        """Yield every concept of the file, in its order."""
        return map(concept, self._lines)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each concept by its first word."""
        return {_FIRST_WORD.split(line, 1)[0]: number for number, line in enumerate(self._lines)}

    def concepts_in(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Yield the words and phrases of `text` that name concepts, and the numbers of these."""
        for match in dict.fromkeys(self._matches(fold(text))):
            numbers = (self._first[match.word], *self._further.get(match.word, ()))
            yield match.source, [n for n in numbers if match.word in map(plain, concept(self._lines[n]).words)]

    def words_of(self, number: int) -> list[tuple[str, Language]]:
        """Return the words for a concept in English and Chinese."""
        return [(word, "en" if word.isascii() else "zh") for word in concept(self._lines[number]).words]

    def _others(self, match: Match, sources: set[str]) -> list[Expansion]:
        equal: list[str] = [match.word]
        broader: list[str] = []
        narrower: list[str] = []
        for number in (self._first[match.word], *self._further.get(match.word, ())):
            found = concept(self._lines[number])
            if match.word in map(plain, found.words):
                equal += found.words
                narrower += found.narrower
            else:
                broader += found.words
        kinds = dict.fromkeys(equal, False) | {word: True for word in broader if word not in equal}
        for word in narrower:
            kinds.setdefault(word, False)
        others = [Expansion(match.source, word, kind) for word, kind in kinds.items() if plain(word) not in sources]
        return others[:PER_WORD]

    def _matches(self, text: str) -> Iterator[Match]:
        at = 0
        while at < len(text):
            token = _LATIN.match(text, at)
            if chinese := self._chinese(text, at, CHINESE_CHARACTERS):
                yield Match(chinese, chinese)
                if len(chinese) >= _CHINESE_PHRASE:
                    yield from self._parts(chinese)
                at += len(chinese)
            elif token is None:
                at += 1
            elif phrase := self._phrase(text, token):
                match, at = phrase
                yield match
            else:
                at = token.end()

    def _parts(self, phrase: str) -> Iterator[Match]:
        """Yield the words of a Chinese phrase: the notes may have them apart."""
        at = 0
        while at < len(phrase):
            part = self._chinese(phrase, at, len(phrase) - 1)
            if len(part) > 1:
                yield Match(part, part)
            at += len(part) or 1

    def _chinese(self, text: str, at: int, longest: int) -> str:
        """Return the longest word with Chinese characters at `at`; some begin with a Latin letter."""
        for length in range(min(longest, len(text) - at), 0, -1):
            word = text[at : at + length]
            if word in self._first and not word.isascii():
                return word
        return ""

    def _phrase(self, text: str, first: re.Match[str]) -> tuple[Match, int] | None:
        """Return the longest English phrase that begins at the token `first`, and its end."""
        tokens = [first]
        while len(tokens) < PHRASE_WORDS:
            gap = tokens[-1].end()
            following = _LATIN.match(text, gap + 1) if text[gap : gap + 1] == " " else None
            if following is None:
                break
            tokens.append(following)
        while tokens:
            words = [token.group() for token in tokens]
            for form in _forms(words):
                if form in self._first:
                    return Match(" ".join(words), form), tokens[-1].end()
            tokens.pop()
        return None


def fold(text: str) -> str:
    """Return `text` normalised for comparison: case, width and joining marks of English words are ignored."""
    return " ".join(plain(unicodedata.normalize("NFKC", text).casefold()).split())


def plain(word: str) -> str:
    """Replace the joining marks of `word` by spaces: wi-fi becomes wi fi, driver's licence becomes driver s licence."""
    return word.replace("-", " ").replace("/", " ").replace("'", " ").replace("’", " ").replace("&", " ")


@lru_cache(maxsize=512)
def concept(line: str) -> Concept:
    """Parse a line `english > narrower | chinese > narrower`; any of the four may be missing."""
    sides = [side.partition(" > ") for side in line.split(" | ")]
    words = [own.split(", ") for own, _, _ in sides]
    narrower = [kinds.split(", ") for _, _, kinds in sides if kinds]
    return Concept(_in_turn(words), _in_turn(narrower))


def _in_turn(sides: list[list[str]]) -> tuple[str, ...]:
    """Return the words of both languages alternately, so that a limit favours neither."""
    return tuple([word for pair in zip_longest(*sides) for word in pair if word is not None])


@lru_cache(maxsize=1)
def _shipped() -> Lexicon:
    return Lexicon(THESAURUS.read_text(encoding="utf-8"))


def _forms(words: list[str]) -> Iterator[str]:
    """Possible spellings of the phrase in the file: as it is, then with its first and last word in base form."""
    middle = " ".join(words[1:-1])
    if len(words) == 1:
        yield from bases(words[0])
        return
    for first, last in product(bases(words[0]), bases(words[-1])):
        yield " ".join(filter(None, (first, middle, last)))
