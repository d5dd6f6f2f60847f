"""The names of notes: keywords in several languages, and what of a model's answer may become a part of a file name."""

from __future__ import annotations

import ntpath
import sys
import unicodedata
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.secrets import MARK, redact
from tests.hooks_shipped.hosting import BERLIN, ShippedHook
from tests.tables import load_table

HOOK = ShippedHook("session-memory")
naming = HOOK.module("naming")
AT = datetime(2026, 11, 20, 9, 5, tzinfo=BERLIN)
TALK = "user: how do I renew my passport? 我的护照要过期了"


@pytest.mark.parametrize(
    ("texts", "slug"),
    load_table(__file__, "a_note_is_called_by_what_the_user_said_or_by_the_time"),
)
def test_a_note_is_called_by_what_the_user_said_or_by_the_time(texts: list[str], slug: str) -> None:
    assert naming.fallback(texts, AT) == slug


@pytest.mark.parametrize(
    ("text", "slug"),
    load_table(__file__, "what_is_safe_in_a_file_name"),
)
def test_what_is_safe_in_a_file_name(text: str, slug: str) -> None:
    assert naming.sanitise(text) == slug


@given(st.text(max_size=200))
def test_every_name_is_one_safe_part_of_a_file_name_or_nothing(text: str) -> None:
    assert_safe(naming.sanitise(text))


@given(st.text(max_size=200))
def test_so_is_what_is_made_of_any_answer(answer: str) -> None:
    assert_safe(naming.name_in(answer, TALK))


def assert_safe(slug: str) -> None:
    assert len(slug) <= naming.LONGEST
    assert len(slug.encode()) <= 4 * naming.LONGEST
    assert slug == unicodedata.normalize("NFC", slug) == slug.strip("-")
    assert "--" not in slug
    assert all(char == "-" or unicodedata.category(char)[0] in "LNM" for char in slug)
    if slug:
        assert PurePosixPath(slug).parts == PureWindowsPath(slug).parts == (slug,)
        assert not is_reserved(slug)


def is_reserved(name: str) -> bool:
    """Whether Windows keeps `name` for itself; Python 3.13 has another function for that."""
    if sys.version_info >= (3, 13):
        return ntpath.isreserved(name)
    return PureWindowsPath(name).is_reserved()


@pytest.mark.parametrize(
    ("answer", "slug"),
    load_table(__file__, "the_name_is_found_in_what_a_model_answers"),
)
def test_the_name_is_found_in_what_a_model_answers(answer: str, slug: str) -> None:
    assert naming.name_in(answer, TALK) == slug


@pytest.mark.parametrize(
    "answer",
    load_table(__file__, "errors_refusals_sentences_and_the_prompt_itself_are_no_names"),
)
def test_errors_refusals_sentences_and_the_prompt_itself_are_no_names(answer: str) -> None:
    assert naming.name_in(answer, TALK) == ""


def test_an_example_of_the_prompt_is_a_name_where_the_conversation_is_about_that() -> None:
    assert naming.name_in("visa-renewal", "user: my visa needs a renewal") == "visa-renewal"
    assert naming.name_in("数据备份", "user: 怎么做数据备份？") == "数据备份"


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("remember my password is swordfish", "swordfish"),
        ("the Wi-Fi passphrase: CorrectHorse, by the way", "correcthorse"),
        ("our API key for staging is kiwimango", "kiwimango"),
        ("我的密码是芝麻开门，别忘了", "芝麻开门"),
    ],
)
def test_a_secret_is_no_part_of_a_name(said: str, secret: str) -> None:
    talk = redact(said)
    assert secret not in talk.lower()
    assert not {"secret", "left"} & set(naming.fallback([talk], AT).split("-"))
    assert naming.name_in("router-access", f"user: {talk}") == "router-access"


def test_what_was_taken_out_of_a_conversation_is_no_name() -> None:
    assert naming.LEFT_OUT == MARK
    assert naming.name_in("api-key-secret-left-out", f"user: my api key is {MARK}") == ""
    assert naming.name_in("secret-left-out", "user: no secret left out") == "secret-left-out"
