"""Errors as vendors word them, each with what it has to be taken for. The texts are from reports of users and from the
vendors' documents; names of accounts are left out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from clawbot.llm.client import LONGEST_ASKED_WAIT, RetryPolicy, wait_before_next
from clawbot.llm.error_text import wordings
from clawbot.llm.errors import (
    AuthenticationError,
    ContextOverflowError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.failures import Failure, to_error
from tests.llm.test_overflow import OVERFLOWS

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POLICY = RetryPolicy(first_wait=0.25)
Body = str | dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Row:
    """What `vendor` answers: `wait` is how many seconds are waited (0: as usual, None: never again)."""

    vendor: str
    status: int
    body: Body
    kind: type[ModelError]
    wait: float | None = None
    limit: int | None = None
    header: str = ""

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)


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


GEMINI = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: "
    "https://ai.dev/rate-limit. "
)
GEMINI_METRIC = (
    "\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10, "
    "model: gemini-2.5-flash\n"
)
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
TOKENS_PER_MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
OPENAI_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
)
TPM = "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): "
GROQ = "in organization `org_x` service tier `on_demand` on tokens per minute (TPM): "
GROQ_END = " Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing"
AZURE = "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-08-01-preview have "
ANTHROPIC_TPM = (
    "This request would exceed your organization's rate limit of 30,000 input tokens per minute. For details, refer "
    "to: https://docs.claude.com/en/api/rate-limits. You can see the response headers for current usage. Please "
    "reduce the prompt length or the maximum tokens requested, or try again later."
)
NGINX = "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n<hr><center>nginx"

ROWS = [
    # Larger than the quota of a minute: no waiting helps
    Row(
        "OpenAI",
        429,
        openai(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested "
            "342389. The input or output tokens must be reduced in order to run successfully. Visit "
            "https://platform.openai.com/account/rate-limits to learn more.",
            "tokens",
            "rate_limit_exceeded",
        ),
        ContextOverflowError,
        limit=30_000,
    ),
    Row("OpenAI", 429, openai(f"{TPM}Limit 30000, Used 20000, Requested 40000."), ContextOverflowError, limit=30_000),
    Row("Azure", 429, f"{TPM}Limit: 30,000, Requested: 40,000.", ContextOverflowError, limit=30_000),
    Row(
        "Groq",
        413,
        openai(
            f"Request too large for model `llama-3.3-70b-versatile` {GROQ}Limit 6000, Requested 12029, please reduce "
            f"your message size and try again.{GROQ_END}",
            "tokens",
            "rate_limit_exceeded",
        ),
        ContextOverflowError,
        limit=6_000,
    ),
    Row(
        "Groq by litellm", 429, f"Request too large {GROQ}Limit 6000, Requested 12029", ContextOverflowError, None, 6000
    ),
    Row(
        "Groq",
        429,
        "Request too large on tokens per day (TPD): Limit 100000, Requested 120000",
        ContextOverflowError,
        limit=100_000,
    ),
    # Too many bytes
    Row("nginx", 413, NGINX.format("413 Request Entity Too Large"), ContextOverflowError),
    Row("Apache", 413, "<title>413 Payload Too Large</title>", ContextOverflowError),
    Row("Cloudflare", 413, "error code: 413", ContextOverflowError),
    Row("Express", 413, '{"message":"request entity too large"}', ContextOverflowError),
    Row("FastAPI", 413, {"detail": "Request body exceeds limit"}, ContextOverflowError),
    Row("a gateway", 413, "", ContextOverflowError),
    Row("Go", 400, "http: request body too large: payload too large", ContextOverflowError),
    Row(
        "Anthropic",
        413,
        anthropic("request_too_large", "Request exceeds the maximum allowed number of bytes."),
        ContextOverflowError,
    ),
    # Rates: waited for as the text, the details or the header say
    Row(
        "OpenAI",
        429,
        openai(f"{TPM}Limit 30000, Used 28000, Requested 5000. Please try again in 6s."),
        RateLimitError,
        6,
    ),
    Row(
        "OpenAI",
        429,
        openai(f"{TPM}Limit 30000, Used 29937, Requested 385. Please try again in 644ms."),
        RateLimitError,
        0.644,
    ),
    Row("OpenAI", 429, openai(f"{TPM}Limit 30000, Used 28000, Requested 5000."), RateLimitError, 0),
    Row(
        "OpenAI",
        429,
        openai("Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."),
        RateLimitError,
        20,
    ),
    Row("OpenAI", 429, openai("Please try again in 1m26.4s."), RateLimitError, 86.4),
    Row("OpenAI", 429, openai("Too fast.", "requests"), RateLimitError, 1.5, header="1.5"),
    Row("OpenAI", 429, openai("Too fast."), RateLimitError, 30, header="Sun, 01 Mar 2026 12:00:30 GMT"),
    Row("OpenAI", 429, openai("Please try again in 2.3s."), RateLimitError, 3, header="3"),
    Row(
        "Groq",
        429,
        openai(
            f"Rate limit reached for model `llama-3.3-70b-versatile` {GROQ}Limit 12000, Used 4437, Requested 9854. "
            f"Please try again in 11.455s.{GROQ_END}",
            "tokens",
            "rate_limit_exceeded",
        ),
        RateLimitError,
        11.455,
    ),
    Row(
        "Gemini",
        429,
        google(429, "RESOURCE_EXHAUSTED", f"{GEMINI}{GEMINI_METRIC}Please retry in 2.5s."),
        RateLimitError,
        2.5,
    ),
    Row(
        "Gemini",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            f"{GEMINI}{GEMINI_METRIC}Please retry in 45.578569677s.",
            quotas(PER_MINUTE, TOKENS_PER_MINUTE),
            retry_info("45s"),
        ),
        RateLimitError,
        45.57857,
    ),
    Row(
        "Gemini",
        429,
        google(429, "RESOURCE_EXHAUSTED", GEMINI, quotas(PER_MINUTE), retry_info("14s")),
        RateLimitError,
        14,
    ),
    Row(
        "Gemini, a list",
        429,
        [google(429, "RESOURCE_EXHAUSTED", GEMINI, retry_info("3.000000001s"))],
        RateLimitError,
        3,
    ),
    Row(
        "Gemini, bytes",
        429,
        repr(json.dumps(google(429, "RESOURCE_EXHAUSTED", GEMINI, retry_info("14s")), indent=2).encode()),
        RateLimitError,
        14,
    ),
    Row(
        "Gemini in JSON",
        429,
        {"error": {"message": json.dumps(google(429, "RESOURCE_EXHAUSTED", GEMINI, retry_info("14s"))), "code": 429}},
        RateLimitError,
        14,
    ),
    Row("Gemini, older", 429, google(429, "RESOURCE_EXHAUSTED", GEMINI), RateLimitError, 0),
    Row(
        "Gemini",
        429,
        google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        RateLimitError,
        0,
    ),
    Row("Vertex, gRPC", 429, "429 Quota exceeded. retry_delay {\n  seconds: 14\n}", RateLimitError, 14),
    Row(
        "Vertex",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_"
            "model with base model: gemini-pro. Please submit a quota increase request.",
        ),
        RateLimitError,
        0,
    ),
    Row("Anthropic", 429, anthropic("rate_limit_error", ANTHROPIC_TPM), RateLimitError, 8, header="8"),
    Row("Anthropic", 429, anthropic("rate_limit_error", ANTHROPIC_TPM), RateLimitError, 0),
    Row(
        "Azure",
        429,
        {"error": {"code": "429", "message": f"{AZURE}exceeded call rate limit. Please retry after 3 seconds."}},
        RateLimitError,
        3,
    ),
    Row(
        "Azure",
        429,
        {"error": {"code": "429", "message": "Rate limit is exceeded. Try again in 30 seconds."}},
        RateLimitError,
        30,
    ),
    Row("Azure", 429, f"{AZURE}exceeded token rate limit. Please retry after 86400 seconds.", RateLimitError),
    Row("OpenAI", 429, openai("Please try again in 7m12s."), RateLimitError),
    Row("a gateway", 429, "Try again in 1 hour and 5 minutes.", RateLimitError),
    Row("Bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, RateLimitError, 0),
    Row("Bedrock", 429, {"__type": "ThrottlingException", "message": "Rate exceeded"}, RateLimitError, 0),
    Row(
        "Cohere",
        429,
        {"message": "You are using a Trial key, which is limited to 10 API calls / minute."},
        RateLimitError,
        0,
    ),
    Row(
        "Mistral",
        429,
        {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"},
        RateLimitError,
        0,
    ),
    Row("Mistral", 429, {"message": "Requests rate limit exceeded"}, RateLimitError, 0),
    Row(
        "Cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed."}, RateLimitError, 0
    ),
    Row("Together", 429, openai("You have reached the rate limit. Please wait for 12 seconds."), RateLimitError, 12),
    Row(
        "Moonshot",
        429,
        openai("request reached organization max RPM: 3, please try again after 1 seconds", "rate_limit_reached_error"),
        RateLimitError,
        1,
    ),
    Row(
        "Moonshot",
        429,
        openai("request reached project TPM rate limit, current: 1410, limit: 1000, see https://platform.moonshot.cn"),
        RateLimitError,
        0,
    ),
    Row(
        "GLM",
        429,
        {"error": {"code": "1302", "message": "您的账户已达到速率限制，请您控制请求频率"}},
        RateLimitError,
        0,
    ),
    Row("Qwen", 429, {"code": "Throttling.RateQuota", "message": "请求过于频繁，请 12 秒后重试"}, RateLimitError, 12),
    Row(
        "OpenRouter",
        429,
        {
            "error": {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {"raw": "m is temporarily rate-limited"},
            }
        },
        RateLimitError,
        0,
    ),
    Row(
        "OpenRouter",
        429,
        openai("Rate limit exceeded: free-models-per-min. Add 10 credits to unlock 1000 free model requests per day"),
        RateLimitError,
        0,
    ),
    Row("a gateway", 429, {"error": "slow down", "retry_after": 4.5}, RateLimitError, 4.5),
    Row("a gateway", 429, {"error": {"message": "slow down", "retryAfterMs": 2500}}, RateLimitError, 2.5),
    Row("a gateway", 429, "You are being rate limited, retry after: 7s", RateLimitError, 7),
    Row("a gateway", 429, openai("Too fast."), RateLimitError, 7, header="7s"),
    Row(
        "Gemini CLI",
        429,
        google(429, "RESOURCE_EXHAUSTED", "You have exhausted your capacity. Your quota will reset after 12s."),
        RateLimitError,
        12,
    ),
    Row("Qwen", 429, {"error": {"message": "请求过于频繁，请 1 分钟后重试"}}, RateLimitError, 60),
    Row("a stream", 0, {"error": {"message": "Rate limit exceeded"}}, RateLimitError, 0),
    Row("a stream", 0, openai("Slow down", "requests", "rate_limit_exceeded"), RateLimitError, 0),
    # Used up: only money or another day helps
    Row("OpenAI", 429, openai(OPENAI_QUOTA, "insufficient_quota", "insufficient_quota"), RateLimitError),
    Row("OpenAI, only the words", 429, OPENAI_QUOTA, RateLimitError),
    Row(
        "OpenAI", 400, openai("Billing hard limit has been reached", None, "billing_hard_limit_reached"), RateLimitError
    ),
    Row("OpenAI", 429, openai("x", None, "insufficient_quota"), RateLimitError, header="1"),
    Row(
        "OpenAI",
        429,
        openai(
            "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s."
        ),
        RateLimitError,
    ),
    Row(
        "OpenAI",
        429,
        openai("on requests per day (RPD): Limit 10000, Used 10000. Please try again in 8.64s."),
        RateLimitError,
    ),
    Row("Groq", 429, openai("on tokens per day (TPD): Limit 100000, Used 99000, Requested 5000."), RateLimitError),
    Row(
        "Anthropic",
        400,
        anthropic(
            "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans"
        ),
        RateLimitError,
    ),
    Row(
        "Anthropic",
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.",
        ),
        RateLimitError,
    ),
    Row(
        "Anthropic",
        429,
        anthropic("rate_limit_error", "Number of request tokens has exceeded your daily rate limit"),
        RateLimitError,
    ),
    Row(
        "Gemini",
        429,
        google(429, "RESOURCE_EXHAUSTED", f"{GEMINI}Please retry in 45s.", quotas(PER_DAY)),
        RateLimitError,
    ),
    Row(
        "Gemini",
        429,
        google(429, "RESOURCE_EXHAUSTED", GEMINI, quotas(PER_MINUTE, PER_DAY), retry_info("47s")),
        RateLimitError,
    ),
    Row(
        "Gemini CLI",
        429,
        google(
            429, "RESOURCE_EXHAUSTED", "Quota exceeded for limit 'Gemini 2.5 Pro Requests per day per user per tier'."
        ),
        RateLimitError,
    ),
    Row("Bedrock", 429, {"message": "Too many tokens per day, please wait before trying again."}, RateLimitError),
    Row("DeepSeek", 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), RateLimitError),
    Row("OpenRouter", 402, openai("This request requires more credits, or fewer max_tokens."), RateLimitError),
    Row(
        "OpenRouter",
        429,
        openai("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"),
        RateLimitError,
    ),
    Row(
        "xAI",
        429,
        {
            "code": "exhausted",
            "error": "Your team x has either used all available credits or reached its monthly spending limit.",
        },
        RateLimitError,
    ),
    Row("xAI", 403, {"code": "x", "error": "You have run out of credits or need a Grok subscription."}, RateLimitError),
    Row(
        "Moonshot",
        429,
        openai("Your account is suspended, please check your plan and billing details", "exceeded_current_quota_error"),
        RateLimitError,
    ),
    Row("GLM", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, RateLimitError),
    Row(
        "Qwen",
        400,
        {"code": "Arrearage", "message": "Access denied, your account is not in good standing."},
        RateLimitError,
    ),
    Row(
        "MiniMax",
        0,
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        RateLimitError,
    ),
    Row(
        "GitHub",
        429,
        openai("Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 40 seconds"),
        RateLimitError,
    ),
    Row("Cerebras", 429, {"message": "Requests per day limit exceeded - too many requests sent."}, RateLimitError),
    Row("a stream", 0, {"error": {"message": "quota exceeded for the day"}}, RateLimitError),
    Row("GLM", 429, {"error": {"code": "1308", "message": "已达到 5 小时的使用上限。"}}, RateLimitError),
    Row("Doubao", 429, {"message": "You have exceeded the 5-hour usage quota.", "code": "x"}, RateLimitError),
    Row("Qwen", 429, {"error": {"message": "您今日的免费额度已用完"}}, RateLimitError),
    Row("Qwen", 429, {"error": {"message": "每日请求次数已达上限"}}, RateLimitError),
    Row(
        "Qwen",
        403,
        {"error": {"message": "The free tier has been exhausted.", "code": "AllocationQuota.FreeTierOnly"}},
        RateLimitError,
    ),
    Row("OpenRouter", 403, openai("Key limit exceeded (daily limit). Manage it"), RateLimitError),
    Row("LiteLLM", 400, openai("ExceededBudget: User over budget. Spend=10.1", "budget_exceeded"), RateLimitError),
    Row(
        "Anthropic",
        400,
        anthropic("invalid_request_error", "You're out of extra usage. Add more and keep going."),
        RateLimitError,
    ),
    Row("Kimi", 429, {"message": "You've reached your usage limit for this billing cycle."}, RateLimitError),
    # Overloaded and broken
    Row("Anthropic", 529, anthropic("overloaded_error", "Overloaded"), UnreachableError, 0),
    Row("Anthropic", 529, anthropic("overloaded_error", "Overloaded"), UnreachableError, 5, header="5"),
    Row("Anthropic, a stream", 0, anthropic("overloaded_error", "Overloaded"), UnreachableError, 0),
    Row("Anthropic", 500, anthropic("api_error", "Internal server error"), UnreachableError, 0),
    Row(
        "Gemini",
        503,
        google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        UnreachableError,
        0,
    ),
    Row("Gemini", 500, google(500, "INTERNAL", "An internal error has occurred. Please retry"), UnreachableError, 0),
    Row(
        "OpenAI",
        503,
        openai("The engine is currently overloaded, please try again later", "server_error"),
        UnreachableError,
        0,
    ),
    Row("nginx", 502, NGINX.format("502 Bad Gateway"), UnreachableError, 0),
    Row("Ollama", 500, {"error": "llama runner process has terminated: exit status 2"}, UnreachableError, 0),
    Row("vLLM", 500, "Internal Server Error", UnreachableError, 0),
    Row("a stream", 0, {"error": {"message": "boom"}}, UnreachableError, 0),
]
NEITHER = [
    # None of these is too large for the window, and none is used up.
    Row(
        "OpenAI",
        400,
        openai("max_tokens is too large: 500000. This model supports at most 128000 tokens."),
        RefusedError,
    ),
    Row(
        "OpenAI",
        400,
        openai("Invalid 'tools': array too long. Expected an array with maximum length 128."),
        RefusedError,
    ),
    Row(
        "OpenAI", 400, openai("Invalid 'user': string too long. Expected a string with maximum length 64"), RefusedError
    ),
    Row(
        "OpenAI",
        400,
        openai("Invalid 'max_output_tokens': integer above maximum value. Expected <= 16384."),
        RefusedError,
    ),
    Row("OpenAI", 400, openai("Invalid schema for function 'read': {'type': 'object'} is not valid"), RefusedError),
    Row("OpenAI", 413, openai("Maximum image size is 20 MB: file too large"), RefusedError),
    Row("FastAPI", 413, {"detail": "File too large"}, RefusedError),
    Row("a gateway", 413, "upload exceeds the allowed size", RefusedError),
    Row(
        "Anthropic",
        400,
        anthropic("invalid_request_error", "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"),
        RefusedError,
    ),
    Row(
        "Anthropic",
        400,
        anthropic("invalid_request_error", "messages.4.content: too many images: 101 > 100"),
        RefusedError,
    ),
    Row(
        "Anthropic",
        400,
        anthropic("invalid_request_error", "max_tokens: 99999 > 64000, which is the maximum"),
        RefusedError,
    ),
    Row(
        "Anthropic",
        400,
        anthropic("invalid_request_error", "A maximum of 100 PDF pages may be provided."),
        RefusedError,
    ),
    Row("OpenRouter", 400, openai("Model supports at most 1 image per prompt."), RefusedError),
    Row("Gemini", 400, google(400, "INVALID_ARGUMENT", "The number of tools exceeds the limit of 512."), RefusedError),
    Row("Gemini", 400, google(400, "FAILED_PRECONDITION", "Please enable billing on your project."), RefusedError),
    Row(
        "Bedrock",
        400,
        {"message": "The maximum tokens you requested exceed the model limit of 4096. Try again"},
        RefusedError,
    ),
    Row("vLLM", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, RefusedError),
    Row("a gateway", 429, "You have exceeded your rate limit of 40000 tokens per minute.", RateLimitError, 0),
    Row("OpenAI", 429, openai(f"{TPM}Limit 30000, Used 30000, Requested 30000."), RateLimitError, 0),
    Row("OpenAI", 429, openai("on images per minute: Limit 5, Used 5, Requested 6."), RateLimitError, 0),
    Row(
        "OpenAI",
        429,
        openai("on requests per min. Visit https://platform.openai.com/account/billing to add a card"),
        RateLimitError,
        0,
    ),
    Row("OpenAI", 500, openai("The billing service has failed."), UnreachableError, 0),
    Row("Anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), AuthenticationError),
    Row(
        "Gemini",
        400,
        google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        AuthenticationError,
    ),
]


def error_of(row: Row) -> ModelError:
    return to_error(Failure("APIError", row.text, row.status, retry_after=row.header), ref="openai/m", now=NOW)


@pytest.mark.parametrize("row", [*ROWS, *NEITHER], ids=lambda row: f"{row.vendor} {row.status}")
def test_an_error_is_what_the_vendor_means(row: Row) -> None:
    error = error_of(row)
    assert type(error) is row.kind
    if isinstance(error, ContextOverflowError):
        assert error.limit == row.limit
    wait = wait_before_next(error, 1, POLICY)
    if row.wait == 0:
        assert error.retry_after is None
        assert wait is not None
    else:
        assert wait == row.wait
    if isinstance(error, RateLimitError):
        too_long = (error.retry_after or 0) > LONGEST_ASKED_WAIT
        assert error.exhausted is (row.wait is None and (not too_long or "per day" in row.text))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Please try again in 350ms.", "in 1 second,"),
        ("Please try again in 1s.", "in 1 second,"),
        ("Please try again in 7m12s.", "in 8 minutes,"),
        ("Please retry after 86400 seconds.", "in 24 hours,"),
        ("Please retry later.", "again later,"),
    ],
)
def test_the_hint_says_how_long(text: str, hint: str) -> None:
    assert hint in to_error(Failure("RateLimitError", text, 429), ref="openai/m").hint


def test_each_wording_has_a_text() -> None:
    texts = [row.text.lower() for row in (*ROWS, *NEITHER)]
    for who, pattern in (*wordings("exhausted").items(), *wordings("waits").items()):
        assert any(re.search(pattern, text) for text in texts), who
    assert len(ROWS) >= 60
    assert len(NEITHER) >= 20
    assert len(OVERFLOWS) >= 60


@pytest.mark.parametrize("row", [*ROWS, *NEITHER], ids=lambda row: f"{row.vendor} {row.status}")
@pytest.mark.parametrize("base", [None, "http://127.0.0.1:8080/v1"])
def test_what_is_shown_is_a_sentence(row: Row, base: str | None) -> None:
    failure = Failure("APIError", row.text, row.status, retry_after=row.header)
    shown = str(to_error(failure, ref="openai/m", base=base, now=NOW))
    for sign in ('{"', "b'", "</", "<t", "\\", "Exception", "error':", "Is the server"):
        assert sign not in shown
