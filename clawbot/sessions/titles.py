"""What a session is called in lists: the first words that the user said in it."""

from __future__ import annotations

import re

from clawbot.sessions.silence import asks_for_silence

TITLE_CHARS = 60
_MARKUP = re.compile(r"^[\s#>*`\-]+")


def title_of(text: str) -> str:
    """The first words of `text` on one line, without control characters; "" for a slash command, for nothing, and
    for the prompt of a program that wants no answer."""
    if text.lstrip().startswith("/") or asks_for_silence(text):
        return ""
    # Far more than a title needs, so that a pasted book costs nothing.
    head = "".join(char if char.isprintable() else " " for char in text.strip()[: TITLE_CHARS * 8])
    words = _MARKUP.sub("", " ".join(head.split()))
    if len(words) <= TITLE_CHARS:
        return words
    cut = words[: TITLE_CHARS - 1]
    # Chinese has no blanks to cut at; nor should one very long word leave nothing.
    at = cut.rfind(" ")
    return (cut[:at] if at > TITLE_CHARS // 2 else cut).rstrip() + "…"
