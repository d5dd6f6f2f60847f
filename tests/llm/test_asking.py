"""One question to a model for the program itself: what comes back, and what goes wrong in which way."""

from __future__ import annotations

import logging

import pytest

from clawbot.clock import SystemClock
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ModelError, UnreachableError
from clawbot.llm.offline.model import OfflineModel
from clawbot.llm.protocol import ChatRequest, RetryPart, TextPart, ask, complete
from clawbot.messages import UserMessage
from tests.agent.fakes import FakeModel, says

REQUEST = ChatRequest(system="", messages=(UserMessage("什么?"),))


async def test_the_last_part_is_the_answer() -> None:
    model = FakeModel([TextPart("never mind"), RetryPart(1, 0.0, "rate limit"), *says("这是答案")])
    assert (await ask(model, REQUEST, Cancellation())).text == "这是答案"
    assert (model.requests, model.closed_streams) == ([REQUEST], 1)


@pytest.mark.parametrize("error", [UnreachableError("no route"), TimeoutError("too late")])
async def test_what_is_known_to_go_wrong_is_passed_on(error: Exception) -> None:
    model = FakeModel([TextPart("some"), error])
    with pytest.raises(type(error)) as caught:
        await ask(model, REQUEST, Cancellation())
    assert caught.value is error
    assert model.closed_streams == 1


async def test_what_nobody_foresaw_is_a_bad_response_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeModel([KeyError("sk-proj-secret")])
    with caplog.at_level(logging.ERROR), pytest.raises(BadResponseError) as caught:
        await ask(model, REQUEST, Cancellation())
    assert "KeyError" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert [record.message for record in caplog.records] == ["the model broke"]


@pytest.mark.parametrize("text", ["", "half an ans"])
async def test_an_answer_without_its_last_part_is_none(text: str) -> None:
    with pytest.raises(ModelError, match="without its last part"):
        await ask(FakeModel([TextPart(text)] if text else []), REQUEST, Cancellation())


async def test_an_interrupt_in_the_middle_closes_the_stream() -> None:
    cancel = Cancellation()

    async def stop() -> None:
        cancel.request()

    model = FakeModel([TextPart("one"), stop, *says("two")])
    with pytest.raises(InterruptedTurnError):
        await ask(model, REQUEST, cancel)
    assert model.closed_streams == 1


async def test_a_wish_to_stop_from_before_costs_no_call() -> None:
    cancel = Cancellation()
    cancel.request()
    model = FakeModel(says("never"))
    with pytest.raises(InterruptedTurnError):
        await ask(model, REQUEST, cancel)
    assert model.requests == []


async def test_a_question_of_plain_text_is_answered_by_one() -> None:
    model = FakeModel(says("2, 1"))
    assert await complete(model, "Order.", "Question: 北京", purpose="rerank", timestamp=1) == "2, 1"
    [request] = model.requests
    assert (request.system, request.purpose, request.messages[0].text) == ("Order.", "rerank", "Question: 北京")


async def test_the_offline_model_leaves_the_order_to_the_index() -> None:
    assert await complete(OfflineModel(SystemClock()), "Order.", "[1] a", purpose="rerank", timestamp=1) == ""
