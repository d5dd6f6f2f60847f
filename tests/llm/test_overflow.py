"""The wordings in which providers say that a prompt is too large, and those that only look like it.

Each is a whole message, with the limit that it states in tokens (None: it states none).
"""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.error_text import wordings
from clawbot.llm.errors import ContextOverflowError, RateLimitError
from clawbot.llm.failures import Failure, is_overflow, stated_limit, to_error
from clawbot.llm.scripted.file import Wording
from clawbot.llm.scripted.replies import overflow_fault

OVERFLOWS: list[tuple[str, int | None]] = [
    # OpenAI, Azure
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130021 tokens. "
        "Please reduce the length of the messages.",
        128_000,
    ),
    (
        "This model's maximum context length is 16385 tokens. However, you requested 18007 tokens (16007 in the "
        "messages, 2000 in the completion). Please reduce the length of the messages or completion.",
        16_385,
    ),
    ("Error code: 400 - {'error': {'code': 'context_length_exceeded'}}", None),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300412 tokens. Please "
        "reduce the length of the messages.",
        272_000,
    ),
    (
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got a "
        "string with length 12000000 instead.",
        None,
    ),
    # Anthropic
    ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
        200_000,
    ),
    ("request_too_large: Request exceeds the maximum allowed number of bytes.", None),
    ("The model stopped: model_context_window_exceeded", None),
    # Gemini, Vertex
    (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_048_575,
    ),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576),
    (
        "Unable to submit request because the input token count is 1200045 but model only supports up to 1048576. "
        "Reduce the input token count and try again.",
        1_048_576,
    ),
    ("The input context is too long.", None),
    # Ollama
    ("prompt too long; exceeded max context length by 4 tokens", None),
    ("the input length exceeds the context length", None),
    ("input exceeds maximum context length and cannot be truncated further", None),
    (
        "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
        "context length in settings, or use a model with a longer context length",
        None,
    ),
    # llama.cpp
    (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None,
    ),
    (
        "input (1562 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
        512,
    ),
    ("input (700 tokens) is larger than the max context size (512 tokens). skipping", 512),
    ("request (8905 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192),
    (
        '{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",'
        '"type":"exceed_context_size_error","n_prompt_tokens":8905,"n_ctx":4096}}',
        4096,
    ),
    ("Context size has been exceeded.", None),
    # LM Studio
    (
        "Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or "
        "provide a shorter input",
        4096,
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 5000>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
        4096,
    ),
    (
        "Reached context length of 4096 tokens, but this model does not currently support mid-generation context "
        "overflow. Try reloading with a larger context length or shortening the prompt/chat.",
        4096,
    ),
    # vLLM
    (
        "The prompt (total length 40000) is too long to fit into the model: prompt length is longer than the maximum "
        "model length of 32768",
        32_768,
    ),
    (
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        8192,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 "
        "tokens and your request has 5000 input tokens (4096 > 8192 - 5000).",
        8192,
    ),
    # SGLang, TGI, Together
    (
        "Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        8191,
    ),
    ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8192),
    (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of "
        "9000 tokens: 8000 tokens from the input messages and 1000 tokens for the completion.",
        8192,
    ),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens and "
        "512 `max_new_tokens`",
        4097,
    ),
    ("Input validation error: `inputs` must have less than 1024 tokens. Given: 1234", 1024),
    # TabbyAPI, SiliconFlow, TensorRT-LLM
    ("Context length 9000 is greater than max_seq_len 8192", 8192),
    ("length of prompt_tokens (40000) must be less than max_seq_len (32768).", 32_768),
    ("Prompt length (9000) exceeds maximum input length (8192). Set log level to info for more.", 8192),
    (
        "The sum of prompt length (8000), query length (0) and max_tokens (500) should not exceed max_num_tokens "
        "(8192)",
        8192,
    ),
    # Mistral
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
    ),
    # Groq, Cerebras, SambaNova, DeepSeek, OpenRouter
    ("Please reduce the length of the messages or completion.", None),
    ("Please reduce the length of the messages or completion. Current length is 9137 while limit is 8192", 8192),
    (
        "This model's maximum context length is 65536 tokens. However, you requested 74139 tokens (66139 in the "
        "messages, 8000 in the completion).",
        65_536,
    ),
    (
        "This endpoint's maximum context length is 64000 tokens. However, you requested about 70000 tokens (68000 of "
        "text input, 2000 of tool input). Please reduce the length of either one.",
        64_000,
    ),
    # xAI
    ("This model's maximum prompt length is 131072 but the request contains 156233 tokens.", 131_072),
    # Bedrock
    ("Input is too long for requested model.", None),
    ("ValidationException: Malformed input request: expected maxLength: 300000, actual: 400000", None),
    (
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
        None,
    ),
    # Cohere, AI21, watsonx
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 140000. Try using a "
        "shorter prompt.",
        128_000,
    ),
    ("Prompt has too many tokens. Reduce it and try again.", None),
    ("the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", 4096),
    # Cloudflare, GitHub
    (
        "The estimated number of input and maximum output tokens (9000) exceeded this model context window limit "
        "(7968).",
        7968,
    ),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens. (tokens_limit_reached)", 8000),
    ("prompt token count of 200000 exceeds the limit of 128000", 128_000),
    # Fireworks
    ("The prompt is too long: 140000, model maximum context length: 131072", 131_072),
    # Moonshot, Qwen, GLM, MiniMax, Doubao
    ("Invalid request: Your request exceeded model token limit: 131072", 131_072),
    ("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262_144),
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]", 98_304),
    ("输入超长：tokens 数量超过模型限制", None),
    ("Prompt 超长", None),
    ("Prompt exceeds max length", None),
    ("invalid params, context window exceeds limit (2013)", None),
    ("Total tokens of image and text exceed max message tokens.", None),
    ("Input length 140000 exceeds the maximum length 131072.", 131_072),
    # Others, and gateways
    (
        "You passed 4097 input tokens and requested 0 output tokens. However, the model's context length is only 4096 "
        "tokens, resulting in a maximum input length of 4096 tokens.",
        4096,
    ),
    ("prompt has 41,234 tokens, but the configured context size is 32,768 tokens", 32_768),
    ("Prompt tokens exceed model limit: 140000 > 131072", 131_072),
    ("Requested tokens (5231) exceed context window of 4096", 4096),
    ("Invalid request: total tokens 270000 exceed the model's limit 262144", 262_144),
    ("Too many tokens in prompt: 9001 > 8192", 8192),
    ("The number of tokens in the prompt exceeds the model's maximum of 8192.", 8192),
    ("Too many input tokens. Max input tokens: 42000, request input token count: 51234", 42_000),
    ("Model's context window exceeded. Max tokens: 200000, received: 210341.", 200_000),
    ("context length exceeded (max 32768)", 32_768),
    ("This request exceeds the model's context limit. Limit: 1048576 tokens.", 1_048_576),
    ("The total number of tokens (input + output) exceeds the max context of 131072", 131_072),
    ("Context overflow: the prompt (5231 tokens) does not fit in the context (4096 tokens).", 4096),
    ("Cannot truncate prompt with n_keep (5231) >= n_ctx (4096)", 4096),
    ("Failed to process: the prompt exceeds n_ctx 8192", 8192),
    ("slot context: 4096 tokens, prompt 5231 tokens - exceeds context size", 4096),
    ("The model's context length is 4096 tokens, but the prompt needs 5000", 4096),
    ("litellm.ContextWindowExceededError: litellm.BadRequestError: x", None),
    ("Your conversation is too long. Please start a new conversation or shorten it.", None),
    ("Input too large for model: 140000 tokens; window 131072", None),
    ("The input is too large to fit in the context window", None),
    ("上下文长度超过限制，最大 131072 tokens", 131_072),
    ("请求的token数量超出模型的最大上下文长度 32768", 32_768),
    ("输入内容过长，请缩短后重试", None),
    ("提示词太长", None),
    ("Le prompt dépasse la longueur de contexte maximale (32768 tokens)", None),
    ("プロンプトが長すぎます。コンテキスト長を超えています。", None),
    ("Die Eingabe überschreitet das Kontextfenster des Modells", None),
    # Larger than the quota of a minute, so that waiting is in vain
    ("Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 20000, Requested 40000.", 30_000),
    ("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000", 6000),
    # Servers before the model
    ("<title>413 Request Entity Too Large</title>", None),
    # Spellings of the number
    ("Your prompt is larger than this model's maximum context length of 128,000 tokens.", 128_000),
    ("This model's maximum context length is 128k tokens, you sent 130k.", 128_000),
]
QUOTAS = [
    "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000.",
    "You exceeded your current quota, please check your plan and billing details. Token limit: 100000",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "Too many tokens per day, please wait before trying again. The limit is 40000.",
]
OTHERS = [
    *QUOTAS,
    "max_tokens is too large: 500000. This model supports at most 128000 completion tokens",
    "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 80.",
    "max_tokens (50000) exceeds the maximum allowed output tokens of 8192 for this model",
    "`max_tokens` must be less than or equal to `32768`, which is less than the `context_window` for this model",
    "thinking.budget_tokens exceeds max_tokens limit: 32000 > 20000",
    "Invalid image: image dimensions exceed max allowed size: 8000 pixels",
    "The number of messages exceeds the limit of 2048",
    "输出长度超过限制: max_tokens 最大为 8192",
    "模型输入参数错误: 工具数量超过限制",
    "图片大小超过限制",
    "Incorrect API key provided.",
    "The server had an error while processing your request.",
    "the prompt was flagged by the content filter",
    "",
]


@pytest.mark.parametrize(("message", "limit"), OVERFLOWS)
def test_overflow(message: str, limit: int | None) -> None:
    whole = f"litellm.BadRequestError: OpenAIException - {message}"
    assert is_overflow(whole)
    assert stated_limit(whole) == limit


def test_more_than_twenty_providers_and_no_row_without_a_message() -> None:
    messages = [message.lower() for message, _ in OVERFLOWS]
    for who, pattern in (*wordings("too_large").items(), *wordings("limits").items()):
        assert any(re.search(pattern, message, re.DOTALL) for message in messages), who
    assert len({who.split(",")[0] for who in wordings("too_large")}) > 20


@pytest.mark.parametrize("message", OTHERS)
def test_other_errors(message: str) -> None:
    assert not is_overflow(message)


@pytest.mark.parametrize("message", [*QUOTAS, "", "no number", "maximum context length is 4 tokens", "limit is 9" * 20])
def test_no_limit(message: str) -> None:
    assert stated_limit(message) is None


@given(st.text(), st.text())
def test_any_text_is_read(before: str, after: str) -> None:
    message = f"{before} maximum context length is 8192 tokens {after}"
    limit = stated_limit(message)
    assert limit is None or limit >= 256
    assert stated_limit(f"maximum context length is 8192 tokens {'x' * len(after)}") == 8192


def test_a_long_message_is_not_searched_for_ever() -> None:
    assert not is_overflow("prompt " * 200_000)
    assert stated_limit("maximum prompt length " * 100_000) is None
    assert stated_limit("context length is 1" + "0" * 100_000) is None


@pytest.mark.parametrize("wording", get_args(Wording))
def test_scripted_overflows_state_the_window_as_their_makers_do(wording: Wording) -> None:
    message = overflow_fault(wording, 9500, 9000).message
    assert is_overflow(message)
    assert stated_limit(message) == (None if wording == "ollama" else 9000)


def test_the_error_holds_the_limit_and_names_the_next_step() -> None:
    error = to_error(Failure("BadRequestError", "prompt is too long: 213462 tokens > 200000 maximum", 400), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert error.limit == 200_000
    assert error.hint.index("/compact") < error.hint.index("/new")


def test_litellms_class_goes_before_any_wording_and_any_status() -> None:
    error = to_error(Failure("ContextWindowExceededError", "Bitte kürzer. n_ctx=4096", 429), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert error.limit == 4096
    unsaid = to_error(Failure("ContextWindowExceededError", "large", 400), ref="x/y")
    assert isinstance(unsaid, ContextOverflowError)
    assert unsaid.limit is None


def test_the_limit_is_read_where_the_text_is_no_longer_shown() -> None:
    error = to_error(Failure("BadRequestError", f"{'x ' * 500}maximum context length is 8192 tokens", 400), ref="x/y")
    assert isinstance(error, ContextOverflowError)
    assert "8192" not in error.message
    assert error.limit == 8192


@pytest.mark.parametrize("message", QUOTAS)
def test_a_quota_is_no_overflow(message: str) -> None:
    assert isinstance(to_error(Failure("RateLimitError", message, 429), ref="x/y"), RateLimitError)
