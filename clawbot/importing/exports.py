"""Reads the exports of ChatGPT and Claude.ai: `conversations.json`, alone, in a folder or in a zip archive."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clawbot.importing.source import (
    MOST_TALKS,
    Blocks,
    ImportFailedError,
    Said,
    Skipped,
    Source,
    Talk,
    Unit,
    array_items,
    entry_id,
    milliseconds,
    open_plain,
    text_in,
    zip_members,
)
from clawbot.messages import Message, TextBlock

CONVERSATIONS = re.compile(r"conversations(?:[-_]\d+)?\.json")
# Marks of ChatGPT around references, in characters that no font has.
_REFERENCES = re.compile("[\ue200\ue203-\ue206].*?[\ue201\ue204]", re.DOTALL)
_HIDDEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}


def read_export(path: Path, skipped: Skipped) -> Source | None:
    """The export at `path`; None if there is no `conversations.json`. Blocks. Raises ImportFailedError."""
    items = _items(path, skipped)
    if items is None:
        return None
    first = next(items, None)
    if first is None:
        raise ImportFailedError(f"No conversation can be read in {path}.", hint="Is the download complete?")
    every = islice(chain([first], items), MOST_TALKS)
    memories = path / "memories.json"
    remarks = [f"{memories}: copy into USER.md what you want"] if memories.is_file() else []
    if "mapping" in first:
        return Source("chatgpt", "ChatGPT", (_unit(each, _chatgpt, skipped) for each in every), (), remarks)
    return Source("claude-ai", "Claude.ai", (_unit(each, _claude_ai, skipped) for each in every), (), remarks)


def _items(path: Path, skipped: Skipped) -> Iterator[dict[str, Any]] | None:
    """The conversations of all files of the export, read as they are needed."""
    if path.is_file() and zipfile.is_zipfile(path):
        members = zip_members(path, lambda name: CONVERSATIONS.fullmatch(name) is not None)
        return _zipped(path, members, skipped) if members else None
    inside = (each for depth in ("", "*/", "*/*/") for each in sorted(path.glob(f"{depth}conversations*.json")))
    files = [each for each in inside if CONVERSATIONS.fullmatch(each.name) and each.is_file()]
    files = [path] if path.is_file() and path.suffix == ".json" else files
    return _plain(files, skipped) if files else None


def _plain(files: list[Path], skipped: Skipped) -> Iterator[dict[str, Any]]:
    for path in files:
        try:
            with open_plain(path) as file:
                yield from array_items(file, skipped)
        except OSError:
            skipped["files that can't be read"] += 1


def _zipped(path: Path, members: list[zipfile.ZipInfo], skipped: Skipped) -> Iterator[dict[str, Any]]:
    with open_plain(path) as whole, zipfile.ZipFile(whole) as archive:
        for member in sorted(members, key=lambda each: each.filename):
            try:
                with archive.open(member) as file:
                    yield from array_items(file, skipped)
            except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError):  # damaged, or with a password
                skipped["damaged or encrypted files in the archive"] += 1


def _unit(item: dict[str, Any], read: Any, skipped: Skipped) -> Unit:
    ident = str(item.get("conversation_id") or item.get("uuid") or item.get("id") or entry_id(repr(item)[:10_000]))
    size = len(item.get("mapping") or item.get("chat_messages") or ())
    changed = item.get("update_time") or item.get("updated_at")
    stamp = f"{changed}:{size}:{item.get('current_node') or item.get('current_leaf_message_uuid') or ''}"
    return Unit(ident, stamp, partial(_talks, ident, item, read, skipped))


def _talks(ident: str, item: dict[str, Any], read: Any, skipped: Skipped) -> Iterator[Talk]:
    title = item.get("title") or item.get("name")
    began = milliseconds(item.get("create_time") or item.get("created_at"))
    yield Talk(ident, read(item, skipped), title if isinstance(title, str) else "", began=began)


def _numbered(ident: str, messages: Iterator[Message]) -> Iterator[Said]:
    for number, message in enumerate(messages):
        yield Said(entry_id(f"{ident}:{number}"), message)


def _chatgpt(item: dict[str, Any], skipped: Skipped) -> Iterator[Said]:
    nodes = item.get("mapping")
    nodes = {key: each for key, each in nodes.items() if isinstance(each, dict)} if isinstance(nodes, dict) else {}
    blocks, waiting = Blocks("openai"), list[str]()
    for key in _path(nodes, str(item.get("current_node") or "")):
        message = nodes[key].get("message")
        if isinstance(message, dict):
            yield from _numbered(key, _of_chatgpt(message, blocks, waiting, skipped))


def _path(nodes: dict[str, dict[str, Any]], leaf: str) -> list[str]:
    """The ids from the root to `leaf`, by default the newest message that nothing follows."""
    if leaf not in nodes:
        ends = [key for key, node in nodes.items() if not node.get("children")]
        leaf = max(ends, key=lambda key: milliseconds((nodes[key].get("message") or {}).get("create_time")), default="")
    path: dict[str, None] = {}
    while leaf in nodes and leaf not in path:
        path[leaf] = None
        leaf = str(nodes[leaf].get("parent") or "")
    return [*path][::-1]


def _of_chatgpt(message: dict[str, Any], blocks: Blocks, waiting: list[str], skipped: Skipped) -> Iterator[Message]:
    author, content, facts = (message.get(each) or {} for each in ("author", "content", "metadata"))
    if not (isinstance(author, dict) and isinstance(content, dict) and isinstance(facts, dict)):
        skipped["messages that can't be read"] += 1
        return
    kind, role, to = content.get("content_type"), author.get("role"), message.get("recipient") or "all"
    if kind in _HIDDEN or facts.get("is_visually_hidden_from_conversation") is True:
        skipped["profiles and instructions (copy them into USER.md)"] += kind == "user_editable_context"
        return
    at, model = milliseconds(message.get("create_time")), str(facts.get("model_slug") or "")
    text = _REFERENCES.sub("", _text_of(content)).strip()
    if role == "user" and text:
        yield from blocks.user(text, at)
    elif role == "assistant" and text and to == "all":
        yield from blocks.assistant(text, at, model)
    elif role == "assistant" and text:
        ident = str(message.get("id") or entry_id(text))
        waiting.append(ident)
        yield from blocks.assistant([{"type": "tool_use", "id": ident, "name": to, "input": text}], at, model)
    elif role == "tool" and waiting:
        yield blocks.result({"tool_use_id": waiting.pop(), "content": text}, at)


def _text_of(content: dict[str, Any]) -> str:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return next((each for name in ("text", "result", "content") if isinstance(each := content.get(name), str)), "")
    return "\n".join(filter(None, (each if isinstance(each, str) else text_in(each) for each in parts)))


def _claude_ai(item: dict[str, Any], skipped: Skipped) -> Iterator[Said]:
    raw = item.get("chat_messages")
    messages = {}
    for number, each in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(each, dict):
            messages[str(each.get("uuid") or number)] = each
        else:
            skipped["messages that can't be read"] += 1
    blocks = Blocks("anthropic")
    for key in _active(messages, str(item.get("current_leaf_message_uuid") or "")):
        yield from _numbered(key, _of_claude_ai(messages[key], blocks, str(item.get("model") or "")))


def _active(messages: dict[str, dict[str, Any]], leaf: str) -> list[str]:
    """The ids of the branch that ends with `leaf`, by default the last message; all if they have no parents."""
    nodes = {key: {**each, "parent": each.get("parent_message_uuid")} for key, each in messages.items()}
    if not any(str(node["parent"]) in nodes for node in nodes.values()):
        return [*nodes]
    return _path(nodes, leaf if leaf in nodes else next(reversed(nodes)))


def _of_claude_ai(message: dict[str, Any], blocks: Blocks, model: str) -> Iterator[Message]:
    at = milliseconds(message.get("created_at"))
    content = message.get("content") or message.get("text")
    if message.get("sender") == "assistant":
        yield from blocks.assistant(content, at, model)
        return
    attached = [
        TextBlock(each["extracted_content"], attached=str(each.get("file_name") or "attachment"))
        for each in message.get("attachments") or ()
        if isinstance(each, dict) and isinstance(each.get("extracted_content"), str)
    ]
    yield from blocks.user(content, at, attached)
