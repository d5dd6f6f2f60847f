"""The base class of every error shown to the user: what happened, where, and what to do next."""

from __future__ import annotations


class ClawbotError(Exception):
    """An error that the user can act on.

    `message` is what and where, `hint` the next step; neither ever holds a secret. The command line prints both on
    one line and exits with 1; the screen shows them as a notice.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()
