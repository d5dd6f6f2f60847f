"""Removes text from an agent's notes: lines with a phrase, text written by memory for a session, entire notes, and
quotes of these. The rest of each note remains well-formed. Functions that take a path block."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.agent.notes import NoteError, rename_note
from clawbot.files import digest_of
from clawbot.forget.files import FileEditor, ForgetTarget, Left, Phrase, StubbornFileError
from clawbot.guarded import GuardedFolder
from clawbot.memory.documents.indexed_text import is_session_note, speakers_of
from clawbot.memory.documents.memory_files import MEMORY_FOLDER, MemoryDocuments
from clawbot.sessions.entries import MemoryWrite
from clawbot.sessions.envelopes import REFERENCE
from clawbot.text.encoding import decoded, encoded_like, encoding_of

_HEADING = re.compile(r"(#{1,6})\s+(?P<title>.*?)\s*$")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})")
_UNDERLINE = re.compile(r"\s{0,3}(?:=+|-+)\s*$")
_TABLE_RULE = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?)?\s*$")
_SPEAKER = re.compile(r"((?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?:user|assistant):)[ \t]*\S")
# The program's own headings: a day, a time, a session.
_OURS = re.compile(r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}|Session: .*|Conversation Summary")
# The agent's line around a reference, without the answer itself.
_ECHO = re.compile(rf"(?:\d{{4}}-\d{{2}}-\d{{2}} )?(?:\d{{2}}:\d{{2}} )?assistant: .*{REFERENCE}\s*$")
_FACT = re.compile(r"- \*\*(?:Session Key|Session ID|Source|Reason)\*\*: |<!-- session ")

Pick = Callable[[Sequence[str]], Collection[int]]
"""Selects the lines of a note to remove, as numbers from 0."""


def without_lines(text: str, pick: Pick) -> tuple[str, list[int]]:
    """`text` without the lines selected by `pick`, and their numbers (from 1); "" if nothing worth keeping remains. The
    program's own headings that become empty are removed too, and blank lines are not doubled."""
    lines = text.split("\n")
    bare = [line.rstrip("\r") for line in lines]
    gone = sorted(pick(bare))
    if not gone:
        return text, []
    drop = set(gone)
    kept: dict[int, str] = {}
    for number in gone:
        if left := _substitute(bare, number, drop):
            kept[number] = left + lines[number][len(bare[number]) :]
        elif number + 1 < len(bare) and _UNDERLINE.match(bare[number + 1]) and _is_text(bare[number]):
            drop.add(number + 1)
    drop -= kept.keys()
    _drop_fences(bare, drop)
    _drop_headings(bare, drop)
    _drop_blanks(bare, drop)
    rest = [kept.get(number, line) for number, line in enumerate(lines) if number not in drop]
    return ("\n".join(rest) if _has_content(rest) else ""), [number + 1 for number in gone]


def _substitute(lines: Sequence[str], number: int, drop: Collection[int]) -> str:
    """The remainder of a removed line on which others depend: an empty fence, a table head, the speaker of quoted
    lines."""
    line = lines[number]
    below = lines[number + 1] if number + 1 < len(lines) else ""
    if fence := _FENCE.match(line):
        return fence[0]
    if _TABLE_RULE.match(below) and "|" in line:
        return re.sub(r"[^|]+", " ", line)
    speaker = _SPEAKER.match(line)
    return speaker[1] if speaker and below.startswith(">") and number + 1 not in drop else ""


def _is_text(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("-", "*", "+", ">", "#", "|"))


def _drop_fences(lines: Sequence[str], drop: set[int]) -> None:
    """Also drop code blocks that became empty."""
    opened = None
    for number, line in enumerate(lines):
        if not _FENCE.match(line):
            continue
        if opened is None:
            opened = number
        else:
            inside = range(opened + 1, number)
            if drop.intersection(inside) and drop.issuperset(inside):
                drop |= {opened, number}
            opened = None


def _drop_headings(lines: Sequence[str], drop: set[int]) -> None:
    """Also drop the program's own headings that became empty, last one first."""
    for number in range(len(lines) - 1, -1, -1):
        found = _HEADING.match(lines[number])
        if found is None or number in drop or not _OURS.fullmatch(found["title"]):
            continue
        end = _end_of_section(lines, number, len(found[1]))
        inside = range(number + 1, end)
        if drop.intersection(inside) and all(each in drop or not lines[each].strip() for each in inside):
            drop.add(number)


def _end_of_section(lines: Sequence[str], start: int, level: int) -> int:
    for number in range(start + 1, len(lines)):
        found = _HEADING.match(lines[number])
        if found is not None and len(found[1]) <= level:
            return number
    return len(lines)


def _drop_blanks(lines: Sequence[str], drop: set[int]) -> None:
    """Keep one blank line around a removed part if both sides had one; none at the start or end of the file."""
    for number in sorted(drop):
        before = next((each for each in range(number - 1, -1, -1) if each not in drop), None)
        behind = number + 1
        while behind < len(lines) - 1 and behind not in drop and not lines[behind].strip():
            if before is not None and lines[before].strip():
                break
            drop.add(behind)
            behind += 1
    last = max((number for number, line in enumerate(lines) if line.strip() and number not in drop), default=-1)
    if drop and max(drop) > last:
        drop.update(range(last + 1, len(lines) - 1))


def _has_content(lines: Sequence[str]) -> bool:
    """Whether anything remains besides the program's own headings, session facts and references."""
    return any(line.strip() and not (_is_ours(line) or _FACT.match(line) or _ECHO.match(line)) for line in lines)


def _is_ours(line: str) -> bool:
    found = _HEADING.match(line)
    return found is not None and _OURS.fullmatch(found["title"]) is not None


PROFILE = "USER.md"
_HEAD_CHARS = 2_048
_NEUTRAL = "note"
_DATED = re.compile(r"memory/\d{4}-\d{2}-\d{2}-(?P<slug>.+)\.md")
_CITATION = re.compile(
    r"\[quoted: [^\]\n]*\]|[>\s]*(?:[-—–]+|Source:)\s*`?[^`\n]*\.(?:md|markdown)\b.*$", re.IGNORECASE
)


class ForgottenPart(Struct, frozen=True):
    """What was removed (or would be): the file, and its lines (from 1; none: the entire file)."""

    path: str
    what: str
    lines: tuple[int, ...] = ()


class NoteWork(Struct, frozen=True):
    """What to remove: lines that contain `phrase`; the notes `removed`; the `writes` of memory; quotes of `quoted`
    lines. `is_new` is false if an earlier run has already begun to remove memory's writes."""

    phrase: Phrase | None = None
    removed: tuple[str, ...] = ()
    writes: tuple[MemoryWrite, ...] = ()
    quoted: ForgetTarget | None = None
    is_new: bool = True


class Notes:
    """The notes of one agent."""

    def __init__(self, workspace: Path, documents: MemoryDocuments) -> None:
        self._workspace = workspace
        self._editor = FileEditor(workspace, dry_run=True)
        self.paths = [state.path for state in documents.list().files]
        found = GuardedFolder(workspace).state(PROFILE)
        if PROFILE not in self.paths and found is not None and stat.S_ISREG(found.st_mode):
            self.paths.append(PROFILE)

    def absolute(self, path: str) -> Path:
        return Path(os.path.normpath(self._workspace / path))

    def text(self, path: str) -> str:
        """The text of the note; undecodable bytes are replaced, and a missing note is empty. Raises OSError."""
        return decoded(self._editor.read(self.absolute(path)) or b"", errors="replace")

    def of_session(self, session_id: str) -> list[str]:
        """The notes saved at the end of a session. Raises OSError."""
        found = []
        for path in self.paths:
            if path.startswith(f"{MEMORY_FOLDER}/"):
                head = self.text(path)[:_HEAD_CHARS].partition("\n## ")[0]
                if session_id in head and is_session_note(head):
                    found.append(path)
        return found

    def written(self, writes: Collection[MemoryWrite]) -> list[str]:
        """The lines written by memory that still exist. Raises OSError."""
        found: list[str] = []
        for path in sorted({write.path for write in writes} & set(self.paths)):
            data = self._editor.read(self.absolute(path)) or b""
            lines = decoded(data, errors="replace").split("\n")
            found += [lines[number] for number in sorted(lines_written(data, path, writes)[0])]
        return found

    def take_out(self, work: NoteWork, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        """Remove lines that contain the phrase, and quotes."""
        for path in self.paths:
            if path not in work.removed:
                yield from self._take_lines(path, lambda before: picked(before, work), editor)
                if work.phrase is not None:
                    yield from self._rename(path, work.phrase, editor)

    def remove(self, work: NoteWork, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        """Remove memory's writes and entire notes. Must come last: the quotes are found by them."""
        for path in sorted({write.path for write in work.writes} & set(self.paths) - set(work.removed)):
            missed: list[MemoryWrite] = []

            def of_memory(before: bytes, path: str = path, missed: list[MemoryWrite] = missed) -> set[int]:
                found, missed[:] = lines_written(before, path, work.writes)
                return found

            yield from self._take_lines(path, of_memory, editor)
            for write in missed if work.is_new else ():
                lines = tuple(range(write.line, write.end_line + 1))
                yield Left(path, "memory's text about it has been edited since; check there", lines)
        for path in work.removed:
            with _reporting(path) as trouble:
                if editor.change(self.absolute(path), lambda _: None):
                    yield ForgottenPart(path, "removed, the whole note")
            yield from trouble

    def _take_lines(
        self, path: str, picked: Callable[[bytes], set[int]], editor: FileEditor
    ) -> Iterator[ForgottenPart | Left]:
        gone: list[int] = []

        def changed(before: bytes) -> bytes | None:
            try:
                text = decoded(before)
            except UnicodeDecodeError:
                # The final search reports whether it still contains anything.
                return before
            after, gone[:] = without_lines(text, lambda _: picked(before))
            is_empty = not after and path.startswith(f"{MEMORY_FOLDER}/")
            return None if gone and is_empty else encoded_like(after, before) if gone else before

        with _reporting(path) as trouble:
            if editor.change(self.absolute(path), changed):
                is_gone = editor.read(self.absolute(path)) is None
                yield (
                    ForgottenPart(path, "removed, the whole note: it contained nothing else")
                    if is_gone
                    else ForgottenPart(path, "removed", tuple(gone))
                )
        yield from trouble

    def _rename(self, path: str, phrase: Phrase, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        """Rename a session's note whose name contains words of the phrase."""
        named = _DATED.fullmatch(path)
        if named is None or not phrase.shares(named["slug"].replace("-", " ")):
            return
        data = editor.read(self.absolute(path))
        if data is None or not is_session_note(decoded(data, errors="replace")):
            return
        editor.renamed.add(self.absolute(path))
        if not editor.dry_run:
            try:
                rename_note(self._workspace, path, _NEUTRAL)
            except NoteError as error:
                yield Left(path, f"its name: {error}", failed=True)
                return
        yield ForgottenPart(path, "given a neutral name")


@contextlib.contextmanager
def _reporting(path: str) -> Iterator[list[Left]]:
    """Collect the reasons why a note could not be changed."""
    trouble: list[Left] = []
    try:
        yield trouble
    except StubbornFileError as error:
        trouble.append(Left(path, str(error), failed=True))
    except OSError as error:
        trouble.append(Left(path, f"can't be changed ({error.strerror or type(error).__name__})", failed=True))


def picked(data: bytes, work: NoteWork) -> set[int]:
    """The numbers (from 0) of lines that contain the phrase or quote removed text."""
    lines = [line.rstrip("\r") for line in decoded(data).split("\n")]
    found = {number for number, line in enumerate(lines) if work.phrase is not None and work.phrase.holds(line)}
    if work.quoted is None:
        return found
    is_note = is_session_note("\n".join(lines[:40]))
    speakers = speakers_of(lines) if is_note else iter([""] * len(lines))
    for number, (line, who) in enumerate(zip(lines, speakers, strict=True)):
        is_quote = line.lstrip(" -*").startswith(">") or who == "assistant"
        if (is_quote and work.quoted.holds(line)) or _cites(line, work.removed):
            found.add(number)
    return found


def _cites(line: str, paths: Collection[str]) -> bool:
    """Whether the line is a reference to one of the notes `paths`."""
    found = _CITATION.search(line)
    return found is not None and any(path in found[0] for path in paths)


def lines_written(data: bytes, path: str, writes: Collection[MemoryWrite]) -> tuple[set[int], list[MemoryWrite]]:
    """The numbers (from 0) of the lines in `data` that memory wrote to the note `path`, wherever they are now; and the
    writes that are no longer found."""
    found: set[int] = set()
    missed: list[MemoryWrite] = []
    encoding = encoding_of(data)
    line_break = "\n".encode(encoding.name)
    for write in writes:
        if write.path != path or not write.size:
            continue
        at = _offset_of(data, write, line_break)
        if at is None:
            missed.append(write)
            continue
        first = data[:at].decode(encoding.name, "replace").count("\n")
        text = data[at : at + write.size].decode(encoding.name, "replace").removesuffix("\n")
        found.update(first + number for number, line in enumerate(text.split("\n")) if line.strip())
    return found, missed


def _offset_of(data: bytes, write: MemoryWrite, line_break: bytes) -> int | None:
    """The byte offset of the bytes of `write`: at the recorded position, else anywhere at a line boundary."""
    starts = [write.offset, 0]
    at = data.find(line_break)
    while at >= 0:
        # The written bytes may begin with the line break of the line before.
        starts += [at, at + len(line_break)]
        at = data.find(line_break, at + 1)
    for start in dict.fromkeys(starts):
        part = data[start : start + write.size]
        if len(part) == write.size and digest_of(part) == write.digest:
            return start
    return None
