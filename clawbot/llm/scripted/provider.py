"""The scripted model behind litellm: a provider for `litellm.custom_provider_map`, with litellm's chunks and errors.

It is imported in the process that holds litellm only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx

from clawbot.llm.scripted import ScriptEngine, ScriptMismatch
from clawbot.llm.scripted.replies import Chunk, ScriptedFault

PROVIDER = "script"
# litellm's errors carry the HTTP exchange that caused them; there was none.
NOWHERE = "http://script.invalid"
# The litellm exception of each status; others are told apart by their first digit.
STATUS_EXCEPTIONS = {
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
    503: "ServiceUnavailableError",
}


class ScriptProvider:
    """What litellm needs of a `CustomLLM`, for streams: `litellm.acompletion(model="script/…", stream=True)`.

    `litellm` is the imported module, in whose `custom_provider_map` this is the "custom_handler" of a "provider".
    """

    def __init__(self, litellm: Any, engine: ScriptEngine) -> None:
        self.engine = engine
        self._litellm = litellm

    async def astreaming(
        self, *, model: str, messages: list[dict[str, Any]], optional_params: dict[str, Any], **_: Any
    ) -> AsyncGenerator[Any, None]:
        """Yield the reply of the script as litellm wants it from a provider of its own."""
        request = {**optional_params, "model": model, "messages": messages}
        try:
            async for chunk in self.engine.reply(request):
                yield self._as_litellm(chunk)
        except ScriptMismatch as error:
            raise self._litellm.BadRequestError(message=error.message, model=model, llm_provider=PROVIDER) from error
        except ScriptedFault as fault:
            raise self._exception(fault, model) from fault

    def _as_litellm(self, chunk: Chunk) -> Any:
        """A delta keeps its OpenAI shape, which holds parallel calls and reasoning.

        litellm drops the usage of a chunk of that shape, and the finish reason of a chunk without text, so these two
        go in its generic shape.
        """
        choice = chunk["choices"][0] if chunk["choices"] else None
        if choice is not None and choice["finish_reason"] is None:
            return self._litellm.types.utils.ModelResponseStream(**chunk)
        return {
            "text": "",
            "tool_use": None,
            "index": 0,
            "is_finished": choice is not None,
            "finish_reason": choice["finish_reason"] if choice else "",
            "usage": chunk.get("usage"),
        }

    def _exception(self, fault: ScriptedFault, model: str) -> Exception:
        details: dict[str, Any] = {"message": fault.message, "model": model, "llm_provider": PROVIDER}
        if fault.kind == "drop":
            name = "APIConnectionError"
        elif fault.kind == "overflow":
            name = "ContextWindowExceededError"
        else:
            usual = "InternalServerError" if fault.status >= 500 else "BadRequestError"
            name = STATUS_EXCEPTIONS.get(fault.status, usual)
        if fault.status:
            details["response"] = httpx.Response(
                fault.status, json=fault.body, headers=fault.headers, request=httpx.Request("POST", NOWHERE)
            )
        exception = getattr(self._litellm, name)(**details)
        if not isinstance(exception, Exception):
            raise TypeError(f"litellm.{name} is no exception")
        return exception
