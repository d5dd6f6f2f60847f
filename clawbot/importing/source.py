"""What the readers of other programs share: conversations as they are read, files within limits, content blocks.

Whatever lies in those folders is untrusted: no link and no special file is opened, and no file is read as a whole that
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
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.files import NO_PLAIN_FILE
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
from clawbot.trees import TreeWalk

log = logging.getLogger(__name__)
T = TypeVar("T")
LONGEST_LINE = 32 * 2**20  # bytes: more than the largest picture in a message
LARGEST_TALK = 64 * 2**20  # characters of one conversation in an export
MOST_FILES = 1_000_000
MOST_TALKS = 200_000
_CHUNK = 2**20
_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_FAR = 10**11  # a time in seconds is smaller until the year 5138, one in milliseconds larger since 1973


class ImportFailedError(ClawbotError):
    """Nothing can be imported from a path, or a run can't be undone."""


class Said(NamedTuple):
    """An entry: its id in the transcript, the message or the entry in the format of our transcripts, and the id of the
    entry before it (None: the one that was read last; "": none)."""

    id: str
    what: Message | dict[str, Any]
    parent: str | None = None


class Talk(Struct):
    """A conversation: `ident` is its id in its program, `began` a time (milliseconds) for entries without one. `kind`
    is "cron", "group", "subagent" or ""; `parent` is the conversation for which a sub-agent held it."""

    ident: str
    said: Iterable[Said]
    title: str = ""
    cwd: str = ""
    began: int = 0
    kind: str = ""
    parent: str = ""


class Unit(NamedTuple):
    """What is read again as a whole when `stamp` differs: a file, or a conversation of an export."""

    name: str
    stamp: str
    talks: Callable[[], Iterable[Talk]]


class Source(Struct):
    """What was recognised at a path: the program's `label` and its `name` in keys; `workspace` are its folders of
    notes, `remarks` lines about what is there and is not imported, `jobs` its file of jobs."""

    name: str
    label: str
    units: Iterable[Unit]
    workspace: Sequence[Path] = ()
    remarks: Sequence[str] = ()
    jobs: Path | None = None


class UnreadableError(Exception):
    """A file, or a conversation in it, can't be read; the text is the reason, for a count."""


Skipped = Counter[str]
"""How much was left out, by reason."""


def entry_id(text: str) -> str:
    """The id of the entry for what is called `text` in its conversation: the same at each reading."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def milliseconds(value: Any) -> int:
    """A time as ISO 8601, in seconds or in milliseconds, as milliseconds since the epoch; 0 if it is none."""
    if isinstance(value, str):
        return max(0, iso_ms(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _FAR * 1000:
        return 0
    return int(value if value >= _FAR else value * 1000)


def files_in(root: Path, fits: Callable[[str], bool], skipped: Skipped) -> list[tuple[Path, os.stat_result]]:
    """The plain files below `root` whose relative path `fits`, sorted. Blocks."""
    found: list[tuple[Path, os.stat_result]] = []
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        walk = TreeWalk(top, most=MOST_FILES)
        for entry in walk:
            if entry.is_folder or not fits(entry.path):
                continue
            state = os.stat(entry.name, dir_fd=entry.parent, follow_symlinks=False)
            if stat.S_ISREG(state.st_mode):
                found.append((root / entry.path, state))
            else:
                skipped["links and special files"] += 1
    finally:
        os.close(top)
    skipped["folders that can't be read"] += len(walk.problems)
    return sorted(found)


def reading(items: Iterable[T]) -> Iterator[T]:
    """`items` as a reader makes them. Raises UnreadableError for what is wrong with the source, whatever that is: the
    others are still read."""
    iterator = iter(items)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except OSError as error:
            raise UnreadableError(f"files that can't be read: {error.strerror or error}") from error
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            log.info("a conversation is in no known form", exc_info=True)
            raise UnreadableError("conversations in an unknown form") from error
        yield item


def stamp_of(state: os.stat_result) -> str:
    """What tells a file that has changed."""
    return f"{state.st_size}:{state.st_mtime_ns}"


def open_plain(path: Path) -> IO[bytes]:
    """The plain file at `path`, which may itself be no link. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, NO_PLAIN_FILE, str(path))
    return os.fdopen(handle, "rb")


def lines_of(path: Path, skipped: Skipped) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects in the lines of `path`, each with its byte offset. Raises OSError."""
    with open_plain(path) as file:
        at = 0
        while raw := file.readline(LONGEST_LINE):
            start, at = at, at + len(raw)
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    at += len(rest)
                at += len(rest)
                skipped["lines longer than 32 MiB"] += 1
            elif (value := as_line(raw)) is not None:
                yield start, value
            elif raw.strip(b" \t\r\n\0"):
                skipped["lines that can't be read"] += 1


def as_line(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None if there is none."""
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        try:
            value = json.loads(raw.strip(b"\0 \r\n").decode("utf-8-sig", "replace"), strict=False)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def small_json(path: Path, limit: int = LARGEST_TALK) -> Any:
    """The JSON value in a file of at most `limit` bytes; None if it can't be read."""
    try:
        with open_plain(path) as file:
            data = file.read(limit + 1)
        return None if len(data) > limit else msgspec.json.decode(data)
    except (OSError, ValueError, RecursionError):
        return None


def array_items(file: IO[bytes], skipped: Skipped) -> Iterator[dict[str, Any]]:
    """The objects of the JSON array in `file`, one after the other: memory holds the largest of them, not the file.

    What follows a damaged or an oversized one is lost and counted.
    """
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
            if ended or need > LARGEST_TALK or isinstance(error, RecursionError):
                skipped["ends of files that can't be read"] += 1
                return
            need = 2 * max(need, len(text))
            continue
        text, need = text[end:], _CHUNK
        if isinstance(value, dict):
            yield value
        else:
            skipped["entries that are no conversations"] += 1


def zip_members(path: Path, fits: Callable[[str], bool]) -> list[zipfile.ZipInfo]:
    """The files in the archive whose last name `fits`. They are read, never unpacked. Raises OSError, BadZipFile."""
    with open_plain(path) as file, zipfile.ZipFile(file) as archive:
        names = (each for each in archive.infolist() if "__MACOSX" not in each.filename and not each.is_dir())
        return [each for each in names if fits(each.filename.rpartition("/")[2])]


class Blocks:
    """Turns content in Anthropic's form into our messages. It knows the calls of the conversation, so that a result has
    the name of its tool."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._names: dict[str, str] = {}
        self._last = ""

    def user(self, content: Any, at: int, attached: Sequence[TextBlock] = ()) -> Iterator[Message]:
        """The results in `content`, then what the user said."""
        said: list[str] = []
        for block in _blocks(content):
            if block.get("type") == "tool_result":
                yield self.result(block, at)
            elif text := text_in(block):
                said.append(text)
        if said or attached:
            text = "\n".join(said)
            yield UserMessage(content=[TextBlock(text), *attached] if attached else text, timestamp=at)

    def assistant(self, content: Any, at: int, model: str = "", stop: Any = None) -> Iterator[Message]:
        """The answers in `content`, apart where results of tools come between. Reasoning is left out."""
        made: list[AssistantBlock] = []
        for block in _blocks(content):
            kind = block.get("type")
            if kind == "tool_result":
                yield from self._answer(made, at, model, stop)
                made = []
                yield self.result(block, at)
            elif kind in ("tool_use", "server_tool_use"):
                made.append(self.call(block.get("id"), block.get("name"), block.get("input")))
            elif kind not in ("thinking", "redacted_thinking") and (text := text_in(block)):
                made.append(TextBlock(text))
        yield from self._answer(made, at, model, stop)

    def _answer(self, made: list[AssistantBlock], at: int, model: str, stop: Any) -> Iterator[Message]:
        if made:
            calls = any(isinstance(block, ToolCallBlock) for block in made)
            reason: StopReason = "toolUse" if calls else "length" if stop == "max_tokens" else "stop"
            yield AssistantMessage(made, provider=self._provider, model=model, stop_reason=reason, timestamp=at)

    def call(self, ident: Any, name: Any, arguments: Any) -> ToolCallBlock:
        """A call of a tool; it is shown and never run."""
        self._last = str(ident) if ident else f"call_{len(self._names)}"
        tool = self._names[self._last] = _TOOL_NAME.sub("_", str(name or "tool"))[:64]
        if isinstance(arguments, str):
            parsed = as_line(arguments.encode("utf-8", "replace"))
            arguments = {"input": arguments} if parsed is None else parsed
        return ToolCallBlock(self._last, tool, arguments if isinstance(arguments, dict) else {})

    def result(self, block: dict[str, Any], at: int) -> ToolResultMessage:
        """The result of a call; without an id it is that of the last one."""
        ident = str(block.get("tool_use_id") or self._last)
        text = "\n".join(filter(None, map(text_in, _blocks(block.get("content")))))
        tool = self._names.get(ident, "tool")
        failed = block.get("is_error") is True
        return ToolResultMessage(ident, tool, [TextBlock(text)], is_error=failed, timestamp=at)


def _blocks(content: Any) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else [content]
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks if each]


def text_in(block: Any) -> str:
    """The text of a content block; what else it holds is named in brackets."""
    if not isinstance(block, dict):
        return ""
    text = block.get("text")
    if isinstance(text, str):
        return text.strip()
    kind = str(block.get("type") or block.get("content_type") or "").removesuffix("_asset_pointer")
    return f"[{kind.replace('_', ' ')}]" if kind else ""
