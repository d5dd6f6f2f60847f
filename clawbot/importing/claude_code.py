"""Reads the sessions of Claude Code: `projects/FOLDER/ID.jsonl`, a tree of lines by `uuid` and `parentUuid`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from clawbot.importing.content import Blocks, entry_id
from clawbot.importing.source import Said, Skipped, Source, Talk, first_time, lines_at, lines_of, milliseconds, units_in

_COMMAND = re.compile(r"<command-name>/?(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_TYPED = re.compile(r"\A<bash-input>(.*)</bash-input>\Z", re.DOTALL)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
# What the program says in the place of the user.
_PROGRAM = re.compile(
    r"<(?:local-command-|bash-std|task-notification)|Caveat: The messages below|\[Request interrupted by user"
)


class _Line(Struct, gc=False):
    """What is kept of a line: its offset in the file, its links; `group` is the answer that it is a part of, `result`
    whether it has only results, `boundary` whether a compaction begins with it."""

    at: int
    uuid: str
    parent: str | None
    kind: str
    side: bool
    group: str = ""
    result: bool = False
    boundary: bool = False


def read_claude_code(root: Path, skipped: Skipped) -> Source:
    """The sessions below `root` (`~/.claude` or its folder `projects`). Blocks."""
    folder = root / "projects" if (root / "projects").is_dir() else root
    units = units_in(folder, lambda name: name.endswith(".jsonl"), partial(_talks, skipped=skipped), skipped)
    return Source("claude-code", "Claude Code", units)


def _talks(path: Path, skipped: Skipped) -> Iterator[Talk]:
    """The conversation in a file, and those of its sub-agents."""
    lines: list[_Line] = []
    titles: dict[str, str] = {}
    facts: dict[str, str] = {}
    for at, value in lines_of(path, skipped):
        _note_title(value, titles)
        for name in ("cwd", "sessionId", "timestamp"):
            if isinstance(value.get(name), str):
                facts.setdefault(name, value[name])
        if value.get("type") in ("user", "assistant") or isinstance(value.get("uuid"), str):
            lines.append(_line(at, value))
    began = first_time(path, facts.get("timestamp"))
    known = {line.uuid for line in lines}
    named = (titles.get("custom-title"), titles.get("ai-title"), *(titles.get(each, "") for each in known))
    title = next(filter(None, named), "")
    main = [line for line in lines if not line.side]
    if chosen := _branch(main):
        yield Talk(path.stem, _said(path, chosen), title, facts.get("cwd", ""), began)
    sides: dict[str, list[_Line]] = {}
    roots: dict[str, str] = {}
    for line in (line for line in lines if line.side):
        root = roots[line.uuid] = roots.get(line.parent or "", line.uuid)
        sides.setdefault(path.stem if not main else root, []).append(line)
    for root, side in sides.items():
        parent = facts.get("sessionId") or path.stem
        yield Talk(f"{parent}/{root}", _said(path, side), "", facts.get("cwd", ""), began, parent=parent)


def _note_title(value: dict[str, Any], titles: dict[str, str]) -> None:
    """`summary` lines name a conversation by its last line, which may be in another file."""
    kind = value.get("type")
    names = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
    text = value.get(names.get(str(kind), ""))
    if isinstance(text, str) and kind:
        titles[str(value.get("leafUuid")) if kind == "summary" else str(kind)] = text


def _line(at: int, value: dict[str, Any]) -> _Line:
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    results = [isinstance(each, dict) and each.get("type") == "tool_result" for each in blocks]
    parent = value.get("parentUuid") or value.get("logicalParentUuid")
    boundary = value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True
    return _Line(
        at,
        str(value.get("uuid") or at),
        parent if isinstance(parent, str) else None,
        str(value.get("type")),
        value.get("isSidechain") is True,
        str(message.get("id") or "") if isinstance(message, dict) else "",
        bool(results) and all(results),
        boundary or "uuid" not in value or value.get("type") == "assistant",
    )


def _branch(lines: list[_Line]) -> list[_Line]:
    """The conversation that ends with the last message: without what the user went back from. A line whose predecessor
    is lost, an answer without one, and one that a compaction begins with continue the line before them in the file."""
    places = {line.uuid: place for place, line in reversed(list(enumerate(lines)))}
    is_list = not any(line.parent in places for line in lines)
    at = next((place for place in reversed(range(len(lines))) if lines[place].kind in ("user", "assistant")), None)
    chain: set[int] = set()
    while at is not None and at not in chain:
        chain.add(at)
        line = lines[at]
        before = places.get(line.parent) if line.parent else None
        if before is None and (line.parent or line.boundary or line.result or is_list) and at:
            before = at - 1
        at = before
    # Calls that were made at once are branches of their own: each answer is whole, and has all its results.
    groups = {lines[place].group for place in chain} - {""}
    whole = {place for place, line in enumerate(lines) if line.kind == "assistant" and line.group in groups} | chain
    answers = {lines[place].uuid for place in whole}
    return [
        line
        for place, line in enumerate(lines)
        if line.kind in ("user", "assistant") and (place in whole or (line.result and line.parent in answers))
    ]


def _said(path: Path, lines: list[_Line]) -> Iterator[Said]:
    blocks = Blocks("anthropic")
    once = list({line.uuid: line for line in reversed(lines)}.values())[::-1]
    for line, value in zip(once, lines_at(path, [line.at for line in once]), strict=True):
        for number, message in enumerate(_messages(value, blocks)):
            yield Said(entry_id(f"{line.uuid}:{number}"), message)


def _messages(value: dict[str, Any], blocks: Blocks) -> Iterator[Any]:
    message, at = value.get("message"), milliseconds(value.get("timestamp"))
    if not isinstance(message, dict) or any(
        value.get(each) is True for each in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
    ):
        return
    content = message.get("content")
    if value.get("type") == "assistant":
        model = str(message.get("model") or "")
        if model != "<synthetic>":
            yield from blocks.assistant(content, at, model, message.get("stop_reason"))
        return
    if isinstance(content, str):
        content = _typed(content)
    elif isinstance(content, list):
        texts = ({**each, "text": _typed(each["text"])} if _is_text(each) else each for each in content)
        content = [each for each in texts if not _is_text(each) or each["text"]]
    yield from blocks.user(content, at)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _typed(text: str) -> str:
    """What the user typed: a command as it was typed, and nothing of what the program adds."""
    text = _REMINDER.sub("", text).strip()
    if named := _COMMAND.search(text):
        given = _ARGUMENTS.search(text)
        return f"/{named[1].strip()} {given[1].strip() if given else ''}".strip()
    if typed := _TYPED.match(text):
        return f"!{typed[1].strip()}"
    return "" if _PROGRAM.match(text) else text
