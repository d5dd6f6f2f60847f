"""Parses numbers in foreign text. `int` raises on thousands of digits; `str.isdigit` accepts what `int` refuses."""

from __future__ import annotations

MAX_DIGITS = 18


def whole_number(text: str, *, digits: int = MAX_DIGITS) -> int | None:
    """Return the number that `text` writes in 1 to `digits` decimal digits of any script, else None."""
    return int(text) if len(text) <= digits and text.isdecimal() else None
