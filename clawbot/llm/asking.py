"""One question to a model, for the program itself: no tools, no conversation, one answer."""

from __future__ import annotations

import functools
import logging
from contextlib import aclosing

from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ModelError
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, Purpose
from clawbot.messages import AssistantMessage, UserMessage

log = logging.getLogger(__name__)


async def complete(model: ChatModel, system: str, prompt: str, *, purpose: Purpose, timestamp: int) -> str:
    """The text that `model` answers to `prompt`; `timestamp` is the time of the question in ms. Raises ModelError."""
    request = ChatRequest(system=system, messages=(UserMessage(content=prompt, timestamp=timestamp),), purpose=purpose)
    return (await ask(model, request, Cancellation())).text


async def ask(model: ChatModel, request: ChatRequest, cancel: Cancellation) -> AssistantMessage:
    """What `model` answers to `request`.

    Raises ModelError whatever goes wrong in the model, TimeoutError when it ran into one, and InterruptedTurnError when
    `cancel` was requested. The stream is closed then.
    """
    final: AssistantMessage | None = None
    try:
        async with aclosing(model.stream(request)) as stream:
            while (part := await cancel.run(functools.partial(anext, stream, None))) is not None:
                final = part.message if isinstance(part, FinalPart) else final
    except (ModelError, InterruptedTurnError, TimeoutError):
        raise
    except Exception as error:
        log.exception("the model broke")
        # The text of such an error may hold anything, a key as well.
        raise BadResponseError(f"{type(error).__name__}.", provider=model.info.ref) from error
    if final is None:
        raise BadResponseError("The answer ended without its last part.", provider=model.info.ref)
    return final
