"""The wordings in which providers say that a prompt is too large, and those that only look like it."""

from __future__ import annotations

import pytest

from clawbot.llm.overflow import is_overflow

OVERFLOWS = [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130021 tokens.",
    "Error code: 400 - {'error': {'code': 'context_length_exceeded'}}",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
    "request_too_large: Request exceeds the maximum allowed number of bytes.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "prompt too long; exceeded max context length by 4 tokens",
    "the input length exceeds the context length",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "request (8905 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "Context size has been exceeded.",
    "Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded with context length "
    "of only 4096 tokens, which is not enough.",
    "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000).",
    "Reached context length of 4096 tokens, but this model does not currently support mid-generation context overflow.",
    "The prompt (total length 40000) is too long to fit into the model: prompt length is longer than the maximum model "
    "length of 32768",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens).",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Please reduce the length of the messages or completion.",
    "This model's maximum prompt length is 131072 but the request contains 156233 tokens.",
    "Input is too long for requested model.",
    "ValidationException: Malformed input request: expected maxLength: 300000, actual: 400000",
    "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 140000.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "InvalidParameter: Range of input length should be [1, 98304]",
    "输入超长：tokens 数量超过模型限制",
    "Prompt exceeds max length",
    "invalid params, context window exceeds limit (2013)",
    "Please reduce the length of the messages. Current length is 9000 while limit is 8192",
    "prompt token count of 200000 exceeds the limit of 128000",
    "This endpoint's maximum context length is 64000 tokens. However, you requested about 70000 tokens.",
    "The input context is too long.",
]
OTHERS = [
    "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 20000, Requested 40000.",
    "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000",
    "You exceeded your current quota, please check your plan and billing details.",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "Too many tokens per day, please wait before trying again.",
    "max_tokens is too large: 500000. This model supports at most 128000 completion tokens",
    "Incorrect API key provided.",
    "The server had an error while processing your request.",
    "the prompt was flagged by the content filter",
    "",
]


@pytest.mark.parametrize("message", OVERFLOWS)
def test_overflow(message: str) -> None:
    assert is_overflow(f"litellm.BadRequestError: OpenAIException - {message}")


@pytest.mark.parametrize("message", OTHERS)
def test_other_errors(message: str) -> None:
    assert not is_overflow(message)


def test_a_long_message_is_not_searched_for_ever() -> None:
    assert not is_overflow("prompt " * 200_000)
