"""The one door to litellm: calls, chunks and exceptions, for the worker process alone.

The environment that litellm reads while it is imported is set by `llm.worker` before this module comes in. Its traps:
`_skip_mcp_handler` keeps calls with tools working without the `mcp` extra, but not those that litellm sends to the
Responses API, so its gateway to MCP is replaced (tests hold both); `stream_chunk_builder` (a quarter of a second at the
end of a long answer) is never reached, because the chunks that litellm gathers for it are taken away. OpenAI's SDK,
which litellm sends most calls with, would repeat calls (litellm drops `max_retries` for some vendors) and walk every
message at every call (a tenth of a millisecond each), and litellm does so in parts, which is kept off; litellm's own
handler walks less, but takes `[DONE]` in a text for the end of the answer. To price an answer that has not begun,
litellm would load a vocabulary (40 MB), or download one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx
import litellm
import msgspec
from litellm.completion_extras.litellm_responses_transformation.transformation import (
    LiteLLMResponsesTransformationHandler as ToResponses,
)
from litellm.completion_extras.litellm_responses_transformation.transformation import (
    OpenAiResponsesToChatCompletionStreamIterator as FromResponses,
)
from litellm.litellm_core_utils import core_helpers
from litellm.llms.ollama.chat.transformation import OllamaChatCompletionResponseIterator as OllamaChunks
from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import ModelResponseIterator as FromGemini
from litellm.responses import main as responses_main
from openai import _base_client
from openai._models import FinalRequestOptions
from openai._utils import is_given
from openai.resources.chat.completions import completions
from pydantic import ValidationError

from clawbot.deadline import deadline
from clawbot.llm.deltas import unknown_fields
from clawbot.llm.failures import CLIENT_FAULT, Failure
from clawbot.llm.frames import Complete, Embed
from clawbot.llm.tokens import merge_usage
from clawbot.llm.upstream import Upstream, current, tapped_bytes
from clawbot.llm.vectors import Rows, to_rows
from clawbot.logs import silence_libraries

_ALWAYS: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "num_retries": 0,
    "drop_params": True,
    "_skip_mcp_handler": True,
}
_ALWAYS_EMBEDDING: dict[str, Any] = {"num_retries": 0, "drop_params": True}
DRAIN_SECONDS = 5.0
"""How long a finished answer is held back for the usage that may follow."""
Sink = Callable[[dict[str, Any]], object]
"""Takes the chunks of a call."""
Method = Callable[..., Any]
"""A function or method of litellm."""
_MISTAKES = (ImportError, AttributeError, TypeError, NameError, LookupError, AssertionError, NotImplementedError)
_FAULTS = (*_MISTAKES, RecursionError, SyntaxError, ValidationError)
# litellm's message for an exception that it does not know and did not pass on. A server's message is another error.
_FAULT_TEXT = re.compile(r"litellm\.APIConnectionError: (?:\w+(?::| -) )*((?:No module named|cannot import name) '.*)")
_NO_REASON = "Connection error."  # the message of OpenAI's SDK for all of them
_HELLO = [{"role": "user", "content": "hello"}]
_logger = logging.getLogger(__name__)
# Encodes what is more than JSON, too.
_theirs: Callable[[Any], bytes] = getattr(_base_client, "openapi_dumps", msgspec.json.encode)


class AnsweredError(Exception):
    """The server answered with an error that litellm takes for an answer."""


class LiteLLMEngine:
    """Makes calls with litellm."""

    def __init__(self) -> None:
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        litellm.turn_off_message_logging = True
        litellm.disable_streaming_logging = True
        for callbacks in ("callbacks", "input_callback", "success_callback", "failure_callback"):
            setattr(litellm, callbacks, [])
        litellm.disable_hf_tokenizer_download = True
        silence_libraries()
        _replace_functions()
        asyncio.run(_rehearse())

    async def stream(self, call: Complete, out: Sink) -> None:
        """Make `call` and pass its chunks to `out`. The connection is closed when this returns or raises."""
        current.set(upstream := Upstream(call.arguments.get("timeout")))
        stream = await litellm.acompletion(**call.arguments, **_ALWAYS)
        try:
            if not await _pump(stream, upstream, call.max_chars, out) and upstream.error:
                raise AnsweredError
        finally:
            await stream.aclose()

    async def embed(self, request: Embed) -> Rows:
        """Raises BadVectorsError for an answer that cannot be used."""
        current.set(Upstream())
        response = await litellm.aembedding(**request.arguments, **_ALWAYS_EMBEDDING)
        # In a thread: the streams of answers go on.
        return await asyncio.to_thread(to_rows, response.data, len(request.arguments["input"]))

    def failure_of(self, error: BaseException, *, streaming: bool) -> Failure:
        causes = _causes(error)
        refused = any(getattr(cause, "errno", None) == errno.ECONNREFUSED for cause in causes)
        original = getattr(error, "original_exception", None)
        if isinstance(original, Exception):
            error = original
            causes += _causes(original)
        upstream = current.get(Upstream())
        body = upstream.error
        if not body and (fault := _fault(causes, streaming=streaming)):
            return Failure(name=CLIENT_FAULT, message=fault)
        status = getattr(error, "status_code", 0)
        if body or not isinstance(status, int) or status >= 500:
            status = 0  # litellm made it up
        message = body or str(getattr(error, "message", "") or error)
        if message.endswith(_NO_REASON):
            message = next((text for text in map(str, causes) if text and not text.endswith(_NO_REASON)), message)
        return Failure(
            name=type(error).__name__,
            message=message,
            status=upstream.status if upstream.status >= 400 else status,
            retry_after=upstream.retry_after,
            streaming=streaming,
            refused=refused,
        )


def _replace_functions() -> None:
    """Keep litellm from importing its gateway to MCP, and from loading a vocabulary (prices and tokens are counted in
    the main process), OpenAI's SDK from repeating calls, and both from walking every message of a body that is plain
    JSON already: for keys to rename and files to read, for marks in ids that `wire` took out, and in pure Python to
    encode them. Finish reasons keep the words of their vendor, and where Gemini sends none, there is none."""
    litellm.response_cost_calculator = lambda **_: None
    litellm.main.encoding = _Vocabulary()  # to ask whether there is one would load it
    for owner, name, ours in (
        (ToResponses, "transform_request", _unstored(ToResponses.transform_request)),
        (
            FromResponses,
            "translate_responses_chunk_to_openai_stream",
            staticmethod(_unabridged(FromResponses.translate_responses_chunk_to_openai_stream)),
        ),
        (FromGemini, "handle_valid_json_chunk", _uncommented(FromGemini.handle_valid_json_chunk)),
        (litellm.utils, "supports_native_streaming", _streams),
        (responses_main, "_responses_try_dispatch_mcp_gateway", lambda **_: None),
        (FinalRequestOptions, "get_max_retries", lambda *_: 0),
        (completions, "async_maybe_transform", _as_it_is),
        (litellm.utils, "_remove_thought_signatures_from_messages", lambda messages, _separator: messages),
        (_base_client, "openapi_dumps", _encoded),
        (httpx.Response, "aiter_bytes", tapped_bytes),
        (OllamaChunks, "chunk_parser", _text_as_it_is(OllamaChunks.chunk_parser)),
        (core_helpers, "_FINISH_REASON_MAP", SimpleNamespace(get=lambda reason: reason)),
        (litellm.VertexGeminiConfig, "_check_finish_reason", staticmethod(lambda _message, reason: reason)),
    ):
        if hasattr(owner, name):
            setattr(owner, name, ours)
        else:
            _logger.warning("a library has no %s any more; calls may fail, be repeated or be slower", name)


def _unstored(transform: Method) -> Method:
    """Let requests to the Responses API, which litellm's method `transform` makes, ask the vendor to store nothing. The
    reasoning then comes back encrypted, if the model reasons: others refuse to be asked for it."""

    def unstored(self: object, **named: Any) -> dict[str, Any]:
        provider = named["litellm_params"].get("custom_llm_provider")
        reasons = litellm.supports_reasoning(model=named["model"], custom_llm_provider=provider)
        wanted = {"include": ["reasoning.encrypted_content"]} if reasons else {}
        return {"store": False, **wanted, **transform(self, **named)}

    return unstored


def _text_as_it_is(parse: Method) -> Method:
    """Keep litellm's method `parse` from searching Ollama's text for tags of reasoning."""

    def parse_chunk(self: object, chunk: dict[str, Any]) -> Any:
        text = chunk.get("message", {}).pop("content", None)
        parsed = parse(self, chunk)
        parsed.choices[0].delta.content = text or None
        return parsed

    return parse_chunk


def _unabridged(translate: Method) -> Method:
    """Make litellm's `translate`, for events of the Responses API, return refusals as text, and keep the reason for an
    incomplete answer."""

    def unabridged(parsed_chunk: Any, **named: Any) -> Any:
        event = parsed_chunk if isinstance(parsed_chunk, dict) else parsed_chunk.model_dump()
        if event.get("type") == "response.refusal.delta":
            event = {**event, "type": "response.output_text.delta"}
        translated = translate(event, **named)
        if event.get("type") == "response.incomplete":
            reason = (event["response"].get("incomplete_details") or {}).get("reason")
            translated.choices[0].finish_reason = reason or translated.choices[0].finish_reason
        return translated

    return unabridged


def _uncommented(parse: Method) -> Method:
    """Keep comments in a stream from litellm's method `parse`, which would wait for the end of them."""
    return lambda self, chunk: None if chunk.startswith(":") else parse(self, chunk)


def _streams(model: str, custom_llm_provider: str | None) -> bool:
    """Replacement of a function of litellm, which assumes that an unknown model can't stream."""
    entry = litellm.model_cost.get(f"{custom_llm_provider}/{model}") or litellm.model_cost.get(model, {})
    return entry.get("supports_native_streaming") is not False


async def _as_it_is(data: Mapping[str, Any], expected_type: object) -> dict[str, Any]:
    """Replacement of a function of the SDK: drops what was not given, and what only the Responses API reads."""
    del expected_type
    body = {name: value for name, value in data.items() if is_given(value)}
    for at, message in enumerate(body["messages"]):
        if "reasoning_items" in message:
            body["messages"][at] = {name: value for name, value in message.items() if name != "reasoning_items"}
    return body


def _encoded(obj: Any) -> bytes:
    try:
        return msgspec.json.encode(obj)
    except (TypeError, ValueError):
        return _theirs(obj)


class _Vocabulary:
    """litellm's vocabulary, loaded at the first access: litellm passes it to nearly every call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(litellm.utils.get_default_encoding(), name)


async def _rehearse() -> None:
    """Make a call without a server: litellm loads much of itself at the first one."""
    try:
        stream = await litellm.acompletion(
            model="openai/rehearsal", messages=_HELLO, mock_response="hello", api_key="none", **_ALWAYS
        )
        await _pump(stream, Upstream(), len(_HELLO[0]["content"]), lambda _chunk: None)
        await stream.aclose()
    except Exception:
        _logger.exception("the rehearsal failed; the first call will be slower")


async def _pump(stream: Any, upstream: Upstream, max_chars: int, out: Sink) -> bool:
    """Pass on what `stream` yields until its end or `max_chars` characters; return whether one was reached."""
    usage: dict[str, Any] = {}
    chars = 0
    upstream.tap(stream, lambda read: out({"choices": [], "prompt_progress": read}))
    async for chunk in stream:
        _take_usage(stream, chunk, usage)
        slim = slim_chunk(chunk, chats=upstream.chats)
        choice = slim["choices"][0]
        reason = choice.pop("finish_reason", None)
        size = _length(choice["delta"])
        chars += size
        # A delta that is too long by itself is not passed on.
        if choice["delta"] and size <= max_chars:
            out(slim)
        if chars + upstream.size > max_chars:
            _logger.warning("an answer of more than %d characters was cut off", max_chars)
            _finish("length", usage, out)
            return True
        if reason:
            await _drain(stream, usage)
            _finish(upstream.reason, usage, out, upstream.extra)
            return upstream.reason is not None
    return False


async def _drain(stream: Any, usage: dict[str, Any]) -> None:
    """Collect the usage after the finish reason, below litellm, which would build an answer of its own and guess
    figures."""
    rest: Any = getattr(stream, "completion_stream", None)
    if not hasattr(rest, "__aiter__"):
        return
    try:
        async with deadline(DRAIN_SECONDS):
            async for chunk in rest:
                _merge(chunk.get("usage") if isinstance(chunk, Mapping) else getattr(chunk, "usage", None), usage)
    except TimeoutError:
        _logger.info("no usage came within %s s after the end of an answer", DRAIN_SECONDS)
    except Exception:
        # The answer is complete, so a connection that breaks now costs its figures at most.
        _logger.exception("no usage after the end of an answer")


def _finish(reason: str | None, usage: dict[str, Any], out: Sink, extra: Mapping[str, Any] | None = None) -> None:
    if reason:
        out({"choices": [{"delta": {"extra": extra} if extra else {}, "finish_reason": reason}]})
    if usage:
        out({"choices": [], "usage": usage})


def slim_chunk(chunk: Any, *, chats: bool) -> dict[str, Any]:
    """A chunk of litellm as a plain OpenAI chunk that holds only what the collector reads. `chats`: it was one."""
    choices = getattr(chunk, "choices", None)
    if not choices:
        return {"choices": [{"delta": {}}]}
    choice = choices[0]
    delta = choice.delta
    slim: dict[str, Any] = {}
    for name in ("content", "reasoning_content"):
        value = getattr(delta, name, None)
        if isinstance(value, str) and value:
            slim[name] = value
    calls = getattr(delta, "tool_calls", None)
    if calls:
        slim["tool_calls"] = [_call_delta(call, chats) for call in calls]
    elif (function := getattr(delta, "function_call", None)) is not None:
        called = {"name": function.name, "arguments": function.arguments}
        slim["tool_calls"] = [{"index": 0, "id": None, "function": called}]
    thinking = [_plain(block) for block in getattr(delta, "thinking_blocks", None) or ()]
    items = [item for item in getattr(delta, "reasoning_items", None) or () if item.get("encrypted_content")]
    if thinking or items:
        slim["thinking_blocks"] = [*thinking, *({"signature": msgspec.json.encode(item).decode()} for item in items)]
    reason = getattr(choice, "finish_reason", None)
    return {"choices": [{"delta": slim, "finish_reason": reason}]} if reason else {"choices": [{"delta": slim}]}


def _call_delta(call: Any, chats: bool) -> dict[str, Any]:
    function = getattr(call, "function", None)
    return {
        "index": getattr(call, "index", None),
        "id": getattr(call, "id", None),
        "function": {"name": getattr(function, "name", None), "arguments": getattr(function, "arguments", None)},
        "extra": unknown_fields(getattr(call, "model_extra", None) or {}) if chats else {},
    }


def _plain(block: Any) -> dict[str, Any]:
    fields = block if isinstance(block, Mapping) else vars(block)
    return {name: fields[name] for name in ("type", "thinking", "signature", "data") if fields.get(name)}


def _length(delta: Mapping[str, Any]) -> int:
    texts = (call["function"]["arguments"] for call in delta.get("tool_calls", ()))
    arguments = sum(len(text) for text in texts if isinstance(text, str))
    extra = sum(len(str(call["extra"])) for call in delta.get("tool_calls", ()) if call.get("extra"))
    return len(delta.get("content", "")) + len(delta.get("reasoning_content", "")) + arguments + extra


def _take_usage(stream: Any, chunk: Any, usage: dict[str, Any]) -> None:
    """Collect the usage that litellm removes from its chunks, and drop its memory of them."""
    kept = getattr(stream, "chunks", None)
    for source in (*(kept or ()), chunk):
        _merge(getattr(source, "usage", None), usage)
    if isinstance(kept, list):
        kept.clear()


def _merge(reported: Any, usage: dict[str, Any]) -> None:
    if reported is not None:
        merge_usage(usage, reported if isinstance(reported, Mapping) else reported.model_dump(exclude_none=True))


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _fault(causes: list[BaseException], *, streaming: bool) -> str:
    """Describe how this process itself failed; "" if `causes` point to the network or to the server's answer."""
    others = [cause for cause in causes if not type(cause).__module__.startswith("litellm.")]
    answered = any(getattr(cause, "status_code", None) not in (None, 500) for cause in causes)
    if answered or not all(_is_fault(cause, streaming) for cause in others):
        return ""
    if others:
        return f"{others[0]} ({type(others[0]).__name__})"
    found = _FAULT_TEXT.match(str(causes[0]))
    return found[1] if found else ""


def _is_fault(error: BaseException, streaming: bool) -> bool:
    if type(error) in (ValueError, UnicodeEncodeError):
        return not streaming  # else it may be of what came
    return isinstance(error, _FAULTS) or getattr(error, "filename", None) is not None
