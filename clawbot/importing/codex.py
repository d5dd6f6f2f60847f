"""Reads the sessions of Codex: `rollout-*.jsonl` with one event a line; the first versions wrote one JSON object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clawbot.importing.content import UUID, Blocks, blocks_of, entry_id, first_time, text_in
from clawbot.importing.source import Said, Skipped, Source, Talk, files_in, left_in, lines_of, small_json, unit_of
from clawbot.messages import AssistantMessage, Message, UserMessage

# What the program puts before the words of the user.
_CONTEXT = re.compile(
    r"\s*(?:<(?:user_instructions|environment_context|instructions|permissions instructions|turn_aborted|skills?"
    r"|subagent_notification|collaboration_mode|model_switch|apps_instructions|plugins_instructions"
    r"|user_shell_command|personality_spec)\b|# AGENTS\.md instructions for |</?image\b[^>]*>\s*\Z)",
    re.IGNORECASE,
)
# Editors put files and pages above the words of the user.
_EDITOR = re.compile(r"\A\s*[#<].*?^## My request for Codex:[ \t]*\n", re.DOTALL | re.MULTILINE)
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_ITEMS = {"response_item", "message", *_CALLS, *_OUTPUTS}  # older versions have no response_item
_OF_THE_PROGRAM = {"reasoning", "ghost_snapshot", "web_search_call", "compaction", "other", "message"}


def read_codex(root: Path, skipped: Skipped) -> Source:
    """Return the sessions below `root` (`~/.codex`, or a folder of rollouts), archived ones too. Blocks."""

    def fits(name: str) -> bool:
        _, is_rollout, rest = f"/{name}".rpartition("/rollout-")
        is_plain = rest.endswith((".jsonl", ".json"))
        skipped["compressed files (unpack them first)"] += bool(is_rollout) and ".json" in rest and not is_plain
        return bool(is_rollout) and is_plain

    index = root / "session_index.jsonl"
    named = [value for _, value in lines_of(index, skipped)] if index.is_file() else []
    titles = {str(value.get("id")): str(value.get("thread_name") or "") for value in named}
    talks = partial(_talks, titles=titles, skipped=skipped)
    units = [unit_of(root / name, name, talks) for name in files_in(root, fits, skipped)]
    left = left_in(root, "notes ({n}), such as {path}: copy what you want", "AGENTS.md", "memories/*.md")
    return Source("codex", "Codex", units, left)


def _lines(path: Path, skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Yield the events in a file, the first of which describes the session."""
    if path.suffix == ".jsonl":
        yield from (value for _, value in lines_of(path, skipped))
        return
    whole = small_json(path)
    items = whole.get("items")
    skipped["files that can't be read"] += not isinstance(items, list)
    yield from (each for each in (whole.get("session"), *(items or ())) if isinstance(each, dict))


def _talks(path: Path, titles: dict[str, str], skipped: Skipped) -> Iterator[Talk]:
    first = next(_lines(path, Skipped()), {})
    payload = first.get("payload")
    meta: dict[str, Any] = payload if first.get("type") == "session_meta" and isinstance(payload, dict) else first
    ident = str(meta.get("id") or next(iter(UUID.findall(path.name)), path.stem))
    parent, source = "", meta.get("source")
    if isinstance(source, dict) and "subagent" in source:
        parent = next((each for each in UUID.findall(str(source)) if each != ident), ident)
    began = first_time(meta.get("timestamp"), first.get("timestamp"), path.stat().st_mtime)
    said = _said(path, ident, began, skipped)
    yield Talk(ident, said, titles.get(ident, ""), str(meta.get("cwd") or ""), began, parent=parent)


def _said(path: Path, ident: str, began: int, skipped: Skipped) -> Iterator[Said]:
    """Yield the messages. What the user went back from stays as a branch that was left."""
    blocks = Blocks("openai")
    model = last = ""
    turns: list[str] = []  # the entry before each message of the user
    for number, line in enumerate(_lines(path, skipped)):
        payload, kind = line.get("payload"), str(line.get("type"))
        item = payload if isinstance(payload, dict) else line
        count = item.get("num_turns")
        if kind == "turn_context":
            model = str(item.get("model") or model)
        elif item.get("type") == "thread_rolled_back" and isinstance(count, int) and 0 < count <= len(turns):
            last = turns[-count]
            del turns[-count:]
        elif kind in _ITEMS:
            at = first_time(line.get("timestamp"), began)
            if message := _message(item, at, model, blocks, skipped):
                turns += [last] if isinstance(message, UserMessage) else []
                parent, last = last, entry_id(f"{ident}:{number}")
                yield Said(last, message, parent)


def _message(item: dict[str, Any], at: int, model: str, blocks: Blocks, skipped: Skipped) -> Message | None:
    kind, role, content, output = str(item.get("type")), *map(item.get, ("role", "content", "output"))
    if kind in _CALLS:
        name = item.get("name") or ("shell" if kind == "local_shell_call" else "")
        call = blocks.call(item.get("call_id") or item.get("id"), name, item.get(_CALLS[kind]))
        return AssistantMessage([call], provider="openai", model=model, stop_reason="toolUse", timestamp=at)
    if kind in _OUTPUTS:
        whole = output if isinstance(output, dict) else {"content": output}
        failed = whole.get("success") is False
        return blocks.result({**whole, "tool_use_id": item.get("call_id"), "is_error": failed}, at)
    skipped["entries of unknown types"] += kind not in _OF_THE_PROGRAM
    if kind != "message" or role not in ("user", "assistant"):
        return None
    texts = [text for each in blocks_of(content) if (text := text_in(each))]
    if role == "assistant":
        return next(blocks.assistant("\n".join(texts), at, model), None)
    texts = [text for each in texts if not _CONTEXT.match(each) and (text := _EDITOR.sub("", each))]
    return next(blocks.user("\n".join(texts), at), None)
