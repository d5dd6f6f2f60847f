"""Lets a model of this machine read the beginning of the next request while the user types."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing

from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, PromptRead, Scope
from clawbot.agent.found_server import wait_ready
from clawbot.agent.turn import progress_of
from clawbot.agent.turn_runner import TurnRunner
from clawbot.deadline import Cancellation
from clawbot.llm.protocol import LoadingPart, ReadingPart

log = logging.getLogger(__name__)


class ReadAhead:
    """Sends a request whose answer is dropped, so that the server has the prompt in its cache. `exclusive` keeps turns
    away while it is built."""

    def __init__(
        self, deps: AgentDeps, turns: TurnRunner, exclusive: Callable[[], AbstractAsyncContextManager[object]]
    ) -> None:
        self._deps = deps
        self._turns = turns
        self._exclusive = exclusive
        self._cancel = Cancellation()

    def stop(self) -> None:
        """Close the connection: something that must not wait needs the model."""
        self._cancel.request()

    async def run(self, show: Emit) -> None:
        """Read, unless the model is not of this machine. `show` gets ModelLoading and PromptRead. Failures are only
        logged: the next message reports them."""
        if not self._deps.model.info.local:
            return
        self.stop()
        cancel = self._cancel = Cancellation()
        try:
            changed = await wait_ready(self._deps, Scope(show, cancel))
            async with self._exclusive():
                if changed:
                    self._turns.requests.forget_figures()
                    await self._turns.requests.weigh()
                request = await self._turns.request_ahead()
            show(PromptRead())
            async with aclosing(self._deps.model.chat.stream(request)) as parts:
                while (part := await cancel.run(functools.partial(anext, parts, None))) is not None:
                    if isinstance(part, LoadingPart | ReadingPart):
                        show(progress_of(part))
        except Exception:
            log.info("the prompt was not read ahead", exc_info=True)
