"""What a glob over paths means: `*` and `?` within one name, `**` for any number of folders, `[ab]`, `{md,txt}`."""

from __future__ import annotations

import re
from functools import lru_cache

_PART = re.compile(r"\*\*/(?:\*\*/)*|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}/]*\}|.", re.DOTALL)


@lru_cache(maxsize=64)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The glob as an expression for `fullmatch` over a path with "/". Every text is a glob; case counts."""
    return re.compile("".join(_translated(part) for part in _PART.findall(pattern)), re.DOTALL)


def _translated(part: str) -> str:
    if part.startswith("**/"):
        return "(?:[^/]+/)*"
    if part.startswith("*"):
        return ".*" if len(part) > 1 else "[^/]*"
    if part == "?":
        return "[^/]"
    if len(part) > 1 and part[0] == "{":
        return "(?:" + "|".join(_inside(choice) for choice in part[1:-1].split(",")) + ")"
    if len(part) > 1:
        negated = part[1] in "!^"
        # A "/" in a class would let it leave its name.
        inside = re.sub(r"([\\\[&~|^])", r"\\\1", part[2 if negated else 1 : -1])
        return _class(inside, negated=negated) if inside else re.escape(part)
    return re.escape(part)


def _inside(choice: str) -> str:
    return "".join(_translated(part) for part in _PART.findall(choice))


def _class(inside: str, *, negated: bool) -> str:
    expression = f"[^/{inside}]" if negated else f"[{inside}]"
    try:
        re.compile(expression)
    except re.error:
        # A range that goes backwards (`[z-a]`) fits nothing.
        return "(?!)"
    return expression
