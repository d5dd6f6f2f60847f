"""What goes from the compacted turns into the summary word for word: the user's last messages (sheet 7.6). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clawbot.context.compaction.files import HEADING as FILES_HEADING
from clawbot.context.cutting import head_and_tail
from clawbot.messages import Message, UserMessage, quotes_notes

HEADING = "## Last user messages (verbatim)"
MESSAGE_CHARS = 600
REQUEST_CHARS = 800
"""Of the request of a turn that is cut in two."""

SHORTER = (400, 200, 100)
"""What the last message is shortened to when there is little room, in characters."""


def carry(
    messages: Sequence[Message],
    *,
    preserve: int,
    most: int,
    count: Callable[[str], int],
    split: bool = False,
    earlier: Sequence[str] = (),
) -> str:
    """The section that quotes the last `preserve` messages of the user in `messages`, in at most `most` tokens by
    `count`: fewer, or the last one shortened, if need be. With `split` the last one is the request of a turn that goes
    on, and is quoted whatever `preserve` says. `earlier` were quoted by the previous compaction, and fill up. ""
    without any. Blocks."""
    spoken = (message for message in messages if isinstance(message, UserMessage) and not quotes_notes(message))
    said = [text for text in (*earlier, *(message.text.strip() for message in spoken)) if text]
    last = said[max(0, len(said) - max(preserve, int(split))) :]
    if not last:
        return ""
    request = head_and_tail(last[-1], REQUEST_CHARS if split else MESSAGE_CHARS)
    quoted = [*(head_and_tail(text, MESSAGE_CHARS) for text in last[:-1]), request]
    tries = [quoted[start:] for start in range(len(quoted))] + [[head_and_tail(last[-1], chars)] for chars in SHORTER]
    return next((text for text in map(_section, tries) if count(text) <= most), "")


def quoted_in(summary: str) -> tuple[str, list[str]]:
    """The part of `summary` before what this program adds to a model's words, and the messages that it quotes."""
    lines = summary.split("\n")
    end = next((at for at, line in enumerate(lines) if line in (HEADING, FILES_HEADING)), len(lines))
    messages: list[list[str]] = [[]]
    if end < len(lines) and lines[end] == HEADING:
        for line in lines[end + 1 :]:
            if line.startswith(">"):
                messages[-1].append(line[1:].removeprefix(" "))
            elif messages[-1]:
                messages.append([])
    return "\n".join(lines[:end]).strip(), ["\n".join(quoted) for quoted in messages if quoted]


def _section(quoted: Sequence[str]) -> str:
    return "\n\n".join(
        [HEADING, *("\n".join(f"> {line}" if line else ">" for line in text.split("\n")) for text in quoted)]
    )
