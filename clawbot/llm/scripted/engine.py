"""The engine of the scripted model: answers OpenAI chat requests from a script, and reports both sides of a request
that does not fit it.

It knows no HTTP: `server.py` serves it, and `ScriptModel` asks it directly. `docs/testing-agents.md` is the guide for
those who write scripts."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from clawbot.clock import epoch_ms
from clawbot.errors import ClawbotError
from clawbot.llm.client import ClientOptions, with_retries
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import ModelError, RefusedError
from clawbot.llm.failures import Failure, to_error
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted.file import Check, CheckKey, Fault, Figures, Script, ScriptTurn
from clawbot.llm.scripted.replies import (
    Chunk,
    ScriptedFault,
    completion_tokens,
    deltas_of,
    finish_reason_of,
    overflow_fault,
    prompt_tokens,
    status_fault,
    usage_of,
)
from clawbot.llm.wire import Speller
from clawbot.messages import without_times
from clawbot.text.naming import TITLE_QUESTION

# Both sides must fit into one line of an error; the requests themselves can be inspected in full.
SHOWN_CHARS = 200
NO_TITLE = "NO_REPLY"
SYSTEM_ROLES = frozenset({"system", "developer"})

Request = Mapping[str, Any]
RequestView = Mapping[CheckKey, tuple[str, ...]]
"""The texts of a request that a script may check, each under the key of `expect`."""
Sleep = Callable[[float], Awaitable[None]]


class ScriptUnused(ClawbotError):
    """The script is over and some turns were never asked for, or not as often as they should have been."""


class ScriptMismatch(RefusedError):
    """A request that the script did not expect, with both sides: never to be repeated.

    `turn` and `line` are positions in the script, None when the request came after the last turn; `request` counts the
    requests from 1.
    """

    def __init__(self, message: str, *, request: int, turn: int | None = None, line: int | None = None) -> None:
        super().__init__(message, provider="script")
        self.request = request
        self.turn = turn
        self.line = line


class ScriptEngine:
    """Answers requests with the turns of `script`, one after the other.

    `requests` holds what was asked and `mismatches` what did not fit, both in order. The question for the title of a
    conversation comes when nobody expects it: it takes no turn, and is none of the `requests`. The
    engine may be asked from several tasks and threads at once: a request takes its full turn, at the moment its reply
    is first read. `sleep` waits for a number of seconds; tests pass their own.
    """

    def __init__(self, script: Script, *, sleep: Sleep = asyncio.sleep) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.mismatches: list[ScriptMismatch] = []
        self._sleep = sleep
        self._lock = threading.Lock()
        self._current = 0
        self._used = [0] * len(script.turns)
        self._calls = 0

    async def reply(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply as OpenAI `chat.completion.chunk` objects, usage last. Raises ScriptMismatch before the first
        chunk, and ScriptedFault where the script has one."""
        if any(TITLE_QUESTION in text for text in view_of(request)["user"]):
            for chunk in self._title(request):
                yield chunk
            return
        turn, view, number = self._take(request)
        fault = turn.reply.fault
        await self._fail_at_once(fault, request)
        head = self._head(request, number)
        written: list[dict[str, Any]] = []
        await _break_off(fault, sent=0)
        yield _chunk(head, {"role": "assistant", "content": ""})
        deltas = deltas_of(turn.reply, _values(view, number), lambda: self._new_call_id(request))
        for sent, each in enumerate(deltas, start=1):
            if each.after:
                await self._sleep(each.after)
            yield _chunk(head, each.delta)
            written.append(each.delta)
            await _break_off(fault, sent)
        await _break_off(fault, sent=None)
        if fault is not None and fault.kind == "no_finish":
            return
        yield _chunk(head, {}, finish_reason_of(turn.reply))
        if not request.get("stream") or (request.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": await _usage(turn.reply.figures, request, written)}

    def _title(self, request: Request) -> Iterator[Chunk]:
        head = self._head(request, 0)
        yield _chunk(head, {"role": "assistant", "content": ""})
        yield _chunk(head, {"content": self.script.title or NO_TITLE})
        yield _chunk(head, {}, "stop")

    def status(self) -> dict[str, Any]:
        with self._lock:
            turns = [
                {"turn": turn.number, "name": turn.name, "line": turn.line, "repeat": turn.repeat, "used": used}
                for turn, used in zip(self.script.turns, self._used, strict=True)
            ]
            return {
                "file": str(self.script.path),
                "requests": len(self.requests),
                "turns": turns,
                "unused": [turn.number for turn, _ in self._unused()],
                "mismatches": [error.message for error in self.mismatches],
            }

    def problems(self) -> list[ClawbotError]:
        """Return every ScriptMismatch, and a ScriptUnused if turns are left."""
        with self._lock:
            unused = self._unused()
            found: list[ClawbotError] = list(self.mismatches)
        if unused:
            lines = [f"{self.script.path}: {len(unused)} of {len(self.script.turns)} turns were not used up."]
            lines += [f"  line {turn.line}: {_left(turn, used)}" for turn, used in unused]
            found.append(ScriptUnused("\n".join(lines)))
        return found

    def finish(self) -> None:
        for problem in self.problems():
            raise problem

    def _take(self, request: Request) -> tuple[ScriptTurn, RequestView, int]:
        view = view_of(request)
        with self._lock:
            self.requests.append(dict(request))
            number = len(self.requests)
            try:
                turn = self._next_turn(view, number)
            except ScriptMismatch as error:
                self.mismatches.append(error)
                raise
            self._used[turn.number - 1] += 1
            return turn, view, number

    def _next_turn(self, view: RequestView, number: int) -> ScriptTurn:
        """Return the first turn that is not used up; one that may repeat as often as it fits may be passed."""
        for index in range(self._current, len(self.script.turns)):
            turn, used = self.script.turns[index], self._used[index]
            if used == turn.repeat:
                continue
            failed = [check for check in turn.checks if not _holds(check, view[check.key])]
            if not failed:
                self._current = index
                return turn
            if turn.repeat is not None or used == 0 or turn is self.script.turns[-1]:
                raise mismatch(self.script, turn, number, failed, view)
        raise beyond_last(self.script, number, view)

    def _unused(self) -> list[tuple[ScriptTurn, int]]:
        pairs = zip(self.script.turns, self._used, strict=True)
        return [(turn, used) for turn, used in pairs if used < (turn.repeat or 1)]

    def _head(self, request: Request, number: int) -> Chunk:
        """Return the fields that all chunks share. `created` is fixed, so that replies are reproducible."""
        model = str(request.get("model") or self.script.model)
        return {"id": f"chatcmpl-script-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}

    def _new_call_id(self, request: Request) -> str:
        """Return an id that is new in the engine and in the messages."""
        taken = {
            call.get("id")
            for message in request.get("messages") or ()
            if isinstance(message, Mapping)
            for call in message.get("tool_calls") or ()
        }
        with self._lock:
            while True:
                self._calls += 1
                if f"call_{self._calls}" not in taken:
                    return f"call_{self._calls}"

    async def _fail_at_once(self, fault: Fault | None, request: Request) -> None:
        if fault is not None and fault.kind == "status":
            raise status_fault(fault)
        if fault is not None and fault.kind == "overflow":
            raise overflow_fault(fault.wording, await asyncio.to_thread(prompt_tokens, request), self.script.window)


def _values(view: RequestView, number: int) -> dict[str, str]:
    keys: tuple[CheckKey, ...] = ("user", "tool_result", "model")
    return {key: "".join(view[key][-1:]) for key in keys} | {"request": str(number)}


async def _break_off(fault: Fault | None, sent: int | None) -> None:
    """Drop or stall the stream at its position; `sent` None is the end."""
    if fault is None or fault.kind not in {"drop", "stall"} or (sent is not None and sent < fault.deltas):
        return
    if fault.kind == "drop":
        raise ScriptedFault("drop")
    await asyncio.Event().wait()


def _chunk(head: Chunk, delta: dict[str, Any], finish_reason: str | None = None) -> Chunk:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


async def _usage(figures: Figures, request: Request, written: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    prompt, completion = figures.prompt, figures.completion
    if prompt is None:
        prompt = max(figures.cached, await asyncio.to_thread(prompt_tokens, request))
    if completion is None:
        completion = await asyncio.to_thread(completion_tokens, written)
    return usage_of(prompt, completion, figures.cached)


def _left(turn: ScriptTurn, used: int) -> str:
    wanted = f", used {used} of {turn.repeat} times" if turn.repeat and turn.repeat > 1 else ""
    checks = "; ".join(str(check) for check in turn.checks)
    return f"{turn}{wanted}{f', expects {checks}' if checks else ''}"


def view_of(request: Mapping[str, Any]) -> RequestView:
    """Read an OpenAI chat request. It may be of any shape: missing parts have no text."""
    messages = [message for message in request.get("messages") or () if isinstance(message, Mapping)]
    user = [_text_of(message) for message in messages if message.get("role") == "user"]
    system = [_text(message) for message in messages if message.get("role") in SYSTEM_ROLES]
    context = [_text_of(message) for message in messages if message.get("role") not in SYSTEM_ROLES]
    return {
        "user": tuple(user[-1:]),
        "system": ("\n".join(system),) if system else (),
        "tool_result": tuple(_fresh_results(messages)),
        "tool": tuple(_tool_names(request.get("tools") or ())),
        "model": (str(request.get("model", "")),),
        "context": tuple(context),
    }


def mismatch(script: Script, turn: ScriptTurn, request: int, failed: list[Check], view: RequestView) -> ScriptMismatch:
    """The error that `view` is not what `turn` expects."""
    lines = [f"{script.path}:{turn.line}: {turn} does not fit request {request}."]
    for check in failed:
        lines.append(f"  expected (line {check.line}): {check}")
        lines.append(f"  came: {shown(check.key, view)}")
    return ScriptMismatch("\n".join(lines), request=request, turn=turn.number, line=failed[0].line)


def beyond_last(script: Script, request: int, view: RequestView) -> ScriptMismatch:
    """The error that `view` came when no turn was left."""
    count = len(script.turns)
    turns = "its only turn was" if count == 1 else f"all {count} turns were"
    lines = [f"{script.path}: request {request} came after {turns} used.", "  expected: no more requests"]
    lines += [f"  came: {shown(key, view)}" for key in ("user", "tool_result") if view[key]]
    return ScriptMismatch("\n".join(lines), request=request)


def shown(key: CheckKey, view: RequestView) -> str:
    """What the request holds for `key`, cut to a length that can be read."""
    texts = view[key]
    return f"{key}: {', '.join(_cut(text) for text in texts)}" if texts else f"no {key}"


def _holds(check: Check, texts: tuple[str, ...]) -> bool:
    return any(_fits(check, text) for text in texts) is not check.negated


def _fits(check: Check, text: str) -> bool:
    if check.kind == "contains":
        return check.value in text
    if check.kind == "equals":
        return check.value == text
    return re.search(check.value, text) is not None


def _cut(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return repr(text)
    half = SHOWN_CHARS // 2
    return f"{text[:half]!r} … {text[-half:]!r} ({len(text)} characters)"


def _fresh_results(messages: list[Mapping[str, Any]]) -> list[str]:
    """Return the tool results after the last message of the model."""
    results: list[str] = []
    for message in messages:
        if message.get("role") == "assistant":
            results = []
        elif message.get("role") == "tool":
            results.append(_text(message))
    return results


def _tool_names(tools: Iterable[Any]) -> list[str]:
    functions = [tool.get("function") for tool in tools if isinstance(tool, Mapping)]
    return [str(function.get("name", "")) for function in functions if isinstance(function, Mapping)]


def _text_of(message: Mapping[str, Any]) -> str:
    """Return the text without the time before the user's words."""
    return without_times(_text(message)) if message.get("role") == "user" else _text(message)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part)


PROVIDER = "script"


class ScriptModel:
    """Answers with the turns of `engine`. Of `options` the clock and the retries count: a scripted fault is raised as
    the `llm.errors` of a real provider and repeated like it, a request that does not fit the script never is."""

    def __init__(self, engine: ScriptEngine, info: ModelInfo, options: ClientOptions) -> None:
        self.engine = engine
        self.info = info
        self._options = options
        self._speller = Speller()
        self._ref = f"{PROVIDER}/{engine.script.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Raises ScriptMismatch and the scripted errors."""
        async with aclosing(with_retries(lambda: self._attempt(request), self._options.policy)) as parts:
            async for part in parts:
                yield part

    async def _attempt(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        model = self.engine.script.model
        now = self._options.clock.now()
        collector = DeltaCollector(
            provider=PROVIDER,
            model=model,
            answerer=PROVIDER,
            timestamp=epoch_ms(now),
            tools=request.tools,
            must_answer=request.purpose == "chat",
        )
        body = {"model": model, **self._speller.body(request, self._ref)}
        streaming = False
        async with aclosing(self.engine.reply(body)) as chunks:
            try:
                async for chunk in chunks:
                    for part in collector.feed(chunk):
                        streaming = True
                        yield part
                    if collector.looping:
                        break
            except ScriptedFault as fault:
                raise self._error(fault, streaming=streaming) from fault
        for last in collector.finish():
            yield last

    def _error(self, fault: ScriptedFault, *, streaming: bool) -> ModelError:
        failure = Failure(
            name="APIConnectionError" if fault.kind == "drop" else "",
            message=fault.message,
            status=fault.status,
            retry_after=fault.headers.get("Retry-After", ""),
            streaming=streaming,
        )
        return to_error(failure, ref=self._ref, now=self._options.clock.now())

    async def warm(self) -> None: ...

    async def aclose(self) -> None:
        """Raise ScriptMismatch for a request that did not fit, ScriptUnused for turns that are left."""
        self.engine.finish()
