from __future__ import annotations

import pytest

from clawbot.text.numerals import numbers_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("room 23", {"23": ("twenty three", "二十三")}),
        ("twenty-three guests", {"twenty-three": ("23", "二十三")}),
        ("twenty three guests", {"twenty three": ("23", "二十三")}),
        ("第二十三章", {"二十三": ("23", "twenty three")}),
        ("十二个人", {"十二": ("12", "twelve")}),
        ("三百二十人", {"三百二十": ("320",)}),
        ("两千人", {"两千": ("2000",)}),
        ("forty boxes", {"forty": ("40", "四十")}),
        ("five rooms", {"five": ("5",)}),
        ("5 rooms", {"5": ("five",)}),
        # Parts of other numbers, versions, times and names; and what is too small or too large.
        ("v1.23 at 10:30 on 2026-03-05, node-07, 1,200 and 12345", {}),
        ("one of them, 三个, 0", {}),
        ("often, tend, eighth", {}),
        ("٢٣ ships, ２３", {}),
    ],
)
def test_a_number_has_other_spellings(text: str, found: dict[str, tuple[str, ...]]) -> None:
    assert dict(numbers_in(text)) == found
