"""Submissions: each input is read by one consumer of `Runtime.submit`, and waiting ones can be recalled; and the order
in which events of turns and out-of-band events reach the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from clawbot.agent.events import Event, MessageQueued, MessageSteered, NoteKept, Notice, TurnEnded, TurnStarted
from clawbot.errors import ClawbotError

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

log = logging.getLogger(__name__)


class RunningReader(Protocol):
    """A running reader, as textual's workers are."""

    def cancel(self) -> None: ...


StartReader = Callable[[Callable[[], Coroutine[Any, Any, Any]]], RunningReader]


@dataclass(eq=False)
class Submission:
    """One input on its way. It waits until the first event of its own turn: events of an automatically ended session
    may come before."""

    text: str
    job: RunningReader | None = None
    taken: bool = False  # a runtime has received it; a reader may be cancelled before it does anything
    waiting: bool = True
    listed: bool = False  # it is shown as queued
    unsent_id: str = ""  # under which it is on disk
    draft: bool = False  # what is on disk was stored while it was typed
    begun: bool = False  # its turn has: it is stored
    steered: bool = False  # it was sent in the turn before

    @property
    def stored(self) -> bool:
        """Whether it is on disk as it was sent."""
        return bool(self.unsent_id) and not self.draft


class Turns:
    """Submits inputs in order; before the runtime is open they wait.

    `show` receives each event; `changed` is called when `queued`, `coming` or `busy` may have changed; `unsent`
    receives a text that failed before its turn began (a full disk) and is not stored.
    """

    def __init__(
        self,
        start: StartReader,
        show: Callable[[Event], None],
        changed: Callable[[], None],
        unsent: Callable[[str], None],
    ) -> None:
        self._start = start
        self.show = show
        self.changed = changed
        self._unsent = unsent
        self._runtime: RuntimeApi | None = None
        self._open: list[Submission] = []
        self._ended = asyncio.Event()

    @property
    def queued(self) -> list[str]:
        return [submission.text for submission in self._open if submission.waiting and submission.listed]

    @property
    def sending(self) -> set[str]:
        return {submission.unsent_id for submission in self._open if submission.unsent_id}

    @property
    def coming(self) -> str:
        """The input that was accepted and stored but is not on the page yet; empty if there is none."""
        coming = (item for item in self._open if item.stored and not (item.begun or item.listed))
        return next((submission.text for submission in coming), "")

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def ready(self, runtime: RuntimeApi) -> None:
        self._runtime = runtime
        for submission in self._open:
            submission.listed = False
            self._begin(runtime, submission)
        self.changed()

    async def hold(self) -> None:
        """Keep inputs from now on until the next runtime is open; returns when the running ones have ended."""
        self._runtime = None
        while any(submission.job is not None for submission in self._open):
            self._ended.clear()
            await self._ended.wait()

    @property
    def held(self) -> list[tuple[str, str]]:
        """The inputs that no runtime has received, oldest first, each with the id of its draft on disk, if any."""
        return [(item.text, item.unsent_id) for item in self._open if not (item.taken or item.stored)]

    def submit(self, text: str, unsent_id: str = "", *, draft: bool = False) -> None:
        """Send `text`, or keep it until the runtime is open. `unsent_id` is set if it is already on disk; only an
        earlier state of it is if it is a `draft`."""
        submission = Submission(text, unsent_id=unsent_id, draft=draft)
        self._open.append(submission)
        if self._runtime is None:
            submission.listed = True
        else:
            self._begin(self._runtime, submission)
        self.changed()

    def recall(self) -> str | None:
        waiting = [submission for submission in self._open if submission.waiting and submission.listed]
        if not waiting:
            return None
        last = waiting[-1]
        self._open.remove(last)
        if last.job is not None:
            last.job.cancel()
        if last.unsent_id and self._runtime is not None:
            self._start(partial(self._runtime.agent.outbox.drop, last.unsent_id))
        self.changed()
        return last.text

    def _begin(self, runtime: RuntimeApi, submission: Submission) -> None:
        submission.job = self._start(partial(self._read, runtime, submission))

    async def _read(self, runtime: RuntimeApi, submission: Submission) -> None:
        submission.taken = True
        try:
            async with aclosing(runtime.agent.submit(submission.text, unsent_id=submission.unsent_id)) as events:
                async for event in events:
                    self._take(submission, event)
        except (ClawbotError, OSError) as error:
            log.exception("A submission failed.")
            self._take(submission, TurnEnded(status="failed", error=str(error)))
        finally:
            if submission in self._open:
                self._open.remove(submission)
            self._ended.set()
        # Not after a cancellation: then the screen may be gone, and a recall has notified already.
        self.changed()

    def _take(self, submission: Submission, event: Event) -> None:
        if isinstance(event, MessageSteered):
            self._steered(event)
        elif submission.steered:
            return
        began = isinstance(event, TurnStarted) and not submission.begun
        submission.begun = submission.begun or began
        if isinstance(event, MessageQueued):
            submission.listed = event.position > 0
            submission.unsent_id, submission.draft = event.unsent_id, False
            self.changed()
        elif submission.waiting or began:
            submission.waiting = False
            self.changed()
        self.show(event)
        if isinstance(event, TurnEnded) and event.status != "done" and not submission.begun:
            self._unsent(submission.text)

    def _steered(self, event: MessageSteered) -> None:
        """Remove a text from those that wait: it is in the running turn."""
        for submission in self._open:
            if submission.unsent_id == event.unsent_id and submission.waiting:
                submission.waiting, submission.begun, submission.steered = False, True, True
        self.changed()


class EventOrder:
    """Passes events to `show` in reading order.

    Out-of-band events (a reset by the clock, a renamed note, a failed hook) are shown between turns: at once if none
    runs, else after the running one. Those within a turn wait until the answer ends while `is_writing`, so that nothing
    interrupts a sentence.

    `later` calls a function from the screen's queue, since out-of-band events come from tasks without the app's
    context.
    """

    def __init__(
        self,
        show: Callable[[Event], None],
        is_writing: Callable[[], bool],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self._show = show
        self._is_writing = is_writing
        self._later = later
        self._out_of_band: list[Event] = []
        self._held: list[Event] = []
        self._running = False

    def listen(self, runtime: RuntimeApi) -> None:
        runtime.agent.listen(self.out_of_band)

    def leave(self, runtime: RuntimeApi) -> None:
        runtime.agent.listen(None)
        self._out_of_band.clear()

    def out_of_band(self, event: Event) -> None:
        self._out_of_band.append(event)
        self._later(self._catch_up)

    def submitted(self, event: Event) -> None:
        """Show an event of a submission; earlier out-of-band events are inserted above it."""
        self._catch_up()
        self._running = self._running or not isinstance(event, MessageQueued)
        if isinstance(event, Notice | NoteKept) and self._is_writing():
            self._held.append(event)
            return
        self._show(event)
        if self._held and not self._is_writing():
            held, self._held = self._held, []
            for each in held:
                self._show(each)
        if isinstance(event, TurnEnded):
            self._running = False
            self._catch_up()

    def _catch_up(self) -> None:
        while self._out_of_band and not self._running:
            self._show(self._out_of_band.pop(0))
