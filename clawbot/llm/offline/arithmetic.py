"""Works out plain arithmetic that is typed or asked for in words, exactly, and without running any of it as code."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import NoReturn

from msgspec import Struct

from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re

MAX_TASK, MAX_DEPTH = 160, 20  # characters; brackets within brackets
MAX_BITS = 4_000  # of a numerator or denominator: a thousand digits
SHOWN_DIGITS, EXACT_DIGITS = 12, 40  # of a rounded result; a whole number with more is rounded

_LEAD = lazy_re(
    r"(?:(?:please |can you |could you )?(?:what(?:'s| is| are)|how much (?:is|are)|calculate|compute|work out|"
    r"evaluate|solve)\s|(?:请问?|帮我|麻烦)?(?:计算|算)(?:一下|一算)?[:,\s]*)"
)
_TAIL = lazy_re(r"\s*(?:=|equals|等于|是|得)?\s*(?:what|how much|多少|几)?[\s=?.呢啊吗]*\Z")
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_re(r"(\d)\s*的\s*(\d[\d.]*)\s*%"), r"\1*\2%"),
    (lazy_re(r"%\s*of\b"), "%*"),
    (lazy_re(r"\b(?:times|multiplied by)\b|[×·⋅]|乘以?|(?<=\d)\s*x\s*(?=[\d(])"), "*"),
    (lazy_re(r"\bdivided by\b|÷|除以"), "/"),
    (lazy_re(r"\bplus\b|加上?"), "+"),
    (lazy_re(r"\bminus\b|减去?|−"), "-"),
    (lazy_re(r"\bto the power of\b|\*\*"), "^"),
)
_DATE = lazy_re(r"\d+([-/.])\d+\1\d+|0\d+.*")  # 2026-11-22, 22/11/2026, 0171-5551234
_TOKEN = lazy_re(r"\s*(?:(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)|([-+*/^()%]))")
_SIGN = lazy_re(r"[-+*/^]")


class Sum(Struct, frozen=True):
    """A task as it was typed, without the words around it, and the number that comes out. `rounded`: the number is
    near the result. `problem` says why there is none: `by_zero` or `too_large`."""

    task: str
    result: str = ""
    rounded: bool = False
    problem: str = ""


class _NoSumError(Exception):
    """The text is no arithmetic, or has no result: then `problem` names why."""

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem


def work_out(text: str) -> Sum | None:
    """The sum that `text` asks for, in signs or in words of both languages; None when it is something else."""
    if len(text) > MAX_TASK or not any(sign.isdecimal() for sign in text):
        return None
    folded = fold(text).lower().strip()
    lead = _LEAD.match(folded)
    task = _TAIL.sub("", folded[lead.end() if lead else 0 :]).strip()
    if not lead and _DATE.fullmatch(task):
        return None
    signs = task
    for pattern, sign in _WORDS:
        signs = pattern.sub(sign, signs)
    try:
        number = _Reader(signs).number()
    except _NoSumError as error:
        return Sum(task, problem=error.problem) if error.problem else None
    if not _SIGN.search(signs.lstrip("+- ")):
        return None
    shown = _shown(number)
    return Sum(task, shown, _rounded(number, shown))


class _Reader:
    """Reads an expression from its left to its right: sums of products of powers."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._at = self._depth = 0
        at = 0
        while at < len(text.rstrip()):
            token = _TOKEN.match(text, at)
            if token is None:
                raise _NoSumError
            self._tokens.append((token[1] or "", token[2] or ""))
            at = token.end()

    def number(self) -> Fraction:
        """The value of the whole. Raises _NoSumError."""
        value = self._sum()
        if self._at != len(self._tokens):
            raise _NoSumError
        return value

    def _sign(self, wanted: str) -> str:
        """The next sign if it is one of `wanted`, else ""."""
        sign = self._tokens[self._at][1] if self._at < len(self._tokens) else ""
        if not sign or sign not in wanted:
            return ""
        self._at += 1
        return sign

    def _sum(self) -> Fraction:
        value = self._product()
        while sign := self._sign("+-"):
            other = self._product()
            value = _within(value + other if sign == "+" else value - other)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while sign := self._sign("*/"):
            other = self._signed()
            if sign == "/" and not other:
                _refuse("by_zero")
            value = _within(value * other if sign == "*" else value / other)
        return value

    def _signed(self) -> Fraction:
        sign, turned = self._sign("+-"), False
        while sign:
            turned ^= sign == "-"
            sign = self._sign("+-")
        value = self._power()
        return -value if turned else value

    def _power(self) -> Fraction:
        value = self._operand()
        if not self._sign("^"):
            return value
        self._deeper()
        exponent = self._signed()
        self._depth -= 1
        if not value and exponent < 0:
            _refuse("by_zero")
        if exponent.denominator != 1:
            raise _NoSumError
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        if abs(exponent) * (bits - 1) > MAX_BITS or abs(exponent) > MAX_BITS:
            _refuse("too_large")
        return _within(value ** int(exponent))

    def _operand(self) -> Fraction:
        if self._sign("("):
            self._deeper()
            value = self._sum()
            self._depth -= 1
            if not self._sign(")"):
                raise _NoSumError
        else:
            digits = self._tokens[self._at][0] if self._at < len(self._tokens) else ""
            if not digits:
                raise _NoSumError
            self._at += 1
            value = Fraction(digits.replace(",", ""))
        while self._sign("%"):
            value /= 100
        return value

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _NoSumError


def _refuse(problem: str) -> NoReturn:
    raise _NoSumError(problem)


def _within(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        _refuse("too_large")
    return value


def _shown(value: Fraction) -> str:
    """`value` with commas between thousands; what is no short decimal is rounded."""
    if value.denominator == 1 and abs(value) < 10**EXACT_DIGITS:
        return f"{value.numerator:,}"
    number = Context(prec=SHOWN_DIGITS).divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()
    return f"{number:,f}" if -SHOWN_DIGITS <= number.adjusted() < EXACT_DIGITS else f"{number:E}"


def _rounded(value: Fraction, shown: str) -> bool:
    return Fraction(shown.replace(",", "")) != value
