"""Counting tokens with the vocabulary that litellm carries, and without one."""

from __future__ import annotations

import pytest

from clawbot.llm import tokens
from clawbot.llm.tokens import count_tokens, estimate_tokens


async def test_exact() -> None:
    assert await count_tokens("hello world") == 2
    assert await count_tokens("<|endoftext|>") > 1


@pytest.mark.parametrize(
    "text", ["", "The quick brown fox jumps over the lazy dog. " * 20, "我喜欢用制表符缩进代码。" * 20]
)
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
