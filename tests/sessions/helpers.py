"""What the tests of sessions share: a clock that stands still, short messages, files written by hand."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clawbot.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.text import spoken_part
from clawbot.sessions.transcript import Transcript
from tests.clocks import StillClock

CLOCK = StillClock()


def user(text: str) -> UserMessage:
    return UserMessage(text, timestamp=1)


def said(text: str, *calls: str, stop: StopReason = "stop") -> AssistantMessage:
    blocks = [TextBlock(text)] if text else []
    return AssistantMessage(
        [*blocks, *(ToolCallBlock(call, "read", {"path": "x"}) for call in calls)], stop_reason=stop
    )


def result(call: str, text: str = "ok") -> ToolResultMessage:
    return ToolResultMessage(call, "read", [TextBlock(text)])


def spoken_lines(path: Path) -> tuple[list[str], list[int]]:
    """What was said in a whole transcript, and the lines of the file that it stands in."""
    said = spoken_part(path).lines
    return [one.labelled for one in said], [one.line for one in said]


def failing(number: int) -> Callable[..., Any]:
    """A function that fails as the system does, whatever it is called with."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def texts(transcript: Transcript) -> list[str]:
    return [item.message.text for item in transcript.context()]


def text_list(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-11-21T02:16:00.000Z", "cwd": "/w"}


def line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def entry(number: int, text: str, parent: int | None = -1, **fields: Any) -> dict[str, Any]:
    """A user message with the id `number`, behind the one before it unless `parent` says otherwise."""
    before = number - 1 if parent == -1 else parent
    return {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": None if before is None or before <= 0 else f"{before:08x}",
        "timestamp": "2026-11-21T02:16:01.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1},
        **fields,
    }


def write(path: Path, *parts: bytes | dict[str, Any]) -> Path:
    path.write_bytes(b"".join(part if isinstance(part, bytes) else line(part) for part in parts))
    return path


def opened(path: Path, *, writable: bool = True) -> Transcript:
    return Transcript.open(path, clock=CLOCK, writable=writable)


def answer(number: int, text: str) -> dict[str, Any]:
    """What the model said, with the id `number`."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", "timestamp": 1}
    return entry(number, "", message=message)


def cases(name: str) -> dict[str, Any]:
    """The cases in the file `name`.toml of this folder."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
