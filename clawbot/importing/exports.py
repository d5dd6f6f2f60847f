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
from typing import IO, Any, NamedTuple

from clawbot.importing.source import (
    Blocks,
    Session,
    Skipped,
    Source,
    Unit,
    array_items,
    branch,
    entry_id,
    first_time,
    joined,
    left_in,
    numbered,
    open_plain,
    real_folders,
)
from clawbot.messages import Message, TextBlock

CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
# Marks of ChatGPT around references, in characters that no font has.
_REFERENCES = re.compile("[\ue200\ue203-\ue206].*?[\ue201\ue204]", re.DOTALL)
# Some replace words: entities, whose second value is the name, and links with their text.
_NAMED = re.compile(
    r"\ue200(?:entity\ue202\[\s*\"[^\"\ue201]*\"\s*,\s*(\"(?:[^\"\\\ue201]|\\.)*\")|url\ue202([^\ue201\ue202]*))"
    r"[^\ue201]*\ue201"
)
_MAX_STRANGE = 1000  # entries that are no conversations, before the first one
_HIDDEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}
_DAMAGES = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError)
"""What zipfile raises: RuntimeError where a file has a password, NotImplementedError for an unknown compression."""


class _Form(NamedTuple):
    """A program, the names of the fields of its conversations, and what yields the messages of one of their entries."""

    name: str
    label: str
    provider: str
    read: Callable[[dict[str, Any], dict[str, Any], Blocks, Skipped], Iterator[Message]]
    entries: str
    id: str
    title: str
    began: str
    changed: str
    leaf: str
    parent: str


def read_export(path: Path, skipped: Skipped) -> Source | None:
    """Return the export at `path`; None if no conversation can be read there. Blocks. Raises OSError."""
    items = _items(path, skipped)
    for first in islice(items, _MAX_STRANGE):
        if form := next((each for each in _FORMS if each.entries in first), None):
            left = left_in(path, "{path}: copy into USER.md what you want", "memories.json")
            return Source(form.name, form.label, (_unit(each, form, skipped) for each in chain([first], items)), left)
        skipped["entries that are no conversations"] += 1
    return None


def _items(path: Path, skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Yield the conversations of all files of the export, read as they are needed and never unpacked."""
    with ExitStack() as stack:
        if path.is_file() and zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(open_plain(path))))
            names = sorted(name for name in archive.namelist() if "__MACOSX" not in name)
            files: dict[str, Callable[[], IO[bytes]]] = {name: partial(archive.open, name) for name in names}
        else:
            folders = real_folders(path, ".", "*", "*/*")
            found = (each for folder in folders for each in sorted(folder.glob("conversations*.json")))
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


def _unit(item: dict[str, Any], form: _Form, skipped: Skipped) -> Unit:
    ident = str(item.get(form.id) or item.get("id") or entry_id(repr(item)[:10_000]))
    entries, title = item.get(form.entries), item.get(form.title)
    size = len(entries) if isinstance(entries, dict | list) else 0
    stamp = f"{item.get(form.changed)}:{size}:{item.get(form.leaf) or ''}"

    def sessions() -> Iterator[Session]:
        listed = entries.items() if isinstance(entries, dict) else enumerate(entries or ())
        found = {str(each.get("uuid") or key): each for key, each in listed if isinstance(each, dict)}
        skipped["messages that can't be read"] += size - len(found)
        parents = {key: str(each.get(form.parent)) for key, each in found.items()}
        blocks, keys = Blocks(form.provider), branch(parents, str(item.get(form.leaf)))
        messages = (each for key in keys for each in numbered(key, form.read(found[key], item, blocks, skipped)))
        name = title if isinstance(title, str) else ""
        yield Session(ident, messages, name, began=first_time(item.get(form.began)))

    return Unit(ident, stamp, sessions)


def _chatgpt(node: dict[str, Any], _: dict[str, Any], blocks: Blocks, skipped: Skipped) -> Iterator[Message]:
    message = node.get("message") or {}
    try:
        author, content, facts = (message.get(each) or {} for each in ("author", "content", "metadata"))
        kind, role, model = content.get("content_type"), author.get("role"), str(facts.get("model_slug") or "")
    except AttributeError:
        skipped["messages that can't be read"] += 1
        return
    if kind in _HIDDEN or facts.get("is_visually_hidden_from_conversation") is True:
        skipped["profiles and instructions (copy them into USER.md)"] += kind == "user_editable_context"
        return
    at, to = first_time(message.get("create_time")), message.get("recipient") or "all"
    parts = next(filter(None, map(content.get, ("parts", "text", "result", "content"))), None)
    text = _REFERENCES.sub("", _NAMED.sub(_words, joined(parts))).strip()
    if role == "user":
        yield from blocks.user(text, at, facts.get("attachments") or ())
    elif role == "assistant" and text and to == "all":
        yield from blocks.assistant(text, at, model)
    elif role == "assistant" and text:
        ident = message.get("id") or entry_id(text)
        yield from blocks.assistant([{"type": "tool_use", "id": ident, "name": to, "input": text}], at, model)
    elif role == "tool" and blocks.open:
        yield blocks.result({"content": text}, at)


def _words(named: re.Match[str]) -> str:
    try:
        return named[2] if named[1] is None else str(json.loads(named[1]))
    except ValueError:
        return ""


def _claude_ai(message: dict[str, Any], item: dict[str, Any], blocks: Blocks, _: Skipped) -> Iterator[Message]:
    at = first_time(message.get("created_at"))
    content = message.get("content") or message.get("text")
    if message.get("sender") == "assistant":
        yield from blocks.assistant(content, at, str(item.get("model") or ""))
        return
    attached = [each for each in message.get("attachments") or () if isinstance(each, dict)]
    pasted = [
        TextBlock(each["extracted_content"], attached=str(each.get("file_name") or "attachment"))
        for each in attached
        if isinstance(each.get("extracted_content"), str)
    ]
    yield from blocks.user(content, at, (*attached, *(message.get("files") or ())), pasted)


_FORMS = (
    _Form(
        *("chatgpt", "ChatGPT", "openai", _chatgpt, "mapping", "conversation_id", "title"),
        *("create_time", "update_time", "current_node", "parent"),
    ),
    _Form(
        *("claude-ai", "Claude.ai", "anthropic", _claude_ai, "chat_messages", "uuid", "name"),
        *("created_at", "updated_at", "current_leaf_message_uuid", "parent_message_uuid"),
    ),
)
