"""Opens the program for a benchmark: all of it, except that the model is one of the benchmark's own."""

from __future__ import annotations

from unittest.mock import patch

from clawbot import ground
from clawbot.llm.protocol import ChatModel
from clawbot.runtime import Runtime, RuntimeOptions


async def open_with(model: ChatModel, *, interactive: bool = False) -> Runtime:
    """A runtime in `$CLAWBOT_HOME` in which `model` answers."""

    async def open_model(*_: object, **__: object) -> ChatModel:
        return model

    with patch.object(ground, "open_model", open_model):
        return await Runtime.open(RuntimeOptions(model="script:benchmark", interactive=interactive))
