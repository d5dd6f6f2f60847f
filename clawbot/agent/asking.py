"""One whole answer of a model for the program's own use: nobody reads it while it comes."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from clawbot.agent.cancel import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ModelError
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, StreamPart
from clawbot.messages import AssistantMessage

_logger = logging.getLogger(__name__)


async def ask(model: ChatModel, request: ChatRequest, cancel: Cancellation) -> AssistantMessage:
    """What `model` answers to `request`.

    Raises ModelError whatever goes wrong in the model, TimeoutError when it ran into one, and InterruptedTurnError when
    `cancel` was requested. The stream is closed then.
    """
    final: AssistantMessage | None = None
    try:
        async with aclosing(model.stream(request)) as stream:
            while (part := await cancel.run(functools.partial(_next_part, stream))) is not None:
                final = part.message if isinstance(part, FinalPart) else final
    except (ModelError, InterruptedTurnError, TimeoutError):
        raise
    except Exception as error:
        _logger.exception("the model broke")
        # The text of such an error may hold anything, a key as well.
        raise BadResponseError(f"{type(error).__name__}.", provider=model.info.ref) from error
    if final is None:
        raise BadResponseError("The answer ended without its last part.", provider=model.info.ref)
    return final


async def _next_part(stream: AsyncGenerator[StreamPart, None]) -> StreamPart | None:
    """The next part, None at the end."""
    return await anext(stream, None)
