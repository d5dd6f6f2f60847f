"""Opens the program for a benchmark: all of it, except that the model is one of the benchmark's own."""

from __future__ import annotations

from unittest.mock import patch

from clawbot import services
from clawbot.llm.protocol import ChatModel
from clawbot.runtime import Runtime, RuntimeOptions


async def open_with(model: ChatModel, *, interactive: bool = False) -> Runtime:
    """A runtime in `$CLAWBOT_HOME` in which `model` answers."""

    async def open_model(*_: object, **__: object) -> ChatModel:
        return model

    with patch.object(services, "open_model", open_model):
        options = RuntimeOptions(model="script:benchmark")
        return await Runtime.open(options if interactive else options.unattended())
