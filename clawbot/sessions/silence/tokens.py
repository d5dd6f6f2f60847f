"""The patterns of the silent tokens, whole and begun. They are meant for matching without regard to case."""

from __future__ import annotations

import re


def begun(*parts: str) -> str:
    """A pattern for every beginning of the sequence of patterns `parts`, the empty one excepted."""
    pattern = parts[-1]
    for part in reversed(parts[:-1]):
        pattern = f"{part}(?:{pattern})?"
    return pattern


# Some models escape the underscore, as Markdown would have it.
_LINE = r"\\?"
TOKEN = rf"(?:NO{_LINE}_REPLY|HEARTBEAT{_LINE}_OK)"
TOKEN_BEGUN = f"(?:{begun(*'NO', _LINE, *'_REPLY')}|{begun(*'HEARTBEAT', _LINE, *'_OK')})"
# Markdown and punctuation close around a token.
OPENING = "[*_\"'“”`]{0,3}"
CLOSING = "[*_\"'“”`.!。！…]{0,4}"

_CUT = re.compile(rf"(?<!\w)(?:NO_(?:{begun(*'REPL')})?|HEARTBEAT_O?)\Z")


def completed(text: str) -> str:
    """`text`, which was cut off, with the rest of the token that it ends in the middle of."""
    found = _CUT.search(text)
    if found is None:
        return text
    whole = "NO_REPLY" if found[0].startswith("NO") else "HEARTBEAT_OK"
    return text + whole[len(found[0]) :]
