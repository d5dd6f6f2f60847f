"""What to forget is matched, and how the rest of a note remains well-formed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.forget.files import Everything, Mentions, Phrase, WholeLines, is_in, plain, taken_out
from clawbot.forget.notes import Pick, without_lines
from clawbot.sessions.forgotten import MARK
from tests.tables import load_table


@pytest.mark.parametrize(
    ("phrase", "text"),
    load_table(__file__, "a_phrase_is_found_in_any_form_that_looks_the_same"),
)
def test_a_phrase_is_found_in_any_form_that_looks_the_same(phrase: str, text: str) -> None:
    assert Phrase(phrase).holds(text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [("proxy port", "the port of the proxy"), ("proxies", "proxy"), ("花 生", "花生"), ("cafe", "café")],
)
def test_nothing_is_fuzzy(phrase: str, text: str) -> None:
    assert not Phrase(phrase).holds(text)


@given(st.text())
def test_each_text_holds_itself(text: str) -> None:
    assert plain(text) == plain(plain(text)) or not text.isascii()
    assert Phrase(text).holds(f"a {text} b") or not plain(text) or MARK in text


@pytest.mark.parametrize("text", ["", " ", "x", "\u00ad", "\u3000x"])
def test_nothing_and_a_single_letter_are_not_telling(text: str) -> None:
    assert not Phrase(text).is_long_enough


@pytest.mark.parametrize(
    "line",
    load_table(__file__, "a_line_is_known_again_behind_other_marks"),
)
def test_a_line_is_known_again_behind_other_marks(line: str) -> None:
    lines = WholeLines(["# Pets\n\n- the parrot eats walnuts\n- tea\n"])
    assert lines.holds(line)
    assert not lines.holds("I said: the parrot eats walnuts")
    assert Mentions(lines).holds(f"I said: {line}")


def test_lines_that_say_too_little_are_known_by_nobody() -> None:
    lines = WholeLines(["# 2026-11-20\n- tea\n- yes\n[forgotten]\nNoted: [quoted: memory/2026-11-20.md:4]\n- 花生"])
    assert lines.keys == frozenset()
    assert WholeLines(["- 对花生过敏"]).holds("> 对花生过敏")


def test_lines_that_hold_it_are_marked_and_the_others_stay() -> None:
    text = "first\nthe Parrot is here\nlast"
    assert taken_out(text, Phrase("parrot")) == f"first\n{MARK}\nlast"
    assert taken_out("the par\nrot", Phrase("par rot")) == MARK
    assert taken_out(text, Phrase("nobody")) == text
    assert taken_out(text, Everything()) == MARK


def test_a_result_that_is_json_is_looked_into_and_goes_as_a_whole() -> None:
    text = '{"results": [{"snippet": "- \\u82b1\\u751f\\n- bread"}]}'
    assert not Phrase("花生").holds(text)
    assert is_in(text, Phrase("花生"))
    assert taken_out(text, Phrase("花生")) == MARK


def test_the_mark_itself_is_never_what_is_wanted() -> None:
    assert not Phrase("forgotten").holds(MARK)
    assert Phrase("forgotten").holds("I have forgotten it")


def picks(word: str) -> Pick:
    return lambda lines: {number for number, line in enumerate(lines) if word in line}


def without(text: str, word: str = "xylo") -> str:
    return without_lines(text, picks(word))[0]


@pytest.mark.parametrize(
    ("before", "after"),
    load_table(__file__, "what_is_left_is_sound"),
)
def test_what_is_left_is_sound(before: str, after: str) -> None:
    assert without(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "- xylo\n",
        "# 2026-11-20\n\n- xylo\n",
        "# Session: 2026-11-20 14:00 (UTC)\n\n- **Session ID**: 4\n\n## Conversation Summary\n\n14:02 user: xylo\n\n"
        "14:02 assistant: Noted in `a.md`: [quoted: a.md]\n",
    ],
)
def test_a_note_that_says_nothing_any_more_is_empty(text: str) -> None:
    assert without(text) == ""


def test_the_lines_are_told_as_they_were_counted() -> None:
    assert without_lines("a\nxylo\nb\nxylo\n", picks("xylo"))[1] == [2, 4]
    assert without_lines("a\n", picks("xylo")) == ("a\n", [])


@given(st.lists(st.sampled_from(["", "- a", "- xylo", "# Pets", "## 15:20", "text", "> quote", "14:02 user: xylo"])))
def test_nothing_else_is_lost_and_no_blank_lines_are_doubled(lines: Sequence[str]) -> None:
    text = "\n".join([*lines, ""])
    left = without(text)
    kept = [line for line in lines if line and "xylo" not in line and line != "## 15:20"]
    if any("xylo" in line for line in lines):
        assert "xylo" not in left
        assert [line for line in left.split("\n") if line and line not in ("## 15:20", "14:02 user:")] == kept
        assert len(re.findall(r"\n{3,}", left)) <= len(re.findall(r"\n{3,}", text))
    else:
        assert left == text
