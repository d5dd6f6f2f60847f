"""What a summary is made from, prepared once: the texts, what came before them, what is carried word for word.

Pure, but it counts tokens: for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from clawbot.context.compaction.carrying import carry, quoted_in
from clawbot.context.compaction.files import file_lists, show_files
from clawbot.context.compaction.identifiers import wanted_identifiers
from clawbot.context.compaction.prompts import SYSTEM, Task, prompt_for
from clawbot.context.compaction.sections import fit
from clawbot.context.compaction.serialise import UNFINISHED, neutral, serialise
from clawbot.llm.offline.language import detect_last
from clawbot.messages import Message, UserMessage, quotes_notes

CARRY_SHARE, FILES_SHARE, NAMES_SHARE = 0.35, 0.1, 0.2
"""Of the tokens of a summary: for the user's last messages, for the lists of files, and for the names that the rest
must hold. On a small window the model's own part stays the largest."""


class Earlier(Struct, frozen=True):
    """What the entry of the compaction before holds; empty without one."""

    summary: str = ""
    details: Any = None


class Material(Struct, frozen=True):
    """`texts` are the messages that go, as text; those from the index `unfinished` on belong to a turn that is cut in
    two (None: no turn is). `previous` is the model's part of the summary before. `wanted` are the names that must stand
    in the new one, each with the index of the text that it stands in first. `appendix` is what follows the model's
    part, which has `room` tokens. `overhead` is what a call takes beside the texts and the answer, in tokens."""

    texts: tuple[str, ...]
    unfinished: int | None
    previous: str
    wanted: tuple[tuple[str, int], ...]
    appendix: str
    room: int
    overhead: int
    chinese: bool

    def conversation(self, texts: Sequence[str], start: int) -> str:
        """`texts`, which are those from the index `start` on, as one, with a line where the unfinished turn begins."""
        lines = list(texts)
        if self.is_split(start + len(lines)):
            lines.insert(max((self.unfinished or 0) - start, 0), UNFINISHED)
        return "\n\n".join(lines)

    def is_split(self, stop: int) -> bool:
        """Whether the texts before the index `stop` end in the middle of a turn."""
        return self.unfinished is not None and self.unfinished < stop

    def names(self, stop: int) -> list[str]:
        """The wanted names of the texts before the index `stop`."""
        return [name for name, index in self.wanted if index < stop]


def gather(
    messages: Sequence[Message],
    prefix: Sequence[Message],
    *,
    earlier: Earlier,
    focus: str,
    preserve: int,
    tokens: int,
    count: Callable[[str], int],
) -> Material:
    """The material for a summary of `tokens` tokens at most: of `messages` and then `prefix`, the beginning of a turn
    whose rest stays. Blocks."""
    everything = [*messages, *prefix]
    own, quoted = quoted_in(earlier.summary)
    said = carry(
        everything,
        preserve=preserve,
        most=int(tokens * CARRY_SHARE),
        count=count,
        split=bool(prefix),
        earlier=quoted,
    )
    files = show_files(file_lists(everything, earlier.details), int(tokens * FILES_SHARE), count)
    appendix = neutral("\n\n".join(filter(None, (said, files))))
    room = tokens - count(f"\n\n{appendix}")
    before, unfinished = _texts(messages), _texts(prefix)
    texts = (*before, *unfinished)
    names = wanted_identifiers(everything, int(tokens * NAMES_SHARE), count)
    own = fit(own, tokens, count)
    bare = prompt_for(Task(conversation="", split=bool(prefix), focus=focus, tokens=room, parts=2))
    return Material(
        texts=texts,
        unfinished=len(before) if unfinished else None,
        previous=own,
        wanted=tuple((name, _first(name, texts)) for name in names),
        appendix=appendix,
        room=room,
        overhead=count(SYSTEM) + count(bare) + max(count(own), room),
        chinese=detect_last(text for message in reversed(everything) if (text := _user_text(message))) == "zh",
    )


def _texts(messages: Sequence[Message]) -> list[str]:
    return [text for text in map(serialise, messages) if text]


def _first(name: str, texts: Sequence[str]) -> int:
    return next((index for index, text in enumerate(texts) if name in text), 0)


def _user_text(message: Message) -> str:
    return message.text if isinstance(message, UserMessage) and not quotes_notes(message) else ""
