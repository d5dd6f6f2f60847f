"""A memory that remains available: its backend answers, and the builtin index at once where that fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexUnavailableError, MemoryBackend
from clawbot.memory.backends.guard import NOTHING, ScopeGuard
from clawbot.memory.backends.pool import BackendPool, Shared
from clawbot.memory.documents.memory_files import ForbiddenPathError, UnreadableDocumentError
from clawbot.memory.values import (
    Excerpt,
    Fallback,
    IndexStatus,
    Progress,
    ReportProgress,
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[MemoryBackend], Awaitable[T]]
"""A call of a backend."""

CLOSE_SECONDS = 2.0
"""How long a backend may take to close."""

READ, START, SCRUB = "read", "start", "scrub"
_NO_PROOF = (READ, START, SCRUB)  # what succeeds and does not show that a search would


FIRST_PAUSE = 60.0
"""Seconds until a failed backend is probed again; doubled after each failure."""

MAX_PAUSE = 3_600.0


class Health(Struct, frozen=True, kw_only=True):
    """Whether the backend `name` is asked, or the builtin index instead. A value with pure transitions.

    `attempt` numbers its instances from 1: a failed one is closed and never asked again. `trusted`: calls go to the
    instance `attempt`; otherwise the builtin index answers. `failure` is why, and since when it has not answered a
    call; `failures` counts in a row. `seen` are the open conversations.
    """

    name: str
    attempt: int = 1
    trusted: bool = True
    failures: int = 0
    failure: Fallback | None = None
    seen: frozenset[str] = frozenset()

    @property
    def pause(self) -> float:
        """Seconds from the last failure to the next probe."""
        return min(FIRST_PAUSE * 2.0 ** min(max(self.failures - 1, 0), 16), MAX_PAUSE)

    def met(self, conversations: frozenset[str]) -> Health:
        """`conversations` are open now: a new one tries the backend again."""
        if conversations <= self.seen:
            return self
        return replace(self, seen=conversations, trusted=True)

    def failed(self, attempt: int, reason: str, now: datetime) -> Health:
        """The instance `attempt` failed; the same value if that is a former one, which another call has reported."""
        if attempt != self.attempt:
            return self
        since = now.replace(microsecond=0) if self.failure is None else self.failure.since
        return replace(
            self,
            attempt=attempt + 1,
            trusted=False,
            failures=self.failures + 1,
            failure=Fallback(self.name, reason, since),
        )

    def answered(self, attempt: int) -> Health:
        """The instance `attempt` answered; the same value if that is a former one, or nothing changes."""
        if attempt != self.attempt or (self.trusted and self.failure is None):
            return self
        return replace(self, trusted=True, failures=0, failure=None)


class Primary(Struct, frozen=True):
    """The configured backend: `name` in the settings, its `key` in `pool`, and `make`, which opens it and blocks."""

    name: str
    make: Callable[[], MemoryBackend]
    key: Hashable
    pool: BackendPool


class Surroundings(Struct, frozen=True, kw_only=True):
    """The `clock`; `limit`, the seconds that a call may take; `notify`, which shows a problem to the user; and
    `conversations`, those open now."""

    clock: Clock
    limit: float
    notify: Callable[[str], None] = lambda _: None
    conversations: Callable[[], frozenset[str]] = frozenset


class SelfHealingBackend(MemoryBackend):
    """The backend `primary`, and that of `open_builtin` instead while it fails.

    A primary that fails in any call is closed, and the same call is answered by the builtin index. The next
    conversation, or a probe after a pause, tries a new one. The guard applies to both.
    """

    def __init__(
        self, primary: Primary, open_builtin: Callable[[], MemoryBackend], guard: ScopeGuard, around: Surroundings
    ) -> None:
        self.on_progress: Callable[[Progress | None], None] | None = None
        self._primary = primary
        self._open_builtin = open_builtin
        self._guard = guard
        self._around, self._limit = around, around.limit
        self._health = Health(name=primary.name)
        self._opening: asyncio.Task[Shared] | None = None
        self._opened_for = 0  # the attempt
        self._builtin: MemoryBackend | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._started = self._closed = False
        self._generations = 0  # of the backends that were left

    # -- properties -------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Grows with that of each backend, and when another answers."""
        own = self._property(lambda backend: backend.generation, 0)
        return self._generations + own + (self._builtin.generation if self._builtin is not None else 0)

    @property
    def location(self) -> Path | None:
        """The database of the backend that answers; None while it is not open."""
        return self._of_active(lambda backend: backend.location, None)

    @property
    def built(self) -> bool:
        """Whether the index of the backend that answers exists; true while it is not open, so that it is asked."""
        return self._of_active(lambda backend: backend.built, True)

    @property
    def problem(self) -> str:
        """Since when and why the builtin index answers; else the problem of the backend that answers."""
        failure = self._health.failure
        return self._of_active(lambda backend: backend.problem, "") if failure is None else failure.in_words

    @property
    def fallback(self) -> Fallback | None:
        """What the builtin index replaces; None while the backend answers."""
        return self._health.failure

    def _of_active(self, get: Callable[[MemoryBackend], T], otherwise: T) -> T:
        if self._health.trusted:
            return self._property(get, otherwise)
        return get(self._builtin) if self._builtin is not None else otherwise

    def _property(self, get: Callable[[MemoryBackend], T], otherwise: T) -> T:
        """A property of the open primary. A failure counts like that of a call."""
        shared = self._shared
        if shared is None:
            return otherwise
        try:
            return get(shared.backend)
        except Exception as error:
            log.exception("the memory backend %s failed", self._primary.name)
            self._fall(self._opened_for, _reason("report its state", error, None))
            return otherwise

    @property
    def _shared(self) -> Shared | None:
        opening = self._opening
        is_open = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return opening.result() if opening is not None and is_open else None

    # -- calls -------------------------------------------------------------------------------------------------------

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """Results within the scope of the request, of the backend or of the builtin index. Raises ClawbotError."""
        allowed = self._guard.narrowed(request)
        if allowed is None:
            return NOTHING

        async def work(backend: MemoryBackend) -> SearchResult:
            found = await backend.search(allowed, building)
            return await asyncio.to_thread(self._guard.checked, allowed, found)

        async def instead(builtin: MemoryBackend) -> SearchResult:
            found = await work(builtin)
            own = found.fallback
            if self.fallback is None:
                return replace(found, warnings=())
            notes = (own.in_words,) if own is not None else ()
            return replace(found, fallback=self.fallback, warnings=(*notes, *found.warnings))

        unbounded = building is not None and not self.built
        return await self._ask("search", work, instead, limit=None if unbounded else self._limit)

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        return await self._ask(READ, lambda one: one.read(path, from_line, lines), limit=self._limit)

    async def text(self, path: str) -> str:
        return await self._ask(READ, lambda backend: backend.text(path), limit=self._limit)

    async def probe(self, *, deep: bool = True) -> str:

        async def instead(builtin: MemoryBackend) -> str:
            lacking = await builtin.probe(deep=deep)
            return " ".join(part for part in (self.problem, lacking) if part)

        try:
            return await self._ask("be probed", lambda one: one.probe(deep=deep), instead, limit=self._limit)
        except ClawbotError as error:
            return str(error)

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:

        async def instead(builtin: MemoryBackend) -> SyncReport:
            return replace(await builtin.sync(force=force, progress=progress), fallback=self.fallback)

        return await self._ask("index", lambda backend: backend.sync(force=force, progress=progress), instead)

    async def status(self, *, deep: bool = False) -> IndexStatus:

        async def instead(builtin: MemoryBackend) -> IndexStatus:
            return replace(await builtin.status(deep=deep), fallback=self.fallback)

        return await self._ask("report its status", lambda one: one.status(deep=deep), instead, limit=self._limit)

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        return await self._ask("verify", lambda backend: backend.verify(fix=fix))

    async def scrub(self) -> bool:
        """Erase from both: an index of the builtin backend may remain from before. False if one of them could not.

        Raises ClawbotError.
        """
        builtin = self._builtin_index()
        try:
            # Also of one that is not trusted: what it holds is on the disk.
            done = await self._tried(SCRUB, lambda backend: backend.scrub(), None)
        except _FailedError:
            done = False
        if not builtin.built:
            return done
        await builtin.sync()
        return await builtin.scrub() and done

    def start(self) -> None:
        """Start the backend in the background. Needs a running loop."""
        if not self._started:
            self._started = True
            self._spawn(self._warm(), _ASKING)

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._leave(failed=False)
        for task in self._tasks:
            if task.get_name() == _ASKING:
                task.cancel()
        if self._builtin is not None:
            await self._builtin.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    # -- calls with a fallback ---------------------------------------------------------------------------------------

    async def _ask(self, verb: str, work: Work[T], instead: Work[T] | None = None, *, limit: float | None = None) -> T:
        """Return the answer of the primary, else that of the builtin index. Raises ClawbotError."""
        if self._closed:
            raise IndexUnavailableError("The memory is closed.")
        self._health = self._health.met(self._around.conversations())
        if self._health.trusted:
            try:
                return await self._tried(verb, work, limit)
            except _FailedError:
                pass
        return await self._answered_instead(instead or work)

    async def _tried(self, verb: str, work: Work[T], limit: float | None) -> T:
        """Raises _FailedError after the primary was left, and errors of a file that may not or can't be read."""
        attempt = self._health.attempt
        try:
            async with deadline(limit):
                answer = await work((await self._opened(attempt)).backend)
        except (ForbiddenPathError, UnreadableDocumentError):
            raise
        except Exception as error:
            if not isinstance(error, ClawbotError | TimeoutError):
                log.exception("the memory backend %s failed to %s", self._primary.name, verb)
            self._fall(attempt, _reason(verb, error, limit))
            raise _FailedError from error
        if verb not in _NO_PROOF:
            self._health = self._health.answered(attempt)
        return answer

    async def _answered_instead(self, work: Work[T]) -> T:
        """Raises ClawbotError."""
        try:
            return await work(self._builtin_index())
        except (ForbiddenPathError, UnreadableDocumentError):
            raise
        except ClawbotError as error:
            raise IndexUnavailableError(f"{self.problem} That failed, too: {error.message}", hint=error.hint) from error

    def _builtin_index(self) -> MemoryBackend:
        """The builtin index, opened when it is needed first."""
        if self._builtin is None:
            self._builtin = self._open_builtin()
            self._builtin.on_progress = self._progressed
            if self._started:
                self._builtin.start()
        return self._builtin

    async def _opened(self, attempt: int) -> Shared:
        """Return the instance `attempt` of the primary. Raises what opening it raises."""
        if self._opening is None:
            self._opened_for = attempt
            self._opening = self._spawn(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Shared:
        shared = await asyncio.to_thread(self._primary.pool.take, self._primary.key, self._primary.make)
        shared.listen(self._progressed)
        if self._started:
            shared.start()
        return shared

    def _fall(self, attempt: int, reason: str) -> None:
        """The instance `attempt` failed: leave it, notify the user, and plan a probe."""
        before, self._health = self._health, self._health.failed(attempt, reason, self._around.clock.now())
        if before is self._health:
            return
        log.warning("memory: %s", self.problem)
        self._leave(failed=True)
        if before.trusted:
            self._around.notify(self.problem)
        if self._timer is not None:
            self._timer.cancel()
        if self._started and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(
                self._health.pause, lambda: self._spawn(self._heal(), _ASKING)
            )

    def _leave(self, *, failed: bool) -> None:
        """Leave the primary, which its last user closes in the background."""
        if (shared := self._shared) is not None:
            if failed:
                # At once: whoever asks next must not get it again.
                self._primary.pool.evict(self._primary.key, shared)
            try:
                self._generations += shared.backend.generation
            except Exception as error:
                # Code of a package: what it counted is lost, which costs another search.
                log.warning("the generation of the memory backend could not be read: %s", error, exc_info=True)
        self._generations += 1
        opening, self._opening = self._opening, None
        if opening is not None:
            self._spawn(self._released(opening, failed=failed))

    async def _released(self, opening: asyncio.Task[Shared], *, failed: bool) -> None:
        await asyncio.wait([opening])
        if opening.cancelled() or opening.exception() is not None:
            return
        shared, primary = opening.result(), self._primary
        if failed:
            primary.pool.evict(primary.key, shared)
        shared.ignore(self._progressed)
        if not primary.pool.release(primary.key, shared):
            return
        try:
            async with deadline(CLOSE_SECONDS):
                await shared.backend.close()
        except Exception:
            log.exception("the memory backend %s could not be closed", primary.name)

    async def _warm(self) -> None:
        """Open and start the primary, or the builtin index instead."""
        with contextlib.suppress(ClawbotError):
            await self._ask(START, lambda _: asyncio.sleep(0), limit=self._limit)

    async def _heal(self) -> None:
        """Probe a new primary; from then on it answers again, or is left for a longer pause."""
        if not self._health.trusted:
            with contextlib.suppress(_FailedError):
                await self._tried("be probed", lambda backend: backend.probe(deep=True), self._limit)
                self._progressed(None)

    def _progressed(self, progress: Progress | None) -> None:
        if self.on_progress is not None:
            self.on_progress(progress)

    def _spawn(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _FailedError(Exception):
    """The primary failed and was left."""


_ASKING = "ask-backend"
"""The name of tasks that are given up at the end."""


def _reason(verb: str, error: Exception, limit: float | None) -> str:
    """Why a call failed, as a sentence."""
    if isinstance(error, ClawbotError):
        return str(error)
    if isinstance(error, TimeoutError) and limit is not None:
        return f"It took longer than {limit:g} s to {verb}."
    what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":. ")
    return f"It failed to {verb}: {what}."
