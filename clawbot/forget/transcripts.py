"""What to forget in an agent's conversations: the entries, memory's records, and the texts stored next to the
transcripts. Everything blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from clawbot.clock import Clock
from clawbot.forget.files import Everything, FileEditor, ForgetTarget, Left, is_in, taken_out
from clawbot.forget.notes import ForgottenPart
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.entries import FLUSH, CustomEntry, MemoryWrite, MessageEntry, offer_of
from clawbot.sessions.errors import SessionLockedError
from clawbot.sessions.folder import is_transcript, read_folder
from clawbot.sessions.forgotten import session_of
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.locks import SessionLock, holder_of, is_free
from clawbot.sessions.names import SUBAGENTS
from clawbot.sessions.offsets import read_entry, spans_backwards
from clawbot.sessions.redaction import holding, redacted, replace
from clawbot.sessions.store import SessionStore
from clawbot.sessions.unsent import UnsentFile

WRITING_TOOLS = frozenset(("write", "edit", "append"))


class Transcripts:
    """The conversations of `store`. `locks` holds the session locks until it is closed."""

    def __init__(self, store: SessionStore, clock: Clock, locks: ExitStack) -> None:
        self._store = store
        self._clock = clock
        self._locks = locks
        self._held: set[Path] = set()
        folder = store.folder
        content = read_folder(folder)
        self._copies = content.copies
        found = [folder / name for name in sorted((*content.headers, *content.copies))]
        found += sorted(path for path in folder.glob(f"{SUBAGENTS}/*/*") if is_transcript(path.name))
        self.paths = [path for path in found if path.is_file()]

    def of_session(self, session_id: str) -> list[Path]:
        """The transcripts of a session: its own, copies, those that resets of other programs renamed, and its
        sub-agents'."""
        used = {path: self._copies.get(path.name, path.name) for path in self.paths}
        return [path for path, name in used.items() if session_id in (session_of(name), path.parent.name)]

    def lock(self, path: Path, *, dry_run: bool) -> None:
        """Lock the session of the transcript `path`; with `dry_run` only check. Raises SessionLockedError."""
        if path in self._held:
            return
        name = session_of(path.name)
        if dry_run:
            if (holder := holder_of(path)) is not None:
                raise holder.refusal(name)
            return
        lock = SessionLock(path)
        lock.acquire(name, self._clock)
        self._locks.callback(lock.release)
        self._held.add(path)

    def sweep(self) -> None:
        """Remove temporary transcripts left by an interrupted run."""
        folder = self._store.folder
        for path in [*folder.glob(".*.jsonl.*.tmp"), *folder.glob(f"{SUBAGENTS}/*/.*.jsonl.*.tmp")]:
            transcript = path.with_name(path.name[1:].rsplit(".", 2)[0])
            if transcript in self.paths and (transcript in self._held or is_free(transcript)):
                path.unlink(missing_ok=True)

    def holding(self, wanted: ForgetTarget) -> dict[Path, list[str]]:
        """The ids of matching entries, by transcript. Raises OSError."""
        found = {path: holding(path, lambda text: is_in(text, wanted)) for path in self.paths}
        return {path: ids for path, ids in found.items() if ids}

    def redact(
        self, path: Path, wanted: ForgetTarget, editor: FileEditor, *, quotes: bool
    ) -> Iterator[ForgottenPart | Left]:
        """Remove matching text from a transcript; with `quotes`, only outside of messages."""
        shown = f"sessions/{path.relative_to(self._store.folder).as_posix()}"
        try:
            self.lock(path, dry_run=editor.dry_run)
        except SessionLockedError as error:
            yield Left(str(path), f"not touched: {error.message}", failed=True)
            return
        images = isinstance(wanted, Everything)
        data, count = redacted(path, lambda text: taken_out(text, wanted), images=images, quotes=quotes)
        if count:
            if editor.dry_run:
                editor.planned[path] = data
            else:
                replace(path, data)
            yield ForgottenPart(shown, f"taken out of {count} {'entry' if count == 1 else 'entries'}")

    def unsent(self, wanted: ForgetTarget, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        """Remove matching texts that were typed but never sent."""
        owners = {UnsentFile(self._store.folder, record.key).path: record for record in self._store.records()}
        for path in sorted(self._store.folder.glob("*.unsent")):
            data = editor.read(path) or b""
            if not any(map(_held_by(wanted), data.split(b"\n"))):
                continue
            if (record := owners.get(path)) is not None:
                try:
                    self.lock(self._store.path_of(record), dry_run=editor.dry_run)
                except SessionLockedError as error:
                    yield Left(str(path), f"not touched: {error.message}", failed=True)
                    continue
            yield from without_rows(path, _held_by(wanted), editor)

    def texts(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """The texts of messages, and those written by tools, in the transcripts `paths`; and the user's texts alone."""
        texts: list[str] = []
        users: list[str] = []
        for entry in self._entries(paths):
            if isinstance(entry, MessageEntry):
                if isinstance(entry.message, UserMessage):
                    users.append(entry.message.text)
                elif isinstance(entry.message, AssistantMessage):
                    texts.append(entry.message.text)
                    calls = [call for call in entry.message.tool_calls if call.name in WRITING_TOOLS]
                    texts += [text for call in calls for text in call.arguments.values() if isinstance(text, str)]
        return [*users, *texts], users

    def writes(self, paths: Sequence[Path]) -> list[MemoryWrite]:
        """What memory wrote for the sessions with the transcripts `paths`."""
        found: list[MemoryWrite] = []
        for entry in self._entries(paths):
            offer = offer_of(entry) if isinstance(entry, CustomEntry) else None
            if offer is not None and offer.by == FLUSH:
                found += offer.writes
        return list(dict.fromkeys(found))

    def _entries(self, paths: Sequence[Path]) -> Iterator[object]:
        for path in paths:
            with ByteSource.open(path) as source:
                for span in reversed(list(spans_backwards(source, source.size))):
                    yield read_entry(source, span)


def without_rows(path: Path, gone: Callable[[bytes], bool], editor: FileEditor) -> Iterator[ForgottenPart | Left]:
    """Remove the lines of a JSONL file for which `gone` is true."""
    count = 0

    def changed(before: bytes) -> bytes | None:
        nonlocal count
        rows = before.split(b"\n")
        kept = [row for row in rows if not gone(row)]
        count = len(rows) - len(kept)
        return b"\n".join(kept) if any(map(bytes.strip, kept)) else None

    if editor.change(path, changed):
        yield ForgottenPart(path.name, f"removed, {count} {'text' if count == 1 else 'texts'}")


def row_text(row: bytes) -> str:
    """The text of a line of the prompt's history; "" if the line is not one."""
    try:
        value = json.loads(row)
    except (ValueError, RecursionError):
        return ""
    text = value.get("text") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _held_by(wanted: ForgetTarget) -> Callable[[bytes], bool]:
    return lambda row: wanted.holds(row_text(row))
