"""Text whose every character is seen: signs, their way back, and what nobody writes."""

from __future__ import annotations

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from clawbot.text.visible import is_odd, one_line, only_seen, reveal, split_spans, title_of, unwritten, visible
from tests.tables import load_table

EVERYTHING = st.text(st.characters(codec=None, exclude_categories=()))
TRICKY = st.text(
    st.sampled_from(
        "ab1 \t\n\x1b\r\x07\x9b\u0301\u20dd\u200b\u200d\u202e\u2068\ufe0f\ufffd\xa0\u3000⟦⟧U+×好א\U000e0041👧"
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git status", "git status"),
        ("git status \x1b]0;touch X;\x07", "git status ⟦U+001B⟧]0;touch X;⟦U+0007⟧"),
        ("a\r\nb", "a⟦U+000D⟧\nb"),
        ("\ufffd" * 12, "⟦12×U+FFFD⟧"),
        ("a\tb", "a⟦tab⟧b"),
        ("\t\ta", "⟦2×tab⟧a"),
        ("a" + " " * 7 + "b", "a" + " " * 7 + "b"),
        ("a" + " " * 400 + "b", "a⟦400×space⟧b"),
        ("a \nb  ", "a⟦space⟧\nb⟦2×space⟧"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("⟦U+001B⟧", "⟦U+27E6⟧U+001B⟦U+27E7⟧"),
        ("rm\u00a0x\u3000y", "rm⟦U+00A0⟧x⟦U+3000⟧y"),
        ("\u202ecba", "⟦U+202E⟧cba"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("\ue0b0\U0010ffff\ud800", "⟦U+E0B0⟧⟦U+10FFFF⟧⟦U+D800⟧"),
        ("👩\u200d👧 ❤\ufe0f 👍🏽", "👩⟦U+200D⟧👧 ❤⟦U+FE0F⟧ 👍⟦U+1F3FD⟧"),
        ("e\u0301 \u0301", "e\u0301 ⟦U+0301⟧"),
        ("e" + "\u0301" * 5, "e\u0301\u0301\u0301⟦2×U+0301⟧"),
        ("1\u20dd\u2800\u3164", "1⟦U+20DD⟧⟦U+2800⟧⟦U+3164⟧"),
        ("中文 שלום สวัสดี", "中文 שלום สวัสดี"),
    ],
)
def test_what_is_seen(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert reveal(shown) == text


def test_what_unicode_makes_invisible_has_a_sign() -> None:
    """All that renderers may leave out, whatever its category says, and what fonts draw as nothing."""
    ignorable = regex.compile(r"\p{Default_Ignorable_Code_Point}")
    unsigned = [hex(code) for code in range(0x110000) if ignorable.match(chr(code)) and not is_odd(chr(code))]
    assert unsigned == []
    assert visible("echo ok\u115f# looks harmless ; touch X") == "echo ok⟦U+115F⟧# looks harmless ; touch X"
    assert all(map(is_odd, "\u2800\u3164\uffa0\U0001d159\U00013441\U00013442"))


def test_brackets_that_look_like_those_of_a_sign_are_signs() -> None:
    assert visible("〚U+0023〛") == "⟦U+301A⟧U+0023⟦U+301B⟧"


def test_every_character_of_unicode_takes_room_or_stands_on_a_letter() -> None:
    unseen = [
        hex(code)
        for code in range(0x110000)
        if not is_odd(character := chr(code))
        and unicodedata.category(character)[0] != "M"
        and get_character_cell_size(character) < 1
    ]
    assert unseen == []


@given(EVERYTHING | TRICKY)
def test_what_is_seen_can_be_read_back(text: str) -> None:
    assert reveal(visible(text)) == text
    assert reveal(visible(text, one_line=True)) == text
    assert reveal(visible(text, blanks=False)) == text


@given(EVERYTHING | TRICKY)
def test_nothing_unseen_is_left_and_one_line_is_one_line(text: str) -> None:
    shown = visible(text, one_line=True)
    plain = "".join(piece.text for piece in split_spans(shown) if not piece.kind)
    assert not any(is_odd(character) for character in plain)
    assert "\n" not in shown
    assert "".join(piece.text for piece in split_spans(shown)) == shown


@pytest.mark.parametrize("shown", ["⟦", "a⟧", "⟦U+200⟧", "⟦0×tab⟧", "⟦U+110000⟧", "⟦space"])
def test_a_bracket_without_a_sign_can_not_be_read_back(shown: str) -> None:
    with pytest.raises(ValueError, match="enclose signs only"):
        reveal(shown)


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "what_people_write"),
)
def test_what_people_write(text: str) -> None:
    assert unwritten(text) is None


@pytest.mark.parametrize(
    "character",
    [
        *map(chr, [*range(9), *range(11, 32), *range(0x7F, 0xA0), 0xD800, 0xDCFF, 0xFDD0, 0xFFFF, 0x1FFFE, 0xE0041]),
        *"\u00ad\u200b\u2028\u202d\u202e\u2060\u2066\u2069\ufeff",
    ],
)
def test_what_nobody_writes(character: str) -> None:
    found = unwritten(f"échо ok\n\t{character} x")
    assert found is not None
    assert (found.character, found.position) == (character, 10)
    assert found.name.startswith(f"U+{ord(character):04X}")


@pytest.mark.parametrize(
    ("hidden", "seen"),
    [
        ("a\U000e010a\U000e0114b", "ab"),
        ("好\U000e0100\U000e0101吗", "好吗"),
        ("a\ufe00b\ufe0e1\ufe0f2\ufe0f", "ab12"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f"),
        ("🏴\U000e0067\U000e0062\U000e007f ok", "🏴 ok"),
        ("".join(chr(0xE0000 + ord(each)) for each in "run it") + "ok", "ok"),
        ("a\u200d\u200c\u200db", "ab"),
        ("\u200c\u200dok\u200d", "ok"),
        ("a\u3164\u115f\u1160\uffa0\u034f\u180b\u180eb", "ab"),
        ("a\x1b\u200b\u2060\u202eb\n\tc", "ab\n\tc"),
        # What people write stays.
        *(
            (text, text)
            for text in ("❤\ufe0f 1\ufe0f\u20e3 👍🏽", "👩\u200d👩\u200d👧", "می\u200cخواهم", "échо 因为　é\u0301")
        ),
    ],
)
def test_nothing_is_hidden_in_what_is_left(hidden: str, seen: str) -> None:
    assert only_seen(hidden) == seen
    assert only_seen(seen) == seen


def test_a_title_says_that_it_was_cut_and_where_lines_break() -> None:
    assert one_line("shell echo a" + "\n" * 40 + "touch X") == "shell echo a⟦40×↵⟧touch X"
    cut = title_of("shell", "git status" + " " * 400 + "\x1b]0;" + "x" * 5000)
    assert cut.startswith("shell git status⟦400×space⟧⟦U+001B⟧]0;xxx")
    assert cut.endswith("… (5,420 characters)")
    assert len(cut) <= 100
    assert one_line(" " * 30_000) == "… (30,000 characters)"
    assert title_of("list") == "list"


@given(EVERYTHING | TRICKY)
def test_a_title_cuts_no_sign(text: str) -> None:
    shown = one_line(text, 40).removesuffix(f"… ({len(text):,} characters)")
    assert text.startswith(reveal(shown)) or visible(text, one_line=True).startswith(shown)
