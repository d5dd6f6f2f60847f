"""What clawbot's client makes of a real model server: llama.cpp, with a real language model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.llm.embedding import open_embedder
from clawbot.llm.errors import ContextOverflowError, ModelError
from clawbot.llm.factory import open_model
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, RetryPart, StreamPart, TextPart
from clawbot.llm.providers import LLAMA_CPP
from clawbot.llm.servers import find_local
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from tests.llm.test_templates import TEMPLATES
from tests.real.conftest import Serve
from tests.real.server import PATIENCE, QWEN, ModelServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(PATIENCE)]

Opener = Callable[..., Awaitable[ChatModel]]
WORD = "harbour "
LIST = ToolSpec(
    "list",
    "Lists a folder.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


@pytest_asyncio.fixture(loop_scope="module", scope="module", autouse=True)
async def one_worker() -> AsyncIterator[None]:
    worker = acquire_worker()
    await worker.warm()
    yield
    await release_worker(worker)


@pytest_asyncio.fixture(loop_scope="module")
async def opened() -> AsyncIterator[Opener]:
    """Open the model of a server with the given settings."""
    models: list[ChatModel] = []

    async def open_one(server: ModelServer, **settings: Any) -> ChatModel:
        given = AgentSettings.model_validate({"api_base": server.base, "max_output_tokens": server.cap, **settings})
        models.append(await open_model("openai/small", given, clock=SystemClock()))
        return models[-1]

    yield open_one
    for model in models:
        await model.aclose()


def asks(*messages: Message | str, tools: Sequence[ToolSpec] = ()) -> ChatRequest:
    said = tuple(UserMessage(each) if isinstance(each, str) else each for each in messages)
    return ChatRequest("You list folders.", said, tuple(tools))


async def answer(model: ChatModel, request: ChatRequest) -> list[StreamPart]:
    return [part async for part in model.stream(request)]


def whole(parts: Sequence[StreamPart]) -> AssistantMessage:
    last = parts[-1]
    assert isinstance(last, FinalPart)
    return last.message


async def test_the_server_is_found_and_says_its_window(serve: Serve, opened: Opener) -> None:
    server = serve(window=3_072)
    (found,) = await find_local([LLAMA_CPP], server.base)
    assert (found.ref, found.window, found.images, found.tools) == ("llamafile/small", 3_072, False, False)
    info = (await opened(server)).info
    assert (info.window, info.supports_tools) == (3_072, False)
    assert (await opened(serve(template=QWEN))).info.supports_tools


async def test_an_answer_streams_and_its_usage_is_what_the_server_read(serve: Serve, opened: Opener) -> None:
    server = serve(cap=96)
    model = await opened(server)
    parts = await answer(model, asks(WORD * 50))
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    first = whole(parts)
    assert len(texts) > 1
    assert "".join(texts) == first.text
    assert first.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.usage.output) == (server.tokens_read, 0, 96)
    assert first.stop_reason == "length"

    before = server.tokens_read
    second = whole(await answer(model, asks(WORD * 50, first, "and now?"))).usage
    assert second is not None
    assert second.input == server.tokens_read - before < 24
    assert second.cache_read >= first.usage.prompt_tokens


async def test_a_server_that_is_killed_in_the_middle_of_an_answer_leaves_what_it_said(
    serve: Serve, opened: Opener
) -> None:
    server = serve()
    model = await opened(server)
    said: list[str] = []

    async def listen() -> None:
        async for part in model.stream(asks("hello")):
            if isinstance(part, TextPart):
                said.append(part.text)
                server.kill()

    with pytest.raises(ModelError) as caught:
        await listen()
    assert "".join(said)
    assert caught.value.retryable


async def test_a_server_that_loads_its_model_is_waited_for(serve: Serve, opened: Opener) -> None:
    server = serve(cap=8, hold=True)
    model = await opened(server, retries={"attempts": 2, "first_wait": 0.01})
    parts: list[StreamPart] = []
    async for part in model.stream(asks("hello")):
        parts.append(part)
        if isinstance(part, RetryPart):
            await asyncio.to_thread(server.finish_loading)
    assert whole(parts).usage


async def test_an_overflow_is_understood_in_the_servers_own_words(serve: Serve, opened: Opener) -> None:
    server = serve(window=1_024)
    with pytest.raises(ContextOverflowError) as caught:
        await answer(await opened(server), asks(WORD * 3_000))
    assert caught.value.limit == 1_024


def folder(path: str) -> list[Message]:
    """A question, answered with the tool."""
    call = ToolCallBlock("call12345", "list", {"path": path})
    return [
        UserMessage(f"What is in the folder {path}?"),
        AssistantMessage([call], stop_reason="toolUse"),
        ToolResultMessage("call12345", "list", [TextBlock(f"{path}.md")]),
        AssistantMessage([TextBlock(f"There is {path}.md.")]),
    ]


async def test_the_model_calls_a_tool_and_reads_the_result(serve: Serve, opened: Opener) -> None:
    """Qwen's template. The model learns from three examples what it never learned."""
    server = serve(whole=True, window=2_048, cap=60, template=QWEN)
    model = await opened(server)
    talk = [*folder("notes"), *folder("photos"), *folder("music"), UserMessage("What is in the folder memory?")]
    called = whole(await answer(model, asks(*talk, tools=[LIST])))
    (call,) = called.tool_calls
    assert (called.stop_reason, call.name, call.arguments) == ("toolUse", "list", {"path": "memory"})

    before = server.tokens_read
    result = ToolResultMessage(call.id, "list", [TextBlock("memory.md")])
    reply = whole(await answer(model, asks(*talk, called, result, tools=[LIST])))
    assert reply.text == "There is memory.md."
    assert server.tokens_read - before < 60


@pytest.mark.parametrize("name", TEMPLATES)
async def test_a_talk_with_a_failed_turn_and_a_stopped_tool_goes_on_with_any_template(
    serve: Serve, opened: Opener, name: str, tmp_path: Path
) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATES[name].replace("raise(", "raise_exception("), encoding="utf-8")
    model = await opened(serve(cap=8, template=template))
    stopped = folder("notes")[:3] if "tool" in TEMPLATES[name] else []
    parts = await answer(model, asks("first", "second", *stopped, "and now?"))
    assert whole(parts).usage


async def test_texts_beyond_the_physical_batch_get_vectors_and_spoil_no_others(serve: Serve) -> None:
    """The server refuses a text of more than 512 tokens, and with it the call that it is in."""
    remote = {"api_base": serve(window=2_048, embed=True).base}
    search = MemorySearchSettings.model_validate({"provider": "openai", "model": "small", "remote": remote})
    embedder = open_embedder(search, AgentSettings(), clock=SystemClock())
    notes = [f"- {port}: the proxy of the harbour listens there" for port in range(8_000, 8_016)]
    alone = await embedder.embed(notes, "document")
    large = [WORD * 1_500, "备份没有成功。" * 200]
    together = await embedder.embed([*notes[:8], *large, *notes[8:]], "document")
    rows = np.frombuffer(together.data, "<f4").reshape(-1, together.dimensions)
    assert (len(rows), together.dimensions) == (18, 576)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    before = np.frombuffer(alone.data, "<f4").reshape(-1, alone.dimensions)
    assert np.allclose(np.delete(rows, (8, 9), axis=0), before, atol=1e-2)
    await embedder.aclose()
