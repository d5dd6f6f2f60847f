"""Truncates a text for a model: head, marker, tail, never through the middle of a visible character."""

from __future__ import annotations

import unicodedata

HEAD_SHARE, TAIL_SHARE = 0.70, 0.20  # the rest of the room is for the marker
JOINER = "\u200d"
MAX_CLUSTER = 32  # code points; beyond it a cluster is nobody's character and is cut like any text


def shorten(text: str, limit: int, name: str) -> str:
    """`text` if it has at most `limit` characters; else its start and end around a marker that names the file, how
    to read the rest, and counts what was kept. The result never exceeds `limit`."""
    if len(text) <= limit:
        return text
    head = text[: cut_before(text, int(limit * HEAD_SHARE))]
    tail = text[cut_after(text, len(text) - int(limit * TAIL_SHARE)) :]
    line = head.count("\n") + 1
    marker = (
        f"\n\n[... {name} goes on here: read {name} from line {line} for the full content; "
        f"kept {len(head)}+{len(tail)} chars of {len(text)} ...]\n\n"
    )
    return clamp(head + marker + tail, limit)


def tail_of(text: str, limit: int) -> str:
    """`text` if it has at most `limit` characters; else a line that counts what is missing, and the end of `text`, at
    most `limit` characters, starting at a line if that costs at most a fifth."""
    if len(text) <= limit:
        return text
    start = cut_after(text, len(text) - limit)
    line = text.find("\n", start - 1, start + limit // 5)
    start = start if line < 0 else line + 1
    return f"[... {start:,} of {len(text):,} characters left out ...]\n{text[start:]}"


def head_and_tail(text: str, limit: int) -> str:
    """`text` if it has at most `limit` characters; else its start (seven tenths) and end around a line that counts what
    is missing, about `limit` characters besides that line."""
    if len(text) <= limit:
        return text
    room = int(limit * HEAD_SHARE)
    head = cut_before(text, room)
    tail = cut_after(text, len(text) - (limit - room))
    return f"{text[:head]}\n[... {tail - head:,} of {len(text):,} characters left out ...]\n{text[tail:]}"


def clamp(text: str, limit: int) -> str:
    """Return `text` truncated to `limit` characters, with an ellipsis as the last one."""
    return text if len(text) <= limit else text[: cut_before(text, limit - 1)] + "…"


def cut_before(text: str, index: int) -> int:
    """Return the last position at or before `index` where `text` may be cut."""
    return next((at for at in range(index, max(index - MAX_CLUSTER, 0), -1) if _may_cut(text, at)), max(index, 0))


def cut_after(text: str, index: int) -> int:
    """Return the first position at or after `index` where `text` may be cut."""
    end = min(index + MAX_CLUSTER, len(text))
    return next((at for at in range(index, end) if _may_cut(text, at)), index)


def _may_cut(text: str, index: int) -> bool:
    """Return whether the characters on both sides of `index` are separate visible characters."""
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if before == JOINER or _extends(after) or (before == "\r" and after == "\n"):
        return False
    return not (_is_flag_letter(after) and _flag_letters_before(text, index) % 2)


def _extends(char: str) -> bool:
    """Return whether `char` is drawn onto the one before it: marks, variation selectors, joiners, skin tones."""
    return char == JOINER or unicodedata.category(char) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= char <= "\U0001f3ff"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, index: int) -> int:
    """Return how many regional indicators are in a row before `index`: two make a flag."""
    count = 0
    while count < MAX_CLUSTER and index > count and _is_flag_letter(text[index - count - 1]):
        count += 1
    return count
