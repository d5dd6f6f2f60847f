"""Owns what of the conversations is forgotten: the ids of sessions and of entries, in `forgotten.json` beside the
transcripts. No words stand in it.

Transcripts are the truth from which everything else is made again. So what the user had forgotten is noted here, and
all that makes something of a transcript (the index, notes, offers to memory, titles, the model's context) asks here.
All calls block; they raise OSError.
"""

from __future__ import annotations

import errno
import functools
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, write_atomic
from clawbot.messages import AssistantMessage, BashExecutionMessage, Message, TextBlock, ToolCallBlock
from clawbot.sessions.conversation import ContextItem

FILE_NAME = "forgotten.json"
MARK = "[forgotten]"
"""What stands in the place of words that are forgotten."""

_SUFFIX = ".jsonl"


class Forgotten(Struct, frozen=True, omit_defaults=True):
    """`sessions` are forgotten whole; of others the `entries` are, by the session's id. `unfinished`: a command that
    forgets has begun, and did not come to its end."""

    sessions: tuple[str, ...] = ()
    entries: Mapping[str, tuple[str, ...]] = {}
    unfinished: bool = False

    def holds(self, transcript: str, entry: str) -> bool:
        """Whether the entry of the file `transcript` is forgotten."""
        session = session_of(transcript)
        return session in self.sessions or entry in self.entries.get(session, ())

    def is_whole(self, transcript: str) -> bool:
        """Whether all of the file `transcript` is."""
        return session_of(transcript) in self.sessions

    def mark(self, transcript: str) -> int:
        """A number for what is forgotten of `transcript`, another one when that changes; 0 for nothing."""
        return zlib.crc32(" ".join(self.entries.get(session_of(transcript), ())).encode())


def session_of(transcript: str) -> str:
    """The id of the session whose transcript, an archived one too, has this name."""
    return transcript.partition(_SUFFIX)[0]


def read_forgotten(folder: Path) -> Forgotten:
    """What is forgotten of the transcripts in `folder`. A damaged file is an error: nothing may come back by it."""
    path = folder / FILE_NAME
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return Forgotten()
    return _parsed(str(path), (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=8)
def _parsed(path: str, _mark: tuple[int, ...]) -> Forgotten:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Forgotten)
    except ValueError:
        raise OSError(errno.EINVAL, "is damaged; it says what is forgotten: mend it, or delete it", path) from None


def forget(folder: Path, sessions: Iterable[str], entries: Mapping[str, Collection[str]]) -> None:
    """Note that these are forgotten, besides those that are; unfinished, until `finish`."""
    with _alone(folder):
        known = read_forgotten(folder)
        merged = {
            session: tuple(sorted({*known.entries.get(session, ()), *entries.get(session, ())}))
            for session in sorted({*known.entries, *entries})
        }
        _write(folder, Forgotten(tuple(sorted({*known.sessions, *sessions})), merged, unfinished=True))


def finish(folder: Path) -> None:
    """Note that all that was made of what is forgotten is gone."""
    with _alone(folder):
        known = read_forgotten(folder)
        if known.unfinished:
            _write(folder, structs.replace(known, unfinished=False))


def without_forgotten(items: Sequence[ContextItem], forgotten: Forgotten, transcript: str) -> list[ContextItem]:
    """`items` of the context, those that are forgotten with a mark in the place of their words."""
    return [
        structs.replace(item, message=_blanked(item.message)) if forgotten.holds(transcript, item.entry_id) else item
        for item in items
    ]


def _blanked(message: Message) -> Message:
    match message:
        case AssistantMessage(content=content):
            calls = [structs.replace(each, arguments={}) for each in content if isinstance(each, ToolCallBlock)]
            return structs.replace(message, content=[TextBlock(MARK), *calls])
        case BashExecutionMessage():
            return structs.replace(message, command=MARK, output="")
        case _:
            return structs.replace(message, content=[TextBlock(MARK)])


def _alone(folder: Path) -> AbstractContextManager[None]:
    return locked(ensure_private_dir(folder) / f"{FILE_NAME}.lock")


def _write(folder: Path, forgotten: Forgotten) -> None:
    write_atomic(folder / FILE_NAME, msgspec.json.encode(forgotten) + b"\n", mode=PRIVATE_FILE)
