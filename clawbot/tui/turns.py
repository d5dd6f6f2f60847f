"""What was submitted: each input is one reader of `Runtime.submit`, and those that wait can be taken back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from clawbot.agent.events import Event, MessageQueued, TurnEnded, TurnStarted
from clawbot.errors import ClawbotError

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

log = logging.getLogger(__name__)


class Job(Protocol):
    """A running reader, as textual's workers are."""

    def cancel(self) -> None:
        """Stop reading, which closes the submission."""
        ...


StartJob = Callable[[Callable[[], Coroutine[Any, Any, None]]], Job]


@dataclass(eq=False)
class Submission:
    """One input on its way. It waits until the first event of its own turn comes: what a session that ends by itself
    leaves may be told before the turn has begun."""

    text: str
    job: Job | None = None
    waiting: bool = True
    announced: bool = False  # it is shown as queued
    begun: bool = False  # its turn has: it is stored


class Turns:
    """Submits inputs in their order; before the runtime is there they wait.

    `show` is told each event, `changed` that another input waits or runs, `unsent` a text that failed before its turn
    began (a full disk): it is stored nowhere.
    """

    def __init__(
        self,
        start: StartJob,
        show: Callable[[Event], None],
        changed: Callable[[], None],
        unsent: Callable[[str], None],
    ) -> None:
        self._start = start
        self.show = show
        self.changed = changed
        self._unsent = unsent
        self._runtime: Runtime | None = None
        self._open: list[Submission] = []
        self._ended = asyncio.Event()

    @property
    def queued(self) -> list[str]:
        """What waits, the oldest first."""
        return [submission.text for submission in self._open if submission.waiting and submission.announced]

    @property
    def coming(self) -> str:
        """What was taken up or is about to be, and stands on no page yet; empty when there is nothing of that kind."""
        coming = (item for item in self._open if not (item.begun or (item.waiting and item.announced)))
        return next((submission.text for submission in coming), "")

    @property
    def busy(self) -> bool:
        """Whether something was submitted that has not ended."""
        return bool(self._open)

    def ready(self, runtime: Runtime) -> None:
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

    def submit(self, text: str) -> None:
        """Send `text`, or keep it until the runtime is there."""
        submission = Submission(text)
        self._open.append(submission)
        if self._runtime is None:
            submission.announced = True
            self.changed()
        else:
            self._begin(self._runtime, submission)

    def recall(self) -> str | None:
        """Take back the last input that waits, and return it."""
        waiting = [submission for submission in self._open if submission.waiting and submission.announced]
        if not waiting:
            return None
        last = waiting[-1]
        self._open.remove(last)
        if last.job is not None:
            last.job.cancel()
        self.changed()
        return last.text

    def _begin(self, runtime: Runtime, submission: Submission) -> None:
        submission.job = self._start(partial(self._read, runtime, submission))

    async def _read(self, runtime: Runtime, submission: Submission) -> None:
        try:
            async with aclosing(runtime.submit(submission.text)) as events:
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
        submission.begun = submission.begun or isinstance(event, TurnStarted)
        never_began = not submission.begun and isinstance(event, TurnEnded) and event.status != "done"
        if isinstance(event, MessageQueued):
            submission.announced = True
        else:
            submission.waiting = False
        self.changed()
        self.show(event)
        if never_began:
            self._unsent(submission.text)
