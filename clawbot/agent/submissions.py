"""Messages that the transcript does not hold yet: the queue of one conversation, whose texts are accepted one after the
other and may be withdrawn or interrupted, and what of it is stored on disk until it is sent."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from msgspec import structs

from clawbot.agent.events import Emit, Event, MessageQueued, Origin, Scope, TurnEnded, Waiting, warning
from clawbot.clock import Clock, epoch_ms
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ModelError
from clawbot.messages import scrub
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.store import OpenSession
from clawbot.sessions.unsent import Unsent, UnsentFile, stored_ids
from clawbot.text.interface import _
from clawbot.text.secrets import redact

log = logging.getLogger(__name__)


class Submissions:
    """One runs, the others wait in their order. `accept` runs one and returns how it ended; it raises nothing. `outbox`
    has a text of the user on disk that must wait."""

    def __init__(
        self, accept: Callable[[str, Scope], Awaitable[TurnEnded]], clock: Clock, outbox: Outbox | None = None
    ) -> None:
        self._accept = accept
        self._clock = clock
        self._outbox = outbox
        self._turn = asyncio.Lock()
        self._waiting: list[Waiting] = []
        self._driver: asyncio.Task[None] | None = None
        self.running: Scope | None = None

    async def submit(self, text: str, origin: Origin = "user", unsent_id: str = "") -> AsyncGenerator[Event, None]:
        """Process a message or a slash command and yield its events, up to TurnEnded. `origin` is the speaker:
        prompts of jobs neither keep a session alive nor end one. `unsent_id` is the id under which the text is stored.

        Closing the stream withdraws a text that still waits, which remains on disk, and interrupts one that runs. A
        text that is in no transcript by then is stored.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        scope = Scope(events.put_nowait, Cancellation(), origin=origin, unsent_id=unsent_id)
        driver = asyncio.create_task(self._drive(scrub(text), scope))
        driver.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await driver
        finally:
            if not driver.done():
                scope.left = True
                runs = self.running is scope
                if runs:
                    scope.cancel.request()
                else:
                    driver.cancel()
                await asyncio.wait({driver})
                if runs and self._outbox is not None and origin == "user" and not scope.sent:
                    await self._outbox.keep(scrub(text), scope)

    def interrupt(self) -> bool:
        """Stop what runs. False when nothing does."""
        if self.running is None:
            return False
        self.running.cancel.request()
        return True

    def next_to_send(self) -> Waiting | None:
        """Return the first waiting text that was not sent yet, if it is one of the user's that is reported as waiting:
        to send it in the running turn, set `sent`."""
        left = next((each for each in self._waiting if not each.sent), None)
        return left if left is not None and left.reported and left.scope.origin == "user" else None

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        """Wait until nothing runs, and keep it so inside the context. What a submission asks for does not wait for
        it."""
        return nullcontext() if self._driver is asyncio.current_task() else self._turn

    @asynccontextmanager
    async def alone(self, scope: Scope) -> AsyncIterator[None]:
        """The same for the program's own work, which `interrupt` stops as it stops a turn."""
        async with self._turn:
            self.running = scope
            try:
                yield
            finally:
                self.running = None

    async def _drive(self, text: str, scope: Scope) -> None:
        # The lock is free for a moment between two turns: who waits already goes first.
        if self._turn.locked() or self._waiting:
            waiting = Waiting(text, scope)
            self._waiting.append(waiting)
            position = len(self._waiting)
            try:
                if self._outbox is not None and scope.origin == "user":
                    await self._outbox.keep(text, scope)
                scope.emit(MessageQueued(text=text, position=position, unsent_id=scope.unsent_id))
                waiting.reported = True
                await self._turn.acquire()
            finally:
                self._waiting.remove(waiting)
            if waiting.sent:
                self._turn.release()
                if self._outbox is not None:
                    self._outbox.drop_soon(scope)
                scope.emit(TurnEnded(status="done"))
                return
        else:
            await self._turn.acquire()
        began = self._clock.monotonic()
        self.running, self._driver = scope, asyncio.current_task()
        try:
            ended = await self._accept(text, scope)
        finally:
            self.running = self._driver = None
            self._turn.release()
        scope.emit(structs.replace(ended, duration_ms=round((self._clock.monotonic() - began) * 1000)))


def failure(error: Exception) -> TurnEnded:
    """Return the last event of a submission that ended with `error`."""
    match error:
        case InterruptedTurnError():
            return TurnEnded(status="interrupted")
        case ModelError():
            named = redact(f"{error.provider}: {error.message}" if error.provider else error.message)
            return TurnEnded(status="failed", error_kind=error.kind, error=named, hint=error.hint)
        case ClawbotError():
            return TurnEnded(status="failed", error_kind="failed", error=error.message, hint=error.hint)
    problem = _("Something in clawbot failed: {kind}: {error}").format(kind=type(error).__name__, error=error)
    hint = _("The log has the details (clawbot doctor says where it is); the conversation is kept.")
    return TurnEnded(status="failed", error_kind="internal", error=redact(problem), hint=hint)


class Outbox:
    """The unsent texts of the session that is open. All disk work happens in threads, in the order of the calls.

    `left` is what an earlier process did not send. If the disk is full, a text waits in memory only, a
    warning is emitted, and storing it is not tried again.
    """

    def __init__(self, session: OpenSession, clock: Clock, notify: Emit) -> None:
        self._clock = clock
        self._notify = notify
        self._file = _file_of(session)
        self._order = asyncio.Lock()
        self._left: dict[str, Unsent] = {}
        self._files: dict[str, UnsentFile] = {}  # of what was kept, and is not gone
        self._own: set[str] = set()  # accepted by this process, and pending in it
        self._drafts: set[str] = set()  # what is on disk as a draft only
        self._dropping: set[asyncio.Task[None]] = set()

    @property
    def left(self) -> list[Unsent]:
        """What an earlier process did not send, in the order in which it was typed."""
        return list(self._left.values())

    async def enter(self, session: OpenSession) -> None:
        """Go on with the session `session`: what its transcript holds by now was sent. Raises SessionStoreError."""
        async with self._order:
            file = _file_of(session)
            texts = await asyncio.to_thread(file.read)
            sent = stored_ids(texts, session.transcript.entries)
            if sent or not texts:
                await asyncio.to_thread(file.drop, sent)
            self._file = file
            self._left = {unsent.id: unsent for unsent in texts if unsent.id not in sent | self._own}
            self._files |= dict.fromkeys(self._left, file)
            self._drafts |= {unsent.id for unsent in self._left.values() if unsent.draft}

    async def keep(self, text: str, scope: Scope) -> None:
        """Have `text` of the submission `scope` on disk when this returns, unless it is there already."""
        if scope.unsent_id in self._drafts:
            await self.add(text, ident=scope.unsent_id)
        elif scope.unsent_id not in self._files:
            scope.unsent_id = await self.add(text)

    async def add(self, text: str, instead_of: Collection[str] = (), *, ident: str = "", draft: bool = False) -> str:
        """Store `text` as `ident` (a new id by default), instead of what has this id and of those with the ids
        `instead_of`; its id."""
        unsent = Unsent(ident or uuid.uuid4().hex, text, epoch_ms(self._clock.now()), draft=draft)
        # At once: a message that is sent while its draft is being written must not take that for itself.
        (self._drafts.add if draft else self._drafts.discard)(unsent.id)
        async with self._order:
            before, file = self._files.get(unsent.id), self._file
            self._files[unsent.id] = file
            self._own.add(unsent.id)
            self._left.pop(unsent.id, None)
            try:
                await asyncio.to_thread(file.keep, [unsent], instead_of)
                if before is not None and before.path != file.path:
                    await asyncio.to_thread(before.drop, [unsent.id])
            except SessionStoreError as error:
                log.warning("a message that waits could not be kept: %s", error)
                self._notify(warning(_("Queued messages could not be stored: {error}").format(error=error)))
            else:
                for replaced in instead_of:
                    self._forget(replaced)
        return unsent.id

    async def drop(self, *ids: str) -> None:
        """Drop texts that were sent or withdrawn. What can't be removed is known by its id next time."""
        async with self._order:
            by_file: dict[UnsentFile, list[str]] = {}
            for ident in ids:
                if ident in self._files:
                    by_file.setdefault(self._files[ident], []).append(ident)
                self._forget(ident)
            for file, gone in by_file.items():
                try:
                    await asyncio.to_thread(file.drop, gone)
                except SessionStoreError as error:
                    log.warning("a message that was sent could not be taken out: %s", error)

    def drop_soon(self, scope: Scope) -> None:
        """Mark the text of `scope` as sent, and drop it in the background."""
        scope.sent = True
        if scope.unsent_id:
            task = asyncio.create_task(self.drop(scope.unsent_id))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)
            scope.unsent_id = ""

    async def settle(self) -> None:
        """Wait until all that was sent is removed."""
        if self._dropping:
            await asyncio.wait(self._dropping)

    def _forget(self, ident: str) -> None:
        self._files.pop(ident, None)
        self._left.pop(ident, None)
        self._own.discard(ident)
        self._drafts.discard(ident)


def _file_of(session: OpenSession) -> UnsentFile:
    return UnsentFile(session.transcript.path.parent, session.record.key)
