"""A model of this machine, `local/NAME`: its server is started when it is needed, and litellm talks to that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.llm.client import LiteLLMModel
from clawbot.llm.errors import UnreachableError
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.local_model.keeper import acquire_keeper, release_keeper
from clawbot.local_model.register import Running

TITLE = "The local model"
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
        server = await self._told(self._keeper.endpoint())
        begun = False
        try:
            async with aclosing((await self._talker(server)).stream(request)) as parts:
                async for part in parts:
                    begun = True
                    yield part
            return
        except UnreachableError as error:
            # It may have died unseen, or with the chat that it belonged to.
            revived = None if begun else await self._told(self._keeper.revived(server, refused=error.dead))
            if revived is None:
                raise
        async with aclosing((await self._talker(revived)).stream(request)) as parts:
            async for part in parts:
                yield part

    async def _told(self, found: Awaitable[FoundT]) -> FoundT:
        """What is `found`, a server. Raises UnreachableError that says why there is none."""
        try:
            return await found
        except ClawbotError as error:
            raise UnreachableError(error.message, provider=TITLE, hint=error.hint) from error
        except OSError as error:
            raise UnreachableError(f"{self._file}: {error.strerror or error}.", provider=TITLE) from error

    async def _talker(self, server: Running) -> LiteLLMModel:
        """What talks to `server`: another one than before may have another address and key."""
        if self._model is None or server != self._server:
            await self._disconnect()
            self._server, self._model = server, self._connect(server)
        return self._model

    async def _disconnect(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            await model.aclose()

    async def aclose(self) -> None:
        """End the server, unless another model uses it."""
        try:
            await self._disconnect()
        finally:
            await release_keeper(self._file)
