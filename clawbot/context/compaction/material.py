"""The input of a summary, prepared once: the texts, the previous summary, what is carried over literally; and its
division into parts if it is too large for one call.

Pure, but counts tokens: call it in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from clawbot.context.compaction.carried import carry, file_lists, quoted_in, show_files, wanted_identifiers
from clawbot.context.compaction.prompts import SYSTEM, UNFINISHED, Task, fit, neutral, prompt_for, serialise
from clawbot.context.truncate import head_and_tail
from clawbot.llm.tokens import Count
from clawbot.messages import Message, UserMessage, quotes_notes
from clawbot.text.language import detect_last
from clawbot.text.secrets import secret_values, without_secrets

SAFETY = 1.2
"""Margin for providers that count differently."""

MIN_STAGE = 256
"""Tokens. A smaller part has nothing to summarise."""

CARRY_SHARE, FILES_SHARE, NAMES_SHARE = 0.35, 0.1, 0.2
"""Of the tokens of a summary: for the user's last messages, for the lists of files, and for the names that the rest
must hold. On a small window the model's own part remains the largest."""


class PreviousCompaction(Struct, frozen=True):
    """The content of the previous compaction entry; empty without one."""

    summary: str = ""
    details: Any = None


class Material(Struct, frozen=True):
    """`texts` are the messages that go, as text; those from the index `unfinished` on belong to a turn that is cut in
    two (None: no turn is). `previous` is the model's part of the summary before. `wanted` are the names that must be
    in the new one, each with the index of the text that has it first. `appendix` is what follows the model's
    part, which has `room` tokens. `overhead` is what a call takes besides the texts and the answer, in tokens. None
    of it holds `secrets` of the conversation."""

    texts: tuple[str, ...]
    unfinished: int | None
    previous: str
    wanted: tuple[tuple[str, int], ...]
    appendix: str
    room: int
    overhead: int
    chinese: bool
    secrets: frozenset[str] = frozenset()

    def conversation(self, texts: Sequence[str], start: int) -> str:
        """`texts`, which are those from the index `start` on, as one, with a line where the unfinished turn begins."""
        lines = list(texts)
        if self.is_split(start + len(lines)):
            lines.insert(max((self.unfinished or 0) - start, 0), UNFINISHED)
        return "\n\n".join(lines)

    def is_split(self, stop: int) -> bool:
        """Return whether the texts before the index `stop` end in the middle of a turn."""
        return self.unfinished is not None and self.unfinished < stop

    def names(self, stop: int) -> list[str]:
        """Return the wanted names of the texts before the index `stop`."""
        return [name for name, index in self.wanted if index < stop]


def gather(
    messages: Sequence[Message],
    prefix: Sequence[Message],
    *,
    earlier: PreviousCompaction,
    focus: str,
    preserve: int,
    tokens: int,
    count: Count,
) -> Material:
    """The material for a summary of `tokens` tokens at most: of `messages` and then `prefix`, the beginning of a turn
    whose rest remains. Blocks."""
    everything = [*messages, *prefix]
    secrets = secret_values(
        message.sent if isinstance(message, UserMessage) else message.text for message in everything
    )
    own, quoted = quoted_in(earlier.summary)
    carried = carry(
        everything, preserve=preserve, most=int(tokens * CARRY_SHARE), count=count, split=bool(prefix), earlier=quoted
    )
    files = show_files(file_lists(everything, earlier.details), int(tokens * FILES_SHARE), count)
    appendix = neutral(without_secrets("\n\n".join(filter(None, (carried, files))), secrets)[0])
    room = tokens - count(f"\n\n{appendix}")
    before, unfinished = _texts(messages, secrets), _texts(prefix, secrets)
    texts = (*before, *unfinished)
    typed = (each.text for each in reversed(everything) if isinstance(each, UserMessage) and not quotes_notes(each))
    names = wanted_identifiers(everything, int(tokens * NAMES_SHARE), count)
    own = fit(without_secrets(own, secrets)[0], tokens, count)
    bare = prompt_for(Task(conversation="", split=bool(prefix), focus=focus, tokens=room, parts=2))
    return Material(
        texts=texts,
        unfinished=len(before) if unfinished else None,
        previous=own,
        wanted=tuple((name, _first(name, texts)) for name in names),
        appendix=appendix,
        room=room,
        overhead=count(SYSTEM) + count(bare) + max(count(own), room),
        chinese=detect_last(each for each in typed if each) == "zh",
        secrets=secrets,
    )


def _texts(messages: Sequence[Message], secrets: frozenset[str]) -> list[str]:
    return [without_secrets(text, secrets)[0] for text in map(serialise, messages) if text]


def _first(name: str, texts: Sequence[str]) -> int:
    return next((index for index, text in enumerate(texts) if name in text), 0)


class SizedText(Struct, frozen=True):
    """One message as text, and its tokens."""

    text: str
    tokens: int


def stage_budget(window: int, answer: int, overhead: int) -> int:
    """Return the tokens of conversation that fit into one call besides the answer and the overhead."""
    return max(MIN_STAGE, int((window - answer - overhead) / SAFETY))


def parts_of(texts: Iterable[str], stage: int, count: Count) -> list[SizedText]:
    """Return `texts` with their tokens by `count`. One longer than half a stage is truncated to that. Blocks."""
    return [_part(text, stage // 2, count) for text in texts]


def _part(text: str, most: int, count: Count) -> SizedText:
    tokens = count(text)
    chars = len(text)
    shown = text
    while tokens > most and chars > 0:
        chars = min(chars - 1, int(chars * most / tokens * 0.9))
        shown = head_and_tail(text, max(chars, 0))
        tokens = count(shown)
    return SizedText(shown, tokens + 1)  # the blank line behind it


def plan_stages(tokens: Sequence[int], budget: int) -> list[range]:
    """The indexes of `tokens` in as few ranges of similar size as fit into `budget` each. An item larger than the
    budget gets a range of its own."""
    fewest = len(_filled(tokens, budget))
    low, high = math.ceil(sum(tokens) / max(fewest, 1)), budget
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(tokens, middle)) <= fewest else (middle + 1, high)
    return _filled(tokens, high)


def _filled(tokens: Sequence[int], budget: int) -> list[range]:
    runs: list[range] = []
    start = filled = 0
    for index, size in enumerate(tokens):
        if index > start and filled + size > budget:
            runs.append(range(start, index))
            start, filled = index, 0
        filled += size
    return [*runs, range(start, len(tokens))] if tokens else runs
