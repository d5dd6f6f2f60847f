"""A model that says the same over and over is noticed, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.deltas import RepetitionGuard

PARAGRAPH = (
    "The proxy of the office moved to port 8443 on Monday, and whoever had the old one saved changed it in the file. "
)


def kept(text: str, step: int = 7) -> str | None:
    """What is kept of `text`, which comes in pieces of `step` characters; None when it is no loop."""
    guard = RepetitionGuard()
    for start in range(0, len(text), step):
        if guard.feed(text[start : start + step]):
            return text[: guard.kept]
    return None


@pytest.mark.parametrize(
    ("before", "said", "once"),
    [
        ("Hello there. ", "I'm you. ", "Hello there. I'm you"),
        ("", "no ", "no"),
        ("Notes: ", PARAGRAPH, f"Notes: {PARAGRAPH.strip()}"),
        ("好。", "我是你。", "好。我是你"),
        ("", "a" * 240, "a" * 24),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_loop_is_kept_once(before: str, said: str, once: str, step: int) -> None:
    assert kept(before + said * 300, step) == once


@pytest.mark.parametrize(
    "text",
    [
        "-" * 5_000,
        "| --- | --- |\n" * 20,
        "I'm you. " * 30,
        PARAGRAPH * 8,
        "".join(f"{number}. {PARAGRAPH}" for number in range(40)),
        " ".join(str(number * number) for number in range(2_000)),
    ],
)
def test_what_is_no_loop(text: str) -> None:
    assert kept(text) is None


@given(st.lists(st.text(alphabet="ab .数!\n", max_size=30), max_size=60))
def test_how_it_comes_in_changes_nothing(pieces: list[str]) -> None:
    one, many = RepetitionGuard(), RepetitionGuard()
    one.feed("".join(pieces))
    for piece in pieces:
        many.feed(piece)
    assert (one.looping, one.kept) == (many.looping, many.kept)
