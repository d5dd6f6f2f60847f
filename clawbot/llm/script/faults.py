"""The faults that end a reply, in the wording of those who make them: HTTP errors, overflows, dropped connections."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal

from clawbot.llm.script.types import Fault, Wording

Body = dict[str, Any]

# The window of a script that names none, for the figures in an overflow error, in tokens.
USUAL_WINDOW = 8192
# What the usual providers say, so that a client's reading of the texts is tested and not only of the status.
STATUS_ERRORS: dict[int, tuple[str, str, str | None]] = {
    401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    429: ("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request.", "server_error", None),
    503: ("The server is overloaded or not ready yet.", "server_error", None),
}
OLLAMA_OVERFLOW = (
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
    "context length in settings, or use a model with a longer context length"
)


class ScriptedFault(Exception):
    """A fault of the script, at the place in the stream where it happens.

    `status`, `body` and `headers` are the HTTP answer that stands for it. A `drop` has none: the connection ends.
    """

    def __init__(
        self,
        kind: Literal["status", "overflow", "drop"],
        status: int = 0,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.status = status
        self.body = body or {}
        self.headers = dict(headers or {})
        error = self.body.get("error")
        self.message = str(error["message"]) if isinstance(error, dict) else "The connection was dropped."
        super().__init__(self.message)

    @property
    def retry_after(self) -> float | None:
        """What the provider asks for, in seconds."""
        value = self.headers.get("Retry-After")
        return None if value is None else float(value)


def error_body(message: str, kind: str, code: str | None = None) -> Body:
    """An error as OpenAI-compatible servers send it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def dropped() -> ScriptedFault:
    """The connection ends here."""
    return ScriptedFault("drop")


def status_fault(fault: Fault) -> ScriptedFault:
    """The answer of a server with the fault's HTTP status."""
    usual = (_phrase(fault.status), "invalid_request_error" if fault.status < 500 else "server_error", None)
    message, kind, code = STATUS_ERRORS.get(fault.status, usual)
    headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
    return ScriptedFault("status", fault.status, error_body(fault.message or message, kind, code), headers)


def overflow_fault(wording: Wording, used: int, window: int | None) -> ScriptedFault:
    """The answer of a provider to a prompt of `used` tokens (said to be larger than the window in any case)."""
    limit = window or USUAL_WINDOW
    return ScriptedFault("overflow", 400, _overflow_body(wording, max(used, limit + 1), limit))


def _overflow_body(wording: Wording, used: int, limit: int) -> Body:
    if wording == "anthropic":
        message = f"prompt is too long: {used} tokens > {limit} maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    if wording == "gemini":
        message = f"The input token count ({used}) exceeds the maximum number of tokens allowed ({limit})."
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    if wording == "ollama":
        return error_body(OLLAMA_OVERFLOW, "invalid_request_error")
    message = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {used} tokens. "
        "Please reduce the length of the messages."
    )
    return error_body(message, "invalid_request_error", "context_length_exceeded")


def _phrase(status: int) -> str:
    try:
        return f"{HTTPStatus(status).phrase}."
    except ValueError:
        return f"HTTP status {status}."
