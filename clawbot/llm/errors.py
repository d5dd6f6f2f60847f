"""The one family of errors that a model may raise. The tree:

ModelError                  something that the user can act on: provider, what happened, next step
  AuthenticationError       key missing, wrong or without rights (401, 403)
  RateLimitError            too many requests or no quota (429)
  ContextOverflowError      the prompt is larger than the model's window
  UnreachableError          no connection, DNS, timeouts, 5xx
    LoadingError            a server that loads its model (503), and will answer soon
  RefusedError              the provider declined the content or the request (content policy, 400)
  BadResponseError          the answer broke off: no finish reason, or one that is not the end of an answer
    PoorAnswerError         the answer is empty, or holds a call that the provider could not read
  ClientFaultError          clawbot or a library failed: a missing module, a mistake in the code
"""

from __future__ import annotations

from typing import ClassVar

from clawbot.errors import ClawbotError


class ModelError(ClawbotError):
    """A model call that failed.

    `kind` is stable (it goes into events and transcripts), `provider` names who failed, `hint` is the next step for
    the user, `retryable` whether the same call may work later, `retry_after` after how many seconds if the
    provider asked for a wait. No text of it ever holds a key.
    """

    kind: ClassVar[str] = "model"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None

    def __init__(self, message: str, *, provider: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.provider = provider

    def __str__(self) -> str:
        named = f"{self.provider}: {self.message}" if self.provider else self.message
        return f"{named} {self.hint}".rstrip()


class AuthenticationError(ModelError):
    """The key is missing, wrong or lacks the right."""

    kind = "authentication"


class RateLimitError(ModelError):
    """Too many requests, or the quota is used up. `exhausted`: waiting will not help."""

    kind = "rate_limit"
    retryable = True

    def __init__(
        self, message: str, *, retry_after: float | None = None, exhausted: bool = False, **named: str
    ) -> None:
        super().__init__(message, **named)
        self.retry_after = retry_after
        self.exhausted = exhausted


class ContextOverflowError(ModelError):
    """The prompt does not fit into the model's window. `limit` is the maximum of a prompt that the provider states, in
    tokens."""

    kind = "overflow"

    def __init__(self, message: str, *, provider: str = "", hint: str = "", limit: int | None = None) -> None:
        super().__init__(message, provider=provider, hint=hint)
        self.limit = limit


class UnreachableError(ModelError):
    """No connection, a timeout, or a server that failed (5xx).

    `dead`: nobody listens at an address of this machine, which no waiting of seconds changes.
    """

    kind = "unreachable"
    retryable = True

    def __init__(self, message: str, *, provider: str = "", hint: str = "", dead: bool = False) -> None:
        super().__init__(message, provider=provider, hint=hint)
        self.dead = dead


class LoadingError(UnreachableError):
    """The server is there and loads its model, which takes minutes with a large one."""


class RefusedError(ModelError):
    """The provider declined the request: content policy or a bad request."""

    kind = "refused"


class BadResponseError(ModelError):
    """The answer broke off or made no sense."""

    kind = "bad_response"
    retryable = True


class PoorAnswerError(BadResponseError):
    """The answer is empty, or holds a call that the provider could not read: it is asked for once more at most."""


class ClientFaultError(ModelError):
    """The program or its installation failed; neither the network nor the provider had a part in it."""

    kind = "internal"
