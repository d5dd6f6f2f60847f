"""The tool that searches the workspace's text files by regular expression, within a bound of time.

The `regex` package does the matching: it has a timeout, and lets go of the interpreter lock while it works, so a
pattern that explodes neither hangs the tool nor stalls the screen, as one of the standard library's `re` would.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from clawbot.clock import Clock
from clawbot.tools.arguments import Arguments
from clawbot.tools.folder import OPEN_READ, Place, WorkspaceFolder, open_regular
from clawbot.tools.folder_tool import FolderTool
from clawbot.tools.listing import matches, walk
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.tools.text import LINE_BYTES, PROBE_BYTES, decode, is_binary

if TYPE_CHECKING:
    from regex import Pattern

MAX_MATCHES = 200
SHOWN_CHARS = 400  # of one line; more of it is noise
LEAD_CHARS = 100  # what is shown before a match far into a long line
SECONDS = 10.0
PATTERN_CHARS = 1000


class GrepArguments(Arguments, frozen=True):
    """Arguments of `grep`."""

    pattern: Annotated[str, Meta(description="Regular expression (Python syntax), matched line by line.", min_length=1)]
    path: Annotated[str, Meta(description="One file or folder in the workspace; all of it when left out.")] = "."
    glob: Annotated[str, Meta(description="Only files that fit: `*.md` by name, `memory/**/*.md` by path.")] = ""
    ignore_case: Annotated[bool, Meta(description="Take upper and lower case as the same.")] = False


class GrepTool(FolderTool[GrepArguments]):
    """`grep`: one match a line, `path:line:text`."""

    name = "grep"
    description = (
        "Search the text files of the workspace by regular expression. Answers one match a line as `path:line:text`."
    )
    subject = "pattern"
    arguments = GrepArguments

    def __init__(self, folder: WorkspaceFolder, clock: Clock, seconds: float = SECONDS) -> None:
        super().__init__(folder)
        self._clock = clock
        self._seconds = seconds

    def act(self, arguments: GrepArguments) -> ToolOutcome:
        """Search until the end, the cap or the deadline."""
        search = _Search(arguments, self._folder, self._clock, self._seconds)
        place = self._folder.locate(arguments.path)
        hits: list[str] = []
        notice = ""
        try:
            for hit in search.run(place):
                if len(hits) == MAX_MATCHES:
                    notice = f"[stopped after {MAX_MATCHES} matches: narrow the pattern, path or glob]"
                    break
                hits.append(hit)
        except TimeoutError:
            notice = (
                f"[stopped after {self._seconds:g} s, not everything was searched: simplify the pattern or narrow it]"
            )
        if not hits and notice:
            raise ToolError(notice.strip("[]"))
        summary = f"{len(hits)}{'+' if notice else ''} {'match' if len(hits) == 1 else 'matches'}"
        return ToolOutcome("\n".join([*hits, notice] if notice else hits) or "No matches.", summary=summary)


class _Search:
    """One search: its pattern, the fence as it stands at its beginning, and the time until which it may run."""

    def __init__(self, arguments: GrepArguments, folder: WorkspaceFolder, clock: Clock, seconds: float) -> None:
        self._folder = folder
        self._bounds = folder.bounds()
        self._pattern = _compiled(arguments.pattern, arguments.ignore_case)
        self._glob = arguments.glob
        self._clock = clock
        self._until = clock.monotonic() + seconds

    def run(self, place: Place) -> Iterator[str]:
        """The matches in the file or below the folder at `place`; TimeoutError when the time is up."""
        hides = self._bounds.hides(self._folder.real(place))
        if not place.parts:
            with self._folder.folder((), base=place.base) as handle:
                yield from self._below(handle, f"{place.base}/" if place.base else "", hides)
            return
        with self._folder.folder(place.parts[:-1], base=place.base) as parent:
            try:
                yield from self._in_file(parent, place.parts[-1], place.shown)
                return
            except IsADirectoryError:
                pass
            except FileNotFoundError:
                raise ToolError(f"{place.shown} does not exist.") from None
        with self._folder.folder(place.parts, base=place.base) as handle:
            yield from self._below(handle, f"{place.shown}/", hides)

    def _below(self, handle: int, prefix: str, hides: Callable[[str], bool]) -> Iterator[str]:
        for entry in walk(handle, hides):
            if entry.is_folder or not self._wanted(prefix, entry.path):
                continue
            try:
                yield from self._in_file(entry.parent, entry.name, prefix + entry.path)
            except ToolError:
                continue  # a pipe, a device, or another name of a file out of reach: nothing to search
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EACCES, errno.ELOOP, errno.EMLINK):
                    raise

    def _wanted(self, prefix: str, path: str) -> bool:
        if not self._glob:
            return True
        if "/" in self._glob:
            return matches(path, self._glob) or matches(prefix + path, self._glob)
        return fnmatchcase(path.rpartition("/")[2], self._glob)

    def _in_file(self, parent: int, name: str, shown: str) -> Iterator[str]:
        with os.fdopen(open_regular(parent, name, OPEN_READ, lambda: self._bounds), "rb") as stream:
            if is_binary(stream.peek(PROBE_BYTES)[:PROBE_BYTES]):
                return
            number = 1
            while piece := stream.readline(LINE_BYTES):
                line = decode(piece)[0].rstrip("\r\n")
                left = self._until - self._clock.monotonic()
                if left <= 0:
                    raise TimeoutError
                found = self._pattern.search(line, timeout=left, concurrent=True)
                if found:
                    yield f"{shown}:{number}:{_cut(line, found.start())}"
                number += piece.endswith(b"\n")


def _compiled(pattern: str, ignore_case: bool) -> Pattern[str]:
    # Imported when it is first needed: 40 ms that no start should pay.
    import regex

    if len(pattern) > PATTERN_CHARS:
        raise ToolError(f"The pattern is longer than {PATTERN_CHARS} characters.")
    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ToolError(
            f"{pattern!r} is no valid regular expression: {error}. Escape special characters with \\."
        ) from None


def _cut(line: str, start: int) -> str:
    """`line`, or the part around the match when it is long."""
    if len(line) <= SHOWN_CHARS:
        return line
    begin = max(0, start - LEAD_CHARS) if start > SHOWN_CHARS // 2 else 0
    part = line[begin : begin + SHOWN_CHARS]
    return f"{'…' if begin else ''}{part}{'…' if begin + SHOWN_CHARS < len(line) else ''}"
