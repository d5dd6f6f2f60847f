"""Where words are found: in lines that were wrapped, and in a text of the memory."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.query import parse_query
from clawbot.text.tokens import FTS5_TOKENIZER, index_text
from clawbot.tui.render.finding import Part, compile_query, find_in, join, marks
from clawbot.tui.render.lines import StyledLine, StyledSpan, wrap
from tests.tables import load_table


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
        ("long/path", ("  • https://example.com/a/long/pa", "    th/of/a/page"), [["long/pa", "th"]]),
        ("isa", ("a line that is", "as long as this one is"), []),
        ("  spaces  ", ("more   spaces",), [["spaces"]]),
        ("a b", ("a   b",), [["a   b"]]),
        ("x", ("", "x", "", " x"), [["x"], ["x"]]),
    ],
)
def test_words_are_found(query: str, rows: tuple[str, ...], expected: list[list[str]]) -> None:
    assert found(query, *rows) == expected


@given(
    text=st.lists(st.text("abC中文，。:/", min_size=1, max_size=90), min_size=1, max_size=12).map(" ".join),
    width=st.integers(16, 40),
    data=st.data(),
)
def test_all_that_is_wrapped_is_found(text: str, width: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    query = text[begin : data.draw(st.integers(begin + 1, len(text)))]
    pattern = compile_query(query)
    if pattern is None:
        return
    lines = [StyledLine((StyledSpan("   "), *line)) for line in wrap([StyledSpan(text)], width)]
    places = find_in(join(lines), pattern)
    assert places
    for parts in places:
        shown = "".join(lines[part.line].text[part.start : part.end] for part in parts)
        assert "".join(shown.split()).lower() == "".join(query.split()).lower()


def test_nothing_is_looked_for_by_white_space() -> None:
    assert compile_query("  ") is None


def test_a_place_is_told_by_line_and_characters_with_the_margin() -> None:
    pattern = compile_query("b c")
    assert pattern is not None
    (place,) = find_in(join([StyledLine((StyledSpan("   a b"),)), StyledLine((StyledSpan("   c"),))]), pattern)
    assert place == (Part(0, 5, 6), Part(1, 3, 4))


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    load_table(__file__, "words_are_marked_in_any_form"),
)
def test_words_are_marked_in_any_form(query: str, text: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in marks(query, text)] == marked


@given(query=st.text(alphabet="ab端口 的ßİ\u0301?"), text=st.text(alphabet="ab端口 的ßİ\u0301?"))
def test_marks_are_in_order_and_within_the_text(query: str, text: str) -> None:
    places = [place for pair in marks(query, text) for place in pair]
    assert places == sorted(places)
    assert all(start < end <= len(text) for start, end in marks(query, text))


@pytest.mark.parametrize(
    ("query", "words"),
    load_table(__file__, "the_words_that_search_finds_are_the_marked_ones"),
)
def test_the_words_that_search_finds_are_the_marked_ones(query: str, words: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute(f"CREATE VIRTUAL TABLE notes USING fts5(text, tokenize='{FTS5_TOKENIZER}')")
    index.executemany("INSERT INTO notes VALUES (?)", [(index_text(word),) for word in words.split()])
    terms = [term.match for term in parse_query(query).terms if term.weight > 0.4]
    found = index.execute("SELECT rowid FROM notes WHERE notes MATCH ?", [" OR ".join(terms)])
    expected = [words.split()[number - 1] for (number,) in found]
    assert [word for word in words.split() if marks(query, word)] == expected
