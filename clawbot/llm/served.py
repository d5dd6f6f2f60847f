"""A model of this machine, `local/NAME`: its server is started when it is needed, and litellm talks to that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.llm.client import LiteLLMModel
from clawbot.llm.errors import UnreachableError
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.local_model.keeper import acquire_keeper, release_keeper
from clawbot.local_model.register import Running

TITLE = "The local model"


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
        """Start the server and load litellm. The first call reports a failure to do so."""
        self.begin()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`, once the server has loaded the model. Raises ModelError."""
        model = await self._connected()
        async with aclosing(model.stream(request)) as parts:
            async for part in parts:
                yield part

    async def _connected(self) -> LiteLLMModel:
        """What talks to the server that runs now: that of another process may end, and one of ours take its place."""
        try:
            server = await self._keeper.endpoint()
        except ClawbotError as error:
            raise UnreachableError(error.message, provider=TITLE, hint=error.hint) from error
        except OSError as error:
            raise UnreachableError(f"{self._file}: {error.strerror or error}.", provider=TITLE) from error
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
