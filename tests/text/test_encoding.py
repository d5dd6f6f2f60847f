"""Texts of other systems are told by their marks, and what is written back is what was there."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.encoding import as_utf8, decoded, encoded_like, encoding_of

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@pytest.mark.parametrize("name", MARKS)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_marked_text_comes_back_as_it_was(name: str, text: str) -> None:
    # A NUL first would make of the mark of UTF-16 that of UTF-32.
    text = text.lstrip("\0")
    data = MARKS[name] + text.encode(name)
    assert encoding_of(data).name == name
    assert decoded(data) == text
    assert encoded_like(text, data) == data
    assert as_utf8(data) == (data if name == "utf-8" else text.encode())


def test_without_a_mark_it_is_utf_8() -> None:
    assert decoded("会议".encode()) == "会议"
    assert encoded_like("会议", b"") == "会议".encode()
    with pytest.raises(UnicodeDecodeError):
        decoded(b"caf\xe9")
    with pytest.raises(UnicodeDecodeError):
        decoded(codecs.BOM_UTF16_LE + b"a")
    assert decoded(codecs.BOM_UTF16_LE + b"a\0b", errors="replace") == "a\ufffd"
