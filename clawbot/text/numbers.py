"""Parses numbers in foreign text. `int` raises on thousands of digits; `str.isdigit` accepts what `int` refuses."""

from __future__ import annotations

MAX_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Return the number that `text` writes in 1 to 18 decimal digits of any script, else None."""
    return int(text) if len(text) <= MAX_DIGITS and text.isdecimal() else None
