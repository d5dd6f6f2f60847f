"""What is a secret, and what only looks like one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import (
    MARK,
    find_secrets,
    holds_secret,
    left_out,
    redact,
    remember_secret,
    secret_values,
    without_secrets,
)
from tests.said_secrets import JWT, LOOK_ALIKES, PEM, SECRETS, SaidSecret
from tests.tables import load_table

TALK = "We moved the standup to 9:30.\n{}\nThe release is on Friday."


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.text.secrets._known_secrets", set())


def test_the_table_is_as_large_as_it_should_be() -> None:
    assert len(SECRETS) >= 40
    assert len({said.sort for said in SECRETS}) >= 15
    assert len(LOOK_ALIKES) >= 60
    assert all(said.secret in said.text for said in SECRETS)


@pytest.mark.parametrize("said", SECRETS, ids=lambda said: said.secret[:24])
def test_what_must_not_be_kept_is_found_wherever_it_stands(said: SaidSecret) -> None:
    for text in (said.text, TALK.format(said.text), f"> {said.text}", " ".join(said.text.split())):
        clean, count = without_secrets(text)
        assert said.secret not in clean
        assert count >= 1
        assert MARK in clean
    clean = redact(TALK.format(said.text))
    assert "9:30" in clean
    assert "Friday" in clean
    assert without_secrets(clean) == (clean, 0)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_looks_alike_is_kept(text: str) -> None:
    assert without_secrets(text) == (text, 0)
    assert without_secrets(TALK.format(text)) == (TALK.format(text), 0)


@given(st.lists(st.sampled_from([*(said.text for said in SECRETS), *LOOK_ALIKES, "—", "密码 ", "=", '"', "\\", ": "])))
def test_any_mixture_is_cleaned_in_one_go(parts: list[str]) -> None:
    text = " ".join(parts)
    found = find_secrets(text)
    assert all(0 <= one.start < one.end <= two.start for one, two in itertools.pairwise(found))
    assert not any(said.secret in redact(text) for said in SECRETS if said.text in parts and said.sort == "web token")


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert all(0 <= found.start < found.end <= len(text) for found in find_secrets(text))


def test_full_width_signs_are_read_and_what_is_around_stays_as_it_was() -> None:
    assert redact("办公室密码：sunflower42，谢谢。") == f"办公室密码：{MARK}，谢谢。"


def test_a_block_that_was_cut_off_is_left_out_as_far_as_it_goes() -> None:
    cut = PEM[: PEM.index("-----END")]
    assert redact(f"before\n{cut}\nafter that it goes on") == f"before\n{MARK}\n\nafter that it goes on"


def test_certificates_and_public_keys_are_kept() -> None:
    public = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE")
    assert redact(public) == public


def test_what_the_program_was_told_of_counts_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain-words-here")
    remember_secret("tulips-and-roses")
    assert without_secrets("a plain-words-here b tulips-and-roses c") == (f"a {MARK} b {MARK} c", 2)


def test_a_secret_of_the_talk_counts_as_a_word_and_a_code_in_no_date_or_number() -> None:
    known = secret_values(["my PIN is 2026", "the password is sunflower42!"])
    assert known == {"2026", "sunflower42"}
    clean, count = without_secrets("was it 2026 or Sunflower42, sunflower42?", known)
    assert (clean, count) == (f"was it {MARK} or {MARK}, {MARK}?", 3)
    text = "2026-11-22, 1.2026.3, 22.11.2026, #2026, a2026, sunflower421"
    assert without_secrets(text, known) == (text, 0)


def test_each_is_named_by_its_kind() -> None:
    kinds = [found.kind for found in find_secrets(f"my PIN is 4711, {JWT} and 4111 1111 1111 1111")]
    assert kinds == ["code", "token", "card"]


def test_how_many_is_said() -> None:
    assert [left_out(1), left_out(2), left_out(1200)] == [
        "1 secret left out",
        "2 secrets left out",
        "1,200 secrets left out",
    ]
    assert holds_secret("my PIN is 4711")


HOSTILE = (
    "a", " ", "password ", "password is ", "password for ", "密码", "密码在", "eyJ", "-eyJ", "-sk-", "://", "://a:",
    "-----BEGIN -----", "-----BEGIN PRIVATE KEY-----", "4 ", "4-", "curl ", "mysql ", "aA1", "aA1_", 'password: "',
    "my seed phrase is abc ", "is my password ", "token=", "passwords are aB1aB1, ", "1234567890:",
)  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", HOSTILE)
def test_no_text_takes_more_than_its_length_asks_for(seed: str) -> None:
    """A pattern that goes back and forth takes hours for this, and the test is ended."""
    assert find_secrets(seed * (40_000 // len(seed))) is not None


@pytest.mark.parametrize(
    ("text", "secret"),
    load_table(__file__, "what_looks_like_a_secret_is_removed"),
)
def test_what_looks_like_a_secret_is_removed(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert MARK in redact(text)


def test_short_values_of_the_environment_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_TOKEN", "test")
    remember_secret("test")
    assert redact("a test") == "a test"


@pytest.mark.parametrize(
    ("name", "secret"),
    load_table(__file__, "names_of_secrets"),
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
