"""The marks of a window: they derive from one reserve, come in their order, and work in windows of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_agent import CompactionSettings, MemoryFlushSettings
from clawbot.context.window import ASSUMED, Window, Windows, plan_budget
from clawbot.llm.protocol import CAPPED, ModelInfo

USUAL = CompactionSettings()


def settings(
    reserve: int = 16_384, floor: int = 20_000, keep: int = 20_000, *, soft: int = 4_000, flush: bool = True
) -> CompactionSettings:
    return CompactionSettings(
        reserve_tokens=reserve,
        reserve_tokens_floor=floor,
        keep_recent_tokens=keep,
        memory_flush=MemoryFlushSettings(enabled=flush, soft_threshold_tokens=soft),
    )


def test_the_usual_marks_of_a_large_window() -> None:
    """Sheet 6.5: 20,000 of 200,000 are kept free, the flush comes 4,000 before."""
    budget = plan_budget(200_000, USUAL, fixed=12_000)
    assert budget == (200_000, 20_000, 180_000, 176_000, 20_000, 4_000)


@pytest.mark.parametrize(
    ("reserve", "floor", "kept"),
    [(16_384, 20_000, 20_000), (30_000, 20_000, 30_000), (16_384, 0, 16_384), (0, 0, 0), (60_000, 20_000, 50_000)],
)
def test_the_reserve_is_the_larger_of_two_and_a_quarter_at_most(reserve: int, floor: int, kept: int) -> None:
    assert plan_budget(200_000, settings(reserve, floor)).reserve == kept


@pytest.mark.parametrize(("reserve", "floor"), [(60_000, 20_000), (16_384, 0)])
def test_bug_6_5_the_flush_precedes_compaction_whatever_reserve_and_floor_are(reserve: int, floor: int) -> None:
    budget = plan_budget(200_000, settings(reserve, floor), fixed=12_000)
    assert budget.limit - budget.flush == 4_000


@pytest.mark.parametrize("cap", [8_000, 24_000, 100_000])
def test_bug_6_5_a_lowered_cap_makes_flush_and_compaction_come_earlier(cap: int) -> None:
    info = ModelInfo("openai/gpt-5", window=200_000, window_source="litellm's model data")
    budget = plan_budget(Windows(cap).of(info).tokens, USUAL, fixed=3_200)
    assert budget.flush < budget.limit < cap


@pytest.mark.parametrize("window", [8_000, 8_192, 16_000, 24_000, 32_000])
def test_bug_6_5_small_windows_have_room_between_their_marks(window: int) -> None:
    """The reference has no flush with 24,000 and compacts with nearly every turn."""
    fixed = 3_200
    budget = plan_budget(window, USUAL, fixed)
    assert budget.reserve == window // 4
    assert budget.limit - fixed > window // 3
    assert fixed < budget.flush < budget.limit
    assert budget.flush - (fixed + budget.summary + budget.keep_recent) >= 250


def test_an_8k_window_in_figures() -> None:
    assert plan_budget(8_192, USUAL, fixed=3_200) == (8_192, 2_048, 6_144, 4_672, 614, 490)


@given(
    window=st.integers(1_000, 2_000_000),
    fixed=st.integers(0, 100_000),
    reserve=st.integers(0, 300_000),
    floor=st.integers(0, 300_000),
    keep=st.integers(1, 300_000),
    soft=st.integers(0, 300_000),
)
def test_marks_come_in_their_order(window: int, fixed: int, reserve: int, floor: int, keep: int, soft: int) -> None:
    budget = plan_budget(window, settings(reserve, floor, keep, soft=soft), fixed)
    assert budget.window * 3 // 4 <= budget.limit <= budget.window
    assert budget.limit + budget.reserve == budget.window
    assert 0 < budget.flush <= budget.limit
    assert 0 < budget.keep_recent <= keep
    assert 0 < budget.summary <= 4_000
    room = budget.limit - fixed
    if room >= 1_200:
        assert fixed + budget.summary + budget.keep_recent <= budget.flush


def test_no_flush_when_it_is_switched_off() -> None:
    assert plan_budget(200_000, settings(flush=False)).flush == 0


def test_the_marks_are_there_without_compaction_too() -> None:
    off = CompactionSettings(enabled=False)
    assert plan_budget(200_000, off) == plan_budget(200_000, USUAL)


@pytest.mark.parametrize(
    ("window", "cap", "expected"),
    [
        (200_000, None, Window(200_000, "from the server", False)),
        (200_000, 50_000, Window(50_000, CAPPED, False)),
        (200_000, 900_000, Window(200_000, "from the server", False)),
        (None, None, Window(128_000, ASSUMED, True)),
        (None, 9_000, Window(9_000, CAPPED, False)),
    ],
)
def test_a_window_is_capped_but_never_raised(window: int | None, cap: int | None, expected: Window) -> None:
    """Sheet 6.1; where nobody knows it is 128k, and the user is told so."""
    info = ModelInfo("openai/mine", window=window, window_source="from the server" if window else "")
    assert Windows(cap).of(info) == expected
