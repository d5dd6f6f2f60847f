"""A model of this machine, `local/NAME`: its server is started when it is needed, and litellm talks to that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.llm.client import LiteLLMModel
from clawbot.llm.errors import UnreachableError
from clawbot.llm.protocol import ChatRequest, LoadingPart, ModelInfo, ReadingPart, RetryPart, StreamPart
from clawbot.local_model.keeper import acquire_keeper, release_keeper
from clawbot.local_model.register import Running

TITLE = "The local model"
SHOWN_AFTER = 0.3
"""Seconds that a server may take before it is told that the model is loaded: one that runs is found at once."""
FoundT = TypeVar("FoundT")


class ServedModel:
    """The model in `file`. `connect` makes what talks to a running server of it."""

    def __init__(self, paths: Paths, file: Path, info: ModelInfo, connect: Callable[[Running], LiteLLMModel]) -> None:
        self.info = info
        self._file = file
        self._connect = connect
        self._keeper = acquire_keeper(paths, file)
        self._server: Running | None = None
        self._model: LiteLLMModel | None = None

    def begin(self) -> None:
        """Start the server, without waiting for it."""
        self._keeper.begin()

    async def warm(self) -> None:
        """Start the server. The first call reports a failure to do so."""
        self.begin()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`, once the server has loaded the model. Raises ModelError."""
        finding = asyncio.create_task(self._told(self._keeper.endpoint()))
        async with aclosing(self._shown(finding)) as loading:
            async for each in loading:
                yield each
        server, heard = await finding, False
        try:
            async with aclosing((await self._talker(server)).stream(request)) as parts:
                async for part in parts:
                    heard = heard or not isinstance(part, RetryPart | ReadingPart)
                    yield part
            return
        except UnreachableError as error:
            if heard:
                raise
            refusal = error
        async with aclosing(self._once_more(request, server, refusal)) as parts:
            async for part in parts:
                yield part

    async def _once_more(
        self, request: ChatRequest, server: Running, refusal: UnreachableError
    ) -> AsyncGenerator[StreamPart, None]:
        """Answer after a `refusal`: `server` may have died unseen, or with the chat that it belonged to."""
        reviving = asyncio.create_task(self._told(self._keeper.revived(server, refused=refusal.dead)))
        async with aclosing(self._shown(reviving)) as loading:
            async for each in loading:
                yield each
        if (revived := await reviving) is None:
            raise refusal
        async with aclosing((await self._talker(revived)).stream(request)) as parts:
            async for part in parts:
                yield part

    async def _shown(self, found: asyncio.Task[Any]) -> AsyncGenerator[StreamPart, None]:
        """What the user is told until `found` is done, whatever comes of it. Who closes this gives `found` up."""
        try:
            await asyncio.wait([found], timeout=SHOWN_AFTER)
            if not found.done():
                yield LoadingPart(self._file.stem)
                await asyncio.wait([found])
                yield LoadingPart(self._file.stem, done=True)
        finally:
            found.cancel()

    async def _told(self, found: Coroutine[Any, Any, FoundT]) -> FoundT:
        """What is `found`, a server. Raises UnreachableError that says why there is none."""
        try:
            return await found
        except ClawbotError as error:
            raise UnreachableError(error.message, provider=TITLE, hint=error.hint) from error
        except OSError as error:
            where = error.filename or self._file
            raise UnreachableError(f"{where}: {error.strerror or error}.", provider=TITLE) from error

    async def _talker(self, server: Running) -> LiteLLMModel:
        """What talks to `server`: another one than before may have another address and key."""
        if self._model is None or server != self._server:
            # Before the old one goes: the last to leave ends the process in which litellm is loaded.
            old, self._model, self._server = self._model, self._connect(server), server
            if old is not None:
                await old.aclose()
        return self._model

    async def aclose(self) -> None:
        """End the server, unless another model uses it."""
        model, self._model = self._model, None
        try:
            if model is not None:
                await model.aclose()
        finally:
            await release_keeper(self._file)
