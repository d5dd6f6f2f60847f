"""What of a model's answer may be the title of a conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.naming import TITLE_QUESTION, title_in

SAID = "how do I renew my passport? 我的护照要过期了"


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Passport renewal before June", "Passport renewal before June"),
        ('"Passport renewal"', "Passport renewal"),
        ("**Passport renewal**", "Passport renewal"),
        ("Title: Passport renewal.", "Passport renewal"),
        ("<think>A title?\nHm.</think>\n\nPassport renewal", "Passport renewal"),
        ("标题：护照续签", "护照续签"),
        ("《红楼梦》读后感", "《红楼梦》读后感"),
        ("「护照续签」", "护照续签"),
        ("Python: parsing dates", "Python: parsing dates"),
        ("C# generics, and their limits", "C# generics, and their limits"),
        ("Réserver un vol à Lisbonne", "Réserver un vol à Lisbonne"),
        ("パスポートの更新", "パスポートの更新"),
    ],
)
def test_a_title_is_taken_without_what_stands_around_it(answer: str, title: str) -> None:
    assert title_in(answer, SAID) == title


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n ",
        "NO_REPLY",
        "no reply",
        "Untitled",
        "New conversation",
        "标题",
        "Passport renewal\nA talk about passports",
        "I'm sorry, but I can't help with that",
        "抱歉，我无法回答",
        "Sure! Passport renewal",
        "Here is a title",
        "You can renew your passport at the town hall. It takes weeks.",
        "The user asks how to renew a passport",
        "好的，护照续签",
        "API error: rate limit reached",
        "# Passport renewal",
        "Passport `renewal`",
        "[Passport](renewal)",
        "<b>Passport</b>",
        "see https://example.com/x",
        "Passport\x1b[31m renewal",
        "Passport \u202erenewal",
        "12345",
        "word " * 12,
        "字" * 30,
        "x" * 80,
        "three to seven words",
        "The password is [secret left out]",
        "Key sk-ant-api03-" + "a1B2" * 20,
    ],
)
def test_anything_else_is_none(answer: str) -> None:
    assert title_in(answer, SAID) == ""


def test_what_the_talk_calls_secret_is_none_either() -> None:
    assert title_in("Router with hunter2horse", "router", frozenset({"hunter2horse"})) == ""
    assert title_in("Three to seven words", "what can be said in three to seven words?") == "Three to seven words"


@given(st.text())
def test_a_title_is_one_short_clean_line(answer: str) -> None:
    title = title_in(answer, "")
    assert title == title.strip()
    assert len(title) <= 60
    assert "\n" not in title
    assert title_in(TITLE_QUESTION, "") == ""
