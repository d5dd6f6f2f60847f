"""What is looked for: a phrase as it stands but for case, form and blanks; the lines of a note behind other marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.forget.files import Everything, Mentions, Phrase, WholeLines, is_in, plain, taken_out
from clawbot.sessions.forgotten import MARK


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("proxy port", "- The Proxy   PORT is 8443"),
        ("proxy port", "the proxy\nport"),
        ("CAFÉ", "cafe\u0301 at nine"),
        ("Straße", "STRASSE 5"),
        ("ＡＢＣ", "abc"),
        ("花生", "我太太对花生过敏"),
        ("pass\u00adword", "a password"),
        ("proxy\u3000port", "proxy port"),
    ],
)
def test_a_phrase_is_found_in_any_form_that_looks_the_same(phrase: str, text: str) -> None:
    assert Phrase(phrase).holds(text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [("proxy port", "the port of the proxy"), ("proxies", "proxy"), ("花 生", "花生"), ("cafe", "café")],
)
def test_nothing_is_fuzzy(phrase: str, text: str) -> None:
    assert not Phrase(phrase).holds(text)


@given(st.text())
def test_each_text_holds_itself(text: str) -> None:
    assert plain(text) == plain(plain(text)) or not text.isascii()
    assert Phrase(text).holds(f"a {text} b") or not plain(text) or MARK in text


@pytest.mark.parametrize("text", ["", " ", "x", "\u00ad", "\u3000x"])
def test_nothing_and_a_single_letter_are_not_telling(text: str) -> None:
    assert not Phrase(text).is_long_enough


@pytest.mark.parametrize(
    "line",
    [
        "- the parrot eats walnuts",
        "> the parrot eats walnuts",
        "> - The parrot   eats walnuts.",
        "20:02 user: the parrot eats walnuts",
        "2026-11-20 20:02 assistant: the parrot eats walnuts",
        "3. the parrot eats walnuts",
        "## the parrot eats walnuts",
    ],
)
def test_a_line_is_known_again_behind_other_marks(line: str) -> None:
    lines = WholeLines(["# Pets\n\n- the parrot eats walnuts\n- tea\n"])
    assert lines.holds(line)
    assert not lines.holds("I said: the parrot eats walnuts")
    assert Mentions(lines).holds(f"I said: {line}")


def test_lines_that_say_too_little_are_known_by_nobody() -> None:
    lines = WholeLines(["# 2026-11-20\n- tea\n- yes\n[forgotten]\nNoted: [quoted: memory/2026-11-20.md:4]\n- 花生"])
    assert lines.keys == frozenset()
    assert WholeLines(["- 对花生过敏"]).holds("> 对花生过敏")


def test_lines_that_hold_it_are_marked_and_the_others_stay() -> None:
    text = "first\nthe Parrot is here\nlast"
    assert taken_out(text, Phrase("parrot")) == f"first\n{MARK}\nlast"
    assert taken_out("the par\nrot", Phrase("par rot")) == MARK
    assert taken_out(text, Phrase("nobody")) == text
    assert taken_out(text, Everything()) == MARK


def test_a_result_that_is_json_is_looked_into_and_goes_as_a_whole() -> None:
    text = '{"results": [{"snippet": "- \\u82b1\\u751f\\n- bread"}]}'
    assert not Phrase("花生").holds(text)
    assert is_in(text, Phrase("花生"))
    assert taken_out(text, Phrase("花生")) == MARK


def test_the_mark_itself_is_never_what_is_wanted() -> None:
    assert not Phrase("forgotten").holds(MARK)
    assert Phrase("forgotten").holds("I have forgotten it")
