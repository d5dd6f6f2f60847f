"""Failures below the client become errors that name the provider and the next step, and never a key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    LoadingError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.failures import MAX_TEXT, Failure, is_unreadable_reasoning, retry_after, to_error
from tests.tables import load_table

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def shown(message: str) -> str:
    """What the user reads of the words of an error."""
    return to_error(Failure("BadRequestError", message, 422), ref="openai/x").message


@pytest.mark.parametrize(
    ("failure", "kind", "hint"),
    [
        (Failure("AuthenticationError", "bad key", 401), AuthenticationError, "ANTHROPIC_API_KEY"),
        (Failure("PermissionDeniedError", "no rights", 403), AuthenticationError, "clawbot doctor"),
        (
            Failure("BadRequestError", "API key not valid. Please pass a valid API key.", 400),
            AuthenticationError,
            "key",
        ),
        (
            Failure("InternalServerError", "Missing Anthropic API Key - A call is being made", 500),
            AuthenticationError,
            "/model",
        ),
        (
            Failure("BadRequestError", "LLM Provider NOT provided. Pass in the LLM provider you are trying", 400),
            RefusedError,
            "provider/model",
        ),
        (Failure("RateLimitError", "slow down", 429), RateLimitError, "Try again later"),
        (Failure("RateLimitError", "slow down", 429, retry_after="7"), RateLimitError, "in 7 seconds"),
        (Failure("RateLimitError", "insufficient_quota", 429), RateLimitError, "billing"),
        (Failure("BadRequestError", "Your credit balance is too low", 400), RateLimitError, "billing"),
        (Failure("BadRequestError", "payment", 402), RateLimitError, "billing"),
        (Failure("ContextWindowExceededError", "large", 400), ContextOverflowError, "/compact"),
        (Failure("BadRequestError", "prompt is too long: 9 tokens > 8 maximum", 400), ContextOverflowError, "/new"),
        (Failure("InternalServerError", "Connection error.", 500), UnreachableError, "network"),
        (Failure("Timeout", "Request timed out", 408), UnreachableError, "doctor"),
        (Failure("ServiceUnavailableError", "overloaded", 529), UnreachableError, "/model"),
        (Failure("ServiceUnavailableError", "Loading model", 503), LoadingError, "request_timeout"),
        (Failure("ServiceUnavailableError", "Model x is currently loading", 503), LoadingError, "request_timeout"),
        (Failure("ValueError", "something else"), UnreachableError, "/model"),
        (Failure("InternalServerError", "Connection error.", 500, streaming=True), BadResponseError, "again"),
        (Failure("NotFoundError", "no such model", 404), RefusedError, "/model"),
        (Failure("ContentPolicyViolationError", "no", 400), RefusedError, "other words"),
        (Failure("BadRequestError", "strange", 400), RefusedError, "/model"),
    ],
)
def test_kinds(failure: Failure, kind: type[ModelError], hint: str) -> None:
    error = to_error(failure, ref="anthropic/claude-x", now=NOW)
    assert type(error) is kind
    assert error.provider == "Anthropic"
    assert hint in error.hint


@pytest.mark.parametrize(
    ("message", "unreadable"),
    load_table(__file__, "refused_reasoning_is_known"),
)
def test_refused_reasoning_is_known(message: str, unreadable: bool) -> None:
    assert is_unreadable_reasoning(message) is unreadable


def test_an_unreachable_server_is_named_with_its_address() -> None:
    error = to_error(Failure("APIConnectionError", "refused", 500), ref="ollama_chat/x", base="http://127.0.0.1:11434")
    assert str(error).startswith("Ollama at 127.0.0.1:11434: ")


@pytest.mark.parametrize(
    ("ref", "base", "name"),
    [
        ("openai/m", None, "OpenAI"),
        ("openai/m", "https://eu.api.openai.com/v1", "OpenAI"),
        ("openai/m", "http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("openai/m", "https://user:pa55word@notopenai.com/v1?key=pa55word", "notopenai.com"),
        ("anthropic/m", "http://[::1]:8080", "[::1]:8080"),
        ("llamafile/m", "http://127.0.0.1:8080/v1", "llama.cpp at 127.0.0.1:8080"),
        ("openai/m", "http://host:port/", "host"),
    ],
)
def test_errors_name_who_answers(ref: str, base: str | None, name: str) -> None:
    assert to_error(Failure("X", "no"), ref=ref, base=base).provider == name


@pytest.mark.parametrize("tls", ["<ssl.SSLContext object at 0x7ff1125c4ef0>", "default", "False"])
def test_a_refused_connection_is_no_matter_of_certificates(tls: str) -> None:
    """What aiohttp says of a plain HTTP server that is not there."""
    message = f"Cannot connect to host 127.0.0.1:11434 ssl:{tls} [Connect call failed ('127.0.0.1', 11434)]"
    error = to_error(
        Failure("APIConnectionError", message), ref="ollama/nomic-embed-text", base="http://127.0.0.1:11434"
    )
    assert str(error).startswith(
        "Ollama at 127.0.0.1:11434: no connection: "
        "Cannot connect to host 127.0.0.1:11434 [Connect call failed ('127.0.0.1', 11434)]."
    )
    bad = Failure("APIConnectionError", f"Cannot connect to host a.example:443 ssl:{tls} [certificate verify failed]")
    assert "no secure connection" in to_error(bad, ref="openai/x").message


AIOHTTP = "Response payload is not completed: <TransferEncodingError: 400, message='Not enough data'>"


@pytest.mark.parametrize(
    ("message", "streaming", "expected"),
    [
        (AIOHTTP, True, "the answer broke off: the connection ended before the model was done."),
        (AIOHTTP, False, "the connection was lost before the answer began."),
        ("Server disconnected", False, "the connection was lost before the answer began."),
        ("Timeout on reading data from socket", True, "the answer broke off: nothing more came in time."),
        ("Timeout on reading data from socket", False, "no answer in time."),
    ],
)
def test_a_connection_that_broke_is_told_in_plain_words(message: str, streaming: bool, expected: str) -> None:
    said = f"litellm.APIConnectionError: APIConnectionError: OpenAIException - {message}"
    assert to_error(Failure("APIConnectionError", said, 500, streaming=streaming), ref="openai/x").message == expected


def test_only_a_server_of_this_machine_is_taken_for_dead() -> None:
    refused = Failure("InternalServerError", "Connection error.", 500, refused=True)
    bases = ("http://127.0.0.1:9/v1", "https://api.example/v1", None)
    errors = [to_error(refused, ref="openai/x", base=base) for base in bases]
    assert [isinstance(error, UnreachableError) and error.dead for error in errors] == [True, False, False]


def test_no_text_holds_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "my-own-secret-key")
    message = "bad key my-own-secret-key, sk-abcdefghijkl, http://user:pa55word@host/"
    error = to_error(Failure("X", message), ref="anthropic/x", base="http://user:pa55word@host/")
    for secret in ("my-own-secret-key", "sk-abcdefghijkl", "pa55word"):
        assert secret not in str(error)


@pytest.mark.parametrize(
    ("message", "expected"),
    load_table(__file__, "what_is_shown"),
)
def test_what_is_shown(message: str, expected: str) -> None:
    assert shown(message) == expected


def test_a_page_of_html_is_cut() -> None:
    assert len(shown("<p>" * 5000)) < MAX_TEXT + 5


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        (" 1.5 ", 1.5),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("9" * 400, None),
    ],
)
def test_retry_after(header: str, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
