"""The message that stands for turns which left the context: a summary, and the request that is still being answered.

The form is that of `sessions/conversation.py`: words of the program, `<summary>`, and behind it, when a turn was cut in
two, one sentence and `<request>`. Told by the ends of the text alone: looking costs the same for any text.
"""

from __future__ import annotations

import re

from msgspec import Struct

_OPEN, _SHUT = "<summary>\n", "\n</summary>"
_REQUEST, _REQUEST_SHUT = "<request>\n", "\n</request>"
_LEFT_OUT = re.compile(r"^\[\.\.\. [\d,]+ of [\d,]+ characters left out \.\.\.\]$", re.MULTILINE)
_FRAME = re.compile(r"^(?:#.*|[-*] )", re.MULTILINE)


class Compacted(Struct, frozen=True):
    """What such a message holds. `request` is "" when no turn was cut in two."""

    summary: str
    request: str = ""

    @property
    def question(self) -> str:
        """The request, if it is there from its first to its last word: of half a request nothing is to be done."""
        return "" if _LEFT_OUT.search(self.request) else self.request

    @property
    def spoken(self) -> str:
        """Words that tell the language of the user."""
        return self.request or _FRAME.sub("", self.summary)


def read_compacted(text: str) -> Compacted | None:
    """What `text` holds when it is such a message; None for what somebody said."""
    body = text.rstrip()
    if not body.endswith((_SHUT, _REQUEST_SHUT)):
        return None
    before, opened, inside = body.partition(_OPEN)
    if not opened or before.rstrip(" ")[-1:] not in ("", "\n"):
        return None
    if inside.endswith(_SHUT):
        return Compacted(inside.removesuffix(_SHUT))
    summary, shut, behind = inside.partition(_SHUT + "\n")
    sentence, asked, request = behind.partition(_REQUEST)
    if not shut or not asked or "\n" in sentence.strip():
        return None
    return Compacted(summary, request.removesuffix(_REQUEST_SHUT).strip())
