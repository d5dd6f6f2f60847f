"""The root of all errors that a user sees: what happened and where, and what to do next."""

from __future__ import annotations


class ClawbotError(Exception):
    """Something went wrong that the user can act on.

    `message` says what and where, `hint` the next step; neither ever holds a secret. The command line prints both on
    one line and exits with 1, the screen shows them as a notice.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()
