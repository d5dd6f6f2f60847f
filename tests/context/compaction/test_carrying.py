"""The user's last messages, word for word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.carrying import HEADING, carry, quoted_in
from clawbot.context.compaction.files import FileLists, file_lists, show_files
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message
from tests.context.compaction.talk import answer, call, result, user
from tests.context.reports import QUOTE

TALK: list[Message] = [user("one"), answer("1"), user("two\n\n  indented"), answer("2"), user("三"), user("four")]


def carried(messages: list[Message], *, preserve: int = 3, most: int = 10_000, **more: object) -> list[str]:
    split, earlier = bool(more.get("split")), more.get("earlier", ())
    assert isinstance(earlier, tuple)
    text = carry(messages, preserve=preserve, most=most, count=estimate_tokens, split=split, earlier=earlier)
    assert estimate_tokens(text) <= most
    return quoted_in(text)[1]


def test_the_last_three_are_carried_to_the_letter() -> None:
    assert carried(TALK) == ["two\n\n  indented", "三", "four"]
    assert carry(TALK, preserve=2, most=1000, count=len) == f"{HEADING}\n\n> 三\n\n> four"


def test_quoted_notes_are_nobodys_words() -> None:
    assert carried([QUOTE, *TALK[:2]]) == ["one"]
    assert carried([QUOTE]) == []


def test_none_are_when_none_are_wanted_or_there() -> None:
    assert carried(TALK, preserve=0) == []
    assert carried([answer("1")]) == []


def test_the_request_of_a_cut_turn_is_carried_in_any_case() -> None:
    assert carried(TALK, preserve=0, split=True) == ["four"]


def test_long_ones_are_shortened_the_request_of_a_cut_turn_less() -> None:
    long = user("x" * 5_000)
    ordinary, request = carried([long, user("y"), long], split=False), carried([long, user("y"), long], split=True)
    assert len(ordinary[0]) < 700
    assert "of 5,000 characters left out" in ordinary[0]
    assert 750 < len(request[-1]) < 900


def test_what_an_earlier_compaction_carried_fills_up() -> None:
    assert carried([user("new")], earlier=("a", "b", "c")) == ["b", "c", "new"]


def test_the_oldest_give_way_when_there_is_little_room() -> None:
    assert carried(TALK, most=estimate_tokens(f"{HEADING}\n\n> 三\n\n> four")) == ["三", "four"]
    assert len(carried([user("word " * 100)], most=80)[0]) < 300
    assert carried([user("word " * 100)], most=5) == []


def test_the_models_part_is_told_from_what_is_added() -> None:
    own = "## Goal\n- x\n\n> a quote of the model"
    files = show_files(FileLists(("a.md",), ("b.py",)), 100, estimate_tokens)
    assert quoted_in(own) == (own, [])
    assert quoted_in(f"{own}\n\n{files}") == (own, [])
    text = "\n\n".join([own, carry(TALK, preserve=2, most=1000, count=len), files])
    assert quoted_in(text) == (own, ["三", "four"])


@given(st.lists(st.text(min_size=1, max_size=100).map(lambda text: text.strip()).filter(bool), min_size=1, max_size=3))
def test_any_short_message_comes_back_word_for_word(texts: list[str]) -> None:
    assert carried([user(text) for text in texts]) == texts


class TestFiles:
    """Sheet 7.4: cumulative, sorted, what was changed is not listed as read."""

    MESSAGES = (
        answer("", call("1", "read", path="b.md"), call("2", "read", path="a.md"), call("3", "write", path="c.md")),
        result("x", "1"),
        result("x", "2"),
        result("x", "3"),
        answer("", call("4", "edit", path="a.md"), call("5", "read", path="gone.md"), call("6", "grep", path="src")),
        result("x", "4"),
        result("no such file", "5", is_error=True),
    )

    def test_read_and_changed(self) -> None:
        lists = file_lists(self.MESSAGES)
        assert lists == FileLists(("b.md",), ("a.md", "c.md"))
        assert show_files(lists, 100, estimate_tokens).endswith("\n\n- Changed: a.md, c.md\n- Read: b.md")

    def test_they_add_up(self) -> None:
        before = FileLists(("a.md", "z.md"), ("y.md",)).as_details()
        assert file_lists(self.MESSAGES, before) == FileLists(("b.md", "z.md"), ("a.md", "c.md", "y.md"))

    @pytest.mark.parametrize("damaged", [None, [], "x", {"readFiles": "x"}, {"readFiles": [1, None], "other": 3}])
    def test_other_details_are_nothing(self, damaged: object) -> None:
        assert file_lists([], damaged) == FileLists()
        assert show_files(FileLists(), 100, estimate_tokens) == ""

    def test_many_are_counted(self) -> None:
        lists = FileLists(tuple(f"docs/page-{number:04}.md" for number in range(3_000)))
        text = show_files(lists, 120, estimate_tokens)
        assert estimate_tokens(text) <= 120
        assert ", and 2,9" in text
        assert show_files(lists, 5, estimate_tokens) == ""
