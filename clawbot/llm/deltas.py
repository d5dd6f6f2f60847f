"""Fields of a streamed answer: finish reasons, what goes back with the next request, endless repetition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from clawbot.messages import ThinkingBlock, scrub
from clawbot.text.patterns import lazy_re

Ending = Literal["complete", "cut", "refused", "garbled", "broken"]
"""`cut`: at a limit. `garbled`: the provider could not parse the model's call; a second try may succeed."""

_WORDS: dict[Ending, str] = {
    "complete": """
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


IN_CONTENT = "content"  # the field of reasoning that was in the text of the answer: it is not sent again
IN_FUNCTION = "in_function"  # the field for what litellm drops of the function of a call
_KNOWN = {
    *("role", "content", "refusal", "tool_calls", "function_call", "thinking_blocks", "reasoning_content", "reasoning"),
    *("index", "id", "type", "function", "audio", "images", "annotations", "citations", "executed_tools"),
}
_LABELS = {"type", "format", "id", "name"}
_TEXTS = {"text", "summary", "reasoning_text"}
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}  # for calls that Gemini did not make


def unknown_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a delta, or of a call in it, that not every answer has."""
    return {name: scrub(value) for name, value in fields.items() if value not in (None, "", []) and name not in _KNOWN}


def merge(total: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add `part`, the next of a stream, to `total`: texts go on, and so do entries of one type and index in lists."""
    for name, value in part.items():
        before = total.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            for entry in value:
                same = next((known for known in before if _goes_on(known, entry)), None)
                merge(same, entry) if same else before.append(entry)
        elif not isinstance(before, str) or not isinstance(value, str):
            total[name] = before if value is None else value
        elif name not in _LABELS and (before != value or name in _TEXTS):  # a signature may come with each chunk
            total[name] = before + value


def _goes_on(entry: Any, part: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(part, dict) or part.get("index") is None:
        return False
    id_known = entry.get("id") or part.get("id")
    return id_known == (part.get("id") or id_known) and all(entry.get(n) == part.get(n) for n in ("type", "index"))


def sent_again(blocks: Sequence[ThinkingBlock]) -> dict[str, Any]:
    """The fields of a message with calls in which `blocks` go back to the model that sent them."""
    fields = {block.field: block.data for block in blocks if block.data is not None}
    for block in blocks:
        if block.thinking and block.field != IN_CONTENT:
            name = block.field or "reasoning_content"
            fields[name] = fields.get(name, "") + block.thinking
    return fields


def with_field(turn: dict[str, Any], field: str) -> dict[str, Any]:
    """`turn` of the model with what a server missed: as it came under another name, or empty."""
    if field == "thought_signature":
        calls = [{"extra_content": _UNSIGNED, **call} for call in turn.get("tool_calls", ())]
        return {**turn, "tool_calls": calls} if calls else turn
    held = turn.get("reasoning_content") or turn.get("reasoning") or " "  # some refuse an empty text
    return {field: [] if field == "reasoning_details" else held, **turn}


SAME_WORDS = 20
TIMES = 10
"""An answer is stopped when it ends in so many words that came so many times in a row, in any period: 200 words of
`I'm you.`, or ten times the same paragraph."""

# A rule of dashes is one word, a script without spaces has a word in each character, and no word is endless.
_WORD = lazy_re(r"[\u2e80-\ud7ff\uf900-\ufaff]|[^\W\u2e80-\ud7ff\uf900-\ufaff]{1,24}|[^\w\s]{1,200}")


class RepetitionGuard:
    """Reads one text as it comes. `looping` is true from the word on that makes it a loop."""

    def __init__(self) -> None:
        self.looping = False
        self._words: list[str] = []
        self._ends: list[int] = []
        self._seen: dict[int, int] = {}
        self._tail = ""
        self._offset = 0
        self._period = 0
        self._run = 0

    @property
    def kept(self) -> int:
        """Number of characters up to the first repetition."""
        first = len(self._words) - self._run - SAME_WORDS - self._period
        return self._ends[max(0, first) + self._period - 1] if self.looping else self._offset + len(self._tail)

    def feed(self, part: str) -> bool:
        """Add text; return whether it is a loop by now."""
        text = self._tail + part
        taken = 0
        for found in _WORD.finditer(text):
            if self.looping or found.end() == len(text):
                break  # what comes next may belong to the last word
            taken = found.end()
            self._take(found[0], self._offset + taken)
        self._offset, self._tail = self._offset + taken, text[taken:]
        return self.looping

    def _take(self, word: str, end: int) -> None:
        self._words.append(word)
        self._ends.append(end)
        number = len(self._words)
        last = hash(tuple(self._words[-SAME_WORDS:]))
        period = number - self._seen.get(last, number) if number >= SAME_WORDS else 0
        self._seen[last] = number
        self._run = self._run + 1 if period and period == self._period else 0
        self._period = period
        length = self._run + SAME_WORDS + period
        self.looping = bool(period) and length >= TIMES * max(SAME_WORDS, period)
