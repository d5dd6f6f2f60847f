"""What the readers of other programs share: conversations as they are read, files within limits, branches of trees.

The content of those folders is untrusted: no link and no special file is opened, and no file is read at once that
may be large.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import logging
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.guarded import NO_PLAIN_FILE, GuardedFolder
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
from clawbot.sessions.entries import as_object, iso_ms
from clawbot.sessions.offsets import ENTRY_START
from clawbot.trees import TreeWalk

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_LINE = 32 * 2**20  # bytes: more than the largest picture in a message
MAX_SESSION = 64 * 2**20  # characters of one conversation in an export
MAX_FILES = 1_000_000
_CHUNK = 2**20


class ImportFailedError(ClawbotError):
    """Nothing can be imported from a path, or a run can't be undone."""


class UnreadableError(Exception):
    """A file, or a conversation in it, can't be read; the text is the reason, for a count."""


Skipped = Counter[str]
"""How much was left out, by reason."""


class Imported(NamedTuple):
    """An entry: its id in the transcript, the message or the entry in the format of our transcripts, and the id of the
    entry before it (None: the one that was read last; "": none)."""

    id: str
    what: Message | dict[str, Any]
    parent: str | None = None


class Session(Struct):
    """A conversation: `ident` is its id in its program, `began` a time (milliseconds) for entries without one. `kind`
    is "cron", "group", "subagent" or ""; `parent` is the conversation for which a sub-agent held it."""

    ident: str
    messages: Iterable[Imported]
    title: str = ""
    cwd: str = ""
    began: int = 0
    kind: str = ""
    parent: str = ""


class Unit(NamedTuple):
    """What is read again completely when `stamp` differs: a file, or a conversation of an export."""

    name: str
    stamp: str
    sessions: Callable[[], Iterable[Session]]


class Source(Struct):
    """What was recognised at a path: the program's `label` and its `name` in keys, its conversations; `remarks` name
    what is there and is not imported. `workspace` is its folder of notes, `jobs` its file of jobs."""

    name: str
    label: str
    units: Iterable[Unit]
    remarks: Sequence[str] = ()
    workspace: Path | None = None
    jobs: Path | None = None


def left_in(root: Path, text: str, *patterns: str) -> list[str]:
    """Return the line that names the files below `root` that are not imported, none if there are none. Blocks."""
    found = [path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()]
    return [text.format(n=len(found), path=found[0])] if found else []


def real_folders(root: Path, *patterns: str) -> list[Path]:
    """Return the folders below the real path `root` that fit the patterns, in their order, without any behind a link;
    "." is `root`. Blocks."""
    found = (each for pattern in patterns for each in (sorted(root.glob(pattern)) if pattern != "." else [root]))
    return [each for each in found if each.is_dir() and each.resolve() == each]


def files_in(root: Path, fits: Callable[[str], bool], skipped: Skipped) -> list[str]:
    """Return the paths of the plain files below `root` that `fits` accepts, relative to it and sorted. Blocks. Raises
    OSError."""
    found = []
    with GuardedFolder(root).folder() as top:
        walk = TreeWalk(top, most=MAX_FILES)
        for entry in walk:
            if not entry.is_folder and fits(entry.path):
                is_plain = stat.S_ISREG(os.stat(entry.name, dir_fd=entry.parent, follow_symlinks=False).st_mode)
                found += [entry.path] if is_plain else []
                skipped["links and special files"] += not is_plain
    skipped["folders that can't be read"] += len(walk.problems)
    return sorted(found)


def unit_of(path: Path, name: str, sessions: Callable[[Path], Iterable[Session]]) -> Unit:
    """Return the unit of the file at `path`, whose conversations are `sessions`. Blocks. Raises OSError."""
    state = path.stat()
    return Unit(name, f"{state.st_size}:{state.st_mtime_ns}", partial(sessions, path))


def reading(items: Iterable[T]) -> Iterator[T]:
    """Yield `items` as a reader makes them. Raises UnreadableError for whatever is wrong with the source."""
    try:
        yield from items
    except OSError as error:
        raise UnreadableError(f"files that can't be read: {error.strerror or error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        log.info("a conversation is in no known form", exc_info=True)
        raise UnreadableError("conversations in an unknown form") from error


def open_plain(path: Path) -> IO[bytes]:
    """Open the plain file at `path`, which may itself be no link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, NO_PLAIN_FILE, str(path))
    return os.fdopen(handle, "rb")


def lines_of(path: Path, skipped: Skipped) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects in the lines of `path`, each with its byte offset. Raises OSError."""
    with open_plain(path) as file:
        start, is_rest = 0, False
        while raw := file.readline(MAX_LINE):
            is_cut = len(raw) == MAX_LINE and not raw.endswith(b"\n")
            if is_cut or is_rest:
                skipped["lines longer than 32 MiB"] += not is_rest
            elif (value := as_line(raw)) is not None:
                yield start, value
            elif raw.strip(b" \t\r\n\0"):
                skipped["lines that can't be read"] += 1
                # An entry of our format that was written behind a truncated one.
                if (found := ENTRY_START.search(raw, 1)) and (value := as_line(raw[found.start() :])) is not None:
                    yield start + found.start(), value
            start, is_rest = start + len(raw), is_cut


def as_line(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None."""
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return as_object(raw.strip())
    return value if isinstance(value, dict) else None


def small_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty if it can't be read. Blocks."""
    try:
        return as_object(GuardedFolder(path.parent).read(path.name, MAX_SESSION)) or {}
    except OSError:
        return {}


def array_items(file: IO[bytes], skipped: Skipped) -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON array in `file`; memory holds the largest of them, not the file. What follows a
    damaged or an oversized one is lost and counted."""
    text, decode = "", json.JSONDecoder(strict=False).raw_decode
    utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
    need, ended = _CHUNK, False
    while True:
        while len(text) < need and not ended:
            data = file.read(max(_CHUNK, need - len(text)))
            ended = not data
            text += utf8.decode(data, final=ended)
        text = text.lstrip("[, \t\r\n")
        if not text or text.startswith("]"):
            return
        try:
            value, end = decode(text)
        except (ValueError, RecursionError) as error:
            if ended or need > MAX_SESSION or isinstance(error, RecursionError):
                skipped["ends of files that can't be read"] += 1
                return
            need = 2 * max(need, len(text))
            continue
        text, need = text[end:], _CHUNK
        if isinstance(value, dict):
            yield value
        else:
            skipped["entries that are no conversations"] += 1


_SILENT = {"thinking", "redacted_thinking", "token_budget", "flag"}  # blocks that mean nothing to the user
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


def numbered(ident: str, messages: Iterable[Message]) -> Iterator[Imported]:
    """Yield the messages that are in the entry `ident` of another program."""
    for number, message in enumerate(messages):
        yield Imported(entry_id(f"{ident}:{number}"), message)


class Blocks:
    """Turns content in Anthropic's form into our messages. It knows the calls of the conversation, so that a result has
    the name of its tool; `open` are the ids of those without a result."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._names: dict[str, str] = {}
        self.open: list[str] = []

    def user(self, content: Any, at: int, files: Any = (), pasted: Sequence[TextBlock] = ()) -> Iterator[Message]:
        """Yield the results in `content`, then the user's text; if there is none, the names of the attached `files`.
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
