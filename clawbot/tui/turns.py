"""What was submitted: each input is one reader of `Runtime.submit`, and those that wait can be taken back; and the
order in which the events of turns, and those that come out of band, reach the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from clawbot.agent.events import Event, MessageQueued, NoteKept, Notice, TurnEnded, TurnStarted
from clawbot.errors import ClawbotError

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

log = logging.getLogger(__name__)


class RunningReader(Protocol):
    """A running reader, as textual's workers are."""

    def cancel(self) -> None:
        """Stop reading, which closes the submission."""
        ...


StartReader = Callable[[Callable[[], Coroutine[Any, Any, None]]], RunningReader]


@dataclass(eq=False)
class Submission:
    """One input on its way. It waits until the first event of its own turn comes: what a session that ends by itself
    leaves may be told before the turn has begun."""

    text: str
    job: RunningReader | None = None
    waiting: bool = True
    announced: bool = False  # it is shown as queued
    unsent_id: str = ""  # under which it is kept on disk while it waits
    begun: bool = False  # its turn has: it is stored


class Turns:
    """Submits inputs in their order; before the runtime is there they wait.

    `show` is told each event, `changed` that `queued`, `coming` or `busy` may be other ones, `unsent` a text that
    failed before its turn began (a full disk): it is stored nowhere.
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
        """What waits, the oldest first."""
        return [submission.text for submission in self._open if submission.waiting and submission.announced]

    @property
    def sending(self) -> set[str]:
        """The ids of what is kept on disk and on its way."""
        return {submission.unsent_id for submission in self._open if submission.unsent_id}

    @property
    def coming(self) -> str:
        """What was taken up, is on disk and stands on no page yet; empty when there is nothing of that kind."""
        coming = (item for item in self._open if item.unsent_id and not (item.begun or item.announced))
        return next((submission.text for submission in coming), "")

    @property
    def busy(self) -> bool:
        """Whether something was submitted that has not ended."""
        return bool(self._open)

    def ready(self, runtime: RuntimeApi) -> None:
        """The runtime is there: what waited for it goes in."""
        self._runtime = runtime
        for submission in self._open:
            submission.announced = False
            self._begin(runtime, submission)
        self.changed()

    async def hold(self) -> None:
        """Keep what is submitted from now on until the next runtime is there; returns when the rest has ended."""
        self._runtime = None
        while any(submission.job is not None for submission in self._open):
            self._ended.clear()
            await self._ended.wait()

    @property
    def held(self) -> list[str]:
        """What no runtime has seen so far, the oldest first."""
        return [submission.text for submission in self._open if submission.job is None and not submission.unsent_id]

    def submit(self, text: str, unsent_id: str = "") -> None:
        """Send `text`, or keep it until the runtime is there. `unsent_id` is of one that is on disk already."""
        submission = Submission(text, unsent_id=unsent_id)
        self._open.append(submission)
        if self._runtime is None:
            submission.announced = True
        else:
            self._begin(self._runtime, submission)
        self.changed()

    def recall(self) -> str | None:
        """Take back the last input that waits, and return it."""
        waiting = [submission for submission in self._open if submission.waiting and submission.announced]
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
        # Not after a cancellation: then the screen may be gone, and a recall has told already.
        self.changed()

    def _take(self, submission: Submission, event: Event) -> None:
        began = isinstance(event, TurnStarted) and not submission.begun
        submission.begun = submission.begun or began
        if isinstance(event, MessageQueued):
            submission.announced = event.position > 0
            submission.unsent_id = event.unsent_id
            self.changed()
        elif submission.waiting or began:
            submission.waiting = False
            self.changed()
        self.show(event)
        if isinstance(event, TurnEnded) and event.status != "done" and not submission.begun:
            self._unsent(submission.text)


class EventOrder:
    """Brings events to `show` in the order in which they are read.

    What belongs to no submission (a reset by the clock, a note that got another name, a hook that failed) stands
    between the turns: it comes at once when none runs, else when the one that runs has ended. What comes among the
    events of a turn while `is_writing` waits for the end of the answer: nothing stands in the middle of a sentence.

    `later` calls a function from the screen's own queue, since events out of band come from tasks in which a timer
    would not belong to the app.
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
        """Show what `runtime` tells from now on."""
        runtime.agent.listen(self.out_of_band)

    def leave(self, runtime: RuntimeApi) -> None:
        """Listen to `runtime` no more: another one takes its place."""
        runtime.agent.listen(None)
        self._out_of_band.clear()

    def out_of_band(self, event: Event) -> None:
        """`event` belongs to no submission."""
        self._out_of_band.append(event)
        self._later(self._catch_up)

    def submitted(self, event: Event) -> None:
        """`event` is of a submission; what happened out of band before its turn stands above it."""
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
