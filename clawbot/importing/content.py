"""Turns the content of messages of other programs into ours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clawbot.importing.source import Said, as_line
from clawbot.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.entries import iso_ms

_SILENT = {"thinking", "redacted_thinking", "token_budget", "flag"}  # blocks that say nothing to the user
_NAMES = ("title", "filename", "file_name", "name")  # of what a block or an attachment holds
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_FAR = 10**11  # a time in seconds is smaller until the year 5138, one in milliseconds larger since 1973
_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def entry_id(text: str) -> str:
    """Return the id of the entry called `text` in its conversation, the same at each reading."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def branch(parents: dict[str, str], leaf: str) -> list[str]:
    """Return the ids from the root to `leaf` (unknown: the last one); all ids if none has a parent."""
    if not any(parent in parents for parent in parents.values()):
        return [*parents]
    at = leaf if leaf in parents else next(reversed(parents))
    found: dict[str, None] = {}
    while at in parents and at not in found:
        found[at] = None
        at = parents[at]
    return [*found][::-1]


def first_time(*values: Any) -> int:
    """Return the first of the times, which are ISO 8601, seconds or milliseconds, as milliseconds since the epoch; 0
    without any."""
    for value in values:
        if isinstance(value, str) and (found := iso_ms(value)) > 0:
            return found
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _FAR * 1000:
            return int(value if value >= _FAR else value * 1000)
    return 0


def numbered(ident: str, messages: Iterable[Message]) -> Iterator[Said]:
    """Yield the messages that stand in the entry `ident` of another program."""
    for number, message in enumerate(messages):
        yield Said(entry_id(f"{ident}:{number}"), message)


class Blocks:
    """Turns content in Anthropic's form into our messages. It knows the calls of the conversation, so that a result has
    the name of its tool; `open` are the ids of those without a result."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._names: dict[str, str] = {}
        self.open: list[str] = []

    def user(self, content: Any, at: int, files: Any = (), pasted: Sequence[TextBlock] = ()) -> Iterator[Message]:
        """Yield the results in `content`, then what the user said; if nothing was, the names of the attached `files`.
        `pasted` is text of files that a model reads."""
        blocks = blocks_of(content)
        yield from (self.result(block, at) for block in blocks if block.get("type") == "tool_result")
        text = joined([block for block in blocks if block.get("type") != "tool_result"])
        if text := text or joined([{"type": "file", **each} for each in files if isinstance(each, dict)]):
            yield UserMessage(content=[TextBlock(text), *pasted] if pasted else text, timestamp=at)

    def assistant(self, content: Any, at: int, model: str = "", stop: Any = None) -> Iterator[Message]:
        """Yield the answers in `content`, apart where results of tools come between. Reasoning is left out."""
        made: list[AssistantBlock] = []
        for block in (*blocks_of(content), {"type": "end"}):
            kind = block.get("type")
            if kind in ("tool_result", "end"):
                if made:
                    calls = any(isinstance(each, ToolCallBlock) for each in made)
                    reason: StopReason = "toolUse" if calls else "length" if stop == "max_tokens" else "stop"
                    yield AssistantMessage(made, provider=self._provider, model=model, stop_reason=reason, timestamp=at)
                    made = []
                if kind == "tool_result":
                    yield self.result(block, at)
            elif kind in ("tool_use", "server_tool_use"):
                made.append(self.call(block.get("id"), block.get("name"), block.get("input")))
            elif kind not in _SILENT and (text := text_in(block)):
                made.append(TextBlock(text))

    def call(self, ident: Any, name: Any, arguments: Any) -> ToolCallBlock:
        """Return a call of a tool; it is shown and never run."""
        ident = str(ident) if ident else f"call_{len(self._names)}"
        tool = self._names[ident] = _TOOL_NAME.sub("_", str(name or "tool"))[:64]
        self.open.append(ident)
        if isinstance(arguments, str):
            parsed = as_line(arguments.encode("utf-8", "replace"))
            arguments = {"input": arguments} if parsed is None else parsed
        return ToolCallBlock(ident, tool, arguments if isinstance(arguments, dict) else {})

    def result(self, block: dict[str, Any], at: int) -> ToolResultMessage:
        """Return the result of a call, without an id that of the last one that is open."""
        ident = str(block.get("tool_use_id") or next(reversed(self.open), ""))
        self.open = [each for each in self.open if each != ident]
        text, name = TextBlock(joined(block.get("content"))), self._names.get(ident, "tool")
        return ToolResultMessage(ident, name, [text], is_error=block.get("is_error") is True, timestamp=at)


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a message's content, of which a text is one."""
    blocks = content if isinstance(content, list) else [content]
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks if each]


def joined(content: Any) -> str:
    """Return the texts of a message's content."""
    return "\n".join(filter(None, map(text_in, blocks_of(content))))


def text_in(block: Any) -> str:
    """Return the text of a content block; any other content is named in brackets, by its own name or by its kind."""
    if not isinstance(block, dict):
        return ""
    text = block.get("text")
    if isinstance(text, str):
        return text.strip()
    kind = str(block.get("type") or block.get("content_type") or "")
    kind = kind.removesuffix("_asset_pointer").removeprefix("input_").replace("_", " ")
    name = next((each for key in _NAMES if isinstance(each := block.get(key), str) and each), kind)
    return f"[{name}]" if kind else ""
