"""Ends a session and begins the next: the hooks keep it as a note, the gate records that, and the transcript goes to
the archive (reference sheet 4.1, 4.2, 11.1).

The note is written before anything is archived, and nobody waits for a model: its name may come later.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from msgspec import Struct

from clawbot.agent.boundary import BeforeWrite, Boundary
from clawbot.agent.cancel import InterruptedTurnError
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import Notice, SessionChanged
from clawbot.agent.flush import FlushOutcome
from clawbot.agent.hook_services import SessionServices
from clawbot.agent.hooking import Hooking
from clawbot.agent.scope import Scope
from clawbot.context.detached import Detached
from clawbot.errors import ClawbotError
from clawbot.hooks.events import CommandNew, CommandReset, SessionAutoReset, SessionEnd, SessionStart
from clawbot.sessions.audit import MemoryWrite, offer_of
from clawbot.sessions.entries import CustomEntry

log = logging.getLogger(__name__)

KEEPER = "session-memory"
"""The hook that keeps a session as a note, and so takes what memory was not offered yet."""

NOTE = "clawbot.note"
"""The type of the record of a note that was written while nothing was to be offered any more."""

Reason = Literal["/new", "/reset", "daily", "idle"]
_NOT_KEPT = "The hook that keeps sessions did not keep this one"


class ResettingParts(Struct, frozen=True):
    """What a reset works with. `leave` offers memory the rest by a silent turn, where no hook keeps sessions."""

    conversation: Conversation
    boundary: Boundary
    hooking: Hooking
    leave: Callable[[Scope], Awaitable[None]]


class Resetting:
    """The resets of one conversation. They run while no turn does."""

    def __init__(self, parts: ResettingParts) -> None:
        self._parts = parts
        self._conversation = parts.conversation

    async def reset(self, reason: Reason, text: str, scope: Scope) -> SessionChanged:
        """Go on in a fresh session under the same key. `text` is what the user wants to say first in it.

        A hook that fails, hangs or is stopped never keeps the reset back. Raises SessionStoreError; the old session
        goes on then.
        """
        await self._conversation.save_rest()
        keeper = _Keeper(self._parts, reason, text)
        if self._parts.hooking.is_ready(KEEPER, keeper.topic):
            await self._keep(keeper, scope)
        else:
            await keeper.run(scope)
            await self._parts.leave(scope)
        return await self._rotate(reason)

    async def _keep(self, keeper: _Keeper, scope: Scope) -> None:
        """Let the hooks keep the session, and record for whom of its words that was the offer to memory."""
        boundary = self._parts.boundary
        try:
            await boundary.settle_crash()
            start, stop = boundary.first_unoffered, len(self._conversation.items)
            if start < stop:
                await boundary.offer("reset", [Detached((), start, stop)], scope, by=keeper)
                await boundary.let_go("reset", stop, scope, "the hooks were stopped")
            else:
                await keeper.run(scope)
        except InterruptedTurnError:
            log.info("the hooks of a reset were stopped")
            scope.go_on()
            await boundary.let_go("reset", len(self._conversation.items), scope, "the hooks were stopped")
        except ClawbotError as error:
            log.warning("what became of the note of a session could not be recorded: %s", error)
            scope.emit(Notice(level="warning", text=f"Nothing was recorded of the session's note: {error}"))

    async def _rotate(self, reason: Reason) -> SessionChanged:
        hooking, old = self._parts.hooking, self._conversation.session
        changed = await self._conversation.rotate(reason)
        ended = {"session_id": old.record.session_id, "session_key": old.record.key}
        hooking.tell(hooking.make(SessionEnd, reason=reason, transcript=str(old.transcript.path), **ended))
        hooking.tell(hooking.make(SessionStart, reason=reason, previous_id=old.record.session_id))
        return changed


class _Keeper:
    """Memory as the gate knows it: the hooks of one reset. They run once."""

    name = KEEPER
    model = ""

    def __init__(self, parts: ResettingParts, reason: Reason, text: str) -> None:
        self._parts = parts
        hooking = parts.hooking
        match reason:
            case "/new":
                self._event: CommandNew | CommandReset | SessionAutoReset = hooking.make(CommandNew, text=text)
            case "/reset":
                self._event = hooking.make(CommandReset, text=text)
            case _:
                self._event = hooking.make(SessionAutoReset, reason=reason)

    @property
    def topic(self) -> str:
        """What the hooks listen to."""
        return self._event.topic

    async def take(self, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        """Run the hooks; what they kept is what memory took."""
        services = SessionServices(self._parts.hooking.parts, self._event, before_write, self._ours())
        try:
            await self._parts.hooking.ask(self._event, scope, services)
        except InterruptedTurnError:
            writes = _writes(services)
            return FlushOutcome("written" if writes else "interrupted", writes)
        finally:
            services.stop_recording()
        if services.kept is not None:
            return FlushOutcome("written", _writes(services))
        last = self._parts.hooking.last_run(KEEPER)
        if last is None or last.status == "ok":
            return FlushOutcome("nothing")
        return FlushOutcome("failed", error=f"{_NOT_KEPT}: {last.error}")

    async def run(self, scope: Scope) -> None:
        """Run the hooks where nothing is to be offered any more. Stopping them stops that alone."""
        services = SessionServices(self._parts.hooking.parts, self._event, self._note_write, self._ours())
        try:
            await self._parts.hooking.ask(self._event, scope, services)
        except InterruptedTurnError:
            scope.go_on()
        finally:
            services.stop_recording()

    def _note_write(self, write: MemoryWrite) -> None:
        """Record a write that no offer tells of, so that the note is known as ours. Blocks."""
        entry = CustomEntry(custom_type=NOTE, data={"digest": write.digest, "path": write.path})
        self._parts.conversation.session.transcript.append(entry, sync=True)

    def _ours(self) -> dict[str, float]:
        """The digests of what the hooks wrote for this session before (after a crash, or before it was resumed), with
        the times, in seconds since the epoch."""
        entries = self._parts.conversation.session.transcript.entries
        told = [entry for entry in entries if isinstance(entry, CustomEntry)]
        return {digest: entry.moment / 1000 for entry in told for digest in _digests(entry)}


def _digests(entry: CustomEntry) -> Iterable[str]:
    """The digests of what `entry` tells that the hooks wrote."""
    if entry.custom_type == NOTE and isinstance(entry.data, dict):
        return [str(entry.data.get("digest", ""))]
    offer = offer_of(entry)
    return [write.digest for write in offer.writes] if offer is not None and offer.by == KEEPER else []


def _writes(services: SessionServices) -> tuple[MemoryWrite, ...]:
    kept = services.kept
    return (kept.write,) if kept is not None and kept.write is not None else ()
