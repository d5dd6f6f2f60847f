"""The open session: its transcript on disk and the model's view of it, kept in step."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from clawbot.agent.events import Notice, SessionChanged, warning
from clawbot.agent.offers import carried_over
from clawbot.clock import Clock, epoch_ms
from clawbot.languages.tables import pattern_in, text_in
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, BashExecutionMessage, Message, UserMessage, quotes_notes
from clawbot.sessions.conversation import NOTES, REWIND, SILENT, ContextItem, context_items, without_forgotten
from clawbot.sessions.entries import (
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
)
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.export import default_target, write_export
from clawbot.sessions.forking import ForkedSession
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import short_name
from clawbot.sessions.store import OpenSession, SessionStore
from clawbot.sessions.summary import given_title
from clawbot.text.interface import _
from clawbot.text.language import detect
from clawbot.text.patterns import lazy_re

log = logging.getLogger(__name__)

# Models are asked to write `## Plan`. They take another level, bold type, more words and their user's language for it.
_NAMES = rf"{pattern_in('plan')}|\bpiano\b|\bplano\b|план"
_HEADING = lazy_re(rf"(?im)^ {{0,3}}(?:\#{{1,6}}[ \t]+|\*\*|__)[^\n]{{0,80}}?(?:{_NAMES})[^\n]*$")
_FENCE = lazy_re(r"(?ms)^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1|\Z)")


class Conversation:
    """One open session. All disk work happens on threads, in call order.

    A reply that could not be written (a full disk) remains in memory and is written before the next message, so that
    nothing the user saw is lost while the program runs.
    """

    def __init__(self, store: SessionStore, session: OpenSession, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._unsaved = 0
        self._enter(session)

    def _enter(self, session: OpenSession) -> None:
        self.session = session
        self.key = short_name(session.record.key)  # as the user types it
        self._load()

    def _load(self) -> None:
        """Load the model's view from the transcript."""
        entries = self.session.transcript.entries
        session = self.session
        items = context_items(entries)
        self.items: list[ContextItem] = without_forgotten(items, session.forgotten, session.transcript.path.name)
        self._unsaved = 0
        self.fresh_from = _first_since_compaction(entries, self.items)

    @property
    def messages(self) -> list[Message]:
        """The model's view of the session, oldest first."""
        return [item.message for item in self.items]

    @property
    def has_summary(self) -> bool:
        """Whether the first message is a summary."""
        return self.fresh_from > 0

    @property
    def session_id(self) -> str:
        """The id of the session, and the name of its transcript."""
        return self.session.record.session_id

    @property
    def last_compaction(self) -> CompactionEntry | None:
        """The entry of the last compaction, if any."""
        entries = reversed(self.session.transcript.entries)
        return next((entry for entry in entries if isinstance(entry, CompactionEntry)), None)

    @property
    def transcript_bytes(self) -> int:
        """The size of the transcript in bytes."""
        return self.session.transcript.size

    @property
    def cost(self) -> float | None:
        """The session's cost so far in US dollars; None while no call had a price."""
        return self.session.record.cost

    @property
    def is_blank(self) -> bool:
        """Whether there is no message yet; a quote of notes does not count."""
        return all(quotes_notes(item.message) for item in self.items)

    async def quote(self, text: str, files: Sequence[str]) -> str:
        """Start the session with a quote of notes, `text`, from `files`; returns the entry's id. Raises
        SessionStoreError."""
        entry = CustomMessageEntry(custom_type=NOTES, content=text, display=True, details={"files": list(files)})
        stored = await asyncio.to_thread(self.session.transcript.append, entry)
        self._load()
        return stored.id

    async def add_user(self, message: UserMessage) -> str:
        """Store a message of the user, or of a job, on disk; returns the entry's id.

        Raises SessionStoreError; then the message is neither on disk nor in the context.
        """
        await self.save_rest()
        entry = await asyncio.to_thread(self.session.transcript.append_message, message, sync=True)
        self.items.append(ContextItem(entry.id, entry.message))
        record = self.session.record
        # If earlier turns were not counted (a foreign transcript), the total is unknown.
        before = 0 if record.turns is None and len(self.items) == 1 else record.turns
        last = record.last_interaction_at if message.scheduled else entry.message.timestamp
        self._change(turns=None if before is None else before + 1, last_interaction_at=last)
        return entry.id

    def _change(self, **fields: Any) -> None:
        """Change `fields` of the session's record, which `settle` stores."""
        self.session.record = structs.replace(self.session.record, **fields)

    async def add(self, message: Message) -> str:
        """Store a message of the model or a tool; returns the entry's id.

        Raises SessionStoreError; then the message is in the context, and is written before the next one.
        """
        self.items.append(ContextItem("", message))
        self._unsaved += 1
        if isinstance(message, AssistantMessage) and (usage := message.usage) is not None:
            self.add_spent(usage.prompt_tokens, usage.output, usage.cost.total if usage.cost else None)
            self._change(total_tokens=usage.prompt_tokens, total_tokens_fresh=True)
        return await self.save_rest()

    async def add_command(self, message: BashExecutionMessage) -> str:
        """Store what a command of the user came to; returns the entry's id. It is in the context only if it is shared.
        Raises SessionStoreError; then it is neither stored nor in the context."""
        await self.save_rest()
        entry = await asyncio.to_thread(self.session.transcript.append_message, message, sync=True)
        turns = self.session.record.turns
        turns = 0 if turns is None and self.is_blank else turns
        if not message.exclude_from_context:
            self.items.append(ContextItem(entry.id, entry.message))
        self._change(turns=turns, last_interaction_at=epoch_ms(self._clock.now()))
        return entry.id

    def add_spent(self, tokens_in: int, tokens_out: int, cost: float | None) -> None:
        """Count what was spent for this session outside of its turns: tokens, and US dollars (None: unknown)."""
        record = self.session.record
        self._change(
            input_tokens=(record.input_tokens or 0) + tokens_in,
            output_tokens=(record.output_tokens or 0) + tokens_out,
            cost=record.cost if cost is None else (record.cost or 0.0) + cost,
        )

    async def save_rest(self) -> str:
        """Write what is not on disk yet, always the tail of the context; returns the id of the last entry."""
        entry_id = ""
        while self._unsaved:
            message = self.items[-self._unsaved].message
            last_word = isinstance(message, AssistantMessage) and not message.tool_calls
            entry = await asyncio.to_thread(self.session.transcript.append_message, message, sync=last_word)
            # Use the stored form (long results are truncated), so that a restart changes nothing for the model.
            self.items[-self._unsaved] = ContextItem(entry.id, entry.message)
            self._unsaved -= 1
            entry_id = entry.id
        return entry_id

    async def note(self, entry: Entry) -> None:
        """Store program state that the model never sees. Raises SessionStoreError."""
        await self.save_rest()
        await asyncio.to_thread(self.session.transcript.append, entry, sync=True)

    async def leave_out(self, first: str) -> None:
        """Remove everything from the entry `first` on from the context; the transcript keeps it. Raises
        SessionStoreError; then the context is unchanged."""
        await self.note(CustomEntry(custom_type=SILENT, data={"first": first}))
        self._load()

    async def compact(self, entry: CompactionEntry) -> CompactionEntry:
        """Store `entry`, whose summary replaces what precedes the first entry it keeps; returns it as stored. Raises
        SessionStoreError; then the context is unchanged."""
        await self.save_rest()
        stored = await asyncio.to_thread(self.session.transcript.append, entry, sync=True)
        self._load()
        count = self.session.record.compaction_count + 1
        self._change(compaction_count=count, total_tokens=None, total_tokens_fresh=False)
        return stored

    def offered(self) -> None:
        """Record the time of the offer to memory in the session index, for related programs."""
        count = self.session.record.compaction_count
        self._change(memory_flush_at=epoch_ms(self._clock.now()), memory_flush_compaction_count=count)

    async def settle(self, window: int) -> None:
        """Update the session's index record after a turn; `window` is the model's, in tokens."""
        self._change(context_tokens=window)
        self.session.record = await asyncio.to_thread(self._store.update, self.session.record)

    async def choose_model(self, ref: str, info: ModelInfo) -> None:
        """Remember the user's model for this session and its successors under the same key."""
        provider, name = info.ref.split("/", 1) if "/" in info.ref else ("", info.ref)
        entry = ModelChangeEntry(provider=provider, model_id=name)
        await asyncio.to_thread(self.session.transcript.append, entry)
        record = structs.replace(self.session.record, model_override=ref)
        self.session.record = await asyncio.to_thread(self._store.update, record)

    async def rewind(self, entry_id: str) -> str:
        """Take the user's message `entry_id` and all that followed it out of the context; returns its text. The
        transcript keeps them, alongside the branch that begins here. On SessionStoreError nothing has changed.
        """
        await self.save_rest()
        text = await asyncio.to_thread(self._branch, entry_id)
        self._load()
        self._change(total_tokens=None, total_tokens_fresh=False)
        return text

    def _branch(self, entry_id: str) -> str:
        transcript = self.session.transcript
        branch = transcript.branch_before(entry_id)
        entry = branch.path[branch.at]
        if not (isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)):
            raise SessionStoreError(_("Only a message of yours can be taken back."), hint=_("Choose another place."))
        offers = carried_over(branch.path, context_items(branch.kept))
        data = {"to": entry_id, "left": branch.path[-1].id, **offers}
        transcript.go_on_from(branch, CustomEntry(custom_type=REWIND, data=data))
        return entry.message.text

    async def rename(self, title: str) -> str:
        """Give the session the user's `title`, "" for none; returns it as it is shown. Raises SessionStoreError."""
        title = given_title(title)
        await self.save_rest()
        self.session.record = await asyncio.to_thread(self._store.named, self.session, title)
        return title

    async def fork(self, title: str, at: str) -> ForkedSession:
        """Create a session that begins with this one up to `at` ("": all of it), with the user's `title`. Raises
        SessionStoreError; then there is none."""
        await self.save_rest()
        await asyncio.to_thread(self._store.update, self.session.record)
        return await asyncio.to_thread(self._store.fork, self.session_id, at, given_title(title))

    async def export(
        self, form: str, path: Path | None, workspace: Path, record: SessionRecord | None, *, with_secrets: bool
    ) -> tuple[Path, int]:
        """Write this session, or that of `record`, as "md" or "json" to `path` (default: in `exports` of `workspace`);
        returns the path, and how many secrets were left out. Raises ClawbotError."""
        record = record or self.session.record
        target = path or default_target(workspace, short_name(record.key), form, self._clock.now())
        title = (await asyncio.to_thread(self._store.summary, record)).title
        transcript, write = self._store.path_of(record), functools.partial(write_export, title=title)
        count = await asyncio.to_thread(
            write, transcript, target, form, self._clock, workspace, with_secrets=with_secrets
        )
        return target, count

    async def take_title(self, title: str, by: str) -> None:
        """Give the session the `title` that the model `by` found, while no turn runs. Raises SessionStoreError."""
        self.session.record = await asyncio.to_thread(self._store.named, self.session, title, by)

    def restart(self) -> None:
        """Let the age of an empty session count from now. Blocks. Raises SessionStoreError."""
        self.session.record = self._store.restart(self.session.record)

    async def rotate(self, reason: str, *, pending: bool = False) -> SessionChanged:
        """Start a fresh session under the same key; the old transcript remains. `pending`: memory must still be offered
        the rest of it."""
        await self.save_rest()
        await asyncio.to_thread(self._store.update, self.session.record)
        self._enter(await asyncio.to_thread(self._store.rotate, self.session, reason, pending=pending))
        return SessionChanged(session_key=self.key, session_id=self.session_id, reason=reason)

    async def switch(self, session: OpenSession) -> SessionChanged:
        """Switch to another, already opened session."""
        await self.save_rest()
        old = self.session
        self._enter(session)
        await asyncio.to_thread(old.close)
        return SessionChanged(session_key=self.key, session_id=self.session_id, reason="resume")

    async def leave_pending(self) -> None:
        """Record that memory must be offered the rest unless the session is continued. A failure loses nothing."""
        try:
            record = await asyncio.to_thread(self._store.left_pending, self.session.record)
        except SessionStoreError as error:
            log.warning("the list of sessions does not know what memory was not offered: %s", error)
        else:
            self.session.record = record

    async def close(self) -> None:
        """Write what is pending and release the session. Raises SessionStoreError if it can't be written."""
        try:
            await self.save_rest()
        finally:
            await asyncio.to_thread(self.session.close)


def _first_since_compaction(entries: Sequence[Entry], items: Sequence[ContextItem]) -> int:
    """The index of the first of `items` after the last compaction; 0 without one."""
    compactions = [at for at, entry in enumerate(entries) if isinstance(entry, CompactionEntry)]
    if not compactions:
        return 0
    positions = {entry.id: at for at, entry in enumerate(entries)}
    return next((at for at, item in enumerate(items) if positions[item.entry_id] > compactions[-1]), len(items))


def notices_of(session: OpenSession) -> list[Notice]:
    """The problems survived while opening `session`, for the user."""
    return [warning(str(problem)) for problem in session.notices]


def plan_in(answer: str) -> str:
    """The plan of an answer in plan mode: from the heading that names it to the end, "" where there is none. A heading
    in a block of code, and one with nothing below it, are none."""
    hidden = _FENCE.sub(lambda fence: " " * len(fence.group()), answer)
    for heading in _HEADING.finditer(hidden):
        if answer[heading.end() :].strip():
            return answer[heading.start() :].strip()
    return ""


def plan_of(message: Message | None) -> str:
    """Return the plan of a complete answer in plan mode, "" for any other message."""
    is_complete = isinstance(message, AssistantMessage) and not message.tool_calls and not message.broken
    return plan_in(message.text) if message is not None and is_complete else ""


def last_plan(messages: Iterable[Message]) -> str:
    """Return the plan that the user was asked last to accept in `messages`, oldest first; "" where there was none."""
    plan, planning = "", False
    for message in messages:
        if isinstance(message, UserMessage):
            planning = message.planning is True and message.scheduled is not True
        elif planning:
            plan = plan_of(message) or plan
    return plan


def acceptance(plan: str) -> str:
    """Return the user's message on accepting `plan`, in its language."""
    return text_in("plan_accepted", detect(plan) or "en")
