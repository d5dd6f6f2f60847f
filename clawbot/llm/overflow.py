"""Tells from a provider's wording whether a prompt was too large for the model: few of them have a code for it."""

from __future__ import annotations

import re
from functools import lru_cache

# Each row: who says it, and what is said (lower case). Taken from the providers' servers and documents; the tests
# hold a whole message for each row.
WORDINGS: tuple[tuple[str, str], ...] = (
    ("OpenAI, DeepSeek, Moonshot, vLLM, Together, OpenRouter, Azure", r"maximum context length"),
    ("OpenAI, as a code", r"context_length_exceeded"),
    (
        "OpenAI Responses, xAI",
        r"exceeds? (?:the|this model's|your) (?:model's )?(?:maximum )?context (?:window|length)",
    ),
    ("OpenAI, newer", r"input exceeds the context window"),
    ("Anthropic", r"prompt is too long"),
    ("Anthropic, thinking", r"input length and `?max_tokens`? exceed context limit"),
    ("Anthropic, as a stop reason", r"model_context_window_exceeded"),
    ("Anthropic, bytes", r"request_too_large|request exceeds the maximum (?:allowed )?(?:number of bytes|size)"),
    ("Gemini", r"input token count.{0,40}exceeds the maximum"),
    ("Vertex", r"(?:input|prompt) (?:is|was) too long|the input context is too long"),
    ("Ollama", r"(?:prompt|input) (?:is )?too long.{0,20}exceed(?:s|ed)? (?:the )?(?:max )?context length"),
    (
        "Ollama, embeddings and runner",
        r"input (?:length )?exceeds (?:the )?(?:maximum )?context length|prompt is longer than the context length",
    ),
    ("llama.cpp", r"exceeds? the available context size|exceed_context_size_error"),
    ("llama.cpp, older", r"context size (?:has been )?exceeded|context shift is disabled"),
    ("LM Studio", r"greater than the context length|(?:not enough context|trying to keep the first \d+ tokens)"),
    ("LM Studio, at the end", r"reached context length of \d+ tokens"),
    ("vLLM", r"is longer than the maximum model length"),
    ("vLLM, newer", r"(?:prompt|decoder prompt) \(?length.{0,30}(?:longer|greater|exceeds?)"),
    ("SGLang, TGI", r"(?:inputs? (?:tokens?|length)|`inputs`).{0,60}(?:must be <=|is longer than|exceeds?)"),
    ("Mistral", r"too large for model with \d+ maximum context"),
    ("Mistral, newer", r"prompt contains \d+ tokens.{0,60}(?:context|too large)"),
    ("Groq", r"please reduce the length of the messages"),
    ("xAI", r"maximum prompt length is \d+"),
    ("Bedrock", r"too many input tokens|input is too long for requested model"),
    ("Bedrock, Nova", r"(?:validationexception|malformed input).{0,80}expected maxlength"),
    ("Cohere", r"total number of tokens.{0,60}exceed|size limit exceeded.{0,40}tokens"),
    ("Together, Fireworks", r"(?:inputs? tokens|prompt).{0,40}(?:\+ )?max_new_tokens.{0,30}must be"),
    ("Fireworks", r"prompt is too large|the prompt is too long: \d+"),
    ("Moonshot", r"exceeded model token limit"),
    ("Qwen, DashScope", r"range of input length should be"),
    ("GLM, Z.ai", r"(?:input|prompt|token).{0,20}(?:超长|超过|超出).{0,20}|prompt exceeds max length"),
    ("MiniMax", r"context window exceeds limit"),
    ("Cerebras, SambaNova", r"current length is \d+ while limit is \d+"),
    ("GitHub Copilot", r"prompt token count of \d+ exceeds the limit"),
    ("Perplexity, generic", r"(?:context|token) limit (?:was )?exceeded|exceeds? (?:the )?(?:token|context) limit"),
    ("Generic", r"(?:too many tokens|number of tokens).{0,40}(?:context|maximum|limit)"),
)

# A quota for a stretch of time speaks of tokens and of limits too.
_QUOTA = re.compile(
    r"per (?:min|minute|hour|day)\b|\((?:tpm|tpd|rpm|itpm|otpm)\)|\b(?:tpm|tpd)\b|rate[ _-]?limit|throttl|quota"
)
# Long texts are cut: the wording stands at the beginning, and a page of HTML is none.
_LONGEST = 8000


def is_overflow(message: str) -> bool:
    """Whether `message` says that the prompt does not fit into the model's context window."""
    text = message[:_LONGEST].lower()
    return bool(_pattern().search(text)) and not _QUOTA.search(text)


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    # At the first error, not at the start: compiling it takes 5 ms.
    return re.compile("|".join(f"(?:{wording})" for _, wording in WORDINGS), re.DOTALL)
