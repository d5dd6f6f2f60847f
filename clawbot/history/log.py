"""The log of the history: one line a step, appended under a lock, so that a kill loses no more than the last step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from clawbot.files import PRIVATE_FILE, append_lines, digest_of, ensure_private_dir, locked, write_atomic
from clawbot.history.values import Change, Known, Line

FILE, BASELINE = "log.jsonl", "baseline.json"
ID_CHARS = 8
_HEAD_BYTES = 256  # by which another file is recognised, besides its number, which may be used again
_ENCODER, _LINE = msgspec.json.Encoder(), msgspec.json.Decoder(Line)
_BASELINE = msgspec.json.Decoder(dict[str, dict[str, Known]])


class Log:
    """The log in `folder`, as read so far: `changes` by id, oldest first; `planned` ones whose end is not known; the
    `known` state of files, by path; `is_begun`: there is a baseline. All methods block and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._folder = folder
        self._clear()

    def _clear(self) -> None:
        self.changes: dict[str, Change] = {}
        self.planned: dict[str, Change] = {}
        self.known: dict[str, Known] = {}
        self.is_begun = False
        self._read = 0
        self._mark: tuple[int, bytes] = 0, b""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the log: nobody else reads or writes it."""
        ensure_private_dir(self._folder)
        with locked(self._folder):
            yield

    def append(self, *lines: Line) -> None:
        """Append `lines`, in one write. For the holder of the lock, as all that follows."""
        append_lines(self.path, _ENCODER.encode_lines(lines))

    def refresh(self) -> None:
        """Read what was appended since the last call."""
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            self._restart()
            return
        with stream:
            found, head = os.fstat(stream.fileno()), stream.read(_HEAD_BYTES)
            if (found.st_ino, head[: len(self._mark[1])]) != self._mark or found.st_size < self._read:
                self._restart()
            self._mark = found.st_ino, head
            stream.seek(self._read)
            data = stream.read()
        self._read += len(data)
        for row in data.split(b"\n"):
            with contextlib.suppress(msgspec.MsgspecError):
                self._take(_LINE.decode(row))

    def rewrite(self, changes: Iterable[Change]) -> None:
        """Replace the log with `changes`; what is known of files goes into the baseline."""
        self.begin(self.known)
        lines = [Line("kept", change=change) for change in changes]
        write_atomic(self.path, _ENCODER.encode_lines(lines), mode=PRIVATE_FILE)
        self.refresh()

    def begin(self, known: dict[str, Known]) -> None:
        """Write the baseline: files whose earlier changes are not known, or no longer."""
        write_atomic(self._folder / BASELINE, _ENCODER.encode({"files": known}), mode=PRIVATE_FILE)
        self.known, self.is_begun = known, True

    def _restart(self) -> None:
        """Forget what was read, but for the baseline."""
        self._clear()
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError, KeyError):
            self.known = _BASELINE.decode((self._folder / BASELINE).read_bytes())["files"]
            self.is_begun = True

    def _take(self, line: Line) -> None:
        change = line.change
        if line.step == "planned" and change is not None:
            self.planned[line.id] = change
            return
        if line.step in ("done", "void"):
            change = self.planned.pop(line.id, None)
            if change is None or line.step == "void":
                return
            change = structs.replace(change, after=line.after or change.after)
        if change is not None:
            change = self._named(change)
            self.changes[change.id] = change
        if line.step == "kept":
            return
        path = change.path if change is not None else line.path
        self.known.pop(change.was if change is not None and change.was else path, None)
        if line.known is not None:
            self.known[path] = line.known

    def _named(self, change: Change) -> Change:
        """`change` with an id that no other one has."""
        ident = change.id
        while ident in self.changes:
            ident = digest_of(f"{ident} {change.time}".encode())[:ID_CHARS]
        return structs.replace(change, id=ident)
