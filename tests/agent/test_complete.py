"""One question to a model outside the conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent.complete import complete
from clawbot.clock import SystemClock
from clawbot.llm.errors import ModelError
from clawbot.llm.offline.model import OfflineModel
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.testing.model import ScriptedModel


def scripted(text: str) -> ScriptedModel:
    return ScriptedModel(ScriptEngine(parse_script(text, Path("test.yaml"))))


async def test_the_whole_answer_comes_back_as_text() -> None:
    model = scripted("turns:\n  - expect: {user: '北京'}\n    reply: 2, 1\n")
    assert await complete(model, "Order.", "Question: 北京", purpose="rerank", timestamp=1) == "2, 1"


async def test_a_model_that_fails_raises() -> None:
    model = scripted("turns:\n  - reply: {fault: 401}\n")
    with pytest.raises(ModelError):
        await complete(model, "Order.", "Question", purpose="rerank", timestamp=1)


async def test_the_offline_model_leaves_the_order_to_the_index() -> None:
    assert await complete(OfflineModel(SystemClock()), "Order.", "[1] a", purpose="rerank", timestamp=1) == ""
