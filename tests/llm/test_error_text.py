"""The words of a vendor are found in whatever a library made of its error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.error_text import error_in, read_error
from tests.llm.cases import read_cases
from tests.llm.test_failures import shown

CASES = read_cases("error_text")


@pytest.mark.parametrize(("message", "expected"), CASES["errors"])
def test_words(message: str, expected: str) -> None:
    assert shown(message) == expected


@pytest.mark.parametrize(("body", "found"), CASES["bodies"])
def test_an_error_in_an_answer_with_a_good_status(body: str, found: str) -> None:
    error = error_in(body)
    assert (read_error(error).text if error else "") == found


@given(st.text(alphabet="{}[]'\"b:,<>\\ -aerosmg", max_size=80))
def test_any_text_is_read(text: str) -> None:
    read_error(f"litellm.APIError: XException - {text}")
    error_in(text)


@pytest.mark.parametrize(
    "sign", ["{", "[", '{"error":', "b'", "<", "<title> ", "<style>", "- {", "b'b'", "Error: ", '{"message": "']
)
def test_a_long_text_takes_no_time(sign: str) -> None:
    assert len(shown(sign * 5_000)) < 700
