"""Which language a text is in, and the plain form of it that phrases are matched against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Language = Literal["en", "zh"]

HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters, to stand inside a character class."""

_SAMPLE = 4_000
"""How much of a text decides its language, in characters: a pasted log says nothing more after that."""

_NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|https?://\S+|[\w~./\\-]*[./\\][\w./\\-]+", re.DOTALL)
_HAN_CHAR = re.compile(f"[{HAN}]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_WORD = re.compile(f"[^\\W\\d_{HAN}\u3040-\u30ff]+")

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")

_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(fancy): plain
    for fancy, plain in zip("\u3000\u00a0\t。、“”„«»‘’「」『』《》【】", '   .,"""""\'\'""""""[]', strict=True)
}


def detect(text: str) -> Language | None:
    """The language that most of `text` is in; None when it holds no words. Code, paths and addresses don't count."""
    prose = _NOT_PROSE.sub(" ", text[:_SAMPLE])
    han = len(_HAN_CHAR.findall(prose))
    words = len(_WORD.findall(prose))
    kana = len(_KANA.findall(prose))
    if han and han >= words and han >= kana:
        return "zh"
    return "en" if words or kana else None


def detect_last(texts: Iterable[str]) -> Language:
    """The language of the first of `texts` (newest first) that has one; English when none has."""
    return next((language for language in map(detect, texts) if language), "en")


def fold(text: str) -> str:
    """`text` with full-width and typographic signs as plain ones, of the same length, so that positions hold."""
    return text.translate(_PLAIN)


def clean(text: str) -> str:
    """`text` without terminal escapes, control and direction characters or lone surrogates; line breaks stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", _ESCAPES.sub("", text))
    return text.encode("utf-8", "replace").decode("utf-8")
