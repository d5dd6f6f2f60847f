"""Records what a server answers to a call. litellm reads all answers through httpx and loses much of the errors among
them: it turns 529 and 503 into 500, and drops codes, headers, and errors with a good status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import ContextVar

import httpx

from clawbot.llm.error_text import error_in

_MAX_BYTES = 16_384
_read = httpx.Response.aiter_bytes


class HttpRecord:
    """The last answer to a call. `status` is 0 before one has come, `retry_after` the header as it came."""

    def __init__(self) -> None:
        self.status = 0
        self.retry_after = ""
        self._body = bytearray()

    async def follow(self, response: httpx.Response, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the body of `response`; what is kept is the beginning of an error and the end of a stream."""
        self.status = response.status_code
        milliseconds = response.headers.get("retry-after-ms", "")
        exact = f"{int(milliseconds) / 1000}" if milliseconds.isdecimal() else ""
        self.retry_after = exact or response.headers.get("retry-after", "")
        self._body.clear()
        async for chunk in chunks:
            self._body += chunk
            if (more := len(self._body) - _MAX_BYTES) > 0:
                del self._body[slice(_MAX_BYTES, None) if self.status >= 400 else slice(more)]
            yield chunk

    @property
    def error(self) -> str:
        """The error as it came, "" when none did."""
        text = self._body.decode("utf-8", "replace")
        return text if self.status >= 400 else error_in(text)


_current: ContextVar[HttpRecord | None] = ContextVar("http_record", default=None)


def start_record() -> HttpRecord:
    """Record the answers to what the running task asks from now on."""
    record = HttpRecord()
    _current.set(record)
    return record


def current_record() -> HttpRecord:
    """Return the record of the running task, an empty one if it has none."""
    return _current.get() or HttpRecord()


def recorded_bytes(response: httpx.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
    """In place of `httpx.Response.aiter_bytes`."""
    return current_record().follow(response, _read(response, chunk_size))
