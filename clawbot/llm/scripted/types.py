"""What a script says once it is read: turns, what each expects of a request, what it replies, and the templates in its
texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

CheckKey = Literal["user", "system", "tool_result", "tool", "model", "context"]
CheckKind = Literal["contains", "matches", "equals"]
FaultKind = Literal["status", "overflow", "drop", "stall", "no_finish", "malformed_call", "endless"]
Wording = Literal["openai", "anthropic", "gemini", "ollama"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]

DEFAULT_MODEL = "scripted"
ERROR_STATUS = range(400, 600)
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


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


class ScriptedPiece(Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of streamed text, sent `after` seconds of silence."""

    text: str
    after: Seconds = 0.0

    def __post_init__(self) -> None:
        check_templates(self.text)


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. `arguments` is a JSON object, or a text that is sent as it stands; `id` None: made up."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        check_templates(self.arguments)
        try:
            json.dumps(self.arguments, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`arguments` can't be said in JSON: {error}") from error


class Figures(Struct, frozen=True, forbid_unknown_fields=True):
    """The usage that a reply reports, in tokens. None: counted."""

    prompt: Count | None = None
    completion: Count | None = None
    cached: Count = 0

    def __post_init__(self) -> None:
        if self.prompt is not None and self.cached > self.prompt:
            raise ValueError("`cached` is a part of `prompt` and can't be larger")


# A name with `#` is for what no key of the file says: `file.py` puts it there.
class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong. `pieces` is how many are sent before a drop or a stall, `retry_after` is in seconds."""

    kind: FaultKind = field(name="#kind")
    status: int = 0
    message: str = ""
    retry_after: Seconds | None = None
    wording: Wording = field(default="openai", name="overflow")
    pieces: Count = field(default=0, name="#pieces")

    def __post_init__(self) -> None:
        if self.kind == "status" and self.status not in ERROR_STATUS:
            known = f"{ERROR_STATUS[0]} to {ERROR_STATUS[-1]}"
            raise ValueError(f"`status` must be an HTTP error, {known}, not {self.status}")


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model answers: reasoning, then text, then tool calls, unless the fault comes first."""

    reasoning: tuple[ScriptedPiece, ...] = ()
    text: tuple[ScriptedPiece, ...] = ()
    calls: Annotated[tuple[ScriptedCall, ...], Meta(min_length=1)] = field(default=(), name="tool_calls")
    figures: Figures = field(default=Figures(), name="usage")
    finish_reason: FinishReason | None = None
    fault: Fault | None = None

    def __post_init__(self) -> None:
        if not (self.text or self.reasoning or self.calls or self.fault):
            raise ValueError("`reply` needs `text`, `reasoning`, `tool_calls` or `fault`")
        if self.fault and self.fault.kind == "malformed_call" and not self.calls:
            raise ValueError("`malformed_call` needs `tool_calls`")


class ScriptTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a script. `repeat` is how many requests it answers, None: as long as they fit. `order`: its number
    in the order of play, None: that of its place in the file."""

    number: int = field(name="#number")
    line: int = field(name="#line")
    reply: Reply
    checks: tuple[Check, ...] = field(default=(), name="expect")
    name: str = ""
    repeat: Positive | None = 1
    order: Positive | None = None

    def __str__(self) -> str:
        return f"turn {self.number}{f' ({self.name})' if self.name else ''}"


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script. `model` is the name it goes by, `window` the context window it claims, in tokens, `title` what
    answers when a title for the conversation is asked for."""

    path: Path = field(name="#path")
    turns: Annotated[tuple[ScriptTurn, ...], Meta(min_length=1)]
    model: str = DEFAULT_MODEL
    window: Positive | None = None
    title: str = ""


# `\{{` stands for two braces that are no template.
TEMPLATE = re.compile(r"\\\{\{|\{\{\s*([^{}]*?)\s*\}\}")
NAMES = ("user", "tool_result", "model", "request")


def names_in(value: Any) -> Iterator[str]:
    """The names of all templates in the texts of `value`."""
    if isinstance(value, str):
        yield from (match[1] for match in TEMPLATE.finditer(value) if match[1] is not None)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from names_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item)


def check_templates(value: Any) -> None:
    """Raises ValueError for a template in the texts of `value` that there isn't."""
    unknown = next((name for name in names_in(value) if name not in NAMES), None)
    if unknown is not None:
        known = ", ".join(f"{{{{{each}}}}}" for each in NAMES)
        raise ValueError(f"there is no template {{{{{unknown}}}}}. Valid: {known}; \\{{{{ stands for two braces")


def render(text: str, values: Mapping[str, str]) -> str:
    """`text` with each template replaced by its value."""
    return TEMPLATE.sub(lambda match: "{{" if match[1] is None else values[match[1]], text)


def render_all(value: Any, values: Mapping[str, str]) -> Any:
    """`value` (plain JSON values) with the templates in all its texts replaced; keys stay as they are."""
    if isinstance(value, str):
        return render(value, values)
    if isinstance(value, Mapping):
        return {key: render_all(item, values) for key, item in value.items()}
    return [render_all(item, values) for item in value] if isinstance(value, list) else value
