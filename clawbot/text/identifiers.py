"""Finds text that must be kept literally: URLs, hosts, paths, hashes, versions, numbers with units."""

from __future__ import annotations

import re

from clawbot.languages.tables import pattern_in
from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.patterns import lazy_re

MAX_CHARS = 200
"""Longer matches are data, not names."""

_HAN_OR_MARK = rf"\s<>\"'`，。；：！？、（）《》「」{HAN}"
_TOP = r"com|org|net|io|dev|app|ai|co|edu|gov|cloud|cn|de|eu|uk|us|fr|jp|local|localdomain|internal|intranet|lan|corp"
_HOST = (
    rf"(?<![\w.@/-])(?:(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,5}}(?:{_TOP})|"
    r"[a-z][a-z-]{0,40}\d{1,6}(?:\.[a-z][a-z0-9-]{1,62}){1,4})(?![\w-])"
)
_SEGMENT = rf"[^{_HAN_OR_MARK}/,;:()\[\]]{{1,80}}"
_PATTERN = lazy_re(
    "|".join(
        (
            rf"https?://[^{_HAN_OR_MARK}]{{3,200}}",
            r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}",
            r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
            r"`[^`\n]{1,200}`",
            rf"(?<![\w/])(?:~|\.{{1,2}})(?:/{_SEGMENT}){{1,12}}/?|(?<![\w/])(?:/{_SEGMENT}){{2,12}}/?",
            r"(?<![\w/])[\w.-]{1,80}(?:/[\w.-]{1,80}){0,8}\.(?:md|py|js|ts|tsx|go|rs|c|h|cpp|java|rb|sh|sql|json|"
            r"jsonl|ya?ml|toml|cfg|ini|"
            r"txt|csv|html|css|lock|log|env|xml|pdf)\b",
            r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b",
            r"\b[A-Za-z][\w.-]{0,62}:\d{2,5}\b",
            _HOST,
            r"\b(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b",
            r"\b[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,6}\b",
            r"(?:^|(?<=[\s(#]))#\d{1,7}\b|\b[A-Z]{2,10}-\d{1,7}\b",
            r"\bv?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:-[\w.]{1,20})?\b",
            r"\b\d{4}-\d{2}-\d{2}\b",
            r"\b\d[\d,.]{0,15}\s?(?:%|ms|s|min|h|[kKMGT]i?B|bytes?|tokens?|px|rpm|QPS|USD|EUR|CNY|GHz|MHz|°C|kg|km|m|"
            rf"€|\$|{pattern_in('unit')})(?![A-Za-z])",
            r"[$€¥]\s?\d[\d,.]{0,15}",
            r"(?<!\w)\d{3,15}(?!\w)",
        )
    ),
    re.ASCII,  # a name may touch Chinese text
)
_EXACT = lazy_re(
    "|".join(
        (
            r"https?://\S+",
            r"[\w.+-]+@[\w.-]+",
            r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
            rf"(?:~|\.{{1,2}})(?:/{_SEGMENT})+/?|(?:/{_SEGMENT}){{2,12}}/?",
            r"[\w.-]+(?:/[\w.-]+)+/?",
            r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?",
            r"[A-Za-z][\w.-]*:\d{2,5}",
            _HOST,
            r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}",
            r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+",
            r"#\d+|[A-Z]{2,10}-\d+",
            r"v\d+(?:\.\d+)+\S*|\d+\.\d+\.\d+\S*",
        )
    ),
    re.ASCII,
)
_PORT = lazy_re(
    rf"(?:{pattern_in('ports')})(?:\s?(?:{pattern_in('port_link')}|=|:|\uff1a)){{0,2}}\s?\d{{2,5}}(?!\d)", re.ASCII
)
_QUOTED = lazy_re(r"`([^`\n]{1,200})`")
_TITLE = lazy_re(r"[「『《]([^「」『』《》\n]{2,40})[」』》]")
_TRAILING = ".,;:!?)]}"


def identifiers(text: str) -> list[str]:
    """Return the unique identifiers in `text`, in order of appearance."""
    found: dict[str, None] = {}
    for match in _PATTERN.finditer(text):
        name = match[0].strip("`").rstrip(_TRAILING).strip()
        if name and len(name) <= MAX_CHARS:
            found.setdefault(name)
    return list(found)


def is_exact(name: str) -> bool:
    """Whether a result of `identifiers` is unambiguous everywhere: a URL, a host, a path with a folder, a hash, a
    version; not a number, a date, or a word in backticks."""
    return _EXACT.fullmatch(name) is not None


def ports(text: str) -> list[str]:
    """Ports with the word before them (`port 8443`), unique, in order of appearance."""
    return list(dict.fromkeys(" ".join(found.split()) for found in _PORT.findall(text)))


def quoted(text: str) -> list[str]:
    """Text in backticks, unique, in order of appearance."""
    return list(dict.fromkeys(name for found in _QUOTED.findall(text) if (name := found.strip())))


def titles(text: str) -> list[str]:
    """Text in Chinese title marks (`《》`), unique, in order of appearance."""
    return list(dict.fromkeys(_TITLE.findall(text)))
