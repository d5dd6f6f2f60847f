"""What a picture is by its first bytes: only the kinds that models take."""

from __future__ import annotations

_HEADS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
HEAD = 16
"""Bytes that tell."""


def picture_type(head: bytes) -> str:
    """The MIME type of the picture that begins with `head`; "" for anything else."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _HEADS if head.startswith(magic)), "")
