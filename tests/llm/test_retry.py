"""Repeating calls, and going on with another model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from clawbot.llm.client import MAX_ASKED_WAIT, RetryPolicy, wait_before_next, with_retries
from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    LoadingError,
    ModelError,
    PoorAnswerError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.factory import RETURN_SECONDS, FallbackModel
from clawbot.llm.protocol import (
    ChatRequest,
    FallbackPart,
    FinalPart,
    ModelInfo,
    ReasoningPart,
    RetryPart,
    StreamPart,
    TextPart,
    ToolCallPart,
    WithdrawnPart,
)
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock

FINAL = FinalPart(AssistantMessage([TextBlock("done")]))
REQUEST = ChatRequest("", ())
Steps = list[StreamPart | ModelError]


def attempts(*runs: Steps) -> Callable[[], AsyncGenerator[StreamPart, None]]:
    left = list(runs)

    async def attempt() -> AsyncGenerator[StreamPart, None]:
        for step in left.pop(0):
            if isinstance(step, ModelError):
                raise step
            yield step

    return attempt


class Waits:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def run(policy: RetryPolicy, *runs: Steps) -> tuple[list[StreamPart], list[float], ModelError | None]:
    waits, parts = Waits(), []
    try:
        async for part in with_retries(attempts(*runs), policy, waits):
            parts += [part]
    except ModelError as error:
        return parts, waits.seconds, error
    return parts, waits.seconds, None


async def test_it_waits_longer_each_time() -> None:
    down = UnreachableError("down")
    parts, waits, error = await run(RetryPolicy(4, 1.0, 3.0), [down], [down], [down], [FINAL])
    assert error is None
    assert [part.attempt for part in parts if isinstance(part, RetryPart)] == [2, 3, 4]
    assert [int(wait) for wait in waits] == [1, 2, 3]
    assert waits == [part.wait for part in parts if isinstance(part, RetryPart)]


async def test_it_gives_up_with_the_last_error() -> None:
    last = UnreachableError("last")
    parts, waits, error = await run(RetryPolicy(2), [UnreachableError("first")], [last])
    assert error is last
    assert len(parts) == len(waits) == 1


async def test_a_server_that_loads_is_waited_for_as_long_as_the_settings_say() -> None:
    loading: Steps = [LoadingError("loads")]
    parts, waits, error = await run(
        RetryPolicy(2, 1.0, loading=5.0), loading, loading, [UnreachableError("x")], [FINAL]
    )
    assert error is None
    assert [part.reason for part in parts if isinstance(part, RetryPart)] == ["loads", "x"]
    parts, waits, error = await run(RetryPolicy(2, loading=5.0), *([loading] * 4))
    assert isinstance(error, LoadingError)
    assert (len(parts), waits) == (1, [2.0, 2.0, 1.0])


@pytest.mark.parametrize("part", [TextPart("half"), ToolCallPart(ToolCallBlock("1", "read"))])
async def test_nothing_is_repeated_after_a_visible_part(part: StreamPart) -> None:
    parts, waits, error = await run(RetryPolicy(4), [part, BadResponseError("broke")], [FINAL])
    assert (parts, waits) == ([part], [])
    assert isinstance(error, BadResponseError)


async def test_reasoning_alone_may_be_said_again() -> None:
    parts, _, error = await run(RetryPolicy(2), [ReasoningPart("hm"), BadResponseError("broke")], [FINAL])
    assert error is None
    assert [type(part) for part in parts] == [ReasoningPart, RetryPart, FinalPart]


async def test_text_that_was_withdrawn_was_reasoning() -> None:
    thought: Steps = [TextPart("hm"), WithdrawnPart(), PoorAnswerError("empty")]
    parts, _, error = await run(RetryPolicy(4), thought, thought, [FINAL])
    assert isinstance(error, PoorAnswerError)
    assert [type(part) for part in parts] == [TextPart, WithdrawnPart, RetryPart, TextPart, WithdrawnPart]


async def test_a_poor_answer_is_asked_for_once_more() -> None:
    poor: Steps = [PoorAnswerError("empty")]
    parts, _, error = await run(RetryPolicy(4), poor, [FINAL])
    assert ([type(part) for part in parts], error) == ([RetryPart, FinalPart], None)
    parts, _, error = await run(RetryPolicy(4), poor, poor, [FINAL])
    assert isinstance(error, PoorAnswerError)
    assert len(parts) == 1


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (RateLimitError("x", retry_after=17), 17),
        (RateLimitError("x", retry_after=0), 0),
        (RateLimitError("x", retry_after=MAX_ASKED_WAIT + 1), None),
        (RateLimitError("x", exhausted=True), None),
        (UnreachableError("x", dead=True), None),
        (AuthenticationError("x"), None),
        (ContextOverflowError("x"), None),
        (RefusedError("x"), None),
    ],
)
def test_who_decides_about_the_wait(error: ModelError, waits: float | None) -> None:
    assert wait_before_next(error, 1, RetryPolicy(4, 1.0, 2.0)) == waits


async def test_closing_it_closes_the_call() -> None:
    closed = []

    async def attempt() -> AsyncGenerator[StreamPart, None]:
        try:
            yield TextPart("a")
            yield TextPart("b")
        finally:
            closed.append(True)

    parts = with_retries(attempt, RetryPolicy())
    await anext(parts)
    await parts.aclose()
    assert closed == [True]


class Model:
    def __init__(self, name: str, *runs: Steps) -> None:
        self.info = ModelInfo(name)
        self._attempt = attempts(*runs)
        self.closed = False

    def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        return self._attempt()

    async def warm(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        self.closed = True


async def read(model: FallbackModel) -> list[StreamPart]:
    return [part async for part in model.stream(REQUEST)]


class Clock:
    seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    "error", [AuthenticationError("x"), RateLimitError("x"), UnreachableError("x"), BadResponseError("x")]
)
async def test_another_model_goes_on(error: ModelError) -> None:
    model = FallbackModel([Model("a/a", [error]), Model("b/b", [FINAL])], Clock())
    parts = await read(model)
    assert parts == [FallbackPart("b/b", str(error)), FINAL]
    assert model.info.ref == "b/b"


@pytest.mark.parametrize("error", [ContextOverflowError("x"), RefusedError("x")])
async def test_some_errors_are_not_for_another_model(error: ModelError) -> None:
    model = FallbackModel([Model("a/a", [error]), Model("b/b", [FINAL])], Clock())
    with pytest.raises(type(error)):
        await anext(model.stream(REQUEST))
    assert model.info.ref == "a/a"


async def test_text_that_was_shown_is_said_to_be_void() -> None:
    model = FallbackModel([Model("a/a", [TextPart("ha"), BadResponseError("x")]), Model("b/b", [FINAL])], Clock())
    parts = await read(model)
    assert parts == [TextPart("ha"), FallbackPart("b/b", "x", discard=True), FINAL]


async def test_the_last_error_is_raised_when_all_fail() -> None:
    model = FallbackModel([Model("a/a", [UnreachableError("one")]), Model("b/b", [UnreachableError("two")])], Clock())
    with pytest.raises(UnreachableError, match="two"):
        await read(model)


def failing(ref: str, name: str, words: str) -> Model:
    return Model(ref, [UnreachableError(words, provider=name, hint=f"Hint of {name}.")])


@pytest.mark.parametrize(
    ("without_key", "expected"),
    [
        ("", "Gemini: Overloaded; then Anthropic: Gone; then Groq: Full. Hint of Groq."),
        ("b/b", "Gemini: Overloaded; then b: B_API_KEY is not set; then Groq: Full. Hint of Groq."),
        ("c/c", "Gemini: Overloaded; then Anthropic: Gone; then c: C_API_KEY is not set. Hint of Anthropic."),
    ],
)
async def test_the_error_names_all_that_failed_or_were_skipped(without_key: str, expected: str) -> None:
    models = [
        failing("a/a", "Gemini", "Overloaded."),
        failing("b/b", "Anthropic", "Gone."),
        failing("c/c", "Groq", "Full."),
    ]
    missing = {without_key: f"{without_key[:1].upper()}_API_KEY"}
    with pytest.raises(UnreachableError) as caught:
        await read(FallbackModel(models, Clock(), lambda ref: missing.get(ref, "")))
    assert str(caught.value) == expected


async def test_a_refusal_of_a_fallback_names_the_failure_before_it_and_an_overflow_stays_as_it_is() -> None:
    for error, expected in (
        (RefusedError("No.", provider="B"), "A: Gone; then B: No."),
        (ContextOverflowError("Large."), "Large."),
    ):
        model = FallbackModel([Model("a/a", [UnreachableError("Gone.", provider="A")]), Model("b/b", [error])], Clock())
        with pytest.raises(type(error)) as caught:
            await read(model)
        assert str(caught.value) == expected


async def test_a_fallback_without_a_key_is_skipped() -> None:
    models = [Model("a/a", [UnreachableError("one")]), Model("b/b"), Model("c/c", [FINAL])]
    model = FallbackModel(models, Clock(), {"b/b": "B_API_KEY", "a/a": "", "c/c": ""}.__getitem__)
    assert await read(model) == [FallbackPart("c/c", "one"), FINAL]


async def test_when_all_have_failed_the_next_call_begins_at_the_first_again() -> None:
    first = Model("a/a", [UnreachableError("one")], [FINAL])
    model = FallbackModel([first, Model("b/b", [UnreachableError("two")])], Clock())
    with pytest.raises(UnreachableError, match="two"):
        await read(model)
    assert await read(model) == [FallbackPart("a/a", "it is tried again"), FINAL]


async def test_the_first_model_is_tried_again_after_a_while() -> None:
    clock = Clock()
    first = Model("a/a", [UnreachableError("x")], [FINAL])
    model = FallbackModel([first, Model("b/b", [FINAL], [FINAL])], clock)
    assert len(await read(model)) == 2
    assert await read(model) == [FINAL]
    clock.seconds = RETURN_SECONDS
    parts = await read(model)
    assert isinstance(parts[0], FallbackPart)
    assert parts[0].model == "a/a"
    assert parts[1] == FINAL


async def test_what_is_read_ahead_goes_to_no_other_model() -> None:
    """Others may cost something."""
    ahead, clock = replace(REQUEST, purpose="ahead"), Clock()
    first = Model("a/a", [UnreachableError("x")], [UnreachableError("y")], [FINAL])
    model = FallbackModel([first, Model("b/b", [FINAL], [FINAL])], clock)
    with pytest.raises(UnreachableError, match="x"):
        await anext(model.stream(ahead))
    assert len(await read(model)) == 2
    clock.seconds = RETURN_SECONDS
    assert [part async for part in model.stream(ahead)] == [FINAL]
    assert model.info.ref == "b/b"


async def test_all_are_closed() -> None:
    models = [Model("a/a"), Model("b/b")]
    await FallbackModel(models, Clock()).aclose()
    assert all(model.closed for model in models)
