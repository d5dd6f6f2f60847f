"""The wordings in which providers say that a prompt is too large, and those that only look like it.

Each is a whole message, with the limit that it states in tokens (None: it states none).
"""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.error_text import wordings
from clawbot.llm.errors import ContextOverflowError, RateLimitError
from clawbot.llm.failures import Failure, is_overflow, stated_limit, to_error
from clawbot.llm.scripted.file import Wording
from clawbot.llm.scripted.replies import overflow_fault
from tests.llm.cases import read_cases

CASES = read_cases("overflows")
OVERFLOWS, QUOTAS = CASES["overflows"], CASES["quotas"]
OTHERS = [*QUOTAS, *CASES["others"]]


@pytest.mark.parametrize(("message", "limit"), OVERFLOWS)
def test_overflow(message: str, limit: int | None) -> None:
    whole = f"litellm.BadRequestError: OpenAIException - {message}"
    assert is_overflow(whole)
    assert stated_limit(whole) == limit


def test_more_than_twenty_providers_and_no_row_without_a_message() -> None:
    messages = [message.lower() for message, _ in OVERFLOWS]
    for who, pattern in (*wordings("too_large").items(), *wordings("limits").items()):
        assert any(re.search(pattern, message, re.DOTALL) for message in messages), who
    assert len({who.split(",")[0] for who in wordings("too_large")}) > 20


@pytest.mark.parametrize("message", OTHERS)
def test_other_errors(message: str) -> None:
    assert not is_overflow(message)


@pytest.mark.parametrize("message", [*QUOTAS, "", "no number", "maximum context length is 4 tokens", "limit is 9" * 20])
def test_no_limit(message: str) -> None:
    assert stated_limit(message) is None


@given(st.text(), st.text())
def test_any_text_is_read(before: str, after: str) -> None:
    message = f"{before} maximum context length is 8192 tokens {after}"
    limit = stated_limit(message)
    assert limit is None or limit >= 256
    assert stated_limit(f"maximum context length is 8192 tokens {'x' * len(after)}") == 8192


def test_a_long_message_is_not_searched_for_ever() -> None:
    assert not is_overflow("prompt " * 200_000)
    assert stated_limit("maximum prompt length " * 100_000) is None
    assert stated_limit("context length is 1" + "0" * 100_000) is None


@pytest.mark.parametrize("wording", get_args(Wording))
def test_scripted_overflows_state_the_window_as_their_makers_do(wording: Wording) -> None:
    message = overflow_fault(wording, 9500, 9000).message
    assert is_overflow(message)
    assert stated_limit(message) == (None if wording == "ollama" else 9000)


def test_the_error_holds_the_limit_and_names_the_next_step() -> None:
    error = to_error(Failure("BadRequestError", "prompt is too long: 213462 tokens > 200000 maximum", 400), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert error.limit == 200_000
    assert error.hint.index("/compact") < error.hint.index("/new")


def test_litellms_class_goes_before_any_wording_and_any_status() -> None:
    error = to_error(Failure("ContextWindowExceededError", "Bitte kürzer. n_ctx=4096", 429), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert error.limit == 4096
    unsaid = to_error(Failure("ContextWindowExceededError", "large", 400), ref="x/y")
    assert isinstance(unsaid, ContextOverflowError)
    assert unsaid.limit is None


def test_the_limit_is_read_where_the_text_is_no_longer_shown() -> None:
    error = to_error(Failure("BadRequestError", f"{'x ' * 500}maximum context length is 8192 tokens", 400), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert "8192" not in error.message
    assert error.limit == 8192


@pytest.mark.parametrize("message", QUOTAS)
def test_a_quota_is_no_overflow(message: str) -> None:
    assert isinstance(to_error(Failure("RateLimitError", message, 429), ref="x/y"), RateLimitError)
