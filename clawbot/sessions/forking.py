"""A fork: a new transcript that begins with the messages of another one, up to an entry of it.

The lines are copied as they are, so their entries keep their ids. What belongs to the other session alone is
left out: its end, its names, its offers to memory and the notes kept. No copied entry is offered to memory again.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Collection, Container
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.files import PRIVATE_FILE, write_atomic
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.conversation import context_items
from clawbot.sessions.entries import (
    FORK,
    FORMAT_VERSION,
    KEPT_NOTES,
    NOTE,
    OFFER,
    CompactionEntry,
    CustomEntry,
    Entry,
    Header,
    MessageEntry,
    SessionInfoEntry,
    as_object,
    encode_entry,
    encode_header,
    user_spoke_at,
)
from clawbot.sessions.errors import SessionStoreError, store_errors
from clawbot.sessions.forgotten import forget_copies, read_forgotten
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import END_MARK, SUFFIX
from clawbot.sessions.offsets import EntrySpan
from clawbot.sessions.summary import MAX_TITLE_CHARS
from clawbot.sessions.transcript import Transcript, TranscriptBranch
from clawbot.text.interface import _

FORKED = "fork"
"""Who gave a fork its title, if the user did not."""

_ROOM = 20  # characters of a title for the word that marks a fork
_OWN_RECORDS = frozenset({OFFER, NOTE, END_MARK})


class ForkPlan(Struct, frozen=True):
    """What a fork holds: the `entries` that are copied, oldest first, and `taken`, the last of them in the model's
    context ("": none is). `text` is the user's message before which it ends, "" for none."""

    entries: list[Entry]
    taken: str
    text: str = ""

    @property
    def turns(self) -> int:
        """How many messages of the user it holds."""
        return sum(isinstance(each, MessageEntry) and isinstance(each.message, UserMessage) for each in self.entries)

    @property
    def compactions(self) -> int:
        """How many compactions it holds."""
        return sum(isinstance(each, CompactionEntry) for each in self.entries)


class ForkedSession(Struct, frozen=True):
    """A fork that was made: its `record`, and the `text` of the user's message before which it ends ("": none)."""

    record: SessionRecord
    text: str


class NewFork(Struct, frozen=True):
    """The session that a fork becomes: its id, key, folder of work, and the time of its start (ISO 8601). `title` is
    the user's, or else the fork has it `by` itself."""

    session_id: str
    key: str
    cwd: str
    began: str
    title: str = ""
    by: str | None = None


def plan_fork(transcript: Transcript, at: str = "") -> ForkPlan:
    """The fork of `transcript` that ends before the user's message `at`, after the answer `at`, or ("")
    where the conversation ends. Blocks. Raises SessionStoreError, also for any other entry."""
    branch = transcript.branch_before(at)
    text = ""
    if at:
        match branch.path[branch.at]:
            case MessageEntry(message=UserMessage() as message):
                text = message.text
            case MessageEntry(message=AssistantMessage() as message) if not message.tool_calls:
                branch = _after(transcript, branch)
            case _:
                raise SessionStoreError(
                    _("A fork begins before a message of yours, or after an answer."), hint=_("Choose another place.")
                )
    items = context_items(branch.kept)
    copied = [entry for entry in branch.path[: branch.at] if not isinstance(entry, SessionInfoEntry)]
    # Without the records that belong to the other session alone.
    entries = [each for each in copied if not (isinstance(each, CustomEntry) and each.custom_type in _OWN_RECORDS)]
    return ForkPlan(entries, items[-1].entry_id if items else "", text)


def _after(transcript: Transcript, branch: TranscriptBranch) -> TranscriptBranch:
    following = branch.path[branch.at + 1 : branch.at + 2]
    return transcript.branch_before(following[0].id if following else "")


def fork_title(title: str, taken: Container[str]) -> str:
    """The title of a fork of the session `title`, not one that is `taken`; "" if that has none."""
    word = _("fork")
    plain = re.sub(rf"\s*\({re.escape(word)}(?: \d+)?\)$", "", title)[: MAX_TITLE_CHARS - _ROOM].rstrip()
    numbered = (f"{plain} ({word}{f' {number}' if number > 1 else ''})" for number in itertools.count(1))
    return next(each for each in numbered if each not in taken) if plain else ""


def fork_record(new: NewFork, plan: ForkPlan, parent: SessionRecord, now: int) -> SessionRecord:
    """The record of the fork `new` of `parent` in the index; `now` is in milliseconds since the epoch."""
    given = new.title or None
    return SessionRecord(
        key=new.key,
        session_id=new.session_id,
        session_file=f"{new.session_id}{SUFFIX}",
        updated_at=now,
        session_started_at=now,
        last_interaction_at=user_spoke_at(plan.entries) or now,
        model_override=parent.model_override,
        label=None if new.by else given,
        title=given if new.by else None,
        context_tokens=parent.context_tokens,
        turns=plan.turns,
        compaction_count=plan.compactions,
    )


def put_fork(folder: Path, transcript: Transcript, plan: ForkPlan, new: NewFork) -> None:
    """Write the fork into `folder`, all of it or nothing. What was forgotten of the other session is forgotten of its
    fork before there is one. Blocks. Raises SessionStoreError."""
    data = fork_file(transcript, plan, new)
    path = folder / f"{new.session_id}{SUFFIX}"
    with store_errors("write", path):
        gone = [each.id for each in plan.entries if read_forgotten(folder).holds(transcript.path.name, each.id)]
        if gone:
            forget_copies(folder, new.session_id, gone)
        write_atomic(path, data, mode=PRIVATE_FILE)


def fork_file(transcript: Transcript, plan: ForkPlan, new: NewFork) -> bytes:
    """The content of the file of the fork `new` of `transcript` by `plan`. Blocks. Raises SessionStoreError."""
    ids = {entry.id for entry in plan.entries}
    mark, named = _fresh_ids(ids)
    header = Header(
        version=FORMAT_VERSION,
        id=new.session_id,
        timestamp=new.began,
        cwd=new.cwd,
        parent_session=str(transcript.path),
        session_key=new.key,
        fork=mark,
    )
    lines = [encode_header(header)]
    last: str | None = None
    with store_errors("read", transcript.path):
        for span, raw in transcript.lines():
            if span.id in ids and (line := _linked(span, raw, last)) is not None:
                lines.append(line)
                last = span.id
    taken: list[list[str]] = [["", plan.taken]] if plan.taken else []
    size = sum(map(len, lines))
    data = {"session": transcript.session_id, "after": last or "", "taken": taken, "transcriptBytes": size}
    own: list[Entry] = [CustomEntry(id=mark, parent_id=last, timestamp=new.began, custom_type=FORK, data=data)]
    if new.title:
        own.append(SessionInfoEntry(id=named, parent_id=mark, timestamp=new.began, name=new.title, by=new.by))
    return b"".join([*lines, *(encode_entry(entry)[1] for entry in own)])


def _fresh_ids(taken: Collection[str]) -> tuple[str, str]:
    """Two ids that are not `taken`."""
    free = (name for name in iter(lambda: uuid.uuid4().hex[:8], "") if name not in taken)
    return next(free), next(free)


def _linked(span: EntrySpan, raw: bytes, parent: str | None) -> bytes | None:
    """The line `raw` behind the entry `parent`; None if it is none. It changes only where its links do."""
    found = as_object(raw)
    if found is None:
        return None
    changed: dict[str, Any] = {**found, "id": span.id, "parentId": parent}
    if span.first_kept is not None:
        changed["firstKeptEntryId"] = span.first_kept
    details = found.get("details")
    if isinstance(details, dict) and KEPT_NOTES in details:
        changed["details"] = {name: value for name, value in details.items() if name != KEPT_NOTES}
    return (raw if changed == found else msgspec.json.encode(changed)) + b"\n"
