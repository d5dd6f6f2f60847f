"""What the server answers when it does not do what was asked: one form of error for all routes, which clients of
OpenAI's protocol read too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

from clawbot.deadline import deadline

BODY_BYTES = 2 * 1024**2
BODY_SECONDS = 30.0
JSON = "application/json"


class RefusalError(Exception):
    """A request that is answered with an error. `kind` and `message` are what the client gets."""

    def __init__(self, status: int, kind: str, message: str, *, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.retry_after = retry_after

    def response(self, headers: Mapping[str, str] | None = None) -> web.Response:
        error = {"type": self.kind, "message": self.message, "code": self.kind, "param": None}
        more = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return as_json({"ok": False, "error": error}, status=self.status, headers={**(headers or {}), **more})


def as_json(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return `value` (plain data or structs) as JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type=JSON, headers=headers)


def invalid(message: str) -> RefusalError:
    """Return a request that makes no sense."""
    return RefusalError(400, "invalid_request", message)


async def body_of(request: web.Request, most: int = BODY_BYTES) -> bytes:
    """Return the body of `request`, at most so many bytes. Raises RefusalError: 400, 408 if it does not arrive in time,
    413."""
    too_large = RefusalError(413, "too_large", f"The body is larger than {most >> 10:,} KiB.")
    if (request.content_length or 0) > most:
        raise too_large
    try:
        async with deadline(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise RefusalError(408, "timeout", f"The body did not arrive within {BODY_SECONDS:.0f} s.") from None
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise invalid("The body does not match its headers.") from None


async def json_body(request: web.Request) -> dict[str, Any]:
    """Return the body of `request`, a JSON object. Raises RefusalError as `body_of` does."""
    try:
        value = msgspec.json.decode(await body_of(request))
    except (ValueError, RecursionError):
        # What was sent may hold a secret, and is not repeated.
        raise invalid("The body is no JSON.") from None
    if not isinstance(value, dict):
        raise invalid("The body must be a JSON object.")
    return value
