"""Errors of vendors, end to end: what a server answers in bytes, and what the user reads of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.errors import ContextOverflowError, LoadingError, ModelError, RateLimitError, UnreachableError
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatRequest, RetryPart
from clawbot.messages import ToolSpec, UserMessage
from tests.llm.test_vendor_errors import (
    GEMINI,
    NGINX,
    OPENAI_QUOTA,
    PER_MINUTE,
    anthropic,
    google,
    openai,
    quotas,
    retry_info,
)
from tests.vendors import CUT, END, STREAM, Step, Vendors, open_vendors, reply, sse, worker_in

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ChatRequest("You are a test.", (UserMessage("hello"),), tools=(READ,))
KEYS = ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "GROQ", "MISTRAL", "DEEPSEEK", "COHERE")
CLAUDE, GEM, GPT, RESPONSES = "anthropic/claude-x", "gemini/gemini-x", "openai/gpt-4o", "openai/gpt-6.1-sol"
ROUTER, GROQ, VLLM, LLAMA, OLLAMA = "openrouter/a/b", "groq/m", "hosted_vllm/m", "llamafile/m", "ollama_chat/m"
ELSEWHERE = (VLLM, LLAMA, OLLAMA, "openai/m")
FIRST = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "usage": {"input_tokens": 9}}
STARTED = {"type": "message_start", "message": FIRST}
DAY = {"error": {"message": "quota exceeded for the day"}}
TPM = "Request too large on tokens per minute (TPM): Limit 6000, Requested 12029"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def vendors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vendors]:
    async with open_vendors(tmp_path_factory.mktemp("vendors")) as vendors, worker_in(vendors.environment):
        yield vendors


async def failed(vendors: Vendors, ref: str, *steps: Step, attempts: int = 1) -> tuple[ModelError, list[RetryPart]]:
    """The error of a call that is answered so, and the repeats that were announced before it."""
    vendors.answer = lambda _: steps
    vendors.asked.clear()
    settings: dict[str, Any] = {"retries": {"attempts": attempts, "first_wait": "10ms"}, "request_timeout": "2s"}
    if ref in ELSEWHERE:
        settings |= {"model": ref, "api_base": "https://models.example/v1"}
    model = await open_model(ref, AgentSettings.model_validate(settings), clock=SystemClock())
    parts: list[Any] = []
    try:
        async for part in model.stream(REQUEST):
            parts.append(part)
    except ModelError as error:
        return error, [part for part in parts if isinstance(part, RetryPart)]
    finally:
        await model.aclose()
    raise AssertionError(parts)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", "sk-x")


def page(status: int, title: str) -> bytes:
    return reply(status, NGINX.format(title).encode()).replace(b"application/json", b"text/html")


@pytest.mark.parametrize(
    ("ref", "answer", "kind", "message"),
    [
        (
            CLAUDE,
            [reply(529, anthropic("overloaded_error", "Overloaded"))],
            UnreachableError,
            "Overloaded (overloaded_error).",
        ),
        (
            CLAUDE,
            [reply(413, anthropic("request_too_large", "Too many bytes."))],
            ContextOverflowError,
            "Too many bytes (request_too_large).",
        ),
        (
            CLAUDE,
            [page(502, "502 Bad Gateway")],
            UnreachableError,
            "the server failed with status 502: 502 Bad Gateway.",
        ),
        (
            CLAUDE,
            [STREAM, sse(anthropic("overloaded_error", "Overloaded")), END],
            UnreachableError,
            "Overloaded (overloaded_error).",
        ),
        (
            CLAUDE,
            [STREAM, sse(STARTED), sse(anthropic("overloaded_error", "Overloaded")), END],
            UnreachableError,
            "Overloaded (overloaded_error).",
        ),
        (
            CLAUDE,
            [reply(200, anthropic("overloaded_error", "Overloaded"))],
            UnreachableError,
            "Overloaded (overloaded_error).",
        ),
        (CLAUDE, [CUT], UnreachableError, "the connection was lost before the answer began."),
        (
            GEM,
            [reply(503, google(503, "UNAVAILABLE", "The model is overloaded."))],
            UnreachableError,
            "The model is overloaded (UNAVAILABLE).",
        ),
        (GEM, [reply(404, google(404, "NOT_FOUND", "models/m is not found."))], ModelError, "models/m is not found."),
        (
            GEM,
            [reply(200, json.dumps([google(429, "RESOURCE_EXHAUSTED", "Slow.")]).encode())],
            RateLimitError,
            "Slow (RESOURCE_EXHAUSTED).",
        ),
        (
            GEM,
            [STREAM, sse(google(503, "UNAVAILABLE", "Overloaded.")), END],
            UnreachableError,
            "Overloaded (UNAVAILABLE).",
        ),
        (GPT, [reply(413, openai(TPM))], ContextOverflowError, f"{TPM}."),
        (GPT, [page(413, "413 Request Entity Too Large")], ContextOverflowError, "413 Request Entity Too Large."),
        (GPT, [reply(500, b"")], UnreachableError, "the server failed with status 500: no reason was given."),
        (GPT, [STREAM, sse({"error": "boom"}), END], UnreachableError, "the server failed: boom."),
        (
            RESPONSES,
            [reply(500, openai("It broke."))],
            UnreachableError,
            "the server failed with status 500: It broke.",
        ),
        (
            RESPONSES,
            [STREAM, sse({"type": "error", "code": "rate_limit_exceeded", "message": "Slow"}), END],
            RateLimitError,
            "Slow (rate_limit_exceeded).",
        ),
        (
            ROUTER,
            [reply(429, {"error": {"message": "Provider returned error", "metadata": {"raw": "m is busy"}}})],
            RateLimitError,
            "m is busy.",
        ),
        (
            GROQ,
            [reply(413, openai(TPM, "tokens", "rate_limit_exceeded"))],
            ContextOverflowError,
            f"{TPM} (rate_limit_exceeded).",
        ),
        (
            "mistral/m",
            [reply(422, {"detail": [{"loc": ["body", "model"], "msg": "Field required"}]})],
            ModelError,
            "body.model: Field required.",
        ),
        ("cohere_chat/m", [reply(400, {"message": "no such role"})], ModelError, "no such role."),
        (
            OLLAMA,
            [reply(500, {"error": "runner has terminated"})],
            UnreachableError,
            "the server failed with status 500: runner has terminated.",
        ),
        (OLLAMA, [reply(200, b'{"error":"it broke"}\n')], UnreachableError, "the server failed: it broke."),
        (
            LLAMA,
            [reply(503, openai("Loading model", "unavailable_error"))],
            LoadingError,
            "the server loads its model.",
        ),
        (
            VLLM,
            [reply(404, {"object": "error", "message": "no such model", "type": "NotFoundError"})],
            ModelError,
            "no such model.",
        ),
        ("openai/m", [reply(404, {"detail": "Not Found"})], ModelError, "Not Found."),
        ("openai/m", [page(200, "Sign in")], UnreachableError, "the server failed: Sign in."),
        (
            "openai/m",
            [page(524, "models.example | 524: A timeout occurred")],
            UnreachableError,
            "no answer in time: models.example | 524: A timeout occurred.",
        ),
    ],
)
async def test_the_words_of_the_vendor_are_shown(
    vendors: Vendors, ref: str, answer: list[Step], kind: type[ModelError], message: str
) -> None:
    error, _ = await failed(vendors, ref, *answer)
    assert (error.message, isinstance(error, kind)) == (message, True)
    assert CUT in answer or "running?" not in error.hint


@pytest.mark.parametrize("ref", [GPT, "openai/m", ROUTER, VLLM, RESPONSES])
@pytest.mark.parametrize(
    "answer", [[reply(200, DAY)], [reply(200, json.dumps(DAY, indent=2).encode())], [STREAM, sse(DAY), END]]
)
async def test_an_exhausted_quota_with_a_good_status_is_never_repeated(
    vendors: Vendors, ref: str, answer: list[Step]
) -> None:
    error, repeats = await failed(vendors, ref, *answer, attempts=3)
    assert (error.message, repeats, len(vendors.asked)) == ("quota exceeded for the day.", [], 1)
    assert isinstance(error, RateLimitError)
    assert error.exhausted


async def test_the_code_of_an_error_counts_where_its_words_are_those_of_a_rate(vendors: Vendors) -> None:
    body = openai(OPENAI_QUOTA.partition("For more")[0], "insufficient_quota", "insufficient_quota")
    error, repeats = await failed(vendors, GPT, reply(429, body, Retry_After="0"), attempts=3)
    assert (error.message.endswith("(insufficient_quota)."), repeats) == (True, [])


@pytest.mark.parametrize(
    ("ref", "answer", "wait"),
    [
        (GEM, reply(429, google(429, "RESOURCE_EXHAUSTED", GEMINI, quotas(PER_MINUTE), retry_info("0.25s"))), 0.25),
        (GEM, reply(429, google(429, "RESOURCE_EXHAUSTED", f"{GEMINI}Please retry in 150ms.")), 0.15),
        (GPT, reply(429, openai("Please try again in 120ms.")), 0.12),
        (GPT, reply(429, openai("Slow down."), Retry_After_Ms="130", Retry_After="1"), 0.13),
        (CLAUDE, reply(529, anthropic("overloaded_error", "Overloaded"), Retry_After="0.2"), 0.2),
    ],
)
async def test_a_vendor_is_waited_for_as_it_asks(vendors: Vendors, ref: str, answer: bytes, wait: float) -> None:
    _, repeats = await failed(vendors, ref, answer, attempts=2)
    assert ([part.wait for part in repeats], len(vendors.asked)) == ([wait], 2)
