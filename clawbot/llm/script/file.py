"""The format of a script: which keys there are, what they hold, and how they become turns.

`docs/testing-agents.md` explains every key to those who write scripts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from clawbot.llm.script.templates import NAMES, names_in
from clawbot.llm.script.types import (
    DEFAULT_MODEL,
    Check,
    CheckKey,
    CheckKind,
    Fault,
    FaultKind,
    Figures,
    FinishReason,
    Piece,
    Reply,
    Script,
    ScriptedCall,
    Turn,
    Wording,
)
from clawbot.llm.script.yaml import ScriptFileError, YamlReader, line_of

FILE_KEYS = ("turns", "model", "window")
TURN_KEYS = ("name", "expect", "reply", "repeat")
REPLY_KEYS = ("text", "reasoning", "tool_calls", "usage", "finish_reason", "fault")
FAULT_WORDS = ("drop", "stall", "no_finish", "malformed_call", "endless")
FAULT_KEYS = ("status", "message", "retry_after", "overflow", "drop", "stall")
FAULT_KINDS = ("status", "overflow", "drop", "stall")
FOREVER = "forever"
ERROR_STATUS = range(400, 600)


def load_script(path: Path) -> Script:
    """Read and check the script at `path`. Raises ScriptFileError, also for a file that can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptFileError(f"{path}: can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ScriptFileError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}.") from error
    return parse_script(text, path)


def parse_script(text: str, path: Path) -> Script:
    """Check the script `text`; `path` is what errors call it."""
    reader = YamlReader(text, path)
    entries = reader.mapping(reader.root, "script", FILE_KEYS)
    if "turns" not in entries:
        reader.fail(reader.root, "the script has no `turns`")
    nodes = reader.sequence(entries["turns"], "turns")
    if not nodes:
        reader.fail(entries["turns"], "`turns` must hold at least one turn")
    turns = tuple(_turn(reader, number, node) for number, node in enumerate(nodes, start=1))
    for turn, node in zip(turns[:-1], nodes[1:], strict=True):
        if turn.repeat is None and not turn.checks:
            reader.fail(node, f"this turn is never reached: turn {turn.number} answers every request forever")
    return Script(
        path=path,
        turns=turns,
        model=reader.text(entries["model"], "model") if "model" in entries else DEFAULT_MODEL,
        window=reader.whole(entries["window"], "window", 1) if "window" in entries else None,
    )


def _turn(reader: YamlReader, number: int, node: yaml.Node) -> Turn:
    entries = reader.mapping(node, "turn", TURN_KEYS)
    if "reply" not in entries:
        reader.fail(node, f"turn {number} has no `reply`")
    return Turn(
        number=number,
        line=line_of(node),
        checks=_expect(reader, entries["expect"]) if "expect" in entries else (),
        reply=_reply(reader, entries["reply"]),
        name=reader.text(entries["name"], "name") if "name" in entries else "",
        repeat=_repeat(reader, entries["repeat"]) if "repeat" in entries else 1,
    )


def _repeat(reader: YamlReader, node: yaml.Node) -> int | None:
    return None if node.value == FOREVER else reader.whole(node, "repeat", 1)


def _expect(reader: YamlReader, node: yaml.Node) -> tuple[Check, ...]:
    entries = reader.mapping(node, "expect", get_args(CheckKey))
    return tuple(
        check
        for key, value in entries.items()
        for check in _checks(reader, cast("CheckKey", key), value, negated=False)
    )


def _checks(reader: YamlReader, key: CheckKey, node: yaml.Node, *, negated: bool) -> list[Check]:
    """A text, a mapping of how to compare, or a list of both: all of them must hold."""
    if isinstance(node, yaml.SequenceNode):
        return [check for item in node.value for check in _checks(reader, key, item, negated=negated)]
    if isinstance(node, yaml.ScalarNode):
        kind: CheckKind = "equals" if key == "tool" else "contains"
        return [Check(key, kind, reader.text(node, key), line_of(node), negated)]
    entries = reader.mapping(node, key, (*get_args(CheckKind), *(() if negated else ("not",))))
    checks: list[Check] = []
    for name, value in entries.items():
        if name == "not":
            checks += _checks(reader, key, value, negated=True)
            continue
        items = reader.sequence(value, name) if isinstance(value, yaml.SequenceNode) else [value]
        checks += [_check(reader, key, cast("CheckKind", name), item, negated) for item in items]
    return checks


def _check(reader: YamlReader, key: CheckKey, kind: CheckKind, node: yaml.Node, negated: bool) -> Check:
    value = reader.text(node, kind)
    if kind == "matches":
        try:
            re.compile(value)
        except re.error as error:
            reader.fail(node, f"`{key}` has no valid regular expression: {error}")
    return Check(key, kind, value, line_of(node), negated)


def _reply(reader: YamlReader, node: yaml.Node) -> Reply:
    if isinstance(node, yaml.ScalarNode):
        return Reply(text=_pieces(reader, node, "reply"))
    entries = reader.mapping(node, "reply", REPLY_KEYS)
    if not entries.keys() & {"text", "reasoning", "tool_calls", "fault"}:
        reader.fail(node, "`reply` needs `text`, `reasoning`, `tool_calls` or `fault`")
    reply = Reply(
        reasoning=_pieces(reader, entries["reasoning"], "reasoning") if "reasoning" in entries else (),
        text=_pieces(reader, entries["text"], "text") if "text" in entries else (),
        calls=_calls(reader, entries["tool_calls"]) if "tool_calls" in entries else (),
        figures=_figures(reader, entries["usage"]) if "usage" in entries else Figures(),
        finish_reason=_finish_reason(reader, entries["finish_reason"]) if "finish_reason" in entries else None,
        fault=_fault(reader, entries["fault"]) if "fault" in entries else None,
    )
    if reply.fault and reply.fault.kind == "malformed_call" and not reply.calls:
        reader.fail(entries["fault"], "`malformed_call` needs `tool_calls`")
    return reply


def _finish_reason(reader: YamlReader, node: yaml.Node) -> FinishReason:
    return cast("FinishReason", reader.choice(node, "finish_reason", get_args(FinishReason)))


def _pieces(reader: YamlReader, node: yaml.Node, what: str) -> tuple[Piece, ...]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return tuple(_piece(reader, item, what) for item in nodes)


def _piece(reader: YamlReader, node: yaml.Node, what: str) -> Piece:
    if isinstance(node, yaml.ScalarNode):
        return Piece(_template(reader, node, reader.text(node, what)))
    entries = reader.mapping(node, what, ("text", "after"))
    if "text" not in entries:
        reader.fail(node, f"a piece of `{what}` has no `text`")
    after = reader.seconds(entries["after"], "after") if "after" in entries else 0.0
    return Piece(_template(reader, entries["text"], reader.text(entries["text"], "text")), after)


def _calls(reader: YamlReader, node: yaml.Node) -> tuple[ScriptedCall, ...]:
    calls = tuple(_call(reader, item) for item in reader.sequence(node, "tool_calls"))
    if not calls:
        reader.fail(node, "`tool_calls` must hold at least one call")
    return calls


def _call(reader: YamlReader, node: yaml.Node) -> ScriptedCall:
    entries = reader.mapping(node, "tool_calls", ("name", "arguments", "id"))
    if "name" not in entries:
        reader.fail(node, "a tool call has no `name`")
    arguments: Any = {}
    if "arguments" in entries:
        arguments = _template(reader, entries["arguments"], reader.plain(entries["arguments"]))
        if not isinstance(arguments, dict | str):
            reader.fail(entries["arguments"], "`arguments` must be a mapping, or a text that is sent as it stands")
    call_id = reader.text(entries["id"], "id") if "id" in entries else None
    return ScriptedCall(reader.text(entries["name"], "name"), arguments, call_id)


def _template(reader: YamlReader, node: yaml.Node, value: Any) -> Any:
    for name in names_in(value):
        if name not in NAMES:
            known = ", ".join(f"{{{{{each}}}}}" for each in NAMES)
            reader.fail(node, f"there is no template {{{{{name}}}}}", f"Valid: {known}; \\{{{{ stands for two braces.")
    return value


def _figures(reader: YamlReader, node: yaml.Node) -> Figures:
    entries = reader.mapping(node, "usage", ("prompt", "completion", "cached"))
    figures = {key: reader.whole(value, key) for key, value in entries.items()}
    prompt, cached = figures.get("prompt"), figures.get("cached", 0)
    if prompt is not None and cached > prompt:
        reader.fail(entries["cached"], "`cached` is a part of `prompt` and can't be larger")
    return Figures(prompt, figures.get("completion"), cached)


def _fault(reader: YamlReader, node: yaml.Node) -> Fault:
    if isinstance(node, yaml.ScalarNode):
        if node.value.isdigit():
            return Fault("status", status=_status(reader, node))
        return Fault(cast("FaultKind", reader.choice(node, "fault", FAULT_WORDS)))
    entries = reader.mapping(node, "fault", FAULT_KEYS)
    kinds = [key for key in entries if key in FAULT_KINDS]
    if len(kinds) != 1:
        reader.fail(node, "`fault` needs exactly one of `status`, `overflow`, `drop`, `stall`")
    kind = cast("FaultKind", kinds[0])
    stray = next((key for key in ("message", "retry_after") if key in entries and kind != "status"), None)
    if stray:
        reader.fail(entries[stray], f"`{stray}` belongs to a fault with `status`")
    value = entries[kind]
    return Fault(
        kind=kind,
        status=_status(reader, value) if kind == "status" else 0,
        message=reader.text(entries["message"], "message") if "message" in entries else "",
        retry_after=reader.seconds(entries["retry_after"], "retry_after") if "retry_after" in entries else None,
        wording=_wording(reader, value) if kind == "overflow" else "openai",
        pieces=reader.whole(value, kind) if kind in {"drop", "stall"} else 0,
    )


def _status(reader: YamlReader, node: yaml.Node) -> int:
    status = reader.whole(node, "status")
    if status not in ERROR_STATUS:
        reader.fail(node, f"`status` must be an HTTP error, {ERROR_STATUS[0]} to {ERROR_STATUS[-1]}, not {status}")
    return status


def _wording(reader: YamlReader, node: yaml.Node) -> Wording:
    return cast("Wording", reader.choice(node, "overflow", get_args(Wording)))
