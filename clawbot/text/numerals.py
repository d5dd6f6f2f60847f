"""Numbers of a text in digits and in words of English and Chinese, such as 23 and twenty-three."""

from __future__ import annotations

from collections.abc import Iterator

from clawbot.languages.tables import table, text_in
from clawbot.text.patterns import lazy_re

MIN, MAX, MIN_HAN = 2, 9_999, 11
"""Numbers that are known; in Chinese only from eleven on: single characters are too frequent."""

_UNITS: tuple[str, ...] = tuple(table("en")["units"].split())
_TENS: tuple[str, ...] = tuple(table("en")["tens"].split())
_DIGITS, _POWERS, _TWO = text_in("digits", "zh"), text_in("powers_of_ten", "zh"), text_in("two", "zh")
_VALUES = {word: at for at, word in enumerate(_UNITS)} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
_NUMBER = lazy_re(
    rf"(?<![a-z0-9_.,:/-])(?:[0-9]{{1,4}}|(?:{'|'.join(_TENS)})[ -](?:{'|'.join(_UNITS[1:10])})|{'|'.join(_VALUES)})"
    rf"(?![a-z0-9_:/-]|[.,]\d)|(?:[{_DIGITS}{_TWO}]?[{_POWERS}][{_DIGITS}]?)+",
)


def numbers_in(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each number of `text` (in lower case) as it is written there, and its other spellings."""
    for found in _NUMBER.finditer(text):
        value = _value(found[0])
        if MIN <= value <= MAX:
            yield found[0], tuple(each for each in _spellings(value) if each != found[0].replace("-", " "))


def _value(written: str) -> int:
    if written[0] in "0123456789":
        return int(written)
    if written.isascii():
        return sum(_VALUES[part] for part in written.replace("-", " ").split())
    value, digit = 0, 0
    for character in written:
        if character in _POWERS:
            value += (digit or 1) * 10 ** (_POWERS.index(character) + 1)
            digit = 0
        else:
            digit = 2 if character in _TWO else _DIGITS.index(character)
    return value + digit


def _spellings(value: int) -> Iterator[str]:
    yield str(value)
    if value < len(_UNITS):
        yield _UNITS[value]
    elif value < 100:
        yield " ".join((_TENS[value // 10 - 2], *_UNITS[value % 10 : value % 10 + 1][: value % 10]))
    if MIN_HAN <= value < 100:
        yield f"{_DIGITS[value // 10] if value > 19 else ''}{_POWERS[0]}{_DIGITS[value % 10] if value % 10 else ''}"
