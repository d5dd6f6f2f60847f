"""Turns what went wrong below the client into the one family of errors of `llm.errors`.

The worker process reports a `Failure`: the name of litellm's exception, the HTTP status and the provider's own words.
Everything that depends on these is decided here, in the main process and without litellm.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.overflow import is_overflow, stated_limit
from clawbot.llm.providers import key_names, title_of
from clawbot.logs import redact

LONGEST_TEXT = 600
"""Characters of a provider's message that are shown: enough for a sentence, too little for a page of HTML."""

LOAD_ERROR = "LoadError"
"""The `name` of a failure of litellm itself to come up."""

BAD_VECTORS = "BadVectorsError"
"""The `name` of a failure of an embedding answer to make sense."""

_OVERFLOW_NAMES = {"ContextWindowExceededError"}
_AUTH_NAMES = {"AuthenticationError", "PermissionDeniedError"}
_CONNECTION_NAMES = {
    "APIConnectionError",
    "Timeout",
    "APITimeoutError",
    "ServiceUnavailableError",
    "BadGatewayError",
    "InternalServerError",
}
_BROKEN_NAMES = {"APIResponseValidationError", "JSONSchemaValidationError", BAD_VECTORS}
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|missing|wrong) .{0,20}api[ _-]?key|"
    r"api[ _-]?key\b.{0,40}(?:not valid|invalid|must be set|missing)",
    re.IGNORECASE,
)
_EXHAUSTED = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|credit balance|payment required", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model\b.{0,60}(?:not found|does not exist|not exist|unknown|not supported)|no such model", re.IGNORECASE
)
_OVERFLOW_HINT = (
    "/compact makes room by summarising what was said; "
    "/new begins another conversation and leaves this one in /sessions."
)
_NO_PROVIDER = "LLM Provider NOT provided"
_NAME_HINT = "Write provider/model, such as openai/gpt-6.1-sol; /model shows those that can be used here."
_DNS = re.compile(r"name or service not known|nodename nor servname|getaddrinfo|name resolution")
_CERTIFICATE = re.compile(r"certificate|\bssl\b", re.IGNORECASE)
# litellm's own words before those of the provider: "litellm.BadRequestError: OpenAIException - ".
_PREFIX = re.compile(r"^(?:litellm\.)?\w*(?:Error|Timeout|Exception): ?")
# aiohttp names the TLS settings of every address it can't reach, of plain HTTP ones too: " ssl:<ssl.SSLContext …>".
_TLS_SETTINGS = re.compile(r" ssl:(?:<[^<>]*>|default|True|False|None)")
# What litellm appends to the words of errors that it does not know.
_TRACEBACK = "Traceback (most recent call last)"
_ORIGIN = re.compile(r"^\w*Exception(?: -|:) ?")


class Failure(Struct, frozen=True):
    """A call that failed, as the worker saw it.

    `name` is the class of the exception, `status` the HTTP status (0: there was no answer), `retry_after` the header
    of that name as it came, `streaming` whether the answer had begun.
    """

    name: str
    message: str
    status: int = 0
    retry_after: str = ""
    streaming: bool = False


def to_error(failure: Failure, *, ref: str, base: str | None = None, now: datetime | None = None) -> ModelError:
    """The error for the user. `ref` is the model (`provider/model`), `base` the address it was called at."""
    provider = title_of(ref)
    text = shown(failure.message)
    kind = _kind(failure)
    if kind is AuthenticationError:
        return AuthenticationError(text, provider=provider, hint=_key_hint(ref))
    if kind is RateLimitError:
        return _rate_limit(failure, text, provider, now)
    if kind is ContextOverflowError:
        return ContextOverflowError(text, provider=provider, hint=_OVERFLOW_HINT, limit=stated_limit(failure.message))
    if kind is UnreachableError:
        return UnreachableError(_unreachable_text(failure, text, base), provider=provider, hint=_address_hint(base))
    if kind is BadResponseError:
        what = "cannot be used" if failure.name == BAD_VECTORS else "broke off"
        return BadResponseError(f"the answer {what}: {text}", provider=provider, hint="Send the message again.")
    if _NO_PROVIDER in failure.message:
        return RefusedError(f"litellm knows no provider of that name ({ref}).", provider=provider, hint=_NAME_HINT)
    return RefusedError(text, provider=provider, hint=_refusal_hint(failure))


def _kind(failure: Failure) -> type[ModelError]:
    if failure.name in _OVERFLOW_NAMES or is_overflow(failure.message):
        return ContextOverflowError
    if failure.status in (401, 403) or failure.name in _AUTH_NAMES or _BAD_KEY.search(failure.message):
        return AuthenticationError
    used_up = failure.status == 400 and _EXHAUSTED.search(failure.message)
    if used_up or failure.status in (402, 429) or failure.name == "RateLimitError":
        return RateLimitError
    if failure.streaming or failure.name in _BROKEN_NAMES:
        return BadResponseError
    if failure.status >= 500 or failure.status == 408 or failure.name in _CONNECTION_NAMES:
        return UnreachableError
    return RefusedError if failure.status else UnreachableError


def _rate_limit(failure: Failure, text: str, provider: str, now: datetime | None) -> RateLimitError:
    if failure.status == 402 or _EXHAUSTED.search(failure.message):
        hint = "Look at the account's plan and billing, or choose another model with /model."
        return RateLimitError(text, provider=provider, hint=hint, exhausted=True)
    wait = retry_after(failure.retry_after, now)
    hint = f"Try again in {wait:.0f} seconds, " if wait else "Try again later, "
    return RateLimitError(text, provider=provider, hint=hint + "or choose another model with /model.", retry_after=wait)


def retry_after(header: str, now: datetime | None = None) -> float | None:
    """The seconds a Retry-After header asks for: a number, or a date (seen from `now`); None when it says nothing."""
    header = header.strip()
    if not header:
        return None
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", header):
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def shown(message: str) -> str:
    """A provider's message as it is shown: without keys, litellm's prefixes and line breaks, and of bounded length."""
    text = _TLS_SETTINGS.sub("", redact(message.partition(_TRACEBACK)[0]))
    text = re.sub(r"\s+", " ", text).strip()
    while (stripped := _ORIGIN.sub("", _PREFIX.sub("", text))) != text:
        text = stripped
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT].rstrip() + " …"
    text = text or "no reason was given"
    return text if text[-1] in ".!?…。" else f"{text}."


def _key_hint(ref: str) -> str:
    names = key_names(ref)
    where = (
        f"Set {names[0]} to a valid key" if names else "Set agents.defaults.api_key_env to a variable with a valid key"
    )
    return f"{where}, or choose another model with /model. `clawbot doctor` shows which keys are found."


def _address_hint(base: str | None) -> str:
    if base:
        return f"Is the server at {redact(base)} running? `clawbot doctor` checks it, /model chooses another."
    return "Look at the network connection, or choose another model with /model. `clawbot doctor` checks it."


def _unreachable_text(failure: Failure, text: str, base: str | None) -> str:
    if failure.name == LOAD_ERROR:
        return text
    where = f" ({redact(base)})" if base else ""
    lowered = _TLS_SETTINGS.sub("", failure.message).lower()
    if failure.name in ("Timeout", "APITimeoutError") or failure.status == 408:
        return f"no answer in time{where}: {text}"
    if failure.status >= 500 and "connect" not in lowered:
        return f"the server failed with status {failure.status}: {text}"
    if _CERTIFICATE.search(lowered):
        return f"no secure connection{where}: {text}"
    return f"not found on the network{where}: {text}" if _DNS.search(lowered) else f"no connection{where}: {text}"


def _refusal_hint(failure: Failure) -> str:
    if failure.status == 404 or _NO_MODEL.search(failure.message):
        return "Is the name of the model right? /model shows those that can be used here."
    if failure.name == "ContentPolicyViolationError":
        return "Say it in other words, or choose another model with /model."
    return "The request was not accepted; /model chooses another model, the log says more."
