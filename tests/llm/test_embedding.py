"""Remote embeddings with a real worker process (one for the whole module) against servers on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.llm import client, embedding
from clawbot.llm.embedding import EmbeddedTexts, LiteLLMEmbedder, open_embedder
from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    LoadingError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.llm.scripted.server import serve_script
from tests.tables import load_table

from .playing import FILE

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

Reply = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
KEY = "sk-test-0123456789abcdef"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0]


class Server:
    """A server of vectors: plays the next of `replies`, then answers as it should. `bodies` are what it was asked.

    It answers nothing before `crowd` calls were there at the same time.
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.busy = self.busiest = 0
        self.crowd = 1
        self.crowded = asyncio.Event()
        self.asked = asyncio.Event()
        self.idle = asyncio.Event()
        self.base = ""

    @property
    def texts(self) -> list[list[str]]:
        return [body["input"] for body in self.bodies]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.paths.append(request.path)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        self.asked.set()
        self.idle.clear()
        if self.busy >= self.crowd:
            self.crowded.set()
        try:
            await self.crowded.wait()
            return await (self.replies.pop(0) if self.replies else well)(request, body)
        finally:
            self.busy -= 1
            if not self.busy:
                self.idle.set()


async def slowly(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Answer so late that another call would come meanwhile, if one were made."""
    await asyncio.sleep(0.05)
    return await well(request, body)


async def well(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    if "requests" in body:
        texts = [entry["content"]["parts"][0]["text"] for entry in body["requests"]]
        return web.json_response({"embeddings": [{"values": vector_of(text)} for text in texts]})
    if request.path.endswith("/api/embed"):
        return web.json_response({"embeddings": [vector_of(text) for text in body["input"]], "prompt_eval_count": 1})
    if "texts" in body:
        meta = {"billed_units": {"input_tokens": 1}}
        return web.json_response({"embeddings": {"float": [vector_of(text) for text in body["texts"]]}, "meta": meta})
    return web.json_response(answer_of([vector_of(text) for text in body["input"]]))


def answer_of(vectors: list[Any]) -> dict[str, Any]:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def fails(status: int, message: str = "no", **headers: str) -> Reply:
    async def reply(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": message, "type": "x"}}, status=status, headers=headers)

    return reply


def gives(vectors: list[Any]) -> Reply:
    async def reply(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        text = json.dumps(answer_of(vectors))
        return web.Response(text=text, content_type="application/json")

    return reply


def at_most(texts: int, status: int, message: str) -> Reply:
    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(body["input"]) > texts:
            return await fails(status, message)(request, body)
        return await well(request, body)

    return reply


async def torn(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text='{"object": "list", "data": [{"embed', content_type="application/json")


async def drops(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


async def stalls(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@pytest_asyncio.fixture(loop_scope="module", scope="module", autouse=True)
async def one_worker() -> AsyncIterator[None]:
    worker = acquire_worker()
    await worker.warm()
    yield
    await release_worker(worker)


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application(client_max_size=2**28)
    app.router.add_post("/{path:.*}", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.base = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield server
    await runner.cleanup()


def opened(server: Server, *, provider: str = "openai", attempts: int = 3, **settings: Any) -> LiteLLMEmbedder:
    agent = AgentSettings.model_validate({"retries": {"attempts": attempts, "first_wait": 0.01, "max_wait": 0.02}})
    remote = {"api_base": server.base, "api_key": KEY}
    memory = MemorySearchSettings.model_validate({"provider": provider, "remote": remote, **settings})
    return open_embedder(memory, agent, clock=SystemClock())


def lengths(found: EmbeddedTexts) -> list[float]:
    """The first figure over the second: the length of the text that `vector_of` was asked about."""
    size = found.dimensions * 4
    rows = [found.data[start : start + size] for start in range(0, len(found.data), size)]
    pairs = [struct.unpack("<2f", row) for row in rows]
    return [round(first / second, 2) if second else 0.0 for first, second in pairs]


async def test_texts_become_vectors_in_their_order(server: Server) -> None:
    embedder = opened(server, model="text-embedding-3-large")
    found = await embedder.embed(["a", "今天喝茶", "", "dd", " \n"], "document")
    assert lengths(found) == [1, 4, 0, 2, 0]
    assert server.texts == [["a", "今天喝茶", "dd"]]
    assert server.bodies[0]["model"] == "text-embedding-3-large"
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.bodies[0].keys() == {"model", "input", "encoding_format"}
    await embedder.aclose()
    with pytest.raises(UnreachableError, match="closed"):
        await embedder.embed(["a"], "document")


async def test_nothing_to_say_is_not_sent(server: Server) -> None:
    found = await opened(server).embed(["", " "], "document")
    assert (found.dimensions, found.data) == (0, b"")
    assert (await opened(server).embed([], "query")).data == b""
    assert server.bodies == []


async def test_the_scripted_server_answers(server: Server) -> None:
    async with serve_script(ScriptEngine(parse_script("turns:\n- reply: hello\n", FILE))) as served:
        server.base = served.url
        found = await opened(server).embed(["tea in the morning", "茶", "tea in the morning"], "document")
    size = found.dimensions * 4
    assert found.dimensions == 256
    assert found.data[:size] == found.data[2 * size :]
    assert found.data[:size] != found.data[size : 2 * size]


async def test_a_server_that_cannot_pack_figures_is_asked_for_plain_ones(server: Server) -> None:
    server.replies = [fails(400, "encoding_format must be 'float'")]
    embedder = opened(server, attempts=1)
    assert lengths(await embedder.embed(["abc"], "document")) == [3]
    assert lengths(await embedder.embed(["de"], "query")) == [2]
    assert ["encoding_format" in body for body in server.bodies] == [True, False, False]


async def test_calls_at_the_same_time_learn_it_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.llm.embedding.is_loopback", lambda _: False)

    async def plain(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await (fails(422, "base64?") if "encoding_format" in body else well)(request, body)

    server.replies = [plain] * 20
    server.crowd = 4
    assert lengths(await opened(server, attempts=1).embed(["abc"] * 1_024, "document")) == [3] * 1_024


async def test_many_texts_go_in_batches_several_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.llm.embedding.is_loopback", lambda _: False)
    texts = ["x" * (number % 50 + 1) for number in range(2_000)]
    server.crowd = 4
    assert lengths(await opened(server).embed(texts, "document")) == [len(text) for text in texts]
    # Four that are on their way at once may come in any order.
    assert sorted(len(batch) for batch in server.texts) == [208] + [256] * 7
    assert server.busiest == 4


async def test_a_server_on_this_machine_is_asked_one_by_one(server: Server) -> None:
    server.replies = [slowly] * 3
    await opened(server).embed(["x"] * 700, "document")
    assert len(server.bodies) == 3
    assert server.busiest == 1


@pytest.mark.long
async def test_large_vectors_come_in_several_frames(server: Server) -> None:
    wide = [[1.0] + [0.0] * 4095] * 256
    server.replies = [gives(wide)]
    found = await opened(server).embed(["text"] * 256, "document")
    assert (found.dimensions, len(found.data)) == (4096, 256 * 4096 * 4)
    assert found.data == struct.pack("<4096f", *wide[0]) * 256


@pytest.mark.parametrize("fault", [fails(500), fails(503, "busy"), torn, drops, gives([]), gives([["x"]])])
async def test_a_passing_fault_is_repeated(server: Server, fault: Reply) -> None:
    server.replies = [fault]
    assert lengths(await opened(server).embed(["abc"], "document")) == [3]
    assert len(server.bodies) == 2


async def test_a_server_that_loads_its_model_is_waited_for_by_documents(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LOADING_WAIT", 0.01)
    server.replies = [fails(503, "Loading model")] * 5
    assert lengths(await opened(server, attempts=1).embed(["abc"], "document")) == [3]
    server.replies = [fails(503, "Loading model")]
    with pytest.raises(LoadingError):
        await opened(server).embed(["abc"], "query")
    assert len(server.bodies) == 7


async def test_a_rate_limit_is_waited_out(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server.replies = [fails(429, "slow down", **{"Retry-After": "0.5"})]
    assert lengths(await opened(server).embed(["abc"], "document")) == [3]
    assert "the next follows in 0.5 s" in caplog.text


async def test_a_rate_limit_that_asks_for_too_long_is_told(server: Server) -> None:
    server.replies = [fails(429, "slow down", **{"Retry-After": "3600"})]
    with pytest.raises(RateLimitError) as caught:
        await opened(server).embed(["abc"], "document")
    assert caught.value.retry_after == 3600
    assert len(server.bodies) == 1


async def test_a_question_does_not_wait_as_long_as_documents(server: Server) -> None:
    server.replies = [fails(429, "slow down", **{"Retry-After": "20"})]
    with pytest.raises(RateLimitError):
        await opened(server).embed(["abc"], "query")
    server.replies = [fails(503)] * 5
    with pytest.raises(UnreachableError):
        await opened(server, attempts=5).embed(["abc"], "query")
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (fails(401, f"Incorrect API key provided: {KEY}"), AuthenticationError),
        (fails(403, "no access 503"), AuthenticationError),
        (
            fails(429, "You exceeded your current quota, check your plan and billing: insufficient_quota"),
            RateLimitError,
        ),
        (fails(402, "payment required"), RateLimitError),
        (fails(404, "The model `m` does not exist"), RefusedError),
        (fails(400, "the value 512 of input is of the wrong type"), RefusedError),
    ],
)
async def test_what_will_not_pass_is_not_repeated(server: Server, fault: Reply, kind: type[ModelError]) -> None:
    server.replies = [fault]
    with pytest.raises(kind) as caught:
        await opened(server).embed(["abc", "defg"], "document")
    assert len(server.bodies) == 1
    assert KEY not in str(caught.value)
    assert "memory_search" in caught.value.hint
    assert "/model" not in caught.value.hint


async def test_attempts_come_to_an_end(server: Server) -> None:
    server.replies = [fails(502)] * 9
    with pytest.raises(UnreachableError):
        await opened(server, attempts=3).embed(["abc"], "document")
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "Payload Too Large"),
        (400, "Invalid 'input': maximum 300000 tokens per request"),
        (422, "batch size 8 > maximum allowed batch size 3"),
        (400, "This model's maximum context length is 8192 tokens"),
    ],
)
async def test_a_batch_that_is_too_large_is_sent_in_parts(server: Server, status: int, message: str) -> None:
    server.replies = [at_most(3, status, message)] * 20
    texts = ["x" * number for number in range(1, 9)]
    embedder = opened(server)
    assert lengths(await embedder.embed(texts, "document")) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [len(batch) for batch in server.texts] == [8, 4, 2, 2, 2, 2]
    # What was learned is remembered.
    await embedder.embed(texts[:4], "document")
    assert [len(batch) for batch in server.texts[6:]] == [2, 2]


async def test_a_text_that_is_too_long_is_cut(server: Server) -> None:
    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if any(len(text) > 600 for text in body["input"]):
            return await fails(400, "This model's maximum context length is 512 tokens")(request, body)
        return await well(request, body)

    server.replies = [reply] * 20
    found = await opened(server).embed(["y" * 30, "z" * 2_000, "y" * 31], "document")
    assert lengths(found) == [30, 500, 31]


def llama_cpp(most: int) -> Reply:
    """llama.cpp with a physical batch of `most` tokens, and two characters a token."""

    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        tokens = max(len(text) // 2 for text in body["input"])
        words = "is too large to process. increase the physical batch size"
        said = f"input ({tokens} tokens) {words} (current batch size: {most})"
        return await (fails(500, said) if tokens > most else well)(request, body)

    return reply


async def test_one_long_text_costs_the_others_nothing(server: Server) -> None:
    server.replies = [llama_cpp(512)] * 60
    texts = ["a" * 40] * 25 + ["b" * 3_000] + ["c" * 41]
    embedder = opened(server, attempts=4)
    assert lengths(await embedder.embed(texts, "document")) == [40] * 25 + [972] + [41]
    assert sum(any(len(text) > 1_100 for text in batch) for batch in server.texts) <= 6
    server.bodies.clear()
    await embedder.embed(["d" * 40] * 27, "document")
    assert [len(batch) for batch in server.texts] == [27]


async def test_a_text_that_no_cut_makes_small_enough_goes_without_a_vector(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        strange = any("x" in text for text in body["input"])
        return await (fails(500, "input is too large to process") if strange else well)(request, body)

    server.replies = [reply] * 60
    assert lengths(await opened(server, attempts=1).embed(["x" * 500, "abc", "de"], "document")) == [0, 3, 2]
    # Alone it is not asked for again with each sync either.
    assert lengths(await opened(server, attempts=1).embed(["x" * 500], "document")) == [0]
    assert "has no vector" in caplog.text


async def test_a_refusal_that_no_cut_mends_is_told(server: Server) -> None:
    server.replies = [fails(400, "This model's maximum context length is 0 tokens")] * 50
    with pytest.raises(ContextOverflowError):
        await opened(server).embed(["z" * 2_000], "document")


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ([[1.0, 0.0]], "1 vectors for 2 texts"),
        ([[1.0, 0.0], [1.0]], "differ in size"),
        ([[1.0, 0.0], [float("nan"), 0.0]], "a figure that is none"),
        ([[1.0, 0.0], []], "no list of figures"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error(server: Server, vectors: list[Any], reason: str) -> None:
    server.replies = [gives(vectors)] * 2
    with pytest.raises(BadResponseError, match=reason):
        await opened(server, attempts=2).embed(["a", "b"], "document")


async def test_batches_whose_vectors_differ_in_size_are_an_error(server: Server) -> None:
    server.replies = [well, gives([[1.0, 0.0, 0.0]] * 4)]
    with pytest.raises(BadResponseError, match="2 and 3 figures"):
        await opened(server).embed(["a"] * 260, "document")


async def test_a_silent_server_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "QUERY_SECONDS", 0.3)
    monkeypatch.setattr(embedding, "BATCH_SECONDS", 0.3)
    server.replies = [stalls] * 4
    with pytest.raises(UnreachableError, match="no vectors within"):
        await opened(server, attempts=1).embed(["a"], "query")
    with pytest.raises(UnreachableError, match="no vectors within"):
        await opened(server, attempts=1).embed(["a"], "document")


async def test_stopping_closes_the_connections(server: Server) -> None:
    server.replies = [stalls] * 4
    work = asyncio.create_task(opened(server).embed(["a"] * 2_000, "document"))
    await asyncio.wait_for(server.asked.wait(), 100)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.wait_for(server.idle.wait(), 100)


async def test_no_server_is_said_in_words(server: Server) -> None:
    server.base = "http://user:hunter22@127.0.0.1:9/v1?key=hunter22"
    embedder = opened(server, attempts=1)
    with pytest.raises(UnreachableError) as caught:
        await embedder.embed(["a"], "query")
    assert "127.0.0.1:9" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert embedder.identity == "openai/text-embedding-3-small at http://127.0.0.1:9/v1"


async def test_a_worker_that_dies_is_started_anew(server: Server) -> None:
    server.replies = [stalls]
    embedder = opened(server)
    work = asyncio.create_task(embedder.embed(["abc"], "document"))
    await asyncio.wait_for(server.asked.wait(), 100)
    assert embedder.worker.pid is not None
    os.kill(embedder.worker.pid, signal.SIGKILL)
    assert lengths(await work) == [3]


@pytest.mark.parametrize(
    ("provider", "document", "query"),
    load_table(__file__, "providers_are_told_what_a_text_is_for"),
)
async def test_providers_are_told_what_a_text_is_for(
    server: Server, provider: str, document: dict[str, str], query: dict[str, str]
) -> None:
    embedder = opened(server, provider=provider, model="m")
    assert lengths(await embedder.embed(["abc"], "document")) == [3]
    assert lengths(await embedder.embed(["de"], "query")) == [2]
    for body, text, wanted in zip(server.bodies, ("abc", "de"), (document, query), strict=True):
        assert body == {"model": "m", "texts" if provider == "cohere" else "input": [text], **wanted}


async def test_gemini_is_told_too_and_no_text_is_taken_for_a_file(server: Server) -> None:
    server.base = server.base.removesuffix("/v1")
    texts = ["plain", "files/abc", "gs://bucket/picture.png", "data:image/png;base64,AAAA"]
    found = await opened(server, provider="gemini").embed(texts, "document")
    assert lengths(found) == [5, 10, 24, 27]
    (body,) = server.bodies
    assert {entry["taskType"] for entry in body["requests"]} == {"RETRIEVAL_DOCUMENT"}
    await opened(server, provider="gemini").embed(["plain"], "query")
    assert server.bodies[1]["requests"][0]["taskType"] == "RETRIEVAL_QUERY"


async def test_ollama_is_asked_with_the_words_its_model_knows(server: Server) -> None:
    server.base = server.base.removesuffix("/v1")
    embedder = opened(server, provider="ollama")
    assert lengths(await embedder.embed(["abc", ""], "document")) == [len("search_document: abc"), 0]
    await embedder.embed(["abc"], "query")
    assert server.paths == ["/api/embed"] * 2
    assert server.texts[1] == ["search_query: abc"]
    assert embedder.identity == f"ollama/nomic-embed-text at {server.base}"
