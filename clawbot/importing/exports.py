"""Reads the exports of ChatGPT and Claude.ai: `conversations.json`, alone, in a folder or in a zip archive."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from clawbot.importing.content import Blocks, entry_id, joined, numbered
from clawbot.importing.source import Said, Skipped, Source, Talk, Unit, array_items, milliseconds, open_plain
from clawbot.messages import Message, TextBlock

CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
# Marks of ChatGPT around references, in characters that no font has.
_REFERENCES = re.compile("[\ue200\ue203-\ue206].*?[\ue201\ue204]", re.DOTALL)
# Some stand for words: entities, whose second value is the name, and links with their text.
_NAMED = re.compile(
    r"\ue200(?:entity\ue202\[\s*\"[^\"\ue201]*\"\s*,\s*(\"(?:[^\"\\\ue201]|\\.)*\")|url\ue202([^\ue201\ue202]*))"
    r"[^\ue201]*\ue201"
)
_MOST_STRANGE = 1000  # entries that are no conversations, before the first one
_HIDDEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}
_DAMAGES = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError)
"""What zipfile raises: RuntimeError where a file has a password, NotImplementedError for an unknown compression."""


def read_export(path: Path, skipped: Skipped) -> Source | None:
    """Return the export at `path`; None if no conversation can be read there. Blocks. Raises OSError."""
    items = _items(path, skipped)
    for first in islice(items, _MOST_STRANGE):
        if "mapping" in first or "chat_messages" in first:
            break
        skipped["entries that are no conversations"] += 1
    else:
        return None
    memories = path / "memories.json"
    remarks = [f"{memories}: copy into USER.md what you want"] if memories.is_file() else []
    name, label, read = (
        ("chatgpt", "ChatGPT", _chatgpt) if "mapping" in first else ("claude-ai", "Claude.ai", _claude_ai)
    )
    return Source(name, label, (_unit(each, read, skipped) for each in chain([first], items)), (), remarks)


def _items(path: Path, skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Yield the conversations of all files of the export, read as they are needed and never unpacked."""
    with ExitStack() as stack:
        if path.is_file() and zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(open_plain(path))))
            names = sorted(name for name in archive.namelist() if "__MACOSX" not in name)
            files: dict[str, Callable[[], IO[bytes]]] = {name: partial(archive.open, name) for name in names}
        else:
            found = (each for depth in ("", "*/", "*/*/") for each in sorted(path.glob(f"{depth}conversations*.json")))
            files = {str(each): partial(open_plain, each) for each in found}
            files |= {"conversations.json": partial(open_plain, path)} if path.suffix == ".json" else {}
        for name, opened in files.items():
            try:
                if CONVERSATIONS.fullmatch(name):
                    with opened() as file:
                        yield from array_items(file, skipped)
            except OSError:
                skipped["files that can't be read"] += 1
            except _DAMAGES:
                skipped["damaged or encrypted files in the archive"] += 1


def _unit(item: dict[str, Any], read: Callable[[dict[str, Any], Skipped], Iterator[Said]], skipped: Skipped) -> Unit:
    ident = str(item.get("conversation_id") or item.get("uuid") or item.get("id") or entry_id(repr(item)[:10_000]))
    messages = item.get("mapping") or item.get("chat_messages")
    size = len(messages) if isinstance(messages, dict | list) else 0
    changed = item.get("update_time") or item.get("updated_at")
    stamp = f"{changed}:{size}:{item.get('current_node') or item.get('current_leaf_message_uuid') or ''}"
    title = item.get("title") or item.get("name")
    began = milliseconds(item.get("create_time") or item.get("created_at"))
    talk = Talk(ident, read(item, skipped), title if isinstance(title, str) else "", began=began)
    return Unit(ident, stamp, lambda: [talk])


def _branch(parents: dict[str, str], leaf: str) -> list[str]:
    """Return the ids from the root to `leaf`, by default the last one; all ids if none has a parent."""
    if not any(parent in parents for parent in parents.values()):
        return [*parents]
    at = leaf if leaf in parents else next(reversed(parents))
    found: dict[str, None] = {}
    while at in parents and at not in found:
        found[at] = None
        at = parents[at]
    return [*found][::-1]


def _chatgpt(item: dict[str, Any], skipped: Skipped) -> Iterator[Said]:
    nodes = {key: node for key, node in item["mapping"].items() if isinstance(node, dict)}
    parents = {key: str(node.get("parent")) for key, node in nodes.items()}
    blocks, waiting = Blocks("openai"), list[str]()
    for key in _branch(parents, str(item.get("current_node"))):
        if message := nodes[key].get("message"):
            yield from numbered(key, _of_chatgpt(message, blocks, waiting, skipped))


def _of_chatgpt(message: Any, blocks: Blocks, waiting: list[str], skipped: Skipped) -> Iterator[Message]:
    try:
        author, content, facts = (message.get(each) or {} for each in ("author", "content", "metadata"))
        kind, role, model = content.get("content_type"), author.get("role"), str(facts.get("model_slug") or "")
    except AttributeError:
        skipped["messages that can't be read"] += 1
        return
    if kind in _HIDDEN or facts.get("is_visually_hidden_from_conversation") is True:
        skipped["profiles and instructions (copy them into USER.md)"] += kind == "user_editable_context"
        return
    at, to = milliseconds(message.get("create_time")), message.get("recipient") or "all"
    parts = next(filter(None, map(content.get, ("parts", "text", "result", "content"))), None)
    text = _REFERENCES.sub("", _NAMED.sub(_words, joined(parts))).strip()
    if role == "user" and text:
        yield from blocks.user(text, at)
    elif role == "assistant" and text and to == "all":
        yield from blocks.assistant(text, at, model)
    elif role == "assistant" and text:
        waiting.append(str(message.get("id") or entry_id(text)))
        yield from blocks.assistant([{"type": "tool_use", "id": waiting[-1], "name": to, "input": text}], at, model)
    elif role == "tool" and waiting:
        yield blocks.result({"tool_use_id": waiting.pop(), "content": text}, at)


def _words(named: re.Match[str]) -> str:
    try:
        return named[2] if named[1] is None else str(json.loads(named[1]))
    except ValueError:
        return ""


def _claude_ai(item: dict[str, Any], skipped: Skipped) -> Iterator[Said]:
    listed = item.get("chat_messages") or []
    messages = {str(each.get("uuid") or at): each for at, each in enumerate(listed) if isinstance(each, dict)}
    skipped["messages that can't be read"] += len(listed) - len(messages)
    parents = {key: str(each.get("parent_message_uuid")) for key, each in messages.items()}
    blocks, model = Blocks("anthropic"), str(item.get("model") or "")
    for key in _branch(parents, str(item.get("current_leaf_message_uuid"))):
        yield from numbered(key, _of_claude_ai(messages[key], blocks, model))


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
