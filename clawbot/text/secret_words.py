"""Detects secrets by words: what follows `password is`, `api_key=`, `密码是`, and what precedes `is my password`.

First the name of a secret is found, then a bounded part of the text after or before it is examined: after `=` nearly
everything is a secret, after `is` a word that does not describe the password, and after the name alone only what is not
a word of a language. Then full sentences are tried. The words are in `secret_words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.language import STOP_WORDS, small_letters
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_shapes import Span, is_placeholder
from clawbot.text.tables import packaged_table

How = Literal["equals", "colon", "row", "is", "set", "bare", "option"]
"""How a value is given: `=`, `:`, in the next table cell, `is`, `was changed to`, the name alone, `--name`."""

Group = Literal["firm", "digits", "phrase", "short", "loose"]
"""The meaning of the name: always a secret, one of digits, one of words, one that is no word, or possibly something
else."""


class Mention(NamedTuple):
    """A mention of a secret: its name (`password`, `PIN`), its group, and how its value is given."""

    name: str
    group: Group
    how: How


class _Form(NamedTuple):
    """A sentence: the group `secret` of `pattern` is one if it is what `test` demands. Tried near one of `marks`."""

    kind: str
    marks: tuple[str, ...]
    test: str
    pattern: re.Pattern[str]


class _Lexicon(NamedTuple):
    """`secret_words.toml`, compiled. Every name contains a `stem`."""

    stem: re.Pattern[str]
    no_values: frozenset[str]
    name: re.Pattern[str]
    like: dict[str, re.Pattern[str]]
    forms: tuple[_Form, ...]


@cache
def _lexicon() -> _Lexicon:
    table = packaged_table("clawbot.text", "secret_words.toml", dict[str, Any])
    name = "|".join(f"(?P<{group}>{'|'.join(patterns)})" for group, patterns in table["names"].items())
    value = r"(?P<secret>[^\s\"',;()\]}<>|`HAN]{4,64})"

    def compiled(text: str) -> re.Pattern[str]:
        text = text.replace("SCOPE", table["patterns"]["scope"]).replace("VALUE", value).replace("HAN", HAN)
        return lazy_re(text, re.IGNORECASE)

    return _Lexicon(
        stem=re.compile("|".join(table["stems"].split())),
        no_values=frozenset(table["no_values"].split()),
        name=re.compile(name, re.IGNORECASE),
        like={name: compiled(pattern) for name, pattern in table["patterns"].items()},
        forms=tuple(
            _Form(form["kind"], tuple(form["marks"].split()), form["value"], compiled(form["pattern"]))
            for form in table["forms"]
        ),
    )


def _like(name: str) -> re.Pattern[str]:
    """Return the pattern `name` of the table."""
    return _lexicon().like[name]


LEAST = 4
"""Minimum length of a value in words, in characters."""

ENDING = ".?:*_"
"""Punctuation after a value."""

_MIN_BARE, _MIN_LOOSE = 6, 8


def is_value(value: str, after: str, mention: Mention) -> bool:
    """Return whether the word `value`, followed by `after`, is the secret mentioned."""
    is_code_or_word = _like("code").fullmatch(value) or value.lower() in _lexicon().no_values
    if is_code_or_word or is_placeholder(value) or after.startswith("("):
        return False
    if mention.how == "option":
        return not value.startswith("-")
    if mention.group == "loose":
        return is_strong(value, _MIN_LOOSE) and sum(map(str.isdigit, value)) > 1
    if mention.group == "short":
        return _is_mixed(value) and not is_about(value) and (mention.how != "equals" or len(value) >= _MIN_BARE)
    if mention.how == "equals":
        return True
    if is_about(value) and not is_code(value, 3):
        return False
    return _is_code(value, after, mention) if mention.group == "digits" else _is_password(value, after, mention)


def is_quoted_value(value: str, mention: Mention) -> bool:
    """Return whether the text in quotation marks is the secret mentioned, rather than prose about it."""
    words = value.split()
    is_prose = len(words) > 1 and words[0].lower() in _lexicon().no_values
    if is_prose or is_placeholder(value) or value.lower() in _lexicon().no_values or is_about(value):
        return False
    if mention.group in ("loose", "short"):
        return is_strong(value, _MIN_LOOSE) if mention.group == "loose" else _is_mixed(value)
    return mention.how != "bare" or is_strong(value)


def is_before(value: str) -> bool:
    """Return whether `value`, before `is my password`, is a password."""
    if is_placeholder(value) or is_about(value) or _like("code").fullmatch(value) or "://" in value:
        return False
    return is_strong(value) or is_code(value)


def is_strong(value: str, least: int = LEAST) -> bool:
    """Return whether `value` is not a word of a language: letters with digits, signs, or inner capitals."""
    letters = any(map(str.isalpha, value))
    mixed = any(map(str.isdigit, value)) or bool(_like("symbol").search(value) or _like("inner").search(value))
    return letters and mixed and len(value) >= least


def is_code(value: str, least: int = LEAST) -> bool:
    """Return whether `value` is a code of at least `least` digits, such as `4711`, `#90210*` and `48-2033`."""
    return _like("digits").fullmatch(value) is not None and sum(map(str.isdigit, value)) >= least


def is_passphrase(value: str) -> bool:
    """Return whether the row of words `value` is a passphrase: they describe nothing and make no sentence."""
    words = value.split()
    plain = [word for word in words if word not in _lexicon().no_values | STOP_WORDS and not is_about(word)]
    return len(words) - len(plain) <= (len(words) > 3)


def is_about(value: str) -> bool:
    """Return whether `value` is the name of a method, a length, a path or a variable: a description, not a secret."""
    return _like("about_it").fullmatch(value) is not None


def _is_code(value: str, after: str, mention: Mention) -> bool:
    """Return whether `value` is a PIN or another numeric code."""
    is_han = mention.name[-1] > "\x7f"
    if mention.how == "bare" and not (mention.name.isupper() or is_han or " " in mention.name):
        return False
    least = 3 if is_han or mention.name[:2].lower() == "cv" else LEAST
    is_word = any(map(str.isdigit, value)) or (is_han and value.isalpha())
    return (is_code(value, least) or (is_word and is_strong(value))) and _like("han_ends").match(after) is not None


def _is_mixed(value: str) -> bool:
    """Return whether `value` is no word of a language and contains digits: `GitHub` and `e-mail/phone` are names."""
    return is_strong(value, _MIN_BARE) and any(map(str.isdigit, value)) and not _like("path").search(value)


def _is_password(value: str, after: str, mention: Mention) -> bool:
    is_han, how = mention.name[-1] > "\x7f", mention.how
    if _like("digits").fullmatch(value):
        least = (LEAST if is_han else _MIN_BARE) if how == "bare" else LEAST - is_han
        return is_code(value, least) and _like("han_ends").match(after) is not None
    if how in ("bare", "row"):
        return is_strong(value, _MIN_BARE) and (how != "bare" or any(map(str.isdigit, value)))
    # A plain word must be where a name would be, and not start a description of a password.
    is_word = value.isascii() and value.replace("-", "").isalpha() and len(value) >= LEAST
    return is_strong(value) or (is_word and _like("goes_on").match(after) is not None)


_KINDS: dict[Group, str]
_KINDS = {"firm": "password", "digits": "code", "phrase": "phrase", "short": "password", "loose": "token"}
_AFTER = 16  # characters examined after a value
_BEFORE_STEM, _BEHIND_STEM = 24, 40  # characters of a name around its stem
_WINDOW = 90  # characters examined before a name


def values_in(text: str) -> Iterator[Span]:
    """Yield the secrets that words in the folded `text` declare; may overlap."""
    lowered = small_letters(text)
    lexicon = _lexicon()
    for form in lexicon.forms:
        if any(map(lowered.__contains__, form.marks)):
            for found in form.pattern.finditer(text):
                value = found["secret"].rstrip(f"{ENDING}!")
                if _fits(value, form.test):
                    yield found.start("secret"), found.start("secret") + len(value), form.kind
    for name in _names_in(text, lowered):
        group = next(group for group in _KINDS if name[group])
        for start, end in _behind(text, name, group) or _ahead(text, name, group):
            yield start, end, _KINDS[group]


def _names_in(text: str, lowered: str) -> Iterator[re.Match[str]]:
    """Yield the names in `text`, which are searched around their stems only: a search of all of it takes ten times as
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
    """Return whether the `value` of a form is what its `test` demands."""
    if is_placeholder(value) or not value:
        return False
    if test == "any":
        return True
    if is_about(value) or _like("code").fullmatch(value):
        return test != "strong" and is_code(value)
    if test == "word" and value.isascii() and value.isalpha():
        return value.lower() not in _lexicon().no_values | STOP_WORDS
    return _is_mixed(value) or (test != "strong" and is_code(value))


def _behind(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """Return the values after `name`, by the first matching form."""
    if group == "phrase":
        return _phrase(text, name.end())
    found = _value_start(text, name)
    if not found:
        return []
    at, how = found
    mention = Mention(name[0], group, how)
    values: list[tuple[int, int]] = []
    taken = _value(text, at, mention)
    while taken:
        values.append(taken)
        # `the passwords are one and two`
        also = _like("also").match(text, taken[1]) if name[0][-1] in "sS" else None
        taken = _value(text, also.end(), mention._replace(how="bare")) if also else None
    return values


def _value_start(text: str, name: re.Match[str]) -> tuple[int, How] | None:
    """Return the start of a value after `name`, and how it is given."""
    at = name.end()
    if assigned := _like("assigned").match(text, at):
        scheme = _like("scheme").match(text, assigned.end())
        signs: dict[str, How] = {"|": "row", ":": "colon"}
        return (scheme or assigned).end(), signs.get(assigned["sign"], "equals")
    if linked := _like("is").match(text, at):
        return linked.end(), "is"
    before = max(0, name.start() - _WINDOW)
    if (put := _like("set").match(text, at)) and (put["done"] or _like("sets").search(text, before, name.start())):
        return put.end(), "set"
    if bare := _like("bare").match(text, at):
        return bare.end(), "option" if _like("option").search(text, before, name.start()) else "bare"
    return None


def _value(text: str, at: int, mention: Mention) -> tuple[int, int] | None:
    """Start and end of the value at `at`, if it is one."""
    if quoted := _like("quoted").match(text, at):
        fits = is_quoted_value(quoted["value"], mention) and not _lexicon().name.search(quoted["value"])
        return quoted.span("value") if fits else None
    is_given = mention.how in ("is", "colon", "equals")
    if han := _like("han_value").match(text, at):  # a word that ends its clause
        is_password = is_given and mention.group == "firm" and not _like("han_about").fullmatch(han[0])
        return han.span() if is_password else None
    is_phrase = is_given and _like("is_pass").match(mention.name)
    if is_phrase and (row := _like("row").match(text, at)) and is_passphrase(row[0]):
        return row.span()
    word = _like("word").match(text, at)
    if not word:
        return None
    value = word["value"].rstrip(ENDING)
    if mention.how == "equals":
        value = value.partition("&")[0]  # of an address
    start = word.start("value")
    end = start + len(value)
    bare = value.rstrip(f"{ENDING}!")
    return (start, end) if bare and is_value(bare, text[end : end + _AFTER], mention) else None


def _phrase(text: str, at: int) -> list[tuple[int, int]]:
    """Return the words of a recovery phrase for a wallet or an account."""
    begin = _like("assigned").match(text, at) or _like("is").match(text, at)
    words = _like("seed").match(text, begin.end()) or _like("han_seed").match(text, begin.end()) if begin else None
    return [words.span()] if words else []


def _ahead(text: str, name: re.Match[str], group: Group) -> list[tuple[int, int]]:
    """Return the value before `name`: `hunter2 is my password`."""
    if group not in ("firm", "digits", "short") or not _like("before_ends").match(text, name.end()):
        return []
    begin = max(0, name.start() - _WINDOW)
    window = text[begin : name.start()]
    link = _like("link").search(window)
    word = _like("last_word").search(window, 0, link.start()) if link else None
    return [(begin + word.start(), begin + word.end())] if word and is_before(word[0]) else []
