"""What goes into a summary to the letter: the user's last messages, lists of files, names."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.carried import (
    LAST_HEADING,
    LINE_CHARS,
    MAX_CHARS,
    MOST,
    SCANNED,
    FileLists,
    carry,
    file_lists,
    missing_identifiers,
    quoted_in,
    show_files,
    wanted_identifiers,
)
from clawbot.context.compaction.prompts import serialise
from clawbot.context.startup import HEAD
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message, UserMessage
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
    assert carry(TALK, preserve=2, most=1000, count=len) == f"{LAST_HEADING}\n\n> 三\n\n> four"


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
    assert carried(TALK, most=estimate_tokens(f"{LAST_HEADING}\n\n> 三\n\n> four")) == ["三", "four"]
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


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("read", FileLists(("a.md",), ())),
        ("write", FileLists((), ("a.md",))),
        ("append", FileLists((), ("a.md",))),
        ("edit", FileLists((), ("a.md",))),
        ("grep", FileLists()),
        ("shell", FileLists()),
    ],
)
def test_which_tools_read_and_change(name: str, lists: FileLists) -> None:
    assert file_lists([answer("", call("1", name, path="a.md"))]) == lists


@pytest.mark.parametrize("path", [7, None, ["a.md"], {"a.md": 1}])
def test_what_a_model_gives_for_a_path_may_be_anything(path: object) -> None:
    assert file_lists([answer("", call("1", "read", path=path), call("2", "read"))]) == FileLists()


@pytest.mark.parametrize(
    "lists", [FileLists(("a.md", "b.md")), FileLists((), ("a.md",)), FileLists(("a.md",), ("c.md",))]
)
def test_what_is_shown_whole_has_no_more(lists: FileLists) -> None:
    assert "more" not in show_files(lists, 100, estimate_tokens)


_calls = st.tuples(st.sampled_from(["read", "edit", "append", "grep"]), st.sampled_from("abcd"), st.booleans())


@given(st.lists(_calls, max_size=12), st.integers(0, 12))
def test_two_compactions_list_what_one_would(drawn: list[tuple[str, str, bool]], at: int) -> None:
    """Sheet 7.4: added up over all compactions, sorted; what was changed is not listed as read."""
    talk: list[list[Message]] = [
        [answer("", call(f"c{number}", name, path=path)), result("x", f"c{number}", is_error=failed)]
        for number, (name, path, failed) in enumerate(drawn)
    ]
    first, second = list(chain(*talk[:at])), list(chain(*talk[at:]))
    whole = file_lists([*first, *second])
    assert file_lists(second, file_lists(first).as_details()) == whole
    assert not set(whole.read) & set(whole.modified)
    assert (list(whole.read), list(whole.modified)) == (sorted(whole.read), sorted(whole.modified))


def wanted(*messages: Message) -> list[str]:
    return wanted_identifiers(messages, 10_000, estimate_tokens)


def test_names_in_quoted_notes_are_not_what_was_talked_about() -> None:
    quote = UserMessage(f"{HEAD}\n\n`memory/2026-11-20.md`:\n```text\nsee src/proxy_server.py\n```")
    assert wanted(user("open src/main_window.py"), answer("done")) == ["src/main_window.py"]
    assert wanted(quote, user("open src/main_window.py"), answer("done")) == ["src/main_window.py"]


FILLER = "x y\n" * (SCANNED // 4)


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([user("读 src/old.py"), user(FILLER)], []),
        ([user("src/first.py\n" + FILLER + "src/last.py")], ["src/last.py"]),
        ([user("src/first.py"), user("src/last.py\n" + FILLER[1_000:])], ["src/first.py", "src/last.py"]),
        ([user("src/first.py"), result(FILLER), answer("src/last.py")], ["src/first.py", "src/last.py"]),
    ],
    ids=["a message too far back", "the end of a long one", "just within", "results take no room"],
)
def test_only_the_end_of_a_long_conversation_is_looked_at(messages: list[Message], names: list[str]) -> None:
    assert wanted(*messages) == names


def test_only_the_beginning_of_a_long_line_is_looked_at() -> None:
    assert wanted(user("src/a.py " + "x " * LINE_CHARS + "src/b.py 《计划》\nsrc/c.py")) == ["src/a.py", "src/c.py"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fix #1 and #12", ["#12"]),
        (f"{'d' * 60}/{'f' * (MAX_CHARS - 64)}.py", [f"{'d' * 60}/{'f' * (MAX_CHARS - 64)}.py"]),
        (f"{'d' * 60}/{'f' * (MAX_CHARS - 63)}.py", []),
        ("`cat src/a.py` prints it", []),
        ("`src/a.py`", ["src/a.py"]),
        ("port 8443 and port: 9090, 12 of 345", ["8443", "9090"]),
    ],
)
def test_what_is_a_name(text: str, names: list[str]) -> None:
    assert wanted(user(text)) == names


def test_a_thought_in_an_old_answer_is_not_summarised() -> None:
    assert serialise(answer("<think>see src/b.py</think>\nIt is src/a.py.")) == "Assistant: It is src/a.py."


def test_what_a_silent_reply_thought_is_not_asked_for() -> None:
    assert wanted(user("src/a.py"), answer("<think>see src/b.py</think>\nNO_REPLY")) == ["src/a.py"]


def test_what_is_said_in_two_messages_outweighs_what_is_said_once() -> None:
    """Within a message it counts once, however often it stands there."""
    once = [user(f"src/once{number}.py " * 3) for number in range(MOST)]
    names = wanted(answer("src/often.py"), *once, answer("src/often.py"))
    assert names[-1] == "src/often.py"
    assert len(names) == MOST


def test_what_is_missing() -> None:
    assert missing_identifiers(["a/b.py", "端口", "v1.2"], "a/b.py 的端口") == ["v1.2"]


KEY = "sk-abcdef0123456789abcdef"
_words = st.sampled_from(["src/a.py", "v1.2.3", "《部署手册》", "3f2a9c1d", "port 8443", "看看", "NO_REPLY", KEY])
_texts = st.lists(_words, max_size=20).map(" ".join)
_messages = st.one_of(st.builds(user, _texts), st.builds(answer, _texts), st.builds(result, _texts))


@given(st.lists(_messages, max_size=8), st.integers(0, 60))
def test_names_are_few_and_were_said(messages: list[Message], most: int) -> None:
    names = wanted_identifiers(messages, most, estimate_tokens)
    said = "\n".join(message.text for message in messages)
    assert len(names) == len(set(names)) <= MOST
    assert sum(estimate_tokens(f"- {name}\n") for name in names) <= most
    assert missing_identifiers(names, said) == []
    assert [name for name in names if name in ("NO_REPLY", KEY)] == []
