"""A server that was not ready when its model was opened is asked again before the first request."""

from __future__ import annotations

import contextlib
from contextlib import aclosing
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm import client
from clawbot.llm.errors import LoadingError
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatRequest, FallbackPart, LoadingPart, RetryPart, StreamPart, WaitingModel
from clawbot.messages import UserMessage
from tests.llm.test_models import LOADING, listing, serving

LISTED = listing("llamacpp", {"id": "m.gguf"})
PROPS = {"default_generation_settings": {"n_ctx": 4_096}, "chat_template_caps": {"supports_tools": False}}
LOADED: dict[str, Any] = {"/v1/models": LISTED, "/props": PROPS}
BUSY: dict[str, Any] = dict.fromkeys(("/v1/models", "/props", "/v1/chat/completions"), (503, LOADING))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LOADING_WAIT", 0.01)


async def waited(model: WaitingModel, answers: dict[str, Any], later: dict[str, Any]) -> list[object]:
    """The parts of the wait; the server answers `later` once the first one was yielded."""
    parts: list[object] = []
    async with aclosing(model.wait_ready()) as waiting:
        async for part in waiting:
            parts.append(part)
            answers.update(later)
    return parts


# The table of litellm knows a window for gpt-4o, which is not that of a local model with this name.
@pytest.mark.parametrize("ref", ["openai/mine", "openai/gpt-4o", "llamafile/model"])
@pytest.mark.parametrize(
    ("first", "wait"),
    [
        (BUSY, True),
        ({}, False),
        ({"/v1/models": {"object": "list", "data": []}}, False),
    ],
)
async def test_it_is_asked_for_its_window(ref: str, first: dict[str, Any], wait: bool) -> None:
    answers = dict(first)
    async with serving(answers) as url:
        model = await open_model(ref, AgentSettings(model=ref, api_base=f"{url}/v1"), clock=SystemClock())
        assert isinstance(model, WaitingModel)
        if not wait:
            answers.update(LOADED)
        assert await waited(model, answers, LOADED) == ([LoadingPart(ref), LoadingPart(ref, True)] if wait else [])
        assert (model.info.window, model.info.supports_tools) == (4_096, False)
        await model.aclose()


async def test_one_that_said_its_window_is_not_asked_again() -> None:
    answers = dict(LOADED)
    async with serving(answers) as url:
        settings = AgentSettings(model="openai/mine", api_base=f"{url}/v1")
        model = await open_model("openai/mine", settings, clock=SystemClock())
        assert isinstance(model, WaitingModel)
        assert await waited(model, answers, {}) == []
        answers.update(BUSY)
        assert await waited(model, answers, {}) == []
        await model.aclose()


@pytest.mark.few(1)
@pytest.mark.parametrize("fallbacks", [[], ["offline"]])
async def test_one_that_loads_for_too_long_is_given_up(fallbacks: list[str]) -> None:
    async with serving(dict(BUSY)) as url:
        settings = AgentSettings(model="openai/mine", api_base=f"{url}/v1", request_timeout=1, fallbacks=fallbacks)
        model = await open_model("openai/mine", settings, clock=SystemClock())
        assert isinstance(model, WaitingModel)
        assert await waited(model, {}, {}) == [LoadingPart("openai/mine"), LoadingPart("openai/mine", True)]
        parts: list[StreamPart] = []
        with contextlib.nullcontext() if fallbacks else pytest.raises(LoadingError, match="loads its model"):
            async for part in model.stream(ChatRequest("", (UserMessage("hello"),))):
                parts.append(part)
        # It was waited for already.
        assert not [part for part in parts if isinstance(part, RetryPart)]
        assert [part.model for part in parts if isinstance(part, FallbackPart)] == fallbacks
        await model.aclose()
