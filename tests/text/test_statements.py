"""Which sentences state something that is worth keeping."""

from __future__ import annotations

import pytest

from clawbot.text.statements import is_durable, sentences
from tests.tables import load_table


@pytest.mark.parametrize(
    "sentence",
    load_table(__file__, "what_is_worth_keeping"),
)
def test_what_is_worth_keeping(sentence: str) -> None:
    assert is_durable(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *("What do I prefer?", "ok", "please use tabs here", "maybe I like tea", "lovely weather", "我喜欢什么?"),
        *("今天天气不错", "帮我看看日志", "可能是端口 8443", "x" * 600, "my password is hunter2"),
    ],
)
def test_what_is_not(sentence: str) -> None:
    assert not is_durable(sentence)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My dentist is Dr. Halvorsen. She is kind.", ["My dentist is Dr. Halvorsen.", "She is kind."]),
        ("Ask Mrs. Lee or Mr. Ott! Now.", ["Ask Mrs. Lee or Mr. Ott!", "Now."]),
        ("I live in St. Gallen. It is cold.", ["I live in St. Gallen.", "It is cold."]),
        ("That was the worst. I left.", ["That was the worst.", "I left."]),
    ],
)
def test_a_title_ends_no_sentence(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected
