"""What the model of a session has seen of files: the last version of each, and whether it saw all of it.

Everything is derived from the request that the model answered: the records in the details of results, attached files
and the files in the system prompt. So it survives a restart, and what a compaction, a rewind or pruning took from the
context was not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from clawbot.files import version_of
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.tools.protocol import IGNORED

NOTHING = version_of(b"")

R = TypeVar("R", bound=Struct)


class Shown(Struct, frozen=True):
    """The record of a result: lines `first` to `last` of `total` of the version `digest` of the file `path`, without
    the lines `cut`, in the result of `chars` characters; a shortened one counts no more."""

    path: str
    digest: str
    chars: int
    first: int
    last: int
    total: int
    cut: tuple[int, ...] = ()


class Difference(Struct, frozen=True):
    """The record of a refused `write` of the content `refused`, whose result of `chars` characters holds all that
    differs in the version `digest` of the file `path` from the text that the model knew, with the digest `known`."""

    path: str
    digest: str
    chars: int
    known: str
    refused: str


class Views:
    """The versions of files in the messages `sent` to a model and in its `prompt` (path, digest and text of each file),
    from which it works as long as the messages hold nothing of a file. `since` are the results of the calls in its
    answer, of which only its own changes count: it wrote all calls before it saw any result. `known` is the text of
    each file that it saw completely, by path, with its own changes since and without line breaks of Windows."""

    def __init__(
        self,
        sent: Sequence[Message] = (),
        since: Sequence[Message] = (),
        prompt: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        self._complete: dict[str, int] = {NOTHING: 0}  # digest -> when all of the version was seen last
        self._lines = defaultdict[str, dict[int, str]](dict)
        self._last: dict[str, tuple[int, str]] = {}  # path -> when which version was seen last
        self.known: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._calls: dict[str, ToolCallBlock] = {}
        for path, digest, text in prompt:
            self._see(0, path, digest, text)
        for at, message in enumerate((*sent, *since), 1):
            self._take(at, message, is_sent=at <= len(sent))

    def has_seen(self, path: str, before: bytes, after: bytes) -> bool:
        """Whether the model has seen all of the content `before` of the file `path`, and may replace it with `after`.
        What it has seen only as the difference in a refusal is not replaced with just what was refused."""
        now = version_of(before)
        at, last = self._last.get(path, (0, now))
        seen_at = self._complete.get(now, -1)
        is_last = last == now or seen_at > at
        return seen_at >= 0 and is_last and self._refused.get(now) != version_of(after)

    def version(self, path: str) -> str:
        return version_of(self.known.get(path, "").encode(errors="replace"))

    def count(self, before: bytes) -> int:
        """The number of lines that the model has seen of this content of a file."""
        return len(self._lines.get(version_of(before), ()))

    def _take(self, at: int, message: Message, *, is_sent: bool) -> None:
        match message:
            case AssistantMessage():
                self._calls |= {call.id: call for call in message.tool_calls}
            case UserMessage(content=[*blocks]):
                for block in blocks:
                    if isinstance(block, TextBlock) and block.digest:
                        self._see(at, block.path, block.digest, "\n".join(block.text.split("\n")[2:-1]))
            case ToolResultMessage(details={"path": str(path), "seen": {"was": str(was), "digest": str(now)}}):
                self._change(at, path, was, now, self._calls.get(message.tool_call_id))
            case ToolResultMessage(details={"seen": {"chars": int(chars)} as record}) if is_sent:
                if chars in (len(message.text), len(message.text.rpartition(IGNORED)[0])):
                    self._take_result(at, message, record)

    def _take_result(self, at: int, message: ToolResultMessage, record: Any) -> None:
        if shown := _converted(record, Shown):
            self._show(at, shown, _text_in(message, shown.chars))
        elif (difference := _converted(record, Difference)) and difference.known == self.version(difference.path):
            self._last[difference.path] = at, difference.digest
            self._complete.setdefault(difference.digest, at)
            self._refused[difference.digest] = difference.refused

    def _show(self, at: int, shown: Shown, text: str) -> None:
        lines = self._lines[shown.digest]
        numbered = zip(range(shown.first, shown.last + 1), text.split("\n"), strict=False)
        lines.update((number, line) for number, line in numbered if number not in shown.cut)
        self._last[shown.path] = at, shown.digest
        if len(lines) >= shown.total:
            self._see(at, shown.path, shown.digest, "\n".join(lines[number] for number in sorted(lines)))

    def _see(self, at: int, path: str, digest: str, text: str) -> None:
        self._complete[digest] = at
        self._refused.pop(digest, None)
        self._last[path] = at, digest
        self.known[path] = text.replace("\r\n", "\n").rstrip("\r")

    def _change(self, at: int, path: str, was: str, now: str, call: ToolCallBlock | None) -> None:
        """Take a change from the version `was` to `now`: who has seen the one has seen the other."""
        self._last[path] = at, now
        if was in self._complete:
            self._complete[now] = at
            self._refused.pop(now, None)
        if call is not None and (was == NOTHING or path in self.known):
            self.known[path] = _text_after(self.known.get(path, ""), call)


def _text_in(message: ToolResultMessage, chars: int) -> str:
    """The lines of the file in a result of `chars` characters."""
    text = message.text[:chars]
    if message.tool_name != "memory_get":
        return text
    try:
        return str(msgspec.json.decode(text)["text"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return ""


def _text_after(text: str, call: ToolCallBlock) -> str:
    """`text` after the change by `call`."""
    given = {name: value.replace("\r\n", "\n") for name, value in call.arguments.items() if isinstance(value, str)}
    match call.name, given:
        case "write", {"content": content}:
            return content
        case "append", {"content": content}:
            return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{content}"
        case "edit", {"old": old, "new": new}:
            return text.replace(old, new)
    return text


def _converted(record: Any, kind: type[R]) -> R | None:
    """`record` as a `kind`; None for a damaged one."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError:
        return None


VIEWS: ContextVar[Callable[[], Views]] = ContextVar("VIEWS", default=Views)
"""The views of the model whose calls run; without a session nothing was seen."""
