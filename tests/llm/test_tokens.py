"""Counting tokens with the vocabulary that litellm carries, and without one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken import registry

from clawbot.llm import tokens
from clawbot.llm.tokens import count_now, count_tokens, estimate_tokens, release_vocabulary

PROSE = "The quick brown fox jumps over the lazy dog. "
CHINESE = "我喜欢用制表符缩进代码。"


async def test_exact() -> None:
    assert await count_tokens("hello world") == count_now("hello world") == 2
    assert await count_tokens("<|endoftext|>") > 1


def test_a_vocabulary_that_was_released_is_loaded_again() -> None:
    assert count_now("hello world") == 2
    assert registry.ENCODINGS
    release_vocabulary()
    assert not registry.ENCODINGS
    assert count_now("hello world") == 2


@pytest.mark.parametrize("text", ["", PROSE * 20, CHINESE * 20])
async def test_the_estimate_is_not_below_the_truth(text: str) -> None:
    assert estimate_tokens(text) >= await count_tokens(text)


async def test_without_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_load", lambda: None)
    assert await count_tokens("hello world") == estimate_tokens("hello world") == 4


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("a" * 400, 115), ("好" * 100, 115), ("好a" * 100, 144), ("é" * 10, 12)]
)
def test_weighted_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("text", ["a" * 1_000_000, " " * 1_000_000, "好" * 300_000, "\n" * 1_000_000])
def test_a_text_without_a_break_is_cut_for_the_tokenizer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    encoding = tokens._load()
    assert encoding is not None
    encode = encoding.encode_ordinary

    class Watched:
        def encode_ordinary(self, text: str) -> list[int]:
            nonlocal longest
            longest = max(longest, len(text))
            return encode(text)

    monkeypatch.setattr(tokens, "_load", Watched)
    assert count_now(text) > 0
    assert longest <= 65_536


@pytest.mark.parametrize("part", [PROSE, CHINESE])
def test_cutting_a_long_text_costs_a_token_a_slice_at_most(part: str) -> None:
    text = part * (200_000 // len(part))
    encoding = tokens._load()
    assert encoding is not None
    whole, slices = len(encoding.encode_ordinary(text)), 4
    assert whole <= count_now(text) <= whole + slices


@settings(deadline=None)  # the first example loads the vocabulary
@given(st.text())
def test_any_text_has_a_count(text: str) -> None:
    assert 0 <= count_now(text) <= 4 * len(text)


def test_halves_of_surrogate_pairs_do_not_stop_it() -> None:
    assert count_now("a\ud83d b") > 0
