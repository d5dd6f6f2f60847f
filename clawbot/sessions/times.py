"""Milliseconds since the epoch as they lie in files, and moments."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def moment_of(milliseconds: int, zone: tzinfo | None = UTC) -> datetime:
    """The moment in `zone` (None: the machine's). What no calendar holds becomes the epoch."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone(zone)
