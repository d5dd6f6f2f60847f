"""What is cut out of a text to be shown."""

from __future__ import annotations

import pytest

from clawbot.tui.screens.places import LINE_CHARS, LINES_AROUND, PLACE_LINES, WHOLE, Passage, passage, snippet_start

FACTS = "".join(f"- fact {number}\n" for number in range(1, 201))


def test_a_passage_is_cut_out_of_a_long_text() -> None:
    part = passage(FACTS, 100, 101)
    assert part.place == "- fact 100\n- fact 101"
    assert part.before.count("\n") == LINES_AROUND - 1
    assert part.before.endswith("- fact 99")
    assert part.after.startswith("- fact 102\n")


@pytest.mark.parametrize(("first", "last", "place"), [(1, 1, "one"), (0, 0, ""), (9, 9, "two"), (2, 1, "two")])
def test_a_place_that_does_not_exist_any_more_is_the_nearest(first: int, last: int, place: str) -> None:
    part = passage("one\ntwo", first, last)
    assert part.place == place
    assert "one" in part.before + part.place + part.after


def test_a_snippet_begins_shortly_before_the_words_that_were_meant() -> None:
    text = "- a long way to go until the proxy comes"
    assert snippet_start(text, "proxy") == "… go until the proxy comes"
    assert snippet_start(text, "long") == "a long way to go until the proxy comes"
    assert snippet_start("今天我们把很多东西都整理了一下，数据库端口改了", "端口") == "… 理了一下，数据库端口改了"
    assert snippet_start("> quoted\n> more", "x") == "quoted > more"


def test_lines_are_counted_as_the_index_does() -> None:
    assert passage("a\r\nb\x0c\u2028still b\r\n\tc\x1b[31m\r\n", 3, 3) == Passage("a\nb\n\nstill b", "    c", "")


def test_of_a_huge_text_little_is_shown() -> None:
    part = passage("\n".join(["x" * 10_000] * 1_000), 1, WHOLE)
    assert len(part.place) == PLACE_LINES * (LINE_CHARS + 1) - 1
    assert len(snippet_start("y " * 100_000, "z")) < LINE_CHARS
