"""Calls that a client may send twice (`idempotencyKey`): the second one gets the answer of the first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from clawbot.clock import Clock
from clawbot.plugins.serve.answers import invalid

KEPT_SECONDS = 600.0
MOST = 1000
A = TypeVar("A")
C = TypeVar("C")


class _Known(NamedTuple, Generic[A]):
    content: bytes
    task: asyncio.Future[A]
    at: float


class Repeats(Generic[A]):
    """The answers of the last ten minutes by the client's key, failures included; the oldest of too many are
    dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Known[A]] = OrderedDict()

    async def once(self, key: str, content: bytes, run: Callable[[C], Awaitable[A]], call: C) -> A:
        """The answer of `run(call)`, which runs once for a `key` and to its end, also when the client leaves. `content`
        tells calls apart. Raises RefusalError for a key that stands for another call, and what `run` raises."""
        self._forget()
        known = self._known.get(key)
        if known is None:
            task = asyncio.ensure_future(run(call))
            # Nobody may be left to hear of a failure.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            known = self._known[key] = _Known(content, task, self._clock.monotonic())
        elif known.content != content:
            raise invalid("`idempotencyKey` was used for another call.")
        return await asyncio.shield(known.task)

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if len(self._known) < MOST and now - oldest.at < KEPT_SECONDS:
                return
            del self._known[key]
