"""Reads the translations of the thesaurus (`thesaurus.txt` of a language), and expands the words of a query into the
languages of the notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, zip_longest
from typing import Protocol

from clawbot.languages.inflection import (
    FUNCTION_WORDS,
    INFLECTED,
    base_of,
    bases_of,
    compound_edges,
    compound_parts,
    irregular_forms,
    languages_of,
    without_accents,
)
from clawbot.languages.stems import bases
from clawbot.languages.tables import Language, path_of
from clawbot.memory.lexicon import CHINESE_CHARACTERS, PHRASE_WORDS, Expansion, Lexicon, fold, plain
from clawbot.text.language import FOREIGN_STOP_WORDS, STOP_WORDS
from clawbot.text.numerals import numbers_in
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import CJK_RUN

TRANSLATED: tuple[Language, ...] = ("de", "es", "fr", "ja", "ko")
PER_WORD = 16
IN_ALL = 80
"""Translations that the notes have: of one word of the query, and of all."""

_SHORT_PHRASE = 3
_WORD = lazy_re(r"[^\W_]+(?:\.[^\W_]+)*")
_LONG_WORD = lazy_re(r"[^\W\d_]{8,}")


class NoteWords(Protocol):
    """What the notes are written in."""

    @property
    def languages(self) -> frozenset[Language]:
        """The languages of the notes."""

    def forms(self, word: str, language: Language) -> Sequence[str]:
        """Return the stems of the notes that are forms of the dictionary form `word`; empty if there are none."""

    def variants(self, word: str, language: Language) -> Sequence[str]:
        """Return the stems of the notes that are other forms of `word`, which may be any form."""

    def has(self, word: str) -> bool:
        """Return whether a note has the word `word` (in lower case), in an English form of it."""


class Translations:
    """The words of one language for the concepts, by the number of the concept."""

    def __init__(self, text: str, language: Language, numbers: Mapping[str, int]) -> None:
        """Parse `text`, lines of `concept: word, word`. `numbers` maps the first word of each concept to its number."""
        self.language = language
        self._lines: dict[int, str] = {}
        for line in text.splitlines():
            key, _, words = line.partition(": ")
            if words and key in numbers:
                self._lines[numbers[key]] = words

    @staticmethod
    @cache
    def load(language: Language) -> Translations:
        """Return the shipped file of `language`, read once per process. Blocks."""
        file = path_of(language, "thesaurus.txt")
        return Translations(file.read_text(encoding="utf-8"), language, Lexicon.load().numbers)

    def words(self, number: int) -> tuple[str, ...]:
        """Return the words for a concept in their dictionary form, the most usual first."""
        line = self._lines.get(number, "")
        return tuple(line.split(", ")) if line else ()

    def knows(self, word: str) -> bool:
        """Return whether `word`, in one of its forms, is a word of the language."""
        return any(base in self._single for base in bases_of(word, self.language))

    def concepts_in(self, text: str) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield the words and phrases of `text` (case-folded, see `fold`) that name concepts, and the numbers of these;
        for a phrase also its words."""
        if self.language in INFLECTED:
            yield from self._latin(_WORD.findall(text))
        else:
            for run in CJK_RUN.findall(text):
                yield from self._cjk(run, CHINESE_CHARACTERS)

    def _latin(self, words: list[str]) -> Iterator[tuple[str, Sequence[int]]]:
        at = 0
        while at < len(words):
            for length in range(min(PHRASE_WORDS, len(words) - at), 0, -1):
                part = words[at : at + length]
                if numbers := self._numbers(part):
                    yield " ".join(part), numbers
                    if length > 1:
                        yield from ((word, found) for word in part if (found := self._numbers([word])))
                    at += length
                    break
            else:
                yield from self._parts(words[at])
                at += 1

    def _numbers(self, words: list[str]) -> Sequence[int]:
        if len(words) > 1:
            return self._phrases.get(without_accents(" ".join(words)), ())
        if words[0] in FUNCTION_WORDS[self.language]:
            return ()
        found = (self._single.get(base) for base in bases_of(words[0], self.language))
        return next((numbers for numbers in found if numbers), ())

    def _parts(self, word: str) -> Iterator[tuple[str, Sequence[int]]]:
        if self.language == "de":
            for part in compound_parts(word, self.knows) or compound_edges(word, self.knows):
                yield word, self._numbers([part])

    def _cjk(self, run: str, longest: int) -> Iterator[tuple[str, Sequence[int]]]:
        at = 0
        while at < len(run):
            for length in range(min(longest, len(run) - at), 0, -1):
                found = run[at : at + length]
                if numbers := self._phrases.get(found):
                    yield found, numbers
                    # A long one may be a phrase.
                    if length > _SHORT_PHRASE:
                        yield from self._cjk(found, length - 1)
                    at += length
                    break
            else:
                at += 1

    @cached_property
    def _single(self) -> dict[str, list[int]]:
        """The concepts by the base of each word."""
        found: dict[str, list[int]] = {}
        usual = FUNCTION_WORDS.get(self.language, frozenset())
        for number, line in self._lines.items():
            for word in line.split(", "):
                if " " not in word and word not in usual:
                    # Both: a base alone may be another word.
                    for key in {base_of(word, self.language), without_accents(word)}:
                        found.setdefault(key, []).append(number)
        return found

    @cached_property
    def _phrases(self) -> dict[str, list[int]]:
        """The concepts by phrases of several words, in Chinese characters and the like by all words."""
        found: dict[str, list[int]] = {}
        is_latin = self.language in INFLECTED
        for number, line in self._lines.items():
            for word in line.split(", "):
                if not is_latin or " " in word:
                    found.setdefault(without_accents(plain(word)) if is_latin else word, []).append(number)
        return found


class Thesaurus:
    """Expands the words of a query within its language, and into the languages of some notes."""

    def __init__(
        self, lexicon: Lexicon, notes: NoteWords, translations: Callable[[Language], Translations] = Translations.load
    ) -> None:
        self._lexicon = lexicon
        self._notes = notes
        self._translations = translations

    def expand(self, text: str) -> tuple[Expansion, ...]:
        """Return additional words for the words of `text`: synonyms of its own language, then translations that the
        notes have, at most PER_WORD for each word and IN_ALL. Blocks."""
        folded = fold(text)
        spoken = self._spoken(text, folded)
        languages = [language for language in TRANSLATED if language in spoken]
        foreign = [match for language in languages for match in self._foreign(folded, language, spoken)]
        own = self._without_foreign(folded, foreign, spoken)
        wanted = self._notes.languages
        synonyms = tuple(each for each in self._lexicon.expand(own) if _is_of(each.word, wanted))
        synonyms = (*self._inflected(folded, spoken), *self._numbers(folded), *self._initials(folded), *synonyms)
        if not foreign and not wanted & {*TRANSLATED}:
            return synonyms
        matches: dict[str, list[int]] = {}
        for source, numbers in (*self._lexicon.concepts_in(own), *foreign):
            matches.setdefault(source, []).extend(numbers)
        sources = {source for source, _ in foreign}
        known = {each.word for each in synonyms}
        groups = [list(self._translated(source, numbers, sources)) for source, numbers in matches.items()]
        ranked = (each for each in chain.from_iterable(zip_longest(*groups)) if each is not None)
        found = {each.word: each for each in ranked if each.word not in known}
        return (*synonyms, *tuple(found.values())[:IN_ALL])

    def _spoken(self, text: str, folded: str) -> frozenset[Language]:
        """Return the languages in which to look up the words of `text`."""
        spoken = languages_of(text)
        if "zh" in spoken and "ja" not in self._notes.languages:
            return spoken - {"ja"}
        # Words alone: a language is worth reading for words that are neither English nor in the notes.
        words = _WORD.findall(folded)
        if "en" in spoken and all(
            each in STOP_WORDS or self._is_english(each) or self._notes.has(each) for each in words
        ):
            return frozenset({"en"})
        return spoken

    def _is_english(self, word: str) -> bool:
        return any(map(self._lexicon.knows, bases(word)))

    def _foreign(
        self, text: str, language: Language, spoken: frozenset[Language]
    ) -> Iterator[tuple[str, Sequence[int]]]:
        for source, numbers in self._translations(language).concepts_in(text):
            # Without a sentence around it, an English word is taken as one.
            if "en" not in spoken or not self._is_english(source):
                # Not those of a stop word in English, such as "now".
                yield source, [at for at in numbers if self._lexicon.words_of(at)[0][0] not in STOP_WORDS]

    def _inflected(self, text: str, spoken: frozenset[Language]) -> Iterator[Expansion]:
        """Yield the words of `text` in the other forms that the notes have."""
        for language in spoken & {"en", *INFLECTED} & self._notes.languages:
            usual = STOP_WORDS if language == "en" else FUNCTION_WORDS[language] | FOREIGN_STOP_WORDS
            for word in dict.fromkeys(_WORD.findall(text)):
                if word in usual:
                    continue
                forms = irregular_forms(word, "en") if language == "en" else self._notes.variants(word, language)
                if forms:
                    yield Expansion(word, forms[0], broader=False, inflected=True, forms=tuple(forms))

    def _numbers(self, text: str) -> Iterator[Expansion]:
        """Yield the numbers of `text` in their other spellings."""
        for source, others in numbers_in(text):
            for word in (each for each in others if _is_of(each, self._notes.languages)):
                yield Expansion(source, word, broader=False, inflected=True, forms=(word,))

    def _initials(self, text: str) -> Iterator[Expansion]:
        """Yield the initials of words in a row of which the notes have at most one, where they have the initials."""
        words = _WORD.findall(text)
        unknown = [word not in STOP_WORDS and not self._notes.has(word) for word in words]
        for length in (5, 4, 3):
            for at in range(len(words) - length + 1):
                part = words[at : at + length]
                short = "".join(word[0] for word in part)
                is_new = sum(unknown[at : at + length]) >= length - 1 and not self._is_english(short)
                if is_new and short not in STOP_WORDS and self._notes.has(short):
                    yield Expansion(" ".join(part), short, broader=False, forms=(short,))

    def _without_foreign(
        self, text: str, foreign: Sequence[tuple[str, Sequence[int]]], spoken: frozenset[Language]
    ) -> str:
        """Return `text` without the words of another language, which may resemble English ones."""
        if "en" in spoken or not spoken & {*INFLECTED}:
            return text
        sources = {word for source, _ in foreign for word in source.split()}
        usual = frozenset[str]().union(*(FUNCTION_WORDS[language] for language in spoken if language in INFLECTED))
        return " ".join(word for word in _WORD.findall(text) if word not in sources and word not in usual)

    def _translated(self, source: str, numbers: Sequence[int], foreign: set[str]) -> Iterator[Expansion]:
        """Yield the words of the notes for the concepts `numbers`, those of each concept and language in turn."""
        lists = [self._words(number, language) for number in numbers for language in TRANSLATED]
        if source in foreign:
            lists += [self._lexicon.words_of(number) for number in numbers]
        count = 0
        for word, language in (each for each in chain.from_iterable(zip_longest(*lists)) if each is not None):
            if count == PER_WORD:
                return
            forms = self._forms(word, language)
            if forms and fold(word) != source:
                count += 1
                yield Expansion(source, word, broader=False, translated=True, forms=tuple(forms))

    def _words(self, number: int, language: Language) -> list[tuple[str, Language]]:
        if language not in self._notes.languages:
            return []
        return [(word, language) for word in self._translations(language).words(number)]

    def _forms(self, word: str, language: Language) -> Sequence[str]:
        """Return the words to search for `word`; empty if no note can have it."""
        if language == "en":
            return (word,)
        if language not in self._notes.languages:
            return ()
        if language not in INFLECTED:
            return (word,)
        if " " in word:
            return (word,) if all(map(self._notes.has, word.split())) else ()
        # What is also an English word would be found in English notes.
        plain_word = without_accents(word)
        if "en" in self._notes.languages and (plain_word in STOP_WORDS or self._lexicon.knows(plain_word)):
            return ()
        return self._notes.forms(word, language)


def _is_of(word: str, languages: frozenset[Language]) -> bool:
    """Return whether notes in `languages` may have a word of the thesaurus; any notes may have English ones."""
    return word.isascii() or bool(languages & {"zh", "ja"})


def compounds_in(text: str) -> list[str]:
    """Return the parts of the German compounds in `text`: without them only entire compounds would be found."""
    return [part for word in _LONG_WORD.findall(text) for part in _parts_of(word)]


@lru_cache(maxsize=16_384)
def _parts_of(word: str) -> tuple[str, ...]:
    return compound_parts(word, Translations.load("de").knows)
