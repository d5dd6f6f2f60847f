"""Reads the sessions of Claude Code: `projects/FOLDER/ID.jsonl`, a tree of lines by `uuid` and `parentUuid`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from clawbot.importing.content import Blocks, blocks_of, numbered, text_in
from clawbot.importing.source import Said, Skipped, Source, Talk, first_time, lines_at, lines_of, milliseconds, units_in
from clawbot.messages import Message

_COMMAND = re.compile(r"<command-name>/?(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_TYPED = re.compile(r"\A<bash-input>(.*)</bash-input>\Z", re.DOTALL)
# What the program, its editors and hooks add to the words of the user.
_ADDED = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|new-diagnostics|browser_instruction"
    r"|user-prompt-submit-hook|session-start-hook)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_SYNTHETIC = "<synthetic>"  # the model of answers that the program makes
_SPOKEN = ("user", "assistant")
_NOT_SAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
# What the program says in the place of the user.
_PROGRAM = re.compile(
    r"<(?:local-command-|bash-std|task-notification)|Caveat: The messages below|\[Request interrupted by user"
)


class _Line(Struct, gc=False):
    """What is kept of a line: its byte offset and links; `group` is the answer that it is a part of, `is_result`
    whether it has only results, `is_spoken` whether a person or a model says something. One that `follows` continues
    the line before it in the file if it has no other."""

    at: int
    uuid: str
    parent: str
    kind: str
    is_side: bool
    group: str
    is_result: bool
    follows: bool
    is_spoken: bool


def read_claude_code(root: Path, skipped: Skipped) -> Source:
    """Return the sessions below `root` (`~/.claude`, its folder `projects` or one in that). Blocks."""
    folder = next(each for each in (root / "projects", root) if each.is_dir())
    read = partial(_talks, skipped=skipped)
    units = units_in(folder, lambda name: name.endswith(".jsonl"), read, skipped)
    return Source("claude-code", "Claude Code", units)


def _talks(path: Path, skipped: Skipped) -> Iterator[Talk]:
    """Yield the conversation in a file, and those of its sub-agents."""
    lines: list[_Line] = []
    titles: dict[str, str] = {}
    facts: dict[str, str] = {}
    for at, value in lines_of(path, skipped):
        kind = str(value.get("type"))
        if isinstance(text := value.get(_TITLES.get(kind, "")), str):
            titles[str(value.get("leafUuid")) if kind == "summary" else kind] = text
        for name in ("cwd", "sessionId", "timestamp"):
            if isinstance(value.get(name), str):
                facts.setdefault(name, value[name])
        if kind in _SPOKEN or isinstance(value.get("uuid"), str):
            lines.append(_line(at, kind, value))
    began, cwd = first_time(path, facts.get("timestamp")), facts.get("cwd", "")
    # A summary names a conversation by its last line, which may be in another file.
    named = (titles.get(each, "") for each in ("custom-title", "ai-title", *(line.uuid for line in lines)))
    main = [line for line in lines if not line.is_side]
    chosen = _branch(main)
    if any(line.is_spoken for line in chosen):
        yield Talk(path.stem, _said(path, chosen), next(filter(None, named), ""), cwd, began)
    sides: dict[str, list[_Line]] = {}
    roots: dict[str, str] = {}
    for line in (line for line in lines if line.is_side):
        root = roots[line.uuid] = roots.get(line.parent, line.uuid)
        sides.setdefault(root if main else path.stem, []).append(line)
    parent = facts.get("sessionId") or path.stem
    for root, side in sides.items():
        yield Talk(f"{parent}/{root}", _said(path, side), "", cwd, began, parent=parent)


def _line(at: int, kind: str, value: dict[str, Any]) -> _Line:
    message = value.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    is_result = bool(blocks) and all(isinstance(each, dict) and each.get("type") == "tool_result" for each in blocks)
    parent = value.get("parentUuid") or value.get("logicalParentUuid")
    is_boundary = value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True
    return _Line(
        at,
        str(value.get("uuid") or at),
        parent if isinstance(parent, str) else "",
        kind,
        value.get("isSidechain") is True,
        str(message.get("id") or ""),
        is_result,
        bool(parent) or is_result or is_boundary or "uuid" not in value or kind == "assistant",
        _is_spoken(value, message, kind),
    )


def _is_spoken(value: dict[str, Any], message: dict[str, Any], kind: str) -> bool:
    """Whether a person or a model says something: commands like `/exit` and their output are no conversation."""
    if kind == "assistant":
        return value.get("isApiErrorMessage") is not True and message.get("model") != _SYNTHETIC
    texts = map(text_in, blocks_of(message.get("content")))
    return value.get("isMeta") is not True and any(_typed(text) and not _COMMAND.search(text) for text in texts)


def _branch(lines: list[_Line]) -> list[_Line]:
    """Return the conversation that ends with the last message, without what the user went back from."""
    places = {line.uuid: place for place, line in reversed(list(enumerate(lines)))}
    is_list = not any(line.parent in places for line in lines)
    at = next((place for place in reversed(range(len(lines))) if lines[place].kind in _SPOKEN), -1)
    chain: set[int] = set()
    while at >= 0 and at not in chain:
        chain.add(at)
        before = at - 1 if lines[at].follows or is_list else -1
        at = places.get(lines[at].parent, before)
    # Calls that were made at once are branches of their own: each answer is whole, and has all its results.
    groups = {lines[place].group for place in chain} - {""}
    whole = {place for place, line in enumerate(lines) if line.kind == "assistant" and line.group in groups} | chain
    answers = {lines[place].uuid for place in whole}
    return [
        line
        for place, line in enumerate(lines)
        if line.kind in _SPOKEN and (place in whole or (line.is_result and line.parent in answers))
    ]


def _said(path: Path, lines: list[_Line]) -> Iterator[Said]:
    blocks = Blocks("anthropic")
    once = list({line.uuid: line for line in reversed(lines)}.values())[::-1]
    for line, value in zip(once, lines_at(path, [line.at for line in once]), strict=True):
        yield from numbered(line.uuid, _messages(value, blocks))


def _messages(value: dict[str, Any], blocks: Blocks) -> Iterator[Message]:
    message, at = value.get("message"), milliseconds(value.get("timestamp"))
    if not isinstance(message, dict) or any(value.get(each) is True for each in _NOT_SAID):
        return
    content, model = message.get("content"), str(message.get("model") or "")
    if value.get("type") == "assistant":
        if model != _SYNTHETIC:
            yield from blocks.assistant(content, at, model, message.get("stop_reason"))
        return
    yield from blocks.user([_typed(part) for part in (content if isinstance(content, list) else [content])], at)


def _typed(part: Any) -> Any:
    """Return a part of the content with what the user typed, without what the program adds."""
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": _typed(part["text"])}
    if not isinstance(part, str):
        return part
    text = _ADDED.sub("", part).strip()
    if named := _COMMAND.search(text):
        given = _ARGUMENTS.search(text)
        return f"/{named[1].strip()} {given[1].strip() if given else ''}".strip()
    if typed := _TYPED.match(text):
        return f"!{typed[1].strip()}"
    return "" if _PROGRAM.match(text) else text
