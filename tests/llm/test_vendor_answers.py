"""Errors of vendors, end to end: what a server answers in bytes, and what the user reads of it. Those of the vendors in
`tests/wire/matrix.yaml` are there."""

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
from tests.vendors import END, STREAM, Step, Vendors, open_vendors, reply, sse, worker_in

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ChatRequest("You are a test.", (UserMessage("hello"),), tools=(READ,))
KEYS = ("ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "MISTRAL", "COHERE")
CLAUDE, GEM, GPT, RESPONSES = "anthropic/claude-x", "gemini/gemini-x", "openai/gpt-4o", "openai/gpt-6.1-sol"
GROQ, VLLM, LLAMA = "groq/m", "hosted_vllm/m", "llamafile/m"
ELSEWHERE = (VLLM, LLAMA, "openai/m")
GEMINI = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: "
    "https://ai.dev/rate-limit. "
)
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
NGINX = "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n<hr><center>nginx"
DAY = {"error": {"message": "quota exceeded for the day"}}
TPM = "Request too large on tokens per minute (TPM): Limit 6000, Requested 12029"


def openai(message: str, kind: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CS"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quotas(*names: str) -> dict[str, Any]:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    failed = [{"quotaMetric": metric, "quotaId": name, "quotaValue": "10"} for name in names]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": failed}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


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


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("ref", "answer", "kind", "message"),
    [
        (
            GEM,
            [reply(200, json.dumps([google(429, "RESOURCE_EXHAUSTED", "Slow.")]).encode())],
            RateLimitError,
            "Slow (RESOURCE_EXHAUSTED).",
        ),
        (GPT, [STREAM, sse({"error": "boom"}), END], UnreachableError, "the server failed: boom."),
        (
            RESPONSES,
            [STREAM, sse({"type": "error", "code": "rate_limit_exceeded", "message": "Slow"}), END],
            RateLimitError,
            "Slow (rate_limit_exceeded).",
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
    assert "running?" not in error.hint


@pytest.mark.parametrize("ref", ["openai/m", VLLM])
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
