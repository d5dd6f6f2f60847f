"""Detects secrets by words: what follows `password is`, `api_key=`, `密码是`, and what precedes `is my password`.

First the name of a secret is found, then a bounded part of the text after or before it is examined: after `=` nearly
everything is a secret, after `is` a word that does not describe the password, and after the name alone only what is not
a word of a language. Then whole sentences are tried. The words are in `secret_words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from msgspec import Struct

from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.language import STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_shapes import Span, is_placeholder
from clawbot.text.tables import packaged_table

How = Literal["equals", "colon", "row", "is", "set", "bare", "option"]
"""How a value is given: `=`, `:`, in the next table cell, `is`, `was changed to`, the name alone, `--name`."""

Group = Literal["firm", "digits", "phrase", "short", "loose"]
"""The meaning of the name: always a secret, one of digits, one of words, one that is no word, or possibly something
else."""


class Told(NamedTuple):
    """A mention of a secret: its name (`password`, `PIN`), its group, and how its value is given."""

    name: str
    group: Group
    how: How


class _Form(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    marks: str
    value: Literal["any", "strong", "code", "word"]
    pattern: str


class _Words(Struct, frozen=True, forbid_unknown_fields=True):
    stems: str
    no_values: str
    names: dict[Group, tuple[str, ...]]
    forms: tuple[_Form, ...]


class _Lexicon(NamedTuple):
    """`secret_words.toml`, compiled: every name contains a `stem`; a form is tried in a text with one of its marks."""

    stem: re.Pattern[str]
    no_values: frozenset[str]
    name: re.Pattern[str]
    forms: tuple[tuple[_Form, tuple[str, ...], re.Pattern[str]], ...]


@cache
def _lexicon() -> _Lexicon:
    words = packaged_table("clawbot.text", "secret_words.toml", _Words)
    name = "|".join(f"(?P<{group}>{'|'.join(patterns)})" for group, patterns in words.names.items())
    forms = ((form, tuple(form.marks.split()), lazy_re(_expanded(form.pattern), re.IGNORECASE)) for form in words.forms)
    no_values = frozenset(words.no_values.split())
    return _Lexicon(re.compile("|".join(words.stems.split())), no_values, re.compile(name, re.IGNORECASE), tuple(forms))


def _expanded(pattern: str) -> str:
    return pattern.replace("VALUE", r"(?P<secret>[^\s\"',;()\]}<>|`HAN]{4,64})").replace("HAN", HAN)


LEAST = 4
"""Minimum length of a value in words, in characters."""

ENDING = ".?:*_"
"""Punctuation after a value."""

_LEAST_BARE, _LEAST_LOOSE = 6, 8
# Descriptions of a secret: that it is hashed, its length, its location.
_ABOUT_IT = lazy_re(
    r"(?:[a-z-]{2,30}(?<!e)ed|[a-z-]{2,30}ly"
    r"|\d+[ _-]?(?:chars?|characters?|digits?|letters?|bits?|bytes?|times?|words?|days?|hours?|minutes?|attempts?)?"
    r"|(?:sha|aes|rsa|hs|rs|ed|chacha|curve|argon|pbkdf|utf-?8|base|xts)[\w-]{0,20}|md5|bcrypt|scrypt"
    r"|oauth\d?|1password|auth0|[12]fa|v?\d+\.\d+(?:\.\d+)*"
    r"|(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)|(?:~|\.{1,2})?/[\w./~-]*"
    r"|[\w-]{1,60}\.(?:txt|md|py|ya?ml|json|env|toml|kdbx|html?))",
    re.IGNORECASE,
)
# A value computed by code: `input(…)`, `settings.api_key`, `user_password`.
_CODE = lazy_re(
    r"[A-Za-z_][\w.]*[(\[].*|(?:self|os|process|args|config|settings|env|request|options|opts|this|data|event)\..*"
    r"|(?:[A-Za-z]\w*_)?(?:password|passwd|pwd|pw|token|secret|key|value|input)\d?",
    re.IGNORECASE | re.DOTALL,
)
_HAN_ABOUT = lazy_re(
    rf"[不没很太必一由用在空对错否要被加明保强弱随默旧新同多少最这那什哪谁我你他她它自可能需临公安正无未放存写记请见][{HAN}]*"
    rf"|[{HAN}]*的[{HAN}]*|[{HAN}]*[吗呢么了]"
)
_INNER = lazy_re(r"[a-z][A-Z]")
_SYMBOL = lazy_re(r"[!@#$%^&*+=~?]")
_PATH = lazy_re(r"[/\\]")
_DIGITS = lazy_re(r"[#*]?\d{2,10}(?:[- ]\d{2,10}){0,7}[#*]?")
_GOES_ON = lazy_re(
    r"\s*(?:\Z|[^\w\s]|\n|(?:for|at|on|of|in|to|and|or|but|so|now|since|because|please|if|when|too|until|from|by)\b)",
    re.IGNORECASE,
)
# A Chinese value must end its clause: `密码是123456吗`, but not `密码是2026年改的`.
_HAN_ENDS = lazy_re(rf"(?![{HAN}])|[了吗哦啊呢吧和或,]")


def is_value(value: str, after: str, told: Told) -> bool:
    """Whether the word `value`, followed by `after`, is the secret mentioned."""
    if (
        is_placeholder(value)
        or value.lower() in _lexicon().no_values
        or _CODE.fullmatch(value)
        or after.startswith("(")
    ):
        return False
    if told.how == "option":
        return not value.startswith("-")
    if told.group == "loose":
        return is_strong(value, _LEAST_LOOSE) and sum(map(str.isdigit, value)) > 1
    if told.group == "short":
        return _is_mixed(value) and not says_about(value) and (told.how != "equals" or len(value) >= _LEAST_BARE)
    if told.how == "equals":
        return True
    if says_about(value) and not is_code(value, 3):
        return False
    return _is_code(value, after, told) if told.group == "digits" else _is_password(value, after, told)


def is_quoted_value(value: str, told: Told) -> bool:
    """Whether the text in quotation marks is the secret mentioned, rather than prose about it."""
    words = value.split()
    is_prose = len(words) > 1 and words[0].lower() in _lexicon().no_values
    if is_prose or is_placeholder(value) or value.lower() in _lexicon().no_values or says_about(value):
        return False
    if told.group in ("loose", "short"):
        return is_strong(value, _LEAST_LOOSE) if told.group == "loose" else _is_mixed(value)
    return told.how != "bare" or is_strong(value)


def is_han_value(value: str, told: Told) -> bool:
    """Whether the Chinese word `value`, which ends its clause, is the password rather than a description."""
    surely = told.how in ("is", "colon", "equals") and told.group == "firm"
    return surely and _HAN_ABOUT.fullmatch(value) is None


def is_before(value: str, group: Group) -> bool:
    """Whether `value`, before `is my password`, is a password."""
    if is_placeholder(value) or says_about(value) or _CODE.fullmatch(value) or "://" in value:
        return False
    return is_strong(value) or is_code(value)


def is_strong(value: str, least: int = LEAST) -> bool:
    """Whether `value` is not a word of a language: letters with digits, signs, or inner capitals."""
    letters = any(map(str.isalpha, value))
    mixed = any(map(str.isdigit, value)) or _SYMBOL.search(value) is not None or _INNER.search(value) is not None
    return letters and mixed and len(value) >= least


def is_code(value: str, least: int = LEAST) -> bool:
    """Whether `value` is a code of at least `least` digits, such as `4711`, `#90210*` and `48-2033`."""
    return _DIGITS.fullmatch(value) is not None and sum(map(str.isdigit, value)) >= least


def is_passphrase(value: str) -> bool:
    """Whether the row of words `value` is a passphrase: they describe nothing and make no sentence."""
    words = value.split()
    plain = [word for word in words if word not in _lexicon().no_values | STOP_WORDS and not says_about(word)]
    return len(words) - len(plain) <= (len(words) > 3)


def says_about(value: str) -> bool:
    """Whether `value` is the name of a method, a length, a path or a variable: a description, not a secret."""
    return _ABOUT_IT.fullmatch(value) is not None


def _is_code(value: str, after: str, told: Told) -> bool:
    """Whether `value` is a PIN or another numeric code."""
    is_han = told.name[-1] > "\x7f"
    if told.how == "bare" and not (told.name.isupper() or is_han or " " in told.name):
        return False
    least = 3 if is_han or told.name[:2].lower() == "cv" else LEAST
    is_word = any(map(str.isdigit, value)) or (is_han and value.isalpha())
    return (is_code(value, least) or (is_word and is_strong(value))) and _HAN_ENDS.match(after) is not None


def _is_mixed(value: str) -> bool:
    """Whether `value` is no word of a language and contains digits: `GitHub` and `e-mail/phone` are names."""
    return is_strong(value, _LEAST_BARE) and any(map(str.isdigit, value)) and not _PATH.search(value)


def _is_password(value: str, after: str, told: Told) -> bool:
    is_han, how = told.name[-1] > "\x7f", told.how
    if _DIGITS.fullmatch(value):
        least = (LEAST if is_han else _LEAST_BARE) if how == "bare" else LEAST - is_han
        return is_code(value, least) and _HAN_ENDS.match(after) is not None
    if how in ("bare", "row"):
        return is_strong(value, _LEAST_BARE) and (how != "bare" or any(map(str.isdigit, value)))
    # A plain word must be where a name would be, and not start a description of a password.
    is_word = value.isascii() and value.replace("-", "").isalpha() and len(value) >= LEAST
    return is_strong(value) or (is_word and _GOES_ON.match(after) is not None)


# After the name: where or to whom the secret belongs.
_SCOPE = (
    r"(?:\s?\([^()\n]{1,60}\)"
    r"|\s(?:for|at|of|to|on|in|from|into|here|there|(?:we|i|they) [a-z]{1,12})\b[^.!?\n=:;,]{0,60}?"
    r"|(?:在|给|用于)[^,.;\n]{1,16}?)?"
)
_QUOTE = r"\\?[\"'`]"
_ASSIGNED = lazy_re(
    rf"{_SCOPE}(?:{_QUOTE})?[\])]?[*_]{{0,2}}\s{{0,3}}(?P<sign>[=-]>|→|:=|={{1,3}}|:|\|)[*_]{{0,2}}\s{{0,3}}",
    re.IGNORECASE,
)
_IS = lazy_re(
    rf"{_SCOPE}(?:'s|\s(?:is|was|are|will be|should be|reads|being))\s{{1,3}}"
    r"(?:(?:now|just|still|simply|currently|actually|again|always|either|called)\s)?(?::\s?)?"
    rf"|{_SCOPE}[^,.;:\n{HAN}]{{0,12}}(?:现在|已经|还|都|应该|依然|仍然|就)?(?:是|为|叫做?|设[为成]|设置[为成]|改[为成]了?|换[为成]了?|变成了?)"
    r"了?:?\s{0,2}",
    re.IGNORECASE,
)
_SET = lazy_re(
    rf"{_SCOPE}(?P<done>\s(?:(?:is|was|be|been|got|gets)\s)?(?:(?:re)?set|changed|updated|switched))?\s(?:back\s)?to\s(?:be\s)?",
    re.IGNORECASE,
)
_SETS = lazy_re(r"\b(?:chang|set|reset|updat|switch|rotat|mak)(?:e|es|ed|ing|ting)?\b[^.!?\n]{0,60}\Z", re.IGNORECASE)
_BARE = lazy_re(rf"\s{{1,2}}|(?<=[{HAN}])")
_OPTION = lazy_re(r"--[\w-]{0,30}\Z")
_SCHEME = lazy_re(r"(?:Bearer|Basic|Token)\s{1,3}", re.IGNORECASE)
_ALSO = lazy_re(r"\s{0,2}(?:,|/|\band\b|\bor\b|和|或|,)\s{0,2}(?:[\"'`])?", re.IGNORECASE)

_QUOTED = lazy_re(r"\\?([\"'`])(?P<value>[^\n]{1,200}?)\\?\1")
_ROW = lazy_re(r"(?:[a-z]{3,12} ){2,6}[a-z]{3,12}(?=\s*(?:[.,;!\n)\"'`]|\Z))")
_IS_PASS = lazy_re(r"pas|.{0,8}\bpw|code ?word", re.IGNORECASE)
_WORD = lazy_re(rf"[*_]{{0,2}}(?P<value>\d{{3}} \d{{3}}(?!\w)|[^\s\"',;\\)}}\]<>|`{HAN}]{{1,300}})")
_HAN_VALUE = lazy_re(rf"[{HAN}]{{2,12}}(?=\s{{0,2}}(?:[,.;!\"'`)\]}}|\\\n]|\Z))")
_SEED = lazy_re(r"(?:[a-z]{3,8}\s{1,2}){7,23}[a-z]{3,8}|(?:[a-z]{2,12}\s){2,11}[a-z]{2,12}(?=\s*(?:[.,;!\n]|\Z))")
_HAN_SEED = lazy_re(rf"(?:[{HAN}]{{1,4}} ){{3,23}}[{HAN}]{{1,4}}|(?:[a-z]{{3,8}}\s){{3,23}}[a-z]{{3,8}}")
_LINK = lazy_re(
    rf"[\"'`]?\s{{0,2}}(?:(?<=\s)(?:is|was|as|=)\s(?:(?:my|the|our|your|his|her|their|a|an)\s)?(?:[\w'-]{{1,20}}\s){{0,3}}"
    rf"|(?:是|作为?|当作?|做)[{HAN}A-Za-z ]{{0,12}})\Z",
    re.IGNORECASE,
)
_BEFORE_ENDS = lazy_re(rf"\s*(?:\Z|[.,;!)\n\"'`]|(?:for|of|at|to|on|in|and|now|here|too|but)\b|[{HAN}])", re.IGNORECASE)
_LAST_WORD = lazy_re(rf"[^\s\"'`,;()<>{HAN}]{{4,60}}\Z")
_KINDS: dict[Group, str] = {
    "firm": "password",
    "digits": "code",
    "phrase": "phrase",
    "short": "password",
    "loose": "token",
}
_AFTER = 16  # characters examined after a value
_BEFORE_STEM, _BEHIND_STEM = 24, 40  # characters of a name around its stem
_WINDOW = 90  # characters examined before a name


def values_in(text: str) -> Iterator[Span]:
    """The secrets that words in the folded `text` declare; may overlap."""
    lowered = _lowered(text)
    lexicon = _lexicon()
    for form, marks, pattern in lexicon.forms:
        if any(map(lowered.__contains__, marks)):
            for found in pattern.finditer(text):
                value = found["secret"].rstrip(f"{ENDING}!")
                if _fits(value, form.value):
                    yield found.start("secret"), found.start("secret") + len(value), form.kind
    for name in _names_in(text, lowered):
        group = next(group for group in _KINDS if name[group])
        for start, end in _behind(text, name, group) or _ahead(text, name, group):
            yield start, end, _KINDS[group]


def _lowered(text: str) -> str:
    """`text` in lower case, of the same length."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(char.lower()[:1] for char in text)


def _names_in(text: str, lowered: str) -> Iterator[re.Match[str]]:
    """The names in `text`, which are looked for around their stems only: a search of all of it takes ten times as
    long."""
    lexicon, at = _lexicon(), 0
    for stem in lexicon.stem.finditer(lowered):
        if stem.end() <= at:
            continue
        near = lexicon.name.search(text, max(at, stem.start() - _BEFORE_STEM), stem.end() + _BEHIND_STEM)
        # What follows may belong to it.
        if near and (name := lexicon.name.match(text, near.start())):
            yield name
            at = name.end()


def _fits(value: str, test: str) -> bool:
    """Whether the `value` of a form is what its `test` demands."""
    if is_placeholder(value) or not value:
        return False
    if test == "any":
        return True
    if says_about(value) or _CODE.fullmatch(value):
        return test != "strong" and is_code(value)
    if test == "word" and value.isascii() and value.isalpha():
        return value.lower() not in _lexicon().no_values | STOP_WORDS
    return _is_mixed(value) or (test != "strong" and is_code(value))


def _behind(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """The values after `name`, by the first matching form."""
    if group == "phrase":
        return _phrase(text, name.end())
    found = _told(text, name)
    if not found:
        return []
    at, how = found
    told = Told(name[0], group, how)
    values: list[tuple[int, int]] = []
    taken = _value(text, at, told)
    while taken:
        values.append(taken)
        # `the passwords are one and two`
        also = _ALSO.match(text, taken[1]) if name[0][-1] in "sS" else None
        taken = _value(text, also.end(), told._replace(how="bare")) if also else None
    return values


def _told(text: str, name: re.Match[str]) -> tuple[int, How] | None:
    """The start of a value after `name`, and how it is given."""
    at = name.end()
    if assigned := _ASSIGNED.match(text, at):
        scheme = _SCHEME.match(text, assigned.end())
        signs: dict[str, How] = {"|": "row", ":": "colon"}
        return (scheme or assigned).end(), signs.get(assigned["sign"], "equals")
    if said := _IS.match(text, at):
        return said.end(), "is"
    before = max(0, name.start() - _WINDOW)
    if (put := _SET.match(text, at)) and (put["done"] or _SETS.search(text, before, name.start())):
        return put.end(), "set"
    if bare := _BARE.match(text, at):
        return bare.end(), "option" if _OPTION.search(text, before, name.start()) else "bare"
    return None


def _value(text: str, at: int, told: Told) -> tuple[int, int] | None:
    """Start and end of the value at `at`, if it is one."""
    if quoted := _QUOTED.match(text, at):
        fits = is_quoted_value(quoted["value"], told) and not _lexicon().name.search(quoted["value"])
        return quoted.span("value") if fits else None
    if han := _HAN_VALUE.match(text, at):
        return han.span() if is_han_value(han[0], told) else None
    row = _ROW.match(text, at) if told.how in ("is", "colon", "equals") and _IS_PASS.match(told.name) else None
    if row and is_passphrase(row[0]):
        return row.span()
    word = _WORD.match(text, at)
    if not word:
        return None
    value = word["value"].rstrip(ENDING)
    if told.how == "equals":
        value = value.partition("&")[0]  # of an address
    start = word.start("value")
    end = start + len(value)
    bare = value.rstrip(f"{ENDING}!")
    return (start, end) if bare and is_value(bare, text[end : end + _AFTER], told) else None


def _phrase(text: str, at: int) -> list[tuple[int, int]]:
    """The words of a recovery phrase for a wallet or an account."""
    begin = _ASSIGNED.match(text, at) or _IS.match(text, at)
    words = _SEED.match(text, begin.end()) or _HAN_SEED.match(text, begin.end()) if begin else None
    return [words.span()] if words else []


def _ahead(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """The value before `name`: `hunter2 is my password`."""
    if group not in ("firm", "digits", "short") or not _BEFORE_ENDS.match(text, name.end()):
        return []
    begin = max(0, name.start() - _WINDOW)
    window = text[begin : name.start()]
    link = _LINK.search(window)
    word = _LAST_WORD.search(window, 0, link.start()) if link else None
    return [(begin + word.start(), begin + word.end())] if word and is_before(word[0], group) else []
