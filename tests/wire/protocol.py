"""The protocols of the vendors, byte for byte: how a part of an answer, its end and an error look in each.

A part is a mapping whose first key names a method here, its value the argument, the other keys named arguments:
`{text: Hello}`, `{call: read, pieces: ['{"path": ', '"a"}']}`, `{end: stop}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tests.vendors import END, STREAM, Asked, Step, chunked, sse

Part = Mapping[str, Any]
Event = Mapping[str, Any] | str
SPLIT = 0.05  # seconds between the two halves of a character


class Protocol:
    """One answer: a stream of events. `path` is a part of the address that answers are asked for at."""

    path: ClassVar[str]
    head: ClassVar[bytes] = STREAM
    ping: ClassVar[bytes] = b": keep-alive\n\n"

    def stream(self, parts: Sequence[Part]) -> Iterator[Step]:
        """Yield the steps of an answer that consists of `parts`. Without an `end` among them it is cut off."""
        yield self.head
        for event in self.first():
            yield self.encode(event)
        for part in parts:
            [(name, value), *named] = part.items()
            if name in ("ping", "comment"):
                sign = self.ping if name == "ping" else b": keep-alive\n\n"
                yield from (step for _ in range(value) for step in (chunked(sign), part.get("seconds", 0.0)))
                continue
            if name == "torn":
                yield from (chunked(self.encode(event)[6:-20]) for event in self.text(value))
                continue
            for event in getattr(self, name)(value, **dict(named)):
                encoded = self.encode(event)
                at = next((at for at, byte in enumerate(encoded) if byte > 0xBF), -1) + 1
                # Two chunks, of which the first ends within a character.
                yield from split_chunk(encoded, at) if at else [encoded]
        yield END

    def encode(self, event: Event) -> bytes:
        """Return `event` as a chunk of the body."""
        return sse(event, ascii_only=False)

    def first(self) -> Iterator[Event]:
        """Yield what comes before the first part."""
        yield from ()

    def text(self, text: str) -> Iterator[Event]:
        """Yield a piece of the text."""
        raise NotImplementedError

    def error(self, body: Any) -> Iterator[Event]:
        """Yield an error in the middle of a stream; `body` is that of an HTTP error."""
        yield body

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        """Return the body of an error."""
        del status
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def beside(self, asked: Asked) -> Sequence[Step] | None:
        """Return the answer to a request that asks for no answer of the model, None for one that does."""
        del asked
        return None


def split_chunk(encoded: bytes, at: int) -> Iterator[Step]:
    """Yield the chunk `encoded` as two, the first of which ends before its byte `at`, and a pause between them."""
    data = encoded.partition(b"\r\n")[2].removesuffix(b"\r\n")
    at -= len(encoded) - len(data) - 2
    yield from (chunked(data[:at]), SPLIT, chunked(data[at:]))
