"""Writes an imported conversation as a transcript of ours, whose end shows whether anybody continued it here.

The end is a record that the conversation was imported, and the mark of an ended session. The record notes that memory
was offered all before it: nothing of it is sent to a model unless somebody continues the conversation.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
from msgspec import structs

from clawbot.clock import iso_utc, moment_of
from clawbot.importing.ledger import Run
from clawbot.importing.source import Imported, Session, entry_id, first_time, reading
from clawbot.messages import AssistantMessage, Message, ToolResultMessage
from clawbot.sessions.conversation import context_items
from clawbot.sessions.entries import (
    FORK,
    OFFER,
    CompactionEntry,
    CustomEntry,
    Entry,
    Header,
    MessageEntry,
    SessionInfoEntry,
    decode_entry,
    encode_entry,
    encode_header,
)
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.names import END_MARK
from clawbot.sessions.offsets import HEADER, spans_backwards
from clawbot.sessions.summary import given_title, read_header
from clawbot.sessions.transcript import capped

IMPORTED = "imported"  # the reason for the end of such a session
_UNREADABLE = "imported.unreadable"


class OwnEnd(NamedTuple):
    """The end of a transcript that nobody continued: the number of bytes before it, the import that wrote it, whether
    memory was offered the conversation since."""

    body: int
    run: str
    offered: bool


def own_end(path: Path) -> OwnEnd | None:
    """Return the end that an import wrote, None if the session went on since. Blocks. Raises OSError."""
    header = read_header(path)
    mark = header.fork if header else ""
    own = {mark, *(entry_id(f"{mark} {each}") for each in ("end", "title"))}
    body, run, offered = 0, "", False
    with ByteSource.open(path) as source:
        for span in spans_backwards(source, source.size):
            entry = decode_entry(source.read(span.start, span.end), span.kind) if span.kind == "custom" else None
            if span.id in own:
                body = span.start
                run = str(entry.data.get("run") or run) if isinstance(entry, CustomEntry) else run
            elif not body and isinstance(entry, CustomEntry) and entry.custom_type == OFFER:
                offered = True
            else:
                return OwnEnd(body, run, offered) if run else None
    return None


def ids_in(path: Path) -> set[str]:
    """Return the ids of all entries of the transcript at `path`. Blocks. Raises OSError."""
    with ByteSource.open(path) as source:
        return {span.id for span in spans_backwards(source, source.size) if span.kind != HEADER}


class Composer:
    """Writes the transcript of `session`, held in the program `label`, into `sink`, entry by entry, with its times. The
    `header` has no time yet. `known` are the ids of entries that an earlier run wrote; if they are `here`, the sink
    begins with them, and new ones may follow them."""

    def __init__(
        self,
        sink: IO[bytes],
        header: Header,
        label: str,
        session: Session,
        known: Collection[str],
        *,
        here: bool,
    ) -> None:
        self.messages = self.size = 0
        self.ids: set[str] = set()
        self._sink, self._header, self._label, self._session, self._known = (
            sink,
            header,
            label,
            session,
            known,
        )
        self._mark = entry_id(f"{session.ident} mark")
        # By each entry of this file, the last one up to it that a model would read.
        self._read = {ident: ident for ident in known} if here else {}
        self._last, self._leaf, self._at = "", "", session.began

    def write(self, run: Run, *, pending: bool) -> bool:
        """Write the new entries and the end; False, and nothing, if there are none. `pending`: memory is to be offered
        the conversation."""
        is_new = False
        for message in reading(self._session.messages):
            ident = message.id
            while ident in self.ids or ident == self._mark:
                ident = entry_id(f"{ident}'")
            self.ids.add(ident)
            if ident not in self._known:
                self._entry(ident, message)
                is_new = True
            self._last, self._leaf = ident, ident if self._read.get(ident) else self._leaf
        if is_new:
            self._end(run, pending=pending)
        return is_new

    def _entry(self, ident: str, message: Imported) -> None:
        parent = self._last if message.parent is None else message.parent
        parent_id = parent if parent in self._read else None
        entry, line = self._encoded(message.what, ident, parent_id)
        if not self._read:
            began = iso_utc(moment_of(min(self._session.began or self._at, self._at)))
            self._sink.write(encode_header(structs.replace(self._header, timestamp=began, fork=self._mark)))
        self._sink.write(line)
        self.size += len(line)
        self.messages += isinstance(entry, MessageEntry) and not isinstance(entry.message, ToolResultMessage)
        # A summary comes before what was kept of the messages that it follows in the file.
        is_read = not isinstance(entry, CompactionEntry) and context_items([entry])
        self._read[ident] = ident if is_read else self._read.get(parent, "")

    def _encoded(self, what: Message | dict[str, Any], ident: str, parent_id: str | None) -> tuple[Entry, bytes]:
        """Return the entry and its line, with the program's name in answers."""
        if not isinstance(what, dict):
            self._at = what.timestamp or self._at
            message = structs.replace(what, by=self._label) if isinstance(what, AssistantMessage) else what
            entry = MessageEntry(id=ident, parent_id=parent_id, timestamp=self._time, message=capped(message))
            return encode_entry(entry)
        self._at = first_time(what.get("timestamp"), self._at)
        answer = what.get("message")
        if isinstance(answer, dict) and answer.get("role") == "assistant":
            what = {**what, "message": {**answer, "by": self._label}}
        line = msgspec.json.encode({**what, "id": ident, "parentId": parent_id}) + b"\n"
        if (known := decode_entry(line, str(what.get("type")))) is not None:
            return known, line
        # Of no use to anybody, but others follow it.
        return encode_entry(CustomEntry(id=ident, parent_id=parent_id, custom_type=_UNREADABLE, data=what))

    @property
    def _time(self) -> str:
        return iso_utc(moment_of(self._at))

    def _end(self, run: Run, *, pending: bool) -> None:
        parent, title = self._leaf, given_title(self._session.title)
        taken = [] if pending else [["", self._read.get(parent, "")]]
        data = {"source": run.program, "id": self._session.ident, "run": run.id, "taken": taken}
        ended = {"reason": IMPORTED, **({"pending": True} if pending else {})}
        own: list[Entry] = [
            *([SessionInfoEntry(id=entry_id(f"{self._mark} title"), name=title, by=self._label)] if title else ()),
            CustomEntry(id=self._mark, custom_type=FORK, data=data),
            CustomEntry(id=entry_id(f"{self._mark} end"), custom_type=END_MARK, data=ended),
        ]
        for entry in own:
            linked = structs.replace(entry, parent_id=parent or None, timestamp=self._time)
            self._sink.write(encode_entry(linked)[1])
            parent = entry.id
