"""The finish reasons of the vendors, in the spelling of their documents."""

from __future__ import annotations

import pytest

from clawbot.llm.deltas import Ending, ending_of

REASONS: dict[str, dict[Ending, str]] = {
    "OpenAI": {"complete": "stop tool_calls function_call", "cut": "length", "refused": "content_filter"},
    "Anthropic": {
        "complete": "end_turn stop_sequence tool_use",
        "cut": "max_tokens pause_turn model_context_window_exceeded",
        "refused": "refusal",
    },
    "Gemini": {
        "complete": "STOP",
        "cut": "MAX_TOKENS",
        "refused": "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT",
        "garbled": "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE",
        "broken": "OTHER FINISH_REASON_UNSPECIFIED",
    },
    "Ollama": {"complete": "stop", "cut": "length", "broken": "load unload"},
    "DeepSeek": {"complete": "stop tool_calls", "cut": "length", "broken": "insufficient_system_resource"},
    "Mistral": {"complete": "stop tool_calls", "cut": "length model_length", "broken": "error"},
    "Bedrock": {
        "complete": "end_turn tool_use stop_sequence",
        "cut": "max_tokens model_context_window_exceeded",
        "refused": "guardrail_intervened content_filtered",
        "garbled": "malformed_model_output malformed_tool_use",
    },
    "Cohere": {
        "complete": "COMPLETE STOP_SEQUENCE TOOL_CALL",
        "cut": "MAX_TOKENS",
        "refused": "ERROR_TOXIC",
        "broken": "ERROR TIMEOUT USER_CANCEL",
    },
    "vLLM, SGLang": {"complete": "stop tool_calls", "cut": "length", "broken": "abort error"},
    "TGI": {"complete": "eos_token stop_sequence", "cut": "length"},
    "Together": {"complete": "stop eos tool_calls", "cut": "length"},
    "Z.ai": {"complete": "stop tool_calls", "cut": "length", "refused": "sensitive", "broken": "network_error"},
    "watsonx": {
        "complete": "stop eos_token stop_sequence",
        "cut": "max_tokens token_limit",
        "broken": "time_limit cancelled",
    },
    "nobody": {"broken": "finished done partial 200"},
}


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        pytest.param(word, ending, id=f"{vendor}-{word}")
        for vendor, endings in REASONS.items()
        for ending, words in endings.items()
        for word in words.split()
    ],
)
def test_what_a_reason_means(reason: str, ending: Ending) -> None:
    assert ending_of(reason) == ending
