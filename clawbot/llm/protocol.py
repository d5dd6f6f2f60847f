"""What a language model is to the rest of clawbot: one streaming method, and the values that go in and come out."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import tzinfo
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ModelError
from clawbot.messages import AssistantMessage, Message, ToolCallBlock, ToolSpec, UserMessage
from clawbot.text.interface import N_

Purpose = Literal["chat", "flush", "summary", "slug", "title", "rerank", "ahead", "dream"]

CAPPED = N_("context_tokens in the settings")
"""The source of a window that the settings made smaller."""


class ChatRequest(Struct, frozen=True):
    """One call of a model. The first `stable_prefix` characters of the `system` prompt do not change between the calls
    of a session, so a provider may cache them. Only the offline model reads `purpose`. `max_tokens` caps the answer, in
    tokens. The user's messages are sent with their time in `zone` (None: without)."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stable_prefix: int = 0
    purpose: Purpose = "chat"
    max_tokens: int | None = None
    zone: tzinfo | None = None


class TextPart(Struct, frozen=True, tag="text"):
    """The next visible text."""

    text: str


class ReasoningPart(Struct, frozen=True, tag="reasoning"):
    """The next reasoning."""

    text: str


class WithdrawnPart(Struct, frozen=True, tag="withdrawn"):
    """All visible text so far was reasoning: the model's template opened the block in the prompt."""


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """A complete tool call."""

    call: ToolCallBlock


class RetryPart(Struct, frozen=True, tag="retry"):
    """The call failed before any visible text and is tried again after `wait` seconds: attempt `attempt`."""

    attempt: int
    wait: float
    reason: str


class LoadingPart(Struct, frozen=True, tag="loading"):
    """The call waits while `model`, which is of this machine, is loaded; `done`: the call goes on, or fails."""

    model: str
    done: bool = False


class ReadingPart(Struct, frozen=True, tag="reading"):
    """The server reports that it has read `share` per cent of the prompt."""

    share: int


class FallbackPart(Struct, frozen=True, tag="fallback"):
    """The call goes on with another model of the fallback list, because of `reason`.

    `discard` is true when text that was already shown belongs to the model that failed and is to be marked so.
    """

    model: str
    reason: str
    discard: bool = False


class FinalPart(Struct, frozen=True, tag="final"):
    """The complete answer, always the last part of a stream that did not raise. `notice` is for the user, about how it
    ended; "" for nothing."""

    message: AssistantMessage
    notice: str = ""


_Waiting = RetryPart | LoadingPart | ReadingPart | FallbackPart
StreamPart = TextPart | ReasoningPart | WithdrawnPart | ToolCallPart | _Waiting | FinalPart


class DetectedServer(Struct, frozen=True, rename="camel"):
    """A server of this machine that no setting names and that waits for the user's word: the model `ref` of `server` at
    the address `base`."""

    ref: str
    server: str
    base: str


class ModelInfo(Struct, frozen=True, rename="camel"):
    """What is known of a model before it is called.

    `ref` is the name as the user writes it (`openai/gpt-5`, `offline`, `script:FILE`), `reason` why it was chosen,
    `window` its context window in tokens (None: unknown), `window_source` where that is known from, as a half sentence
    for the user (without a window: why it has none), `priced` whether usage comes with a cost. `found`
    would answer instead if the user allowed it. `local` is the server of this machine that runs it, empty for
    others, and for gateways.
    """

    ref: str
    reason: str = ""
    window: int | None = None
    max_output: int | None = None
    supports_tools: bool = True
    supports_images: bool = False
    priced: bool = False
    window_source: str = ""
    found: DetectedServer | None = None
    local: str = ""


@runtime_checkable
class ChatModel(Protocol):
    """A language model.

    `stream` yields parts and ends with a FinalPart, or raises an `llm.errors.ModelError`. Closing the generator
    (or cancelling the task that reads it) closes the connection to the provider before it returns.
    """

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`."""
        ...

    async def warm(self) -> None:
        """Load what the first call needs (litellm, a process), without calling a model."""
        ...

    async def aclose(self) -> None:
        """Release processes and connections. A scripted model raises here for turns that were not used."""
        ...


@runtime_checkable
class WaitingModel(Protocol):
    """A `ChatModel` whose server may not have been ready when it was opened, so that `info` may be incomplete."""

    def wait_ready(self) -> AsyncGenerator[LoadingPart, None]:
        """Complete `info` before a request is built. Yields parts only if the server loads the model."""
        ...


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
