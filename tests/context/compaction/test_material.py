"""What a summary is made from beside `test_prompts.py` (`TestMaterial`), and its parts that each fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.carried import FileLists
from clawbot.context.compaction.material import (
    MIN_STAGE,
    Material,
    PreviousCompaction,
    gather,
    parts_of,
    plan_stages,
    stage_budget,
)
from clawbot.context.compaction.prompts import SYSTEM, UNFINISHED, Task, prompt_for
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message
from tests.context.compaction.talk import answer, call, user


def gathered(messages: list[Message], prefix: list[Message] | None = None, **more: Any) -> Material:
    """The material for 700 tokens."""
    given = {
        "earlier": PreviousCompaction(),
        "focus": "",
        "preserve": 3,
        "tokens": 700,
        "count": estimate_tokens,
        **more,
    }
    return gather(messages, prefix or [], **given)


TALK: list[Message] = [user("We ship on Friday."), answer("Noted.")]
TURN: list[Message] = [user("now fix lib/turn.py"), answer("I look.", call("1", "read", path="lib/turn.py"))]


def test_the_files_of_all_compactions_are_in_the_appendix() -> None:
    """Sheet 7.4."""
    details = FileLists(("old.md",), ("kept.md",)).as_details()
    made = gathered(TALK, TURN, earlier=PreviousCompaction("", details))
    assert made.appendix.endswith("- Changed: kept.md\n- Read: lib/turn.py, old.md")


def test_the_beginning_of_a_cut_turn_belongs_to_it() -> None:
    made = gathered(TALK, TURN)
    assert made.names(len(made.texts)) == ["lib/turn.py"]
    assert made.names(2) == []


@pytest.mark.parametrize("preserve", [0, 3])
def test_the_request_of_a_cut_turn_is_carried_in_any_case(preserve: int) -> None:
    made = gathered(TALK, TURN, preserve=preserve)
    assert "> now fix lib/turn.py" in made.appendix
    assert ("> We ship on Friday." in made.appendix) == (preserve > 0)


@pytest.mark.parametrize("start", range(6))
def test_the_mark_of_the_unfinished_turn_is_in_every_part_that_has_some_of_it(start: int) -> None:
    made = gathered(TALK, [user("go on"), answer("One."), answer("Two."), answer("三")])
    assert (len(made.texts), made.unfinished) == (6, 2)
    shown = made.conversation(made.texts[start:], start).split("\n\n")
    place = max(2 - start, 0)
    assert shown == [*made.texts[start:][:place], UNFINISHED, *made.texts[start:][place:]]


def test_a_turn_that_says_nothing_is_not_marked() -> None:
    """A silent reply at the beginning of what was cut, say."""
    made = gathered(TALK, [answer("NO_REPLY")])
    assert made.unfinished is None
    assert UNFINISHED not in made.conversation(made.texts, 0)


def test_a_name_that_stands_in_no_text_is_asked_for_from_the_first_part_on() -> None:
    """What could pass for a tag is spelled in another way there."""
    made = gathered([user("hello"), user("见《<summary 计划》")])
    assert made.wanted == (("<summary 计划", 0),)


@pytest.mark.parametrize(
    ("first", "last", "chinese"),
    [("please help", "改成中文回答我吧", True), ("请帮我看一下这个", "answer in English from now on", False)],
)
def test_the_language_is_that_of_the_users_last_words(first: str, last: str, chinese: bool) -> None:
    assert gathered([user(first), answer("好的。All right."), user(last)]).chinese == chinese
    assert gathered([user(first)], [user(last), answer("…")]).chinese == chinese


def test_what_a_call_takes_is_reckoned_with() -> None:
    """Room, appendix and what stands between them are the summary; a call has the summary so far beside its texts."""
    made = gathered(TALK, TURN)
    assert made.room + estimate_tokens(f"\n\n{made.appendix}") == 700
    prompt = prompt_for(Task(conversation="", split=True, tokens=made.room, parts=2))
    assert made.overhead == estimate_tokens(SYSTEM) + estimate_tokens(prompt) + made.room


@pytest.mark.parametrize(
    ("tokens", "budget", "expected"),
    [
        ([], 10, []),
        ([3, 3, 3], 10, [range(3)]),
        ([6, 6, 6], 10, [range(1), range(1, 2), range(2, 3)]),
        ([5] * 6, 20, [range(3), range(3, 6)]),  # of one size, not 4 and 2
        ([50, 1], 10, [range(1), range(1, 2)]),
    ],
)
def test_parts_are_few_and_of_one_size(tokens: list[int], budget: int, expected: list[range]) -> None:
    assert plan_stages(tokens, budget) == expected


@given(st.lists(st.integers(0, 100), max_size=60), st.integers(1, 300))
def test_every_message_is_in_one_part_and_each_part_fits(tokens: list[int], budget: int) -> None:
    stages = plan_stages(tokens, budget)
    assert [index for stage in stages for index in stage] == list(range(len(tokens)))
    assert all(len(stage) == 1 or sum(tokens[at] for at in stage) <= budget for stage in stages)
    assert len(stages) <= 2 * (sum(tokens) // budget + 1)


@given(st.lists(st.text(max_size=800), max_size=10), st.integers(200, 900))
def test_a_message_larger_than_half_a_stage_is_shortened_to_it(texts: list[str], stage: int) -> None:
    pieces = parts_of(texts, stage, len)
    assert all(len(piece.text) <= stage // 2 for piece in pieces)
    for piece, text in zip(pieces, texts, strict=True):
        assert piece.text == text or len(text) > stage // 2


def test_the_size_of_what_was_left_out_is_named() -> None:
    piece = parts_of(["User: " + "word " * 10_000], 2_000, len)[0]
    assert piece.text.startswith("User: word")
    assert "of 50,006 characters left out" in piece.text
    assert piece.tokens <= 1_001


def test_a_stage_leaves_room_for_answer_and_prompt_on_small_and_large_windows() -> None:
    assert 1.1 * stage_budget(8_192, 1_638, 1_700) + 1_638 + 1_700 < 8_192
    assert stage_budget(8_192, 1_638, 1_700) > 3_500
    assert stage_budget(1_000_000, 16_000, 5_000) > 800_000
    assert stage_budget(2_048, 1_638, 1_700) == MIN_STAGE
