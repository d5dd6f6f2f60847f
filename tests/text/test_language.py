"""Which language a text is in, and its plain form."""

from __future__ import annotations

import pytest

from clawbot.text.language import detect, detect_last, fold


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("what do I prefer?", "en"),
        ("我喜欢什么?", "zh"),
        ("打开 AGENTS.md", "zh"),
        ("运行 `git log --oneline --all`", "zh"),
        ("what does 部署 mean?", "en"),
        ("remember that 我喜欢用制表符", "zh"),
        ("私はタブが好きです", "en"),
        ("", None),
        ("12345 !?", None),
    ],
)
def test_the_language_of_a_text(text: str, language: str | None) -> None:
    assert detect(text) == language


def test_the_newest_text_with_a_language_decides() -> None:
    assert detect_last(["12", "你好", "hello"]) == "zh"
    assert detect_last([]) == "en"


def test_folding_keeps_every_position() -> None:
    text = "记住：ＡＢ\u3000“x”……\x1bİß"
    assert len(fold(text)) == len(text)
