"""What a script says once it is read: turns, what each expects of a request, and what it replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

CheckKey = Literal["user", "system", "tool_result", "tool", "model", "context"]
CheckKind = Literal["contains", "matches", "equals"]
FaultKind = Literal["status", "overflow", "drop", "stall", "no_finish", "malformed_call", "endless"]
Wording = Literal["openai", "anthropic", "gemini", "ollama"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]

DEFAULT_MODEL = "scripted"


class Check(Struct, frozen=True):
    """One condition on a request: some text of `key` must (negated: no text of it may) be as `kind` and `value` say."""

    key: CheckKey
    kind: CheckKind
    value: str
    line: int
    negated: bool = False

    def __str__(self) -> str:
        verb = {"contains": "contain", "matches": "match", "equals": "be"}[self.kind]
        return f"{self.key} {'not to' if self.negated else 'to'} {verb} {self.value!r}"


class Piece(Struct, frozen=True):
    """A piece of streamed text, sent `after` seconds of silence."""

    text: str
    after: float = 0.0


class ScriptedCall(Struct, frozen=True):
    """A tool call. `arguments` is a JSON object, or a text that is sent as it stands; `id` None: made up."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None = None


class Figures(Struct, frozen=True):
    """The usage that a reply reports, in tokens. None: counted."""

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0


class Fault(Struct, frozen=True):
    """What goes wrong. `pieces` is how many are sent before a drop or a stall, `retry_after` is in seconds."""

    kind: FaultKind
    status: int = 0
    message: str = ""
    retry_after: float | None = None
    wording: Wording = "openai"
    pieces: int = 0


class Reply(Struct, frozen=True):
    """What the model answers: reasoning, then text, then tool calls, unless the fault comes first."""

    reasoning: tuple[Piece, ...] = ()
    text: tuple[Piece, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    figures: Figures = Figures()
    finish_reason: FinishReason | None = None
    fault: Fault | None = None


class Turn(Struct, frozen=True):
    """One step of a script. `repeat` is how many requests it answers, None: as long as they fit."""

    number: int
    line: int
    checks: tuple[Check, ...]
    reply: Reply
    name: str = ""
    repeat: int | None = 1

    def __str__(self) -> str:
        return f"turn {self.number}{f' ({self.name})' if self.name else ''}"


class Script(Struct, frozen=True):
    """A whole script. `model` is the name it goes by, `window` the context window it claims, in tokens."""

    path: Path
    turns: tuple[Turn, ...]
    model: str = DEFAULT_MODEL
    window: int | None = None
