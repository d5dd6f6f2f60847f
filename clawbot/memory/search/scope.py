"""Selects the files and chunks that may answer a search, by date and path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.store.records import ORDINAL_BITS, DayRun, FileRow, IdRange, file_of, id_of, id_range_of
from clawbot.memory.values import SearchRequest, Source, split_part
from clawbot.text.globs import GlobError, compile_glob
from clawbot.text.names import composed

if TYPE_CHECKING:
    from clawbot.memory.arrays import Bools, Ids


class ChunkSpan(Struct, frozen=True):
    """Adjacent chunks of one file, by id, from `first` to `last`, inclusive."""

    first: int
    last: int


def spans_of(files: Iterable[FileRow], fits: Callable[[date], bool]) -> list[ChunkSpan]:
    """Return the chunks of `files` dated with a day that `fits`, in file order."""
    found: list[ChunkSpan] = []
    for file in files:
        for run, following in pairwise((*file.runs, DayRun(file.chunks, ()))):
            if following.first > run.first and any(map(fits, run.days)):
                found.append(ChunkSpan(id_of(file.id, run.first), id_of(file.id, following.first) - 1))
    return found


def within(ids: Ids, spans: Iterable[ChunkSpan]) -> Bools:
    """Return which of the chunks `ids` `(n,)` are in `spans`, in any order: `(n,)`."""
    np = numpy()
    ordered = sorted((span.first, span.last) for span in spans)
    if not ordered:
        nothing: Bools = np.zeros(len(ids), np.bool_)
        return nothing
    bounds = np.array(ordered, np.int64)
    at = np.searchsorted(bounds[:, 0], ids, side="right") - 1
    inside: Bools = (at >= 0) & (ids <= bounds[at, 1])
    return inside


FEW_CHUNKS = 1_000
"""If at most this many chunks may answer, all are scored."""

_WILD = frozenset("*?[{")


class FileScope(Struct, frozen=True):
    """The `files` that may answer, by id, all of one source, which has `chunks` chunks with ids in `id_range`.

    `is_complete`: these are all files of the source; `is_alone`: the index has no other source. `spans` are the chunks
    that may answer, None: all of these files.
    """

    files: Mapping[int, FileRow]
    id_range: IdRange
    is_complete: bool
    is_alone: bool
    chunks: int
    spans: Sequence[ChunkSpan] | None = None

    @property
    def narrowed(self) -> Collection[int] | None:
        """The ids of the files, unless they are the entire index."""
        return None if self.is_complete and self.is_alone else self.files.keys()

    def holds(self, ids: Ids) -> Bools:
        """Return which of the chunks `ids` `(n,)` belong to these files: `(n,)`."""
        np = numpy()
        if self.is_complete:
            in_range: Bools = (ids >= self.id_range[0]) & (ids < self.id_range[1])
            return in_range
        if self.spans is not None:
            return within(ids, self.spans)
        inside: Bools = np.isin(ids >> ORDINAL_BITS, np.fromiter(self.files, np.int64, len(self.files)))
        return inside

    def few_chunks(self) -> Ids:
        """Return all chunks if these files are a small part of the index; else none."""
        np = numpy()
        is_few = not self.is_complete and sum(file.chunks for file in self.files.values()) <= FEW_CHUNKS
        files = [np.arange(file.chunks) + id_of(number, 0) for number, file in self.files.items() if is_few]
        chunks: Ids = np.concatenate([np.zeros(0, np.int64), *files])
        return chunks


class Sources(threading.local):
    """The files of each source, divided once for each state of the index: a search of ten thousand files would take
    5 ms for it. Each thread has its own reader, and so its own files."""

    def __init__(self) -> None:
        self._files: Mapping[int, FileRow] = {}
        self._parts: dict[Source, tuple[Mapping[int, FileRow], int]] = {}

    def part(self, files: Mapping[int, FileRow], source: Source) -> tuple[Mapping[int, FileRow], int]:
        """Return the `files` of `source` and the number of their chunks."""
        if files is not self._files:
            self._files, self._parts = files, {}
        if source not in self._parts:
            found = {number: file for number, file in files.items() if file.source == source}
            self._parts[source] = found, sum(file.chunks for file in found.values())
        return self._parts[source]


def scope_of(
    files: Mapping[int, FileRow], source: Source, request: SearchRequest, sources: Sources | None = None
) -> tuple[FileScope, tuple[str, ...]]:
    """Return the files of `source` that `request` allows, and warnings about files excluded for lack of a date. Raises
    GlobError. `sources` keeps what does not depend on the request."""
    of_source, chunks = (sources or Sources()).part(files, source)
    every, id_range, is_alone = len(of_source), id_range_of(source), len(of_source) == len(files)
    try:
        matching = _matching(of_source, request)
    except GlobError as error:
        return FileScope({}, id_range, False, is_alone, chunks), (f"Nothing can be found: {error}",)
    warnings = _warnings(matching, request.after, request.before)
    if request.after is None and request.before is None:
        return FileScope(matching, id_range, len(matching) == every, is_alone, chunks), warnings
    first, last = request.after or date.min, request.before or date.max
    spans = spans_of(matching.values(), lambda day: first <= day <= last)
    kept = {file_of(span.first): matching[file_of(span.first)] for span in spans}
    return FileScope(kept, id_range, False, is_alone, chunks, spans), warnings


def _matching(files: Mapping[int, FileRow], request: SearchRequest) -> Mapping[int, FileRow]:
    """Return the files of the requested path: as spelled, else in another Unicode form. Raises GlobError."""
    if not request.path and request.without is None:
        return files
    paths = {number: split_part(file.path)[0] for number, file in files.items()}
    allowed = {number: file for number, file in files.items() if paths[number] != request.without}
    if not (wanted := request.path):
        return allowed
    matching = {number: file for number, file in allowed.items() if is_under(paths[number], wanted)}
    if matching or wanted.isascii():
        return matching
    alike = composed(wanted)
    return {number: file for number, file in allowed.items() if is_under(composed(paths[number]), alike)}


def is_under(path: str, wanted: str) -> bool:
    """Return whether `path` is the file `wanted`, is in the folder `wanted`, or matches the glob `wanted`. Raises
    GlobError."""
    wanted = wanted.strip().removeprefix("./").rstrip("/")
    if wanted in ("", "."):
        return True
    if path == wanted or path.startswith(f"{wanted}/"):
        return True
    return not _WILD.isdisjoint(wanted) and compile_glob(wanted).fits(path)


def _warnings(files: Mapping[int, FileRow], after: date | None, before: date | None) -> tuple[str, ...]:
    if after is None and before is None:
        return ()
    if after is not None and before is not None and after > before:
        return (f"Nothing can be found: `after` ({after}) is later than `before` ({before}).",)
    undated = sorted(file.path for file in files.values() if not file.runs)
    if not undated:
        return ()
    shown = ", ".join(undated[:3]) + (f" and {len(undated) - 3} more" if len(undated) > 3 else "")
    return (f"Left out because they have no date: {shown}.",)
