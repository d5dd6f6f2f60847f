"""The tool that searches the workspace's text files by regular expression, with the same limits of time and memory for
any pattern.

Simple patterns are searched in this process, because starting another takes longer than most searches. Fuzzy, recursive
and potentially exponential patterns run in a process that is killed from outside. Files are opened here, inside the
fence, and passed as descriptors.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta

from clawbot.clock import Clock
from clawbot.guarded import LINK_ERRORS, OPEN_READ, SpecialFileError
from clawbot.text.visible import visible_name
from clawbot.tools.arguments import Arguments
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath, explained, open_regular
from clawbot.tools.listing import ReadingTool, glob_of, left_out, walk
from clawbot.tools.matching import compiled, fitting_lines
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.trees import MAX_PROBLEMS, Skips

if TYPE_CHECKING:
    from regex import Match


_ESCAPE = r"\\(?:[dDwWsSbBtnr]|[^\w\s])"
_CLASS = rf"\[\^?\]?(?:[^\[\]\\]|{_ESCAPE})*\]"
_REPEATED = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??"
_ATOM = rf"(?:{_ESCAPE}|{_CLASS}|[^\\\[\](){{}}?*+|])"
_PLAIN = re.compile(rf"(?:\(\?i\))?(?:\||\((?:\?:)?|\)|{_ATOM}(?:{_REPEATED})?)*")


def is_plain(pattern: str) -> bool:
    """Whether `pattern` consists of characters, classes, groups and alternatives, without repeated groups: then it
    needs little memory, and the timeout of `regex` works, which it does not for fuzzy and recursive patterns."""
    return _PLAIN.fullmatch(pattern) is not None


_WORDS = re.compile(r"(?:[^\\\[\](){}?*+^$]|\\[^\w\s])+")
"""Patterns of characters, any one, and alternatives: their search in a text takes time in proportion to it, and what
they match is within a line."""
_COMMAND = (sys.executable, "-P", "-m", "clawbot.tools.matching")
_BLOCK = 65536


Matching = Callable[[int], Iterator[tuple[int, str]]]
"""A running search: the number and text, truncated around the match, of each matching line of an open file; none for a
binary file. Raises TimeoutError when time is up, ToolError if the pattern needs too much memory."""


@contextmanager
def matcher(pattern: str, *, ignore_case: bool, clock: Clock, until: float) -> Iterator[Matching]:
    """Search for `pattern` until `clock.monotonic()` is `until`. Entering blocks; raises ToolError if it is invalid."""
    if not is_plain(pattern):
        with ProcessMatcher(pattern, ignore_case=ignore_case, clock=clock, until=until) as process:
            yield process.search
        return
    plain = compiled(pattern, ignore_case=ignore_case)
    if isinstance(plain, str):
        raise _invalid(pattern, plain)

    def find(line: str) -> Match[str] | None:
        left = until - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        # Releases the interpreter lock, so the screen remains responsive.
        return plain.search(line, timeout=left, concurrent=True)

    block = _BLOCK if _WORDS.fullmatch(pattern) else 1

    def search(handle: int) -> Iterator[tuple[int, str]]:
        with os.fdopen(handle, "rb", closefd=False) as stream:
            yield from fitting_lines(stream, find, block=block)

    yield search


class ProcessMatcher:
    """The process that searches for one `pattern`, while entered. All methods block.

    At the time `until` of `clock.monotonic()` it is killed.
    """

    def __init__(self, pattern: str, *, ignore_case: bool, clock: Clock, until: float) -> None:
        self._request = {"pattern": pattern, "ignore_case": ignore_case}
        self._pattern = pattern
        self._clock = clock
        self._until = until
        self._received = b""

    def __enter__(self) -> Self:
        """Start the process and compile the pattern. Raises ToolError if it is invalid."""
        ours, theirs = socket.socketpair()
        self._socket = ours
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        with theirs:
            try:
                self._pid = os.posix_spawn(
                    sys.executable,
                    _COMMAND,
                    os.environ,
                    file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *quiet],
                    setpgroup=0,
                )
            except OSError as error:
                ours.close()
                raise ToolError(f"The search could not be started: {error.strerror or error}.") from error
        try:
            self._ask(json.dumps(self._request).encode() + b"\n")
            problem = self._answer()
        except BaseException:
            self.__exit__()
            raise
        if problem:
            self.__exit__()
            raise _invalid(self._pattern, problem)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def search(self, handle: int) -> Iterator[tuple[int, str]]:
        self._ask(b".", handle)
        while (found := self._answer()) is not None:
            yield found[0], found[1]

    def _ask(self, data: bytes, *handles: int) -> None:
        try:
            self._wait_at_most()
            socket.send_fds(self._socket, [data], handles)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def _answer(self) -> Any:
        while b"\n" not in self._received:
            self._wait_at_most()
            try:
                block = self._socket.recv(_BLOCK)
            except ConnectionResetError:
                block = b""
            if not block:
                raise self._ended()
            self._received += block
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def _wait_at_most(self) -> None:
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _ended(self) -> ToolError:
        return ToolError(f"{self._pattern!r} needs too much memory: the search was ended. Use a simpler pattern.")


def _invalid(pattern: str, problem: str) -> ToolError:
    return ToolError(f"{pattern!r} is not a valid regular expression: {problem}. Escape special characters with \\.")


MAX_MATCHES = 200
SECONDS = 10.0
PATTERN_CHARS = 1000


class GrepArguments(Arguments, frozen=True):
    """Arguments of `grep`."""

    pattern: Annotated[str, Meta(description="Python regular expression.", min_length=1)]
    path: Annotated[str, Meta(description="File or folder.")] = "."
    glob: Annotated[str, Meta(description="`*.md`, `memory/**/*.md`.")] = ""
    ignore_case: Annotated[bool, Meta(description="Ignore case.")] = False


class GrepTool(ReadingTool[GrepArguments]):
    """`grep`: one match a line, `path:line:text`."""

    name = "grep"
    description = "Search text files by regular expression, line by line; answers `path:line:text`."
    subject = "pattern"
    arguments = GrepArguments

    def __init__(self, folder: WorkspaceFolder, clock: Clock, seconds: float = SECONDS) -> None:
        super().__init__(folder)
        self._clock = clock
        self._seconds = seconds

    def act(self, arguments: GrepArguments) -> ToolOutcome:
        if len(arguments.pattern) > PATTERN_CHARS:
            raise ToolError(f"The pattern is longer than {PATTERN_CHARS} characters.")
        path = self._folder.locate(arguments.path)
        until = self._clock.monotonic() + self._seconds
        hits: list[str] = []
        problems: list[str] = []
        notice = ""
        try:
            with matcher(
                arguments.pattern, ignore_case=arguments.ignore_case, clock=self._clock, until=until
            ) as matching:
                for hit in _Search(arguments.glob, self._folder, matching, problems).run(path):
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
        lines = [*(hits or ["No matches."]), *([notice] if notice else []), *left_out(problems)]
        return ToolOutcome("\n".join(lines), summary=summary)


class _Search:
    """One search: the files to compare, and the fence at its start. What is skipped is added to `problems`."""

    def __init__(self, glob: str, folder: WorkspaceFolder, matching: Matching, problems: list[str]) -> None:
        self._folder = folder
        self._bounds = folder.bounds()
        self._matching = matching
        self._glob = glob_of(glob) if glob else None
        self._by_path = "/" in glob
        self._problems = problems

    def run(self, path: WorkspacePath) -> Iterator[str]:
        """The matches in the file or folder at `path`; raises TimeoutError when time is up."""
        hides = self._bounds.hides(self._folder.real(path))
        if not path.parts:
            with self._folder.folder((), base=path.base) as handle:
                yield from self._below(handle, f"{path.base}/" if path.base else "", hides)
            return
        with self._folder.folder(path.parts[:-1], base=path.base) as parent, explained(path.shown):
            try:
                handle = self._open(parent, path.parts[-1])
            except IsADirectoryError:
                handle = -1
        if handle >= 0:
            yield from self._in_file(handle, path.shown)
            return
        with self._folder.folder(path.parts, base=path.base) as folder:
            yield from self._below(folder, f"{path.shown}/", hides)

    def _below(self, folder: int, prefix: str, hides: Skips) -> Iterator[str]:
        found = walk(folder, hides)
        for entry in found:
            if entry.is_folder or not self._wanted(prefix, entry.path):
                continue
            try:
                handle = self._open(entry.parent, entry.name)
            except (ToolError, FileNotFoundError, IsADirectoryError, SpecialFileError):
                continue  # a pipe, a device, or a hard link to a denied file
            except OSError as error:
                if error.errno not in LINK_ERRORS and len(self._problems) < MAX_PROBLEMS:
                    self._problems.append(f"{prefix}{entry.path} was not searched: {error.strerror}")
                continue
            yield from self._in_file(handle, prefix + entry.path)
        self._problems += found.problems

    def _wanted(self, prefix: str, path: str) -> bool:
        if self._glob is None:
            return True
        if self._by_path:
            return self._glob.fits(path) or self._glob.fits(prefix + path)
        return self._glob.fits(path.rpartition("/")[2])

    def _open(self, parent: int, name: str) -> int:
        return open_regular(parent, name, OPEN_READ, lambda: self._bounds)

    def _in_file(self, handle: int, shown: str) -> Iterator[str]:
        try:
            for number, line in self._matching(handle):
                yield f"{visible_name(shown)}:{number}:{line}"
        finally:
            os.close(handle)
