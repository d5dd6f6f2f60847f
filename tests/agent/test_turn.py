"""The turn as a function: its steps, its order, and what an interrupt or a failing model leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

import pytest
from msgspec import structs

from clawbot.agent.events import (
    ModelChanged,
    ModelLoading,
    ModelRetry,
    Notice,
    TextDelta,
    TextWithdrawn,
    ToolFinished,
    ToolStarted,
)
from clawbot.agent.turn import Committed, TurnSetup, TurnStep, run_turn
from clawbot.clock import SystemClock
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ContextOverflowError, ModelError, PoorAnswerError, UnreachableError
from clawbot.llm.protocol import (
    ChatRequest,
    FallbackPart,
    FinalPart,
    LoadingPart,
    ReasoningPart,
    RetryPart,
    StreamPart,
    TextPart,
    WithdrawnPart,
)
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.tools.protocol import AnyTool, ApprovalAnswer, ApprovalQuestion
from clawbot.tools.registry import Toolbox
from tests.agent.fakes import FakeModel, FakeTool, Stalling, calls, says


async def allow(question: ApprovalQuestion) -> ApprovalAnswer:
    return ApprovalAnswer("once")


class Talk:
    """A turn after the user said hello, whose messages are kept as the agent keeps them."""

    def __init__(self, model: FakeModel, *tools: AnyTool, max_rounds: int = 10) -> None:
        self.messages: list[Message] = [UserMessage("hello")]
        self.overflows: list[ModelError] = []
        self.smaller = 0  # how often the request can be made smaller
        self.setup = TurnSetup(
            model, Toolbox(tools, 1000), self.prepare, lambda _: allow, SystemClock(), max_rounds, self.recover
        )

    async def prepare(self) -> ChatRequest:
        return ChatRequest(system="be good", messages=tuple(self.messages))

    async def recover(self, error: ModelError) -> bool:
        self.overflows.append(error)
        self.smaller -= 1
        return self.smaller >= 0

    async def steps(self, cancel: Cancellation | None = None) -> AsyncGenerator[TurnStep, None]:
        async with aclosing(run_turn(self.setup, cancel or Cancellation())) as steps:
            async for step in steps:
                if isinstance(step, Committed):
                    self.messages.append(step.message)
                yield step


async def play(model: FakeModel, *tools: AnyTool, max_rounds: int = 10) -> list[TurnStep]:
    return [step async for step in Talk(model, *tools, max_rounds=max_rounds).steps()]


async def play_to_failure(model: FakeModel, *tools: AnyTool) -> tuple[list[TurnStep], ModelError]:
    """Play a turn whose model fails; what came before, and the failure."""
    steps: list[TurnStep] = []
    try:
        async for step in Talk(model, *tools).steps():
            steps.append(step)
    except ModelError as error:
        return steps, error
    pytest.fail("the model never failed")


def committed(steps: Sequence[TurnStep]) -> list[AssistantMessage | ToolResultMessage]:
    return [step.message for step in steps if isinstance(step, Committed)]


async def test_a_plain_answer_is_streamed_and_then_committed() -> None:
    steps = await play(FakeModel(says("hi")))
    assert [type(step) for step in steps] == [TextDelta, Committed]
    assert committed(steps)[0].text == "hi"


async def test_the_model_sees_the_results_of_its_calls_in_their_order() -> None:
    model = FakeModel(calls(ToolCallBlock("1", "look"), ToolCallBlock("2", "find")), says("done"))
    steps = await play(model, FakeTool("look", "seen"), FakeTool("find", "found"))
    called = [ToolStarted, ToolFinished, Committed]
    assert [type(step) for step in steps] == [Committed, *called, *called, TextDelta, Committed]
    assert [message.text for message in model.requests[1].messages[-2:]] == ["seen", "found"]


async def test_a_call_is_committed_before_its_tool_runs() -> None:
    tool = FakeTool("look")
    async for step in Talk(FakeModel(calls(ToolCallBlock("1", "look")), says("x")), tool).steps():
        if isinstance(step, Committed) and isinstance(step.message, AssistantMessage) and step.message.tool_calls:
            assert not tool.started.is_set()
            break
    else:
        pytest.fail("the call was never committed")


async def test_an_unknown_tool_is_an_error_for_the_model_and_the_turn_goes_on() -> None:
    model = FakeModel(calls(ToolCallBlock("1", "lokk")), says("sorry"))
    steps = await play(model, FakeTool("look"))
    result = committed(steps)[1]
    assert isinstance(result, ToolResultMessage)
    assert result.is_error
    assert "look" in result.text
    assert committed(steps)[-1].text == "sorry"


async def test_malformed_arguments_are_answered_and_never_run() -> None:
    tool = FakeTool("look")
    model = FakeModel(calls(ToolCallBlock("1", "look", malformed='{"path": ')), says("again"))
    steps = await play(model, tool)
    assert not tool.started.is_set()
    result = committed(steps)[1]
    assert isinstance(result, ToolResultMessage)
    assert result.is_error


async def test_the_limit_on_rounds_is_reported() -> None:
    model = FakeModel(*(calls(ToolCallBlock(str(n), "look")) for n in range(3)))
    steps = await play(model, FakeTool("look"), max_rounds=3)
    assert isinstance(steps[-1], Notice)
    assert "3 rounds" in steps[-1].text
    assert len(model.requests) == 3


async def test_calls_beyond_their_number_are_answered_and_not_run() -> None:
    tool = FakeTool("look")
    talk = Talk(FakeModel(calls(*(ToolCallBlock(str(n), "look", {"at": n}) for n in range(1000))), says("done")), tool)
    talk.setup = structs.replace(talk.setup, max_calls=3)
    steps = [step async for step in talk.steps()]
    results = [message for message in committed(steps) if isinstance(message, ToolResultMessage)]
    assert [result.is_error for result in results] == [False] * 3 + [True] * 997
    assert "tools.max_calls" in results[-1].text


def results_of(steps: Sequence[TurnStep]) -> list[ToolResultMessage]:
    return [message for message in committed(steps) if isinstance(message, ToolResultMessage)]


@pytest.mark.parametrize("delegated", [False, True])
async def test_equal_calls_of_one_answer_are_answered_and_two_of_them_run(delegated: bool) -> None:
    """Together or one after the other; the model is asked once more, since it could not know."""
    tool = FakeTool("look")
    talk = Talk(FakeModel(calls(*(ToolCallBlock(str(n), "look") for n in range(100))), says("done")), tool)
    talk.setup = structs.replace(talk.setup, delegates=lambda _call: delegated, changes=lambda _call: True)
    results = results_of([step async for step in talk.steps()])
    assert [result.is_error for result in results] == [False] * 2 + [True] * 98
    assert len(tool.arguments) == 2
    assert talk.messages[-1].text == "done"


async def test_a_turn_ends_when_the_model_repeats_what_was_refused() -> None:
    one, other = FakeTool("look"), FakeTool("find")
    loop = [calls(ToolCallBlock(str(n), ("look", "find")[n % 2])) for n in range(40)]
    steps = await play(FakeModel(*loop), one, other, max_rounds=40)
    assert isinstance(steps[-1], Notice)
    assert "look" in steps[-1].text
    assert (len(one.arguments), len(other.arguments)) == (4, 3)
    assert len(results_of(steps)) == 7


@pytest.mark.parametrize("rounds", [3, 12])
async def test_a_word_of_the_user_starts_the_count_again(rounds: int) -> None:
    tool = FakeTool("look")
    talk = Talk(FakeModel(*(calls(ToolCallBlock(str(n), "look")) for n in range(rounds)), says("done")), tool)

    async def steer() -> bool:
        return True

    talk.setup = structs.replace(talk.setup, steer=steer, max_rounds=20)
    assert not any(result.is_error for result in results_of([step async for step in talk.steps()]))


async def test_a_failing_model_leaves_what_it_said_marked_as_an_error() -> None:
    steps, error = await play_to_failure(FakeModel([TextPart("half a "), UnreachableError("gone")]))
    assert isinstance(error, UnreachableError)
    last = committed(steps)[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason) == ("half a ", "error")
    assert last.error_message == "gone"


async def test_a_stream_without_a_last_part_is_a_bad_response() -> None:
    with pytest.raises(BadResponseError):
        await play(FakeModel([TextPart("and then")]))


async def test_retries_and_fallbacks_are_told_and_discarded_text_is_not_kept() -> None:
    model = FakeModel(
        [
            RetryPart(2, 1.0, "busy"),
            LoadingPart("tiny"),
            TextPart("wrong "),
            FallbackPart("b/2", "down", discard=True),
            TextPart("right"),
            UnreachableError("gone"),
        ]
    )
    steps, _ = await play_to_failure(model)
    assert any(isinstance(step, ModelRetry) and step.attempt == 2 for step in steps)
    assert ModelLoading(model="tiny") in steps
    assert any(isinstance(step, ModelChanged) and step.discard for step in steps)
    assert committed(steps)[-1].text == "right"


async def interrupted(model: FakeModel, when: asyncio.Event, *tools: AnyTool) -> list[TurnStep]:
    """Run a turn and stop it once `when` is set."""
    cancel = Cancellation()
    steps: list[TurnStep] = []

    async def consume() -> None:
        async for step in Talk(model, *tools).steps(cancel):
            steps.append(step)

    turn = asyncio.create_task(consume())
    await when.wait()
    cancel.request()
    with pytest.raises(InterruptedTurnError):
        await turn
    return steps


async def test_an_interrupt_keeps_the_partial_answer_and_closes_the_stream() -> None:
    stall = Stalling()
    model = FakeModel([TextPart("as I was "), stall])
    steps = await interrupted(model, stall.reached)
    last = committed(steps)[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason) == ("as I was ", "aborted")
    assert model.closed_streams == 1


async def test_an_interrupt_before_any_text_leaves_nothing() -> None:
    stall = Stalling()
    assert committed(await interrupted(FakeModel([stall]), stall.reached)) == []


async def test_a_second_interrupt_while_the_first_one_cleans_up_changes_nothing() -> None:
    """Esc pressed twice, or the end of the program during an interrupt: a connection takes its time to close."""
    reached, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stall() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await cleaned.wait()

    cancel = Cancellation()
    running = asyncio.create_task(cancel.run(stall))
    await reached.wait()
    cancel.request()
    await cleaning.wait()
    cancel.request()
    cleaned.set()
    with pytest.raises(InterruptedTurnError):
        await running


async def test_what_was_said_before_an_unexpected_failure_is_kept_without_secrets() -> None:
    steps: list[TurnStep] = []
    problem = ValueError("https://h/v1?key=abcdefghij and sk-proj-0123456789abcdef")
    with suppress(ValueError):
        async for step in Talk(FakeModel([TextPart("half"), problem])).steps():
            steps.append(step)
    [kept] = committed(steps)
    assert isinstance(kept, AssistantMessage)
    assert (kept.text, kept.stop_reason) == ("half", "error")
    assert kept.error_message is not None
    assert kept.error_message.startswith("ValueError: https://h/v1?key=")
    assert "abcdefghij" not in kept.error_message
    assert "sk-proj" not in kept.error_message


async def test_an_interrupted_tool_and_those_after_it_get_results() -> None:
    slow = FakeTool("slow", release=asyncio.Event())
    never = FakeTool("never")
    model = FakeModel(calls(ToolCallBlock("1", "slow"), ToolCallBlock("2", "never")))
    steps = await interrupted(model, slow.started, slow, never)
    results = [message for message in committed(steps) if isinstance(message, ToolResultMessage)]
    assert [(result.tool_call_id, result.is_error) for result in results] == [("1", True), ("2", True)]
    assert not never.started.is_set()


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    stall = Stalling()

    async def consume() -> None:
        async for _ in Talk(FakeModel([stall])).steps():
            pass

    turn = asyncio.create_task(consume())
    await stall.reached.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_a_request_that_did_not_fit_is_made_smaller_and_asked_again() -> None:
    """Reference sheet 7.1: nothing of the failure is said or stored."""
    talk = Talk(FakeModel([ContextOverflowError("too large")], [ContextOverflowError("still")], says("now")))
    talk.smaller = 2
    steps = [step async for step in talk.steps()]
    assert [type(step) for step in steps] == [TextDelta, Committed]
    assert len(talk.overflows) == 2


async def test_a_request_that_can_not_be_made_smaller_fails_once_and_is_told() -> None:
    """Reference sheet 4.8: no loop, no reset."""
    talk = Talk(FakeModel([ContextOverflowError("too large")], [ContextOverflowError("still")]))
    talk.smaller = 1
    with pytest.raises(ContextOverflowError):
        await anext(step async for step in talk.steps() if isinstance(step, Notice))
    message = talk.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.stop_reason == "error"


async def test_an_answer_that_overflows_half_way_is_kept_and_not_asked_again() -> None:
    talk = Talk(FakeModel([TextPart("half"), ContextOverflowError("reached context length of 4096 tokens")]))
    talk.smaller = 1
    with pytest.raises(ContextOverflowError):
        await anext(step async for step in talk.steps() if isinstance(step, Notice))
    assert talk.overflows == []
    assert talk.messages[-1].text == "half"


async def test_an_empty_answer_may_mean_that_the_request_did_not_fit() -> None:
    talk = Talk(FakeModel([PoorAnswerError("empty")], says("now")))
    talk.smaller = 1
    assert [type(step) async for step in talk.steps()] == [TextDelta, Committed]
    assert len(talk.overflows) == 1


async def test_an_empty_answer_fails_the_turn_and_is_no_part_of_the_talk() -> None:
    steps, error = await play_to_failure(FakeModel([ReasoningPart("hm"), PoorAnswerError("empty")]))
    assert isinstance(error, PoorAnswerError)
    [message] = committed(steps)
    assert isinstance(message, AssistantMessage)
    assert (message.text, message.stop_reason, message.error_message) == ("", "error", "empty")


async def test_text_that_was_a_thought_is_withdrawn() -> None:
    final = FinalPart(AssistantMessage([ThinkingBlock("hm, "), TextBlock("Yes.")]))
    steps = await play(FakeModel([TextPart("hm, "), WithdrawnPart(), TextPart("Yes."), final]))
    assert steps[:3] == [TextDelta(text="hm,"), TextWithdrawn(text="hm, "), TextDelta(text="Yes.")]


async def test_an_answer_that_breaks_off_after_a_thought_keeps_them_apart() -> None:
    steps, _ = await play_to_failure(
        FakeModel([TextPart("hm, "), WithdrawnPart(), TextPart("Ye"), BadResponseError("broke off")])
    )
    [message] = committed(steps)
    assert message.content == [ThinkingBlock("hm, "), TextBlock("Ye")]


async def test_a_silent_reply_is_committed_and_never_shown() -> None:
    """Reference sheet 9.2."""
    silent: list[StreamPart] = [
        TextPart("NO"),
        TextPart("_REP"),
        TextPart("LY"),
        FinalPart(AssistantMessage([TextBlock("NO_REPLY")])),
    ]
    steps = await play(FakeModel(silent))
    assert [type(step) for step in steps] == [Committed]


async def test_text_that_only_begins_like_the_token_is_shown_at_once() -> None:
    pieces: list[StreamPart] = [TextPart("NO"), TextPart(" way"), FinalPart(AssistantMessage([TextBlock("NO way")]))]
    steps = await play(FakeModel(pieces))
    assert "".join(step.text for step in steps if isinstance(step, TextDelta)) == "NO way"
