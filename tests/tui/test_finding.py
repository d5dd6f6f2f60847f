"""Where words are found in lines that were wrapped."""

from __future__ import annotations

import pytest

from clawbot.tui.render.finding import Part, compile_query, find_in, join
from clawbot.tui.render.lines import StyledLine, StyledSpan


def found(query: str, *rows: str) -> list[list[str]]:
    """The pieces of `rows` that are found, by place and line."""
    pattern = compile_query(query)
    assert pattern is not None
    places = find_in(join([StyledLine((StyledSpan(row),)) for row in rows]), pattern)
    return [[rows[part.line][part.start : part.end] for part in parts] for parts in places]


@pytest.mark.parametrize(
    ("query", "rows", "expected"),
    [
        ("one", ("one, One", "done"), [["one"], ["One"], ["one"]]),
        ("One", ("one, One",), [["One"]]),
        ("two words", (" ▌ there are two", " ▌ words and more"), [["two", "words"]]),
        ("two words", ("   ▎ quoted two", "   ▎ words"), [["two", "words"]]),
        ("twowords", ("two", "words"), []),
        ("目标", ("   这里有目", "   标，很清楚"), [["目", "标"]]),
        ("目标", ("这里有目标，目标。",), [["目标"], ["目标"]]),
        ("a.b*", ("a.b* axb",), [["a.b*"]]),
        ("שלום", ("a \u2068ש\u2069\u2068לום\u2069",), [["ש\u2069\u2068לום"]]),
        ("long/path", ("https://example.com/a/long/pa", "th/of/a/page"), [["long/pa", "th"]]),
        ("  spaces  ", ("more   spaces",), [["spaces"]]),
        ("a b", ("a   b",), [["a   b"]]),
        ("x", ("", "x", "", " x"), [["x"], ["x"]]),
    ],
)
def test_words_are_found(query: str, rows: tuple[str, ...], expected: list[list[str]]) -> None:
    assert found(query, *rows) == expected


def test_nothing_is_looked_for_by_white_space() -> None:
    assert compile_query("  ") is None


def test_a_place_is_told_by_line_and_characters_with_the_margin() -> None:
    pattern = compile_query("b c")
    assert pattern is not None
    (place,) = find_in(join([StyledLine((StyledSpan("   a b"),)), StyledLine((StyledSpan("   c"),))]), pattern)
    assert place == (Part(0, 5, 6), Part(1, 3, 4))
