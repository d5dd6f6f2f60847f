"""Detects secrets by their shape: keys with an issuer's prefix, private keys, tokens, passwords in URLs and command
lines, and card numbers.

Every pattern is linear: it starts with literal characters that are searched first (`marks`), can't start inside its own
match, and has no unbounded repetition. The shapes (`secret_shapes.toml`) are those documented by the issuers; a test
checks that none known to detect-secrets is missing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

Span = tuple[int, int, str]
"""Start and end in characters, and the kind."""


class _Shape(NamedTuple):
    """A pattern whose group `secret` (or full match) is the secret; it can only match near one of `marks`."""

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]


@cache
def _shapes() -> tuple[_Shape, ...]:
    table = packaged_table("clawbot.text", "secret_shapes.toml", dict[str, Any])
    # A standalone key is not inside a longer word.
    alone = [(row, lazy_re(rf"(?<![A-Za-z0-9])(?:{row['pattern']})", re.ASCII)) for row in table["issued"]]
    named = [(row, lazy_re(row["pattern"], re.ASCII | re.IGNORECASE)) for row in table["within"]]
    return tuple(_Shape(row["kind"], tuple(row["marks"].split()), pattern) for row, pattern in (*alone, *named))


_PEM = lazy_re(r"-{4,5} ?BEGIN ([A-Z0-9 ]{0,40})-{4,5}|PuTTY-User-Key-File-\d")
_PEM_END = lazy_re(r"-{4,5} ?END [A-Z0-9 ]{0,40}-{4,5}|Private-MAC: [0-9a-f]{1,80}")
# A body without its end: long runs of Base64, with real or escaped whitespace.
_PEM_BODY = lazy_re(r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{20,200}(?![A-Za-z0-9+/=]))*")
_MAX_PEM = 20_000
_RUN = lazy_re(r"(?<![\w+/.-])[A-Za-z0-9_+-]{32,120}(?![\w+/.-])={0,2}", re.ASCII)
_IN_ADDRESS = lazy_re(r"[?&#][\w.-]{1,40}=\Z")
_CARD = lazy_re(r"(?<![A-Za-z0-9_.+#/=-])[2-6]\d{3}(?:[ -]?\d){9,15}(?![A-Za-z0-9_-]|\.\d)", re.ASCII)
# First digits and lengths of the networks: Visa, Mastercard, American Express, Discover, JCB, Diners, UnionPay.
_NETWORK = lazy_re(
    r"4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}"
    r"|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[689]\d)\d{11}|62\d{14,17}"
)
# One number in ten passes the check by chance.
_NUMBERED = lazy_re(
    r"(?:\b(?:order|invoice|tracking|shipment|parcel|ticket|reference|serial|case|imei|isbn)\b|订单|单号|编号|发票|流水|序列号)[^\n\d]{0,20}\Z",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy_re(
    r"[<{\[%*•].{0,300}|\$[({]?[A-Za-z_].{0,300}|x{3,99}|\.{3,99}|(?:your|my)[_-].{0,300}"
    r"|(?:db[_-]?)?(?:password|passwd|pass|pwd|pw|secret|token|key|user|username)",
    re.IGNORECASE | re.DOTALL,
)


def shapes_in(text: str) -> Iterator[Span]:
    """Yield the secrets in `text` recognised by shape; may overlap."""
    for kind, marks, pattern in _shapes():
        if any(map(text.__contains__, marks)):
            for found in pattern.finditer(text):
                span = found.span("secret") if pattern.groups else found.span()
                if not (pattern.groups and is_placeholder(text[slice(*span)])):
                    yield (*span, kind)
    public: list[tuple[int, int]] = []
    for start, end, label in _blocks(text):
        if "PRIVATE" in label:
            yield start, end, "private key"
        else:
            public.append((start, end))
    yield from _random_runs(text, public)
    for found in _CARD.finditer(text):
        digits = re.sub(r"\D", "", found[0])
        named = _NUMBERED.search(text, max(0, found.start() - 40), found.start())
        if _NETWORK.fullmatch(digits) and _passes_luhn(digits) and not named:
            yield (*found.span(), "card")


def is_placeholder(value: str) -> bool:
    """Return whether `value` is a placeholder: `<password>`, `$PASS`, `***`, `your-api-key`, `password`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the blocks of keys and certificates (RFC 7468, PuTTY): start, end and label, including truncated ones."""
    at = 0
    if "BEGIN" not in text and "PuTTY" not in text:
        return
    while begin := _PEM.search(text, at):
        label = begin[1] if begin[1] is not None else "PRIVATE"
        limit = min(len(text), begin.end() + _MAX_PEM)
        again = _PEM.search(text, begin.end(), limit)
        ending = _PEM_END.search(text, begin.end(), again.start() if again else limit)
        body = ending or _PEM_BODY.match(text, begin.end(), limit)
        at = body.end() if body else begin.end()
        yield begin.start(), at, label


def _random_runs(text: str, public: list[tuple[int, int]]) -> Iterator[Span]:
    """Long random runs of mixed case and digits, outside `public` blocks and URLs."""
    for found in _RUN.finditer(text):
        start, end = found.span()
        is_public = any(begin <= start < stop for begin, stop in public)
        if _is_random(found[0]) and not is_public and not _IN_ADDRESS.search(text, max(0, start - 42), start):
            yield start, end, "key"


def _is_random(run: str) -> bool:
    """Whether all three kinds of characters occur and alternate as often as in random text: a compound name alternates
    once per part, a hexadecimal hash has two kinds. SSH public keys start with their own name."""
    if run.startswith("AAAA"):
        return False
    kinds = ["0" if char.isdigit() else "a" if char.islower() else "A" if char.isupper() else "" for char in run]
    drawn = [kind for kind in kinds if kind]
    if len(set(drawn)) < 3 or len(drawn) < 24 or drawn.count("0") < 3:
        return False
    changes = sum(one != other for one, other in itertools.pairwise(drawn))
    return changes >= 0.45 * len(drawn)


def _passes_luhn(digits: str) -> bool:
    """Return the check digit of ISO/IEC 7812-1."""
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0
