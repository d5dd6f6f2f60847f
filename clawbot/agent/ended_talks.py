"""Offers to memory, in the background, what sessions left that ended: the words that no note holds and no flush had
taken. It works on their transcripts on disk, through the gate, while the user talks in the next session. A session that
was left by the end of the program before memory had taken it is one of them, until somebody goes on in it.

| state of a session | told by | what comes next |
|---|---|---|
| talked in | it has the key, or was resumed | the gate of its conversation (`boundary.py`) |
| pending | `memory_pending` in the index, `pending` in an end mark | it is borrowed, and a crash settled |
| being offered | its lock, and an offer that has begun | the offer ends: written, nothing, failed, interrupted |
| left for later | as pending: it failed, was stopped, or is open elsewhere | after a pause, or at the next start |
| given up | a last offer `abandoned`, after `MOST_TRIES` failures | nothing |
| done | all entries are in offers that are final | the mark in the index goes |

What is left to offer is told by the records in the transcript alone. The index only says where to look, so that a start
reads none of the others: it is behind after a kill, which costs one look, and it never says less than there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Event, MemoryWritten, Notice, Scope, warning
from clawbot.agent.offers import MOST_FAILURES, MOST_TRIES
from clawbot.agent.turn_runner import TurnRunner
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.sessions.entries import Exit
from clawbot.sessions.errors import SessionLockedError, SessionStoreError
from clawbot.sessions.index import SessionRecord
from clawbot.text.interface import _, ngettext

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 600.0  # before it is tried again: a model that failed, a session that is open elsewhere


class EndedTalks:
    """The sessions of one agent that ended and are pending. `runner_of` makes what a conversation that has ended is
    offered with; `announce` shows the user an event. All calls belong on the event loop."""

    def __init__(
        self,
        deps: AgentDeps,
        runner_of: Callable[[Conversation], TurnRunner],
        announce: Callable[[Event], None],
    ) -> None:
        self._store = deps.store
        self._clock = deps.clock
        self._runner_of = runner_of
        self._announce = announce
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._cancel = Cancellation()
        self._current = ""
        self._woken = False
        self._held_back = 0
        self._barred: set[str] = set()
        self._failures: dict[str, int] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a session is being offered now, or is about to be."""
        return self._task is not None and not self._task.done()

    def wake(self) -> None:
        """Look for pending sessions, and offer them. Nobody waits for it."""
        self._woken = True
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if not (self._held_back or self.is_busy):
            self._cancel = Cancellation()
            self._task = asyncio.create_task(self._run(), name="ended talks")
            self._task.add_done_callback(self._rested)

    def _rested(self, _task: asyncio.Task[None]) -> None:
        """Something may have ended while the last look was being stopped."""
        if self._woken and not self._held_back:
            self.wake()

    async def settled(self) -> None:
        """Wait until nothing is being offered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    @contextlib.asynccontextmanager
    async def without(self, session_id: str = "") -> AsyncIterator[None]:
        """Keep away from the session while the context lasts; without an id from all of them. What is being offered
        of it is stopped, and goes on later."""
        self._barred.add(session_id)
        self._held_back += not session_id
        try:
            if not session_id or self._current == session_id:
                self.stop()
                await self.settled()
            yield
        finally:
            self._barred.discard(session_id)
            self._held_back -= not session_id
            self.wake()

    def stop(self) -> bool:
        """Stop what is being offered; a later look goes on with it. False when nothing is."""
        self._cancel.request()
        return self.is_busy

    async def close(self, patience: float) -> None:
        """Wait at most `patience` seconds for what is being offered, and stop. The next start goes on with the rest."""
        self._held_back += 1
        if self._again is not None:
            self._again.cancel()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=patience)
            self.stop()
            await self.settled()

    async def _run(self) -> None:
        while self._woken and not self._cancel.requested:
            self._woken = False
            try:
                records = await asyncio.to_thread(self._store.pending)
            except ClawbotError as error:
                log.warning("ended sessions can't be searched: %s", error)
                return
            # What is no longer pending was offered, forgotten or resumed, and begins anew when it ends again.
            pending = {each.session_id for each in records}
            self._failures = {one: count for one, count in self._failures.items() if one in pending}
            for record in records:
                if self._cancel.requested:
                    return
                failures = self._failures.get(record.session_id, 0)
                if record.session_id not in self._barred and failures < MOST_FAILURES:
                    await self._take(record)

    async def _take(self, record: SessionRecord) -> None:
        """Offer what is left of the session of `record`, if nobody else holds it."""
        self._current = record.session_id
        try:
            await self._offer(record)
        except SessionLockedError:
            # Somebody talks in it, or another program sees to it.
            self._later()
        except SessionStoreError as error:
            log.warning("what was offered of a session that ended could not be recorded: %s", error)
            self._later()
        except Exception as error:
            log.exception("what a session left could not be offered to memory")
            self._failed(record.session_id, f"{type(error).__name__} (see the log for details).")
        finally:
            self._current = ""

    async def _offer(self, record: SessionRecord) -> None:
        """Raises SessionStoreError, SessionLockedError."""
        store = self._store
        if not await asyncio.to_thread(store.path_of(record).exists):
            await asyncio.to_thread(store.offered, record)
            return
        conversation = Conversation(store, await asyncio.to_thread(store.borrow, record), self._clock)
        try:
            if await self._offer_rest(conversation):
                await asyncio.to_thread(store.offered, conversation.session.record)
        finally:
            await conversation.close()

    async def _offer_rest(self, conversation: Conversation) -> bool:
        """Offer what is left; whether nothing is any more."""
        runner = self._runner_of(conversation)
        heard: list[Event] = []
        scope = Scope(heard.append, self._cancel)
        way: Exit = "reset" if conversation.session.record.ended_reason else "quit"
        try:
            await runner.policy.offer_rest(way, scope)
            error = self._error_of(runner)
            if runner.gate.has_unoffered and runner.gate.state.tries >= MOST_TRIES:
                await runner.gate.let_go(way, len(conversation.items), scope)
                error = ""
        except InterruptedTurnError:
            error = ""
        except ClawbotError as failure:
            error = str(failure)
        self._tell(heard)
        if error:
            self._failed(conversation.session_id, error)
        return not runner.gate.has_unoffered

    @staticmethod
    def _error_of(runner: TurnRunner) -> str:
        last = runner.gate.state.last
        return last.error if runner.gate.has_unoffered and last is not None else ""

    def _tell(self, heard: list[Event]) -> None:
        """One line for all that was written, and what else the user is to know."""
        writes = [event for event in heard if isinstance(event, MemoryWritten)]
        if writes:
            lines = sum(write.end_line - write.line + 1 for write in writes)
            text = ngettext(
                "memory: {n} line from the conversation before", "memory: {n} lines from the conversation before", lines
            )
            text = text.format(n=lines)
            self._announce(Notice(level="info", text=text, path=writes[0].path, line=writes[0].line))
        for event in heard:
            if isinstance(event, Notice):
                self._announce(event)

    def _failed(self, session_id: str, error: str) -> None:
        """Try again later, and say so once."""
        log.warning("memory was not offered what an ended session left: %s", error)
        if session_id not in self._failures:
            text = _("The conversation before is not in memory yet: {error} It is tried again, also at the next start.")
            text = text.format(error=error)
            self._announce(warning(text))
        self._failures[session_id] = self._failures.get(session_id, 0) + 1
        self._later()

    def _later(self) -> None:
        if self._again is None and not self._held_back:
            self._again = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self.wake)
