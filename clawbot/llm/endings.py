"""The meaning of the vendors' finish reasons: only those documented as the end of an answer count as one. Pure."""

from __future__ import annotations

from typing import Literal

Ending = Literal["whole", "cut", "refused", "garbled", "broken"]
"""`cut`: at a limit. `garbled`: the provider could not parse the model's call; a second try may succeed."""

_WORDS: dict[Ending, str] = {
    "whole": """
        stop eos eos_token end_turn stop_sequence complete tool_calls tool_call tool_use function_call
        eosfound stopstringfound toolcalls
    """,
    "cut": """
        length max_tokens max_output_tokens model_length token_limit model_context_window_exceeded pause_turn compaction
        error_limit maxpredictedtokensreached contextlengthreached
    """,
    "refused": """
        content_filter content_filtered refusal safety recitation language blocklist prohibited_content spii sensitive
        model_armor guardrail_intervened error_toxic escalation image_safety image_prohibited_content image_recitation
        image_other no_image
    """,
    "garbled": """
        malformed_function_call malformed_tool_use malformed_model_output malformed_response unexpected_tool_call
        too_many_tool_calls missing_thought_signature
    """,
}
_ENDINGS: dict[str, Ending] = {word: ending for ending, words in _WORDS.items() for word in words.split()}
UNFINISHED = frozenset({"", "null", "none", "not_finished"})
"""Values that mean "no reason yet"."""


def ending_of(reason: str) -> Ending:
    """Return the meaning of `reason`, in upper or lower case."""
    return _ENDINGS.get(reason.lower(), "broken")
