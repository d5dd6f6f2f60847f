"""The format of a script: its types, how YAML becomes turns, and how a mistake is reported with file, line and hint.
`docs/testing-agents.md` explains each key to those who write scripts."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, cast, get_args

import msgspec
import yaml
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from clawbot.config.errors import ConfigError
from clawbot.config.source import KeyPath, Layer, TreeReader, parse_layer, resolvers
from clawbot.errors import ClawbotError
from clawbot.files import read_plain

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
    """One condition on a request: some text of `key` must (negated: no text may) fulfil `kind` and `value`."""

    key: CheckKey
    kind: CheckKind
    value: str
    line: int
    negated: bool = False

    def __str__(self) -> str:
        verb = {"contains": "contain", "matches": "match", "equals": "be"}[self.kind]
        return f"{self.key} {'not to' if self.negated else 'to'} {verb} {self.value!r}"


class ScriptedText(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of streamed text, sent `after` seconds of silence."""

    text: str
    after: Seconds = 0.0

    def __post_init__(self) -> None:
        check_templates(self.text)


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. `arguments` is a JSON object, or a text that is sent unchanged; `id` None: generated."""

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


# A name with `#` is for what no key of the file has: `file.py` puts it there.
class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong. `deltas` is how many are sent before a drop or a stall, `retry_after` is in seconds."""

    kind: FaultKind = field(name="#kind")
    status: int = 0
    message: str = ""
    retry_after: Seconds | None = None
    wording: Wording = field(default="openai", name="overflow")
    deltas: Count = field(default=0, name="#chunks")

    def __post_init__(self) -> None:
        if self.kind == "status" and self.status not in ERROR_STATUS:
            known = f"{ERROR_STATUS[0]} to {ERROR_STATUS[-1]}"
            raise ValueError(f"`status` must be an HTTP error, {known}, not {self.status}")


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model answers: reasoning, then text, then tool calls, unless the fault comes first."""

    reasoning: tuple[ScriptedText, ...] = ()
    text: tuple[ScriptedText, ...] = ()
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
    in the order of play, None: that of its position in the file."""

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
    """A script. `model` is its name, `window` the context window in tokens, `title` the answer to the question for the
    title of a conversation."""

    path: Path = field(name="#path")
    turns: Annotated[tuple[ScriptTurn, ...], Meta(min_length=1)]
    model: str = DEFAULT_MODEL
    window: Positive | None = None
    title: str = ""


# `\{{` means two braces that are no template.
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
    """Replace the templates in all texts of `value` (plain JSON values); keys are unchanged."""
    if isinstance(value, str):
        return render(value, values)
    if isinstance(value, Mapping):
        return {key: render_all(item, values) for key, item in value.items()}
    return [render_all(item, values) for item in value] if isinstance(value, list) else value


FILE_KEYS = ("turns", "model", "window", "title")
TURN_KEYS = ("name", "expect", "reply", "repeat", "order")
REPLY_KEYS = ("text", "reasoning", "tool_calls", "usage", "finish_reason", "fault")
FAULT_WORDS = ("drop", "stall", "no_finish", "malformed_call", "endless")
FAULT_KEYS = ("status", "message", "retry_after", "overflow", "drop", "stall")
FAULT_KINDS = ("status", "overflow", "drop", "stall")
FOREVER = "forever"
MAX_BYTES = 16 * 1024**2
"""Far above any script; the YAML in it takes a hundred times that."""
BEGINS = "# turn {} begins"
ENDS = "# turn {} ends"
"""Lines around a turn that was recorded: without the second one its end was never written."""
_BEGINS = re.compile(rb"^# turn (\d{1,9}) begins", re.MULTILINE)

_KEYS: Mapping[str, Collection[str]] = {
    "script": FILE_KEYS,
    "turns": TURN_KEYS,
    "expect": get_args(CheckKey),
    "reply": REPLY_KEYS,
    "text": ("text", "after"),
    "reasoning": ("text", "after"),
    "tool_calls": ("name", "arguments", "id"),
    "usage": ("prompt", "completion", "cached"),
    "fault": FAULT_KEYS,
    "finish_reason": get_args(FinishReason),
    "overflow": get_args(Wording),
}
"""The keys that may be under each key, or the words that it may hold."""
_EXPECTED = {
    "int": "a whole number",
    "float": "a number of seconds",
    "str": "a text",
    "array": "a list",
    "arguments": "a mapping, or a text that is sent as it stands",
}
_STEP = re.compile(r"\.([^.\[#]+)|\[(\d{1,9})\]")


class ScriptFileError(ClawbotError):
    """A script that can't be read or makes no sense: file, line, key, what was expected, the nearest valid key."""


class _ScriptReader(TreeReader):
    """Takes words as they were written, so that `yes`, `1.10` and dates need no quotes; in the arguments of a call they
    are JSON values."""

    # libyaml's loader doesn't survive as many lists in each other as a script may hold next to each other.
    loader_class = type("_Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers()})
    max_openings = MAX_BYTES
    max_values = MAX_BYTES

    def scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        value = super().scalar(node, path)
        return value if value is None or "arguments" in path[5:6] else node.value


def load_script(path: Path) -> Script:
    """Read and check the script at `path`, without the last turn of a recording if that was cut off. Raises
    ScriptFileError, also for a file that can't be read."""
    try:
        text = _complete(read_plain(path, MAX_BYTES)).decode()
    except OSError as error:
        raise ScriptFileError(f"{path}: can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ScriptFileError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}.") from error
    return parse_script(text, path)


def _complete(data: bytes) -> bytes:
    """Return `data` up to a turn without its end."""
    begun = [*_BEGINS.finditer(data)][-1:]
    cut = (at for at in begun if not re.search(rb"^# turn %b ends\s*$" % at[1], data[at.end() :], re.MULTILINE))
    return next((data[: at.start()] for at in cut), data)


def parse_script(text: str, path: Path) -> Script:
    """Check the script `text`; `path` is what errors call it. Raises ScriptFileError."""
    try:
        layer, problems = parse_layer(text, str(path), reader=_ScriptReader)
    except ConfigError as error:
        raise ScriptFileError(f"{error.message.rstrip('.')}.", hint=error.hint) from error
    if problems:
        raise ScriptFileError(f"{problems[0]}.")
    return _Script(path, layer).convert()


class _Script:
    """A script during its conversion from plain data to turns."""

    def __init__(self, path: Path, layer: Layer) -> None:
        self._path = path
        self._data = layer.data
        self._marks = layer.marks

    def convert(self) -> Script:
        data = dict(self._data)
        if isinstance(data.get("turns"), list):
            data["turns"] = [self._turn(raw, ("turns", at)) for at, raw in enumerate(data["turns"])]
        try:
            script = msgspec.convert({**data, "#path": self._path}, Script, strict=False)
        except msgspec.ValidationError as error:
            self._explain(str(error))
        for turn, after in zip(script.turns[:-1], script.turns[1:], strict=True):
            if turn.repeat is None and not turn.checks:
                never = f"this turn is never reached: turn {turn.number} answers every request forever"
                self._fail(("turns", after.number - 1), never)
        turns = sorted(script.turns, key=lambda turn: turn.order or turn.number)
        return replace(script, turns=tuple(replace(turn, number=at) for at, turn in enumerate(turns, start=1)))

    def _turn(self, raw: Any, path: KeyPath) -> Any:
        """Expand the short forms of a turn. Other shapes are kept, for the types to refuse."""
        if not isinstance(raw, dict):
            return raw
        turn = {**raw, "#number": cast("int", path[-1]) + 1, "#line": self._line(path)}
        if "reply" in raw:
            turn["reply"] = self._reply(raw["reply"], (*path, "reply"))
        if "expect" in raw:
            turn["expect"] = list(self._expect(raw["expect"], (*path, "expect")))
        if "repeat" in raw:
            turn["repeat"] = None if raw["repeat"] == FOREVER else raw["repeat"] or ""
        return turn

    def _reply(self, raw: Any, path: KeyPath) -> Any:
        if isinstance(raw, str):
            return {"text": _texts(raw)}
        if not isinstance(raw, dict):
            return raw
        texts = {key: _texts(raw[key]) for key in ("text", "reasoning") if key in raw}
        fault = {"fault": self._fault(raw["fault"], (*path, "fault"))} if "fault" in raw else {}
        return {**raw, **texts, **fault}

    def _fault(self, raw: Any, path: KeyPath) -> Any:
        if isinstance(raw, str):
            if raw not in FAULT_WORDS and not raw.isdigit():
                self._fail_choice(path, raw, FAULT_WORDS)
            return {"#kind": "status", "status": raw} if raw.isdigit() else {"#kind": raw}
        if not isinstance(raw, dict):
            return raw
        kinds = [key for key in raw if key in FAULT_KINDS]
        if len(kinds) != 1 and raw.keys() <= {*FAULT_KEYS}:
            self._fail(path, "`fault` needs exactly one of `status`, `overflow`, `drop`, `stall`")
        kind = kinds[0] if kinds else ""
        stray = next((key for key in ("message", "retry_after") if key in raw and kind != "status"), None)
        if stray:
            self._fail((*path, stray), f"`{stray}` belongs to a fault with `status`")
        others = {key: value for key, value in raw.items() if key not in {"drop", "stall"}}
        return {**others, "#kind": kind, **({"#chunks": raw[kind]} if kind in {"drop", "stall"} else {})}

    def _expect(self, raw: Any, path: KeyPath) -> Iterator[Check]:
        if not isinstance(raw, dict):
            self._fail(path, f"`expect` must be a mapping with {_listed(_KEYS['expect'])}, not {_shown(raw)}")
        for key, condition in raw.items():
            if key not in _KEYS["expect"]:
                self._fail_key((*path, key), "expect", _KEYS["expect"])
            yield from self._checks(cast("CheckKey", key), condition, (*path, key))

    def _checks(self, key: CheckKey, raw: Any, path: KeyPath, *, negated: bool = False) -> Iterator[Check]:
        """A text, a mapping of how to compare, or a list of both: all of them must hold."""
        if isinstance(raw, list):
            for at, item in enumerate(raw):
                yield from self._checks(key, item, (*path, at), negated=negated)
        elif not isinstance(raw, dict):
            yield self._check(key, "equals" if key == "tool" else "contains", raw, path, negated)
        else:
            kinds = (*get_args(CheckKind), *(() if negated else ("not",)))
            for name, value in raw.items():
                if name not in kinds:
                    self._fail_key((*path, name), key, kinds)
                if name == "not":
                    yield from self._checks(key, value, (*path, name), negated=True)
                    continue
                for at, item in enumerate(value if isinstance(value, list) else [value]):
                    yield self._check(key, cast("CheckKind", name), item, (*path, name, at), negated)

    def _check(self, key: CheckKey, kind: CheckKind, value: Any, path: KeyPath, negated: bool) -> Check:
        if not isinstance(value, str):
            self._fail(path, f"`{key}` must be a text, not {_shown(value)}")
        if kind == "matches":
            try:
                re.compile(value)
            except re.error as error:
                self._fail(path, f"`{key}` has no valid regular expression: {error}")
        return Check(key, kind, value, self._line(path), negated)

    def _line(self, path: KeyPath) -> int:
        while path and path not in self._marks:
            path = path[:-1]
        return int(self._marks[path].position.rpartition(":")[2]) if path else 1

    def _explain(self, error: str) -> NoReturn:
        """Raise msgspec's error, which names the path: "Expected `int`, got `str` - at `$.turns[0].repeat`"."""
        what, _, where = error.partition(" - at `$")
        path: KeyPath = tuple(int(at) if at else name for name, at in _STEP.findall(where.rstrip("`")))
        owner = next((step for step in reversed(path) if isinstance(step, str)), "script")
        entry = f"entry {cast('int', path[-1]) + 1} of `{owner}`" if path and path[-1] != owner else f"`{owner}`"
        key = what.split("`")[1] if "`" in what else ""
        if what.startswith("Object contains unknown field"):
            self._fail_key((*path, key), owner, _KEYS.get(owner, ()))
        if what.startswith("Object missing required field"):
            self._fail(path, f"{entry} has no `{key}`")
        if what.startswith("Invalid enum value"):
            self._fail_choice(path, what.split("'")[1], _KEYS.get(owner, FAULT_WORDS))
        if "of length" in what:
            self._fail(path, f"`{owner}` must hold at least one entry")
        if what.startswith("Expected"):
            least = f" of at least {float(what.partition(' >= ')[2]):g}" if " >= " in what else ""
            kind = owner if owner in _EXPECTED else key.partition(" |")[0]
            expected = _EXPECTED.get(kind) or f"a mapping with {_listed(_KEYS.get(owner, ()))}"
            self._fail(path, f"{entry} must be {expected}{least}, not {_shown(self._found(path))}")
        self._fail(path, what)

    def _found(self, path: KeyPath) -> Any:
        """Return the value at `path`, or of its short form."""
        value: Any = self._data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return value
        return value

    def _fail_key(self, path: KeyPath, owner: str, known: Collection[str]) -> NoReturn:
        self._fail(path, f"`{owner}` has no key {str(path[-1])!r}", _nearest(str(path[-1]), known))

    def _fail_choice(self, path: KeyPath, value: str, choices: Collection[str]) -> NoReturn:
        self._fail(path, f"`{path[-1]}` must be one of {_listed(choices)}, not {value!r}", _nearest(value, choices))

    def _fail(self, path: KeyPath, problem: str, hint: str = "") -> NoReturn:
        raise ScriptFileError(f"{self._path}:{self._line(path)}: {problem}.", hint=hint)


def _texts(raw: Any) -> list[Any]:
    return [each if isinstance(each, dict) else {"text": each} for each in (raw if isinstance(raw, list) else [raw])]


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else repr(value)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _nearest(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else f"Valid: {_listed(names)}."
