"""Reads the sessions of Codex: `rollout-*.jsonl` with one event a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clawbot.importing.source import (
    Blocks,
    Said,
    Skipped,
    Source,
    Talk,
    Unit,
    entry_id,
    files_in,
    lines_of,
    milliseconds,
    stamp_of,
    text_in,
)
from clawbot.messages import AssistantMessage, Message, ToolCallBlock, UserMessage

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
# What the program puts before the words of the user.
_CONTEXT = re.compile(
    r"\s*(?:<(?:user_instructions|environment_context|instructions|permissions instructions|turn_aborted|skills?"
    r"|subagent_notification|collaboration_mode|model_switch|apps_instructions|plugins_instructions"
    r"|user_shell_command|personality_spec)\b|# AGENTS\.md instructions for )",
    re.IGNORECASE,
)
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_OF_THE_PROGRAM = {"reasoning", "ghost_snapshot", "web_search_call", "compaction", "other"}


def read_codex(root: Path, skipped: Skipped) -> Source:
    """The sessions below `root` (`~/.codex`, or a folder of rollouts), archived ones too. Blocks."""
    files = files_in(root, lambda name: name.rpartition("/")[2].startswith("rollout-") and ".jsonl" in name, skipped)
    titles: dict[str, str] = {}
    if (index := root / "session_index.jsonl").is_file():
        for _, value in lines_of(index, skipped):
            titles[str(value.get("id"))] = str(value.get("thread_name") or "")
    units = []
    for path, state in files:
        if path.suffix == ".jsonl":
            units.append(Unit(str(path.relative_to(root)), stamp_of(state), partial(_talks, path, titles, skipped)))
        else:
            skipped["compressed files (unpack them first)"] += 1
    return Source("codex", "Codex", units)


def _talks(path: Path, titles: dict[str, str], skipped: Skipped) -> Iterator[Talk]:
    found = _ID.findall(path.name)
    meta: dict[str, Any] = {}
    _, first = next(lines_of(path, Skipped()), (0, {}))
    if first.get("type") == "session_meta" and isinstance(first.get("payload"), dict):
        meta = first["payload"]
    elif "id" in first:
        meta = first
    ident = str(meta.get("id") or (found[-1] if found else path.stem))
    source = meta.get("source")
    is_sub = isinstance(source, dict) and "subagent" in source
    parents = [each for each in _ID.findall(str(source)) if each != ident] if is_sub else []
    began = milliseconds(meta.get("timestamp")) or milliseconds(first.get("timestamp"))
    yield Talk(
        ident,
        _said(path, ident, began, skipped),
        titles.get(ident, ""),
        str(meta.get("cwd") or ""),
        began or int(path.stat().st_mtime * 1000),
        parent=(parents[0] if parents else ident) if is_sub else "",
    )


def _said(path: Path, ident: str, began: int, skipped: Skipped) -> Iterator[Said]:
    """The items of the conversation. What the user went back from stays as a branch that was left."""
    blocks = Blocks("openai")
    model = last = ""
    turns: list[str] = []  # the entry before each message of the user
    for number, (_, line) in enumerate(lines_of(path, skipped)):
        payload = line.get("payload")
        item = payload if isinstance(payload, dict) else line
        match line.get("type"):
            case "turn_context":
                model = str(item.get("model") or model)
                continue
            case "event_msg" if item.get("type") == "thread_rolled_back":
                count = item.get("num_turns")
                if isinstance(count, int) and 0 < count <= len(turns):
                    last = turns[-count]
                    del turns[-count:]
                continue
            case "response_item" | "message" | "function_call" | "function_call_output":
                pass
            case _:
                continue
        at = milliseconds(line.get("timestamp")) or began
        message = _message(item, at, model, blocks, skipped)
        if message is None:
            continue
        if isinstance(message, UserMessage):
            turns.append(last)
        parent, last = last, entry_id(f"{ident}:{number}")
        yield Said(last, message, parent)


def _message(item: dict[str, Any], at: int, model: str, blocks: Blocks, skipped: Skipped) -> Message | None:
    kind = str(item.get("type"))
    if kind in _CALLS:
        name = item.get("name") or ("shell" if kind == "local_shell_call" else "")
        call: ToolCallBlock = blocks.call(item.get("call_id") or item.get("id"), name, item.get(_CALLS[kind]))
        return AssistantMessage([call], provider="openai", model=model, stop_reason="toolUse", timestamp=at)
    if kind in _OUTPUTS:
        output = item.get("output")
        body = output.get("content") if isinstance(output, dict) else output
        failed = isinstance(output, dict) and output.get("success") is False
        return blocks.result({"tool_use_id": item.get("call_id"), "content": body, "is_error": failed}, at)
    if kind != "message":
        skipped["entries of unknown types"] += kind not in _OF_THE_PROGRAM
        return None
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [text for each in parts if (text := text_in(each))]
    if item.get("role") == "user":
        said = [text for text in texts if not _CONTEXT.match(text)]
        return next(blocks.user("\n".join(said), at), None) if said else None
    if item.get("role") == "assistant":
        return next(blocks.assistant("\n".join(texts), at, model), None)
    return None
