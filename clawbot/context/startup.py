"""What a session begins with: a quote of the newest notes, so that the model knows what was going on.

Rules: reference sheet 19 and 22.1. The files are read once, before the first message of a session.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class StartupSettings(Protocol):
    """How much is quoted; the settings' `startup_context` section is one."""

    @property
    def enabled(self) -> bool:
        """Whether anything is."""
        ...

    @property
    def daily_memory_days(self) -> int:
        """Of how many days, today among them."""
        ...

    @property
    def max_chars(self) -> int:
        """Characters of the whole quote, its frame among them."""
        ...

    @property
    def max_file_chars(self) -> int:
        """Characters of one file."""
        ...


class StartupQuote(Struct, frozen=True):
    """The quote: `text` as the model reads it, and the `files` in it, relative to the workspace, the newest first.

    `text` is "" when there is only something to tell: `notices` says for the user what could not be read.
    """

    text: str
    files: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def chars(self) -> int:
        """How long it is."""
        return len(self.text)


def startup_quote(workspace: Path, now: datetime, settings: StartupSettings) -> StartupQuote | None:
    """The quote for a session that begins at `now`, in the user's zone; None when there is nothing to quote. Blocks.

    Only for sessions whose policy has `startup_notes`.
    """
    return None
