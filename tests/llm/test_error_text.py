"""The words of a vendor are found in whatever a library made of its error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.error_text import error_in, read_error
from tests.llm.test_failures import shown

ANTHROPIC = {"type": "error", "error": {"type": "overloaded_error", "message": 'It\'s "full"\nnow'}, "request_id": "r"}
FULL = 'It\'s "full" now (overloaded_error).'
BYTES = json.dumps(ANTHROPIC).encode()
REFUSED = b'[{"error": {"message": "No."}}]'
SCHEMA = "Invalid schema for 'read': {'type': 'object'} is not valid."
AWAY = "Cannot connect to host a:1 [Connect call failed ('127.0.0.1', 1)]."
RETURNED = "Provider returned error"
INNER = json.dumps({"error": {"type": "invalid_request_error", "message": "At most 1 image."}})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"litellm.InternalServerError: AnthropicError - {BYTES!r}", FULL),
        (f"AnthropicException - {BYTES!r}. Handle with `litellm.InternalServerError`.", FULL),
        (f"litellm.BadRequestError: Vertex_ai_betaException BadRequestError - {REFUSED!r}", "No."),
        (f"Error code: 529 - {ANTHROPIC!r}", FULL),
        (json.dumps({"error": {"message": RETURNED, "metadata": {"raw": INNER}}}), "At most 1 image."),
        (json.dumps({"error": {"message": f"litellm.RateLimitError: AzureException - {INNER}"}}), "At most 1 image."),
        (json.dumps({"error": {"message": RETURNED, "metadata": {"raw": ""}}}), f"{RETURNED}."),
        (f"All accounts exhausted. Last error: HTTP 429: {INNER}", "At most 1 image."),
        ('{"error": "model not found"}', "model not found."),
        ('{"detail": "Not Found"}', "Not Found."),
        ('{"detail": [{"loc": ["body", "n"], "msg": "Too small"}]}', "body.n: Too small."),
        ('{"timestamp": 1, "status": 500, "error": "Internal Server Error", "message": "boom"}', "boom."),
        ('{"errors": ["model is required"]}', "model is required."),
        ('{"errors": {"model": ["is required"]}}', "is required."),
        ('{"error": {"description": "Bad", "code": 3}}', "Bad."),
        ('{"error_msg": "Bad", "error_code": 336003}', "Bad."),
        ('{"error": "invalid_request", "error_description": "The thing is bad"}', "The thing is bad."),
        ('{"error": {"issues": [{"message": "Bad", "path": ["n"]}], "name": "ZodError"}, "success": false}', "Bad."),
        ('{"error": {"message": "Schema: {\\"type\\": \\"object\\"} is bad"}}', 'Schema: {"type": "object"} is bad.'),
        ('{"errors": [{"code": 7003, "message": "No route"}], "success": false}', "No route."),
        (
            '{"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Broke"}}}',
            "Broke (server_error).",
        ),
        ('{"__type": "X"}', "no reason was given."),
        ('{"error": {"message": "cut of', "cut of."),
        ('b\'{"error": {"message": "cut \\\\nof', "cut of."),
        ("<!DOCTYPE html><html><head><title>a.example | 524: A &amp; B</title></head>", "a.example | 524: A & B."),
        ("<html><style>x{}</style><body><p>Sorry, <b>no</b>.</body></html>", "Sorry, no ."),
        ("<Error><Code>Slow</Code><Message>Reduce it</Message></Error>", "Reduce it."),
        ("Message: gone, Metadata: {}, User ID: ", "gone."),
        (SCHEMA, SCHEMA),
        ("Timeout on reading data", "Timeout on reading data."),
        (AWAY, AWAY),
    ],
)
def test_words(message: str, expected: str) -> None:
    assert shown(message) == expected


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('{"error": {"message": "a"}}', "a"),
        ('{\n  "error": "a"\n}', "a"),
        ('[{"error": {"message": "a"}}]', "a"),
        ('data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: {"error": {"message": "a"}}\n\ndata: [DONE]', "a"),
        ('event: error\ndata: {"type": "error", "error": {"message": "a"}}\n\n', "a"),
        ('{"message": {"content": "x"}}\n{"error": "a"}\n', "a"),
        ("<html><title>a</title>", "a"),
        ('data: {"choices": [{"delta": {"content": "error"}}], "error": null}\n\ndata: [DONE]', ""),
        ('data: {"type": "response.completed", "response": {"error": null, "output": []}}', ""),
        ('{"choices": [{"message": {"content": "a"}}]}', ""),
        ('data: {"choices": [{"delta": {"content": "<b>"}}]}', ""),
        ("", ""),
    ],
)
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
