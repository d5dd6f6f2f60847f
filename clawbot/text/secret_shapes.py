"""Detects secrets by their shape: keys with an issuer's prefix, private keys, tokens, passwords in URLs and command
lines, and card numbers.

Every pattern is linear: it starts with literal characters that are searched first (`marks`), can't start inside its own
match, and has no unbounded repetition. The shapes are those documented by the issuers; a test checks that none known to
detect-secrets is missing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from clawbot.text.patterns import lazy_re

Span = tuple[int, int, str]
"""Start and end in characters, and the kind."""


class _Shape(NamedTuple):
    """A pattern whose group `secret` (or whole match) is the secret; it can only match near one of `marks`."""

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]


def _issued(kind: str, marks: str, pattern: str) -> _Shape:
    """A standalone key, not inside a longer word."""
    return _Shape(kind, tuple(marks.split()), lazy_re(rf"(?<![A-Za-z0-9])(?:{pattern})", re.ASCII))


def _within(kind: str, marks: str, pattern: str) -> _Shape:
    """A pattern whose group `secret` is the secret."""
    return _Shape(kind, tuple(marks.split()), lazy_re(pattern, re.IGNORECASE | re.ASCII))


_SHAPES = (
    # Models. If only the first two letters are known, a digit is required: `sk-learn-contrib` is a name.
    _issued("key", "k-", r"[spr]k-(?:ant|proj|or|svcacct|admin|None)-[\w-]{8,300}"),
    _issued("key", "k-", r"[spr]k-(?:(?=[A-Za-z_-]{0,80}[0-9])[\w-]{8,300}|[A-Za-z]{12,300})"),
    _issued("key", "AIza", r"AIza[\w-]{20,80}"),
    _issued(
        "key",
        "gsk hf nvapi pplx csk fw r8 jina tvly lsv2_pt",
        r"(?:gsk|hf|nvapi|pplx|csk|fw|r8|jina|tvly|lsv2_pt)[_-](?=[A-Za-z_-]{0,80}[0-9])\w{16,200}",
    ),
    _issued(
        "key",
        "xai- tgp_v1- nvapi- pplx- csk- tvly-",
        r"(?:xai|tgp_v1|nvapi|pplx|csk|tvly)-(?=[A-Za-z_-]{0,80}[0-9])[\w-]{16,200}",
    ),
    _issued("key", "gsk_ hf_", r"(?:gsk|hf)_[A-Za-z]{30,200}\b"),
    # Clouds.
    _issued("key", "AKIA ASIA ABIA ACCA A3T", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _within("key", "aws AWS Aws", r"aws.{0,20}?(?:key|pwd?|pass|token).{0,20}?[\"'](?P<secret>[0-9a-z/+]{40})[\"']"),
    _issued("key", "LTAI AKID", r"(?:LTAI|AKID)[A-Za-z0-9]{12,40}(?![A-Za-z0-9])"),
    _issued("token", "ya29. GOCSPX- 1//0", r"ya29\.[\w-]{20,400}|GOCSPX-[\w-]{20,60}|1//0[\w-]{30,200}"),
    _issued("token", "_v1_ dapi hvs. hvb.", r"do[opr]_v1_[a-f0-9]{40,80}|dapi[a-f0-9]{32}|hv[sb]\.[\w-]{20,300}"),
    _issued("key", "Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}"),
    # Code and packages.
    _issued("token", "ghp gho ghu ghs ghr github_pat_", r"gh[pousr]_\w{16,255}|github_pat_\w{16,255}"),
    _issued(
        "token",
        "gl GR1348941",
        r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-[\w-]{20,1024}|GR1348941[\w-]{20,50}",
    ),
    _issued("token", "npm_ pypi-", r"npm_[A-Za-z0-9]{30,80}|pypi-AgE[\w-]{50,400}"),
    _within("token", "_auth", r"_auth(?:Token)?\s{0,9}=\s{0,9}(?P<secret>[\w+/=-]{8,200})"),
    _issued("token", "AKC cmVmd", r"AKC[A-Za-z0-9]{10,80}|cmVmd[A-Za-z0-9]{50,70}"),
    _issued(
        "token",
        "ATATT3 ATCTT3 lin_api_ figd_",
        r"ATATT3[\w=-]{60,300}|ATCTT3[\w=-]{60,300}|lin_api_\w{20,60}|figd_[\w-]{20,80}",
    ),
    _issued(
        "token",
        "sntry glc_ ntn_ shp",
        r"sntry[su]_[\w+/=-]{20,400}|glc_[\w+/=-]{30,400}|ntn_\w{30,60}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    ),
    # Messages and mail.
    _issued("token", "xox XOX xapp-", r"(?i:xox[abeoprs])-[\w-]{8,300}|xapp-\d-[\w-]{8,300}"),
    _within("token", "hooks.slack.com", r"hooks\.slack\.com/services/(?P<secret>T\w{1,40}/B\w{1,40}/\w{1,80})"),
    _within("token", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{5,30}/(?P<secret>[\w-]{20,120})"),
    _issued("token", ":", r"\d{8,10}:[\w-]{35}(?![\w-])"),
    _issued("token", ".", r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,40}"),
    _issued("key", "SG. key-", r"SG\.[\w-]{16,32}\.[\w-]{16,64}|key-[a-f0-9]{32}(?![a-f0-9])"),
    _issued("key", "-us", r"[0-9a-z]{32}-us\d{1,2}(?![0-9a-z])"),
    _issued("key", "AC SK", r"(?:AC|SK)[a-f0-9]{32}(?![a-z0-9])"),
    # Payments.
    _issued("key", "k_live_ k_test_ whsec_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,200}|whsec_[\w+/=-]{20,100}"),
    _issued("key", "sq0", r"sq0(?:csp|atp|idp)-[\w\\-]{22,60}"),
    # Tokens and hashes of standards.
    _issued("token", "eyJ", r"(?<![_-])eyJ[\w-]{8,8000}\.[\w-]{8,16000}(?:\.[\w.+/=-]{0,4000})?"),
    _issued("private key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{30,80}"),
    _issued("password", "$", r"\$(?:2[abxy]|5|6|7|y|argon2(?:id?|d))\$[\w./$=,+-]{20,300}"),
    _within("token", "earer EARER", r"\bbearer\s{1,3}(?P<secret>(?=[A-Za-z~+/=._-]{0,200}[0-9])[\w.~+/=-]{8,4000})"),
    _within(
        "token",
        "asic ASIC",
        r"\bbasic\s{1,3}(?P<secret>(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/]{8,1000}={0,2})(?![\w-])",
    ),
    # Addresses and command lines.
    _within("password", "://", r"://[^\s/:@?#]{0,100}:(?P<secret>[^\s/?#]{1,200})@"),
    _within("token", "=", r"[?&;](?:key|sig|signature|access_key|auth|pass)=(?P<secret>[\w%.+/~=-]{6,2000})"),
    _within(
        "password",
        "curl",
        r"\bcurl(?=\s)[^\n|;]{0,200}?\s(?:-u|--user)\s{0,2}[\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{3,100})",
    ),
    _within("password", "sshpass", r"\bsshpass\s{1,3}-p\s{0,3}[\"']?(?P<secret>[^\s\"']{3,100})"),
    _within(
        "password",
        "mysql",
        r"\bmysql(?:dump|admin)?(?=\s)[^\n|;]{0,200}?\s-p[\"']?(?P<secret>[^\s\"'-][^\s\"']{2,100})",
    ),
)

_PEM = lazy_re(r"-{4,5} ?BEGIN ([A-Z0-9 ]{0,40})-{4,5}|PuTTY-User-Key-File-\d")
_PEM_END = lazy_re(r"-{4,5} ?END [A-Z0-9 ]{0,40}-{4,5}|Private-MAC: [0-9a-f]{1,80}")
# A body without its end: long runs of Base64, with real or escaped whitespace.
_PEM_BODY = lazy_re(r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{20,200}(?![A-Za-z0-9+/=]))*")
_LONGEST_PEM = 20_000
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
    """The secrets in `text` recognised by shape; may overlap."""
    for kind, marks, pattern in _SHAPES:
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
    """Whether `value` is a placeholder: `<password>`, `$PASS`, `***`, `your-api-key`, `password`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """The blocks of keys and certificates (RFC 7468, PuTTY): start, end and label, including truncated ones."""
    at = 0
    if "BEGIN" not in text and "PuTTY" not in text:
        return
    while begin := _PEM.search(text, at):
        label = begin[1] if begin[1] is not None else "PRIVATE"
        limit = min(len(text), begin.end() + _LONGEST_PEM)
        again = _PEM.search(text, begin.end(), limit)
        ending = _PEM_END.search(text, begin.end(), again.start() if again else limit)
        body = ending or _PEM_BODY.match(text, begin.end(), limit)
        at = body.end() if body else begin.end()
        yield begin.start(), at, label


def _random_runs(text: str, public: list[tuple[int, int]]) -> Iterator[Span]:
    """Long random-looking runs of mixed case and digits, outside `public` blocks and URLs."""
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
    """The check digit of ISO/IEC 7812-1."""
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0
