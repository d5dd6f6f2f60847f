"""Owns which files may answer a search: those of its dates and its path."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.documents.globs import GlobError, compile_glob
from clawbot.memory.store.records import ORDINAL_BITS, FileRow, piece_id
from clawbot.memory.values import SearchRequest

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Bools, Ids

FEW_CHUNKS = 1_000
"""Where only so many chunks may answer, each of them is looked at."""

_WILD = frozenset("*?[{")


class Scope(Struct, frozen=True):
    """The `files` that may answer, by id; `is_whole`: these are all of the index, which has `chunks` chunks."""

    files: Mapping[int, FileRow]
    is_whole: bool
    chunks: int

    def holds(self, ids: Ids) -> Bools:
        """Which of the chunks `ids` are of these files."""
        np = numpy()
        if self.is_whole:
            everything: Bools = np.ones(len(ids), np.bool_)
            return everything
        inside: Bools = np.isin(ids >> ORDINAL_BITS, np.fromiter(self.files, np.int64, len(self.files)))
        return inside

    def few_chunks(self) -> Ids:
        """All chunks of these files when they are a part of the index, and few; else none."""
        np = numpy()
        is_few = not self.is_whole and sum(file.chunks for file in self.files.values()) <= FEW_CHUNKS
        files = [np.arange(file.chunks) + piece_id(number, 0) for number, file in self.files.items() if is_few]
        chunks: Ids = np.concatenate([np.zeros(0, np.int64), *files])
        return chunks


def scope_of(files: Mapping[int, FileRow], request: SearchRequest) -> tuple[Scope, tuple[str, ...]]:
    """The files that `request` allows, and notes on what it leaves out without being asked to."""
    chunks = sum(file.chunks for file in files.values())
    every = len(files)
    files = {number: file for number, file in files.items() if file.source in request.sources}
    if len(files) == every and request.after is None and request.before is None and not request.path:
        return Scope(files, is_whole=True, chunks=chunks), ()
    try:
        placed = {key: file for key, file in files.items() if not request.path or is_under(file.path, request.path)}
    except GlobError as error:
        return Scope({}, is_whole=False, chunks=chunks), (f"Nothing can be found: {error}",)
    kept = {number: file for number, file in placed.items() if _is_between(file.day, request.after, request.before)}
    return Scope(kept, is_whole=len(kept) == every, chunks=chunks), _notes(placed, request.after, request.before)


def is_under(path: str, wanted: str) -> bool:
    """Whether `path` is the file `wanted`, lies in the folder `wanted`, or fits the glob `wanted`. Raises GlobError."""
    wanted = wanted.strip().removeprefix("./").rstrip("/")
    if wanted in ("", "."):
        return True
    if path == wanted or path.startswith(f"{wanted}/"):
        return True
    return not _WILD.isdisjoint(wanted) and compile_glob(wanted).fits(path)


def _is_between(day: date | None, after: date | None, before: date | None) -> bool:
    if after is None and before is None:
        return True
    return day is not None and (after is None or day >= after) and (before is None or day <= before)


def _notes(files: Mapping[int, FileRow], after: date | None, before: date | None) -> tuple[str, ...]:
    if after is None and before is None:
        return ()
    if after is not None and before is not None and after > before:
        return (f"Nothing can be found: `after` ({after}) is later than `before` ({before}).",)
    undated = sorted(file.path for file in files.values() if file.day is None)
    return (_left_out(undated),) if undated else ()


def _left_out(paths: list[str]) -> str:
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return f"Left out, since they have no date: {shown}."
