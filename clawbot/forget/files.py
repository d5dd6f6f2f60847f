"""Edits single files while forgetting, and searches all others for remains. Everything blocks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from clawbot.guarded import ChangedFileError, GuardedFolder, reached
from clawbot.memory.documents.walking import IGNORED_FOLDERS
from clawbot.sessions.envelopes import REFERENCE
from clawbot.sessions.folder import is_transcript
from clawbot.sessions.forgotten import MARK
from clawbot.text.encoding import decoded, encoding_of
from clawbot.text.tokens import INVISIBLE
from clawbot.trees import TreeWalk

MAX_BYTES = 64 * 1024 * 1024
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
    """A file that must not be changed; the text is the reason."""


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
            return folder.read(name, MAX_BYTES)
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
                yield from _searched(files, inside, wanted, editor)
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


def _searched(files: GuardedFolder, inside: str, wanted: ForgetTarget, editor: FileEditor) -> Iterator[Left]:
    path = files.root / inside
    planned = editor.planned.get(path)
    if path.parent.name == _SESSIONS and is_transcript(path.name):
        with io.BytesIO(planned) if planned is not None else os.fdopen(files.open(inside), "rb") as rows:
            count = sum(_holds(row.decode("utf-8", "replace"), wanted, is_json=True) for row in rows)
        if count:
            yield Left(str(path), f"{count} {'entry' if count == 1 else 'entries'}")
        return
    data = files.read(inside, MAX_BYTES) if planned is None else planned
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
            return any(is_in(part, wanted) for part in strings_in(value))
    return wanted.holds(text)


MIN_CHARS = 2
"""Minimum characters of a phrase; a single one occurs in nearly every line."""

_MIN_WEIGHT = 8  # minimum characters that identify a line; half as many for Chinese
_START = 4
_WIDE = 0x2E80
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
# Prefixes of a line: quote marks, list marks, headings, speaker and time.
_LEAD = re.compile(
    r"(?:\s|>|[-*+•](?=\s)|\d{1,3}[.)](?=\s)|#+(?=\s)|\[[ xX]\](?=\s))*"
    r"(?:(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?:user|assistant):\s*)?(?:\s|>)*"
)
_REFERENCE = re.compile(rf"{REFERENCE}\s*$")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


class ForgetTarget(Protocol):
    """What to forget."""

    def holds(self, text: str) -> bool:
        """Whether `text` (one or several lines) contains some of it."""
        ...


def plain(text: str) -> str:
    """`text` normalised for comparison."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        text = unicodedata.normalize("NFKC", text.casefold())
    return " ".join(text.casefold().split())


class Phrase:
    """A text typed by the user."""

    def __init__(self, text: str) -> None:
        self._plain = plain(text)

    @property
    def is_long_enough(self) -> bool:
        """Whether it is long enough to be removed."""
        return len(self._plain) >= MIN_CHARS

    def shares(self, words: str) -> bool:
        """Whether one of `words` is a word of it, or it occurs in them."""
        own = set(self._plain.split())
        return self.holds(words) or any(
            word in own or (len(word) > 1 and _is_wide(word) and word in self._plain) for word in plain(words).split()
        )

    def holds(self, text: str) -> bool:
        return self._plain in plain(text.replace(MARK, ""))


class WholeLines:
    """Lines of a note or of messages, matched as complete lines, whatever their prefix."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.keys = frozenset(key for text in texts for line in text.splitlines() if (key := _key(line)))

    def holds(self, text: str) -> bool:
        """Whether one of them is a line of `text`."""
        return any(_key(line) in self.keys for line in text.splitlines())


class Mentions:
    """The same lines anywhere, also inside others: for reporting, not for removing."""

    def __init__(self, lines: WholeLines) -> None:
        self._by_start: dict[str, list[str]] = {}
        for key in lines.keys:
            self._by_start.setdefault(key[:_START], []).append(key)

    def holds(self, text: str) -> bool:
        words = plain(text)
        starts = (at for at in range(len(words)) if words[at : at + _START] in self._by_start)
        return any(words.startswith(key, at) for at in starts for key in self._by_start[words[at : at + _START]])


class Everything:
    """Matches all text."""

    def holds(self, text: str) -> bool:
        return bool(text.strip())


def _key(line: str) -> str:
    """The normalised line for comparison; "" if it is too short to be identified."""
    if _REFERENCE.search(line) or MARK in line:
        return ""
    words = _EDGES.sub("", plain(line[_match_end(line) :]))
    weight = len(words) + sum(map(_is_wide, words))
    return words if weight >= _MIN_WEIGHT and any(map(str.isalpha, words)) else ""


def _is_wide(text: str) -> bool:
    """Whether the script writes no spaces between words."""
    return all(ord(char) >= _WIDE for char in text)


def _match_end(line: str) -> int:
    found = _LEAD.match(line)
    return found.end() if found else 0


def is_in(text: str, wanted: ForgetTarget) -> bool:
    """Whether `text`, which may be JSON printed by a tool, contains some of what is wanted."""
    return wanted.holds(text) or any(wanted.holds(part) for part in _inside(text))


def taken_out(text: str, wanted: ForgetTarget) -> str:
    """`text` with each matching line replaced by a mark; the entire text if the match spans lines or is inside JSON."""
    if not is_in(text, wanted):
        return text
    lines = text.split("\n")
    cleaned = "\n".join(MARK if wanted.holds(line) else line for line in lines)
    return MARK if is_in(cleaned.replace(MARK, ""), wanted) or isinstance(wanted, Everything) else cleaned


def _inside(text: str) -> Iterator[str]:
    if text[:1] in ("{", "["):
        try:
            yield from strings_in(json.loads(text))
        except (ValueError, RecursionError):
            return


def strings_in(value: Any) -> Iterator[str]:
    """All strings in JSON data, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from strings_in(item)
