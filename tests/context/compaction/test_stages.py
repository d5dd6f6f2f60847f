"""Parts of a conversation that each fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.stages import LEAST_STAGE, pieces_of, plan_stages, stage_budget


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
    pieces = pieces_of(texts, stage, len)
    assert all(len(piece.text) <= stage // 2 for piece in pieces)
    for piece, text in zip(pieces, texts, strict=True):
        assert piece.text == text or len(text) > stage // 2


def test_the_size_of_what_was_left_out_is_named() -> None:
    piece = pieces_of(["User: " + "word " * 10_000], 2_000, len)[0]
    assert piece.text.startswith("User: word")
    assert "of 50,006 characters left out" in piece.text
    assert piece.tokens <= 1_001


def test_a_stage_leaves_room_for_answer_and_prompt_on_small_and_large_windows() -> None:
    assert 1.1 * stage_budget(8_192, 1_638, 1_700) + 1_638 + 1_700 < 8_192
    assert stage_budget(8_192, 1_638, 1_700) > 3_500
    assert stage_budget(1_000_000, 16_000, 5_000) > 800_000
    assert stage_budget(2_048, 1_638, 1_700) == LEAST_STAGE
