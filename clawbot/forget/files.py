"""Edits single files while forgetting, and searches all others for remains. Everything blocks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct

from clawbot.files import ChangedFileError, read_plain, replace_known
from clawbot.forget.words import ForgetTarget, Phrase, stands_in, strings_in
from clawbot.memory.documents.walking import IGNORED_FOLDERS
from clawbot.sessions.folder import is_transcript
from clawbot.text.encoding import decoded, encoding_of
from clawbot.trees import MOST_ENTRIES

MOST_BYTES = 64 * 1024 * 1024
_ATTEMPTS = 5
_HEAD = 4096
_SHOWN_LINES = 5
_GIT = ".git"
_SESSIONS = "sessions"

Changed = Callable[[bytes], bytes | None]
"""Maps a file's old bytes to its new ones; None: delete the file."""


class Left(Struct, frozen=True):
    """A remaining occurrence: where, and why or what to do about it. `lines` count from 1. `unseen`: could not be
    checked. `failed`: should have been removed, but could not be."""

    path: str
    why: str
    lines: tuple[int, ...] = ()
    unseen: bool = False
    failed: bool = False


class StubbornFileError(Exception):
    """A file that must not be changed; the text says why."""


class FileEditor:
    """Changes files, or with `dry_run` only plans the changes: `planned` maps each file to its new content, `renamed`
    are the files to be renamed."""

    def __init__(self, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.planned: dict[Path, bytes | None] = {}
        self.renamed: set[Path] = set()

    def read(self, path: Path) -> bytes | None:
        """The current or planned content; None for a missing file. Raises OSError."""
        if path in self.planned:
            return self.planned[path]
        try:
            return read_plain(path, MOST_BYTES)
        except FileNotFoundError:
            return None

    def change(self, path: Path, changed: Changed, *, below: Path | None = None) -> bool:
        """Replace the file atomically with the result of `changed`; returns whether it differs. Retries when another
        program writes in between. No link from the folder `below` on is followed. Raises OSError, StubbornFileError."""
        for _ in range(_ATTEMPTS):
            before = self.read(path)
            if before is None or (after := changed(before)) == before:
                return False
            if path.stat().st_nlink > 1:
                raise StubbornFileError("is a hard link: its other name would keep the text")
            if self.dry_run:
                self.planned[path] = after
                return True
            with contextlib.suppress(ChangedFileError):
                replace_known(path, before, after, below=below)
                return True
        raise StubbornFileError("keeps being changed by another program")


def still_there(
    roots: Collection[Path], wanted: ForgetTarget, editor: FileEditor, passed: Collection[Path]
) -> Iterator[Left]:
    """The files below `roots`, except `passed`, that contain some of what is wanted; and what could not be checked."""
    seen: set[Path] = set()
    for root in roots:
        for number, path in enumerate(_files_below(root)):
            if number == MOST_ENTRIES:
                yield Left(str(root), f"only {MOST_ENTRIES:,} files were searched", unseen=True)
                break
            if path in seen or path in passed:
                continue
            seen.add(path)
            if path not in editor.renamed and editor.planned.get(path, b"") is not None:
                yield from _named(path.relative_to(root), path, wanted)
            if path.name == _GIT:
                if editor.planned or not editor.dry_run:
                    yield Left(str(path), "git's history is not searched", unseen=True)
                continue
            try:
                yield from _looked_through(path, wanted, editor)
            except OSError as error:
                yield Left(str(path), f"can't be searched ({error.strerror or type(error).__name__})", unseen=True)


def _files_below(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        if _GIT in folders:
            yield Path(folder, _GIT)
        folders[:] = sorted(name for name in folders if name not in IGNORED_FOLDERS)
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _named(inside: Path, path: Path, wanted: ForgetTarget) -> Iterator[Left]:
    if isinstance(wanted, Phrase) and any(wanted.holds(re.sub(r"[-_.]", " ", part)) for part in inside.parts):
        yield Left(str(path), "its name; rename it by hand", unseen=True)


def _looked_through(path: Path, wanted: ForgetTarget, editor: FileEditor) -> Iterator[Left]:
    if path.parent.name == _SESSIONS and is_transcript(path.name):
        planned = editor.planned.get(path)
        with io.BytesIO(planned) if planned is not None else path.open("rb") as rows:
            count = sum(_holds(row.decode("utf-8", "replace"), wanted, is_json=True) for row in rows)
        if count:
            yield Left(str(path), f"{count} {'entry' if count == 1 else 'entries'}")
        return
    data = editor.read(path)
    if data is None or (b"\0" in data[:_HEAD] and not encoding_of(data).is_wide):
        return
    lines = _lines_of(decoded(data, errors="replace"), wanted, is_json=path.suffix in (".json", ".jsonl", ".unsent"))
    if lines:
        yield Left(str(path), "", tuple(lines[:_SHOWN_LINES]))


def _lines_of(text: str, wanted: ForgetTarget, *, is_json: bool) -> list[int]:
    if not wanted.holds(text) and not is_json:
        return []
    found = [number for number, line in enumerate(text.split("\n"), 1) if _holds(line, wanted, is_json=is_json)]
    return found or ([1] if wanted.holds(text) or (is_json and _holds(text, wanted, is_json=True)) else [])


def _holds(text: str, wanted: ForgetTarget, *, is_json: bool) -> bool:
    if is_json:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
            return any(stands_in(part, wanted) for part in strings_in(value))
    return wanted.holds(text)
