"""One question to a model outside the conversation, and the text of its answer."""

from __future__ import annotations

from contextlib import aclosing

from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, Purpose
from clawbot.messages import UserMessage


async def complete(model: ChatModel, system: str, prompt: str, *, purpose: Purpose, timestamp: int) -> str:
    """What `model` answers to `prompt`, without tools and without a trace in the transcript.

    `timestamp` is the time of the question in ms. Raises ModelError.
    """
    request = ChatRequest(system=system, messages=(UserMessage(content=prompt, timestamp=timestamp),), purpose=purpose)
    async with aclosing(model.stream(request)) as parts:
        async for part in parts:
            if isinstance(part, FinalPart):
                return part.message.text
    return ""
