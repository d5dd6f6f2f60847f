"""Edits single files while forgetting, and searches all others for remains. Everything blocks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct

from clawbot.forget.words import ForgetTarget, Phrase, stands_in, strings_in
from clawbot.guarded import ChangedFileError, GuardedFolder, reached
from clawbot.memory.documents.walking import IGNORED_FOLDERS
from clawbot.sessions.folder import is_transcript
from clawbot.text.encoding import decoded, encoding_of
from clawbot.trees import TreeWalk

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
    are the files to be renamed. No link in `workspace` is followed; elsewhere they are the user's."""

    def __init__(self, workspace: Path, *, dry_run: bool) -> None:
        self._workspace = workspace
        self.dry_run = dry_run
        self.planned: dict[Path, bytes | None] = {}
        self.renamed: set[Path] = set()

    def read(self, path: Path) -> bytes | None:
        """The current or planned content; None for a missing file. Raises OSError."""
        if path in self.planned:
            return self.planned[path]
        folder, name = self._reached(path)
        try:
            return folder.read(name, MOST_BYTES)
        except FileNotFoundError:
            return None

    def change(self, path: Path, changed: Changed) -> bool:
        """Replace the file atomically with the result of `changed`; returns whether it differs. Retries when another
        program writes in between. Raises OSError, StubbornFileError."""
        folder, name = self._reached(path)
        for _ in range(_ATTEMPTS):
            before = self.read(path)
            if before is None or (after := changed(before)) == before:
                return False
            if (found := folder.state(name)) and found.st_nlink > 1:
                raise StubbornFileError("is a hard link: its other name would keep the text")
            if self.dry_run:
                self.planned[path] = after
                return True
            with contextlib.suppress(ChangedFileError):
                folder.replace_known(name, before, after)
                return True
        raise StubbornFileError("keeps being changed by another program")

    def _reached(self, path: Path) -> tuple[GuardedFolder, Path]:
        folder, name = reached(path, self._workspace)
        return (folder, name) if folder.root == self._workspace else reached(path.resolve(), None)


def still_there(
    roots: Collection[Path], wanted: ForgetTarget, editor: FileEditor, passed: Collection[Path]
) -> Iterator[Left]:
    """The files below `roots`, except `passed`, that contain some of what is wanted; and what could not be checked."""
    seen: set[Path] = set()
    for root in filter(Path.is_dir, roots):
        files = GuardedFolder(root)
        for inside in _files_below(files):
            if isinstance(inside, Left):
                yield inside
                continue
            path = root / inside
            if path in seen or path in passed or editor.planned.get(path, b"") is None:
                continue
            seen.add(path)
            if path not in editor.renamed:
                yield from _named(Path(inside), path, wanted)
            if path.name == _GIT:
                if editor.planned or not editor.dry_run:
                    yield Left(str(path), "git's history is not searched", unseen=True)
                continue
            try:
                yield from _looked_through(files, inside, wanted, editor)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield Left(str(path), f"can't be searched ({error.strerror or type(error).__name__})", unseen=True)


def _files_below(files: GuardedFolder) -> Iterator[str | Left]:
    """The paths of regular files, and of the folders of git, whose content is left out."""
    with files.folder() as top:
        walk = TreeWalk(top, ignored=IGNORED_FOLDERS - {_GIT}, skips=lambda path: f"/{_GIT}/" in f"/{path}")
        for entry in walk:
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(entry.name, dir_fd=entry.parent, follow_symlinks=False)
                if entry.name == _GIT if entry.is_folder else stat.S_ISREG(found.st_mode):
                    yield entry.path
    yield from (Left(str(files.root), problem, unseen=True) for problem in walk.problems)


def _named(inside: Path, path: Path, wanted: ForgetTarget) -> Iterator[Left]:
    if isinstance(wanted, Phrase) and any(wanted.holds(re.sub(r"[-_.]", " ", part)) for part in inside.parts):
        yield Left(str(path), "its name; rename it by hand", unseen=True)


def _looked_through(files: GuardedFolder, inside: str, wanted: ForgetTarget, editor: FileEditor) -> Iterator[Left]:
    path = files.root / inside
    planned = editor.planned.get(path)
    if path.parent.name == _SESSIONS and is_transcript(path.name):
        with io.BytesIO(planned) if planned is not None else os.fdopen(files.open(inside), "rb") as rows:
            count = sum(_holds(row.decode("utf-8", "replace"), wanted, is_json=True) for row in rows)
        if count:
            yield Left(str(path), f"{count} {'entry' if count == 1 else 'entries'}")
        return
    data = files.read(inside, MOST_BYTES) if planned is None else planned
    if b"\0" in data[:_HEAD] and not encoding_of(data).is_wide:
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
