"""Lines go out of a note whole, and what is left is as sound as it was."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.forget.notes import Pick, without_lines


def picks(word: str) -> Pick:
    return lambda lines: {number for number, line in enumerate(lines) if word in line}


def without(text: str, word: str = "xylo") -> str:
    return without_lines(text, picks(word))[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- a\n- xylo\n- b\n", "- a\n- b\n"),
        ("a\n\n- xylo\n\nb\n", "a\n\nb\n"),
        ("a\n\n- xylo\n- xylo 2\n\nb\n", "a\n\nb\n"),
        ("a\n\n- xylo\n", "a\n"),
        ("- xylo\n\na\n", "a\n"),
        ("# 2026-11-20\n\n- xylo\n\n## 15:20\n\n- b\n", "# 2026-11-20\n\n## 15:20\n\n- b\n"),
        ("# 2026-11-20\n\n## 15:20\n\n- xylo\n\n## 16:00\n\n- b\n", "# 2026-11-20\n\n## 16:00\n\n- b\n"),
        ("# Pets\n\n- xylo\n\n# Food\n\n- b\n", "# Pets\n\n# Food\n\n- b\n"),
        ("# Pets\n\n- xylo\n", "# Pets\n"),
        ("# xylo\n\n- b\n", "- b\n"),
        ("Xylo\nxylo\n====\n\nb\n", "Xylo\n\nb\n"),
        ("```xylo\ncode\n```\n", "```\ncode\n```\n"),
        ("a\n\n```\nxylo\n```\n\nb\n", "a\n\nb\n"),
        ("```\nxylo\ncode\n```\n", "```\ncode\n```\n"),
        ("| xylo | b |\n|---|---|\n| 1 | 2 |\n", "| | |\n|---|---|\n| 1 | 2 |\n"),
        ("14:02 user: xylo\n> more\n\n14:03 user: b\n", "14:02 user:\n> more\n\n14:03 user: b\n"),
        ("14:02 user: xylo\n> xylo\n\n14:03 user: b\n", "14:03 user: b\n"),
        ("a\r\n- xylo\r\nb\r\n", "a\r\nb\r\n"),
        ("a\n\n\n\nb\nxylo\nc\n", "a\n\n\n\nb\nc\n"),
        ("a\nxylo", "a"),
    ],
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
