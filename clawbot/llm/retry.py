"""Repeats a call that failed before anything of its answer was visible, and says each wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from msgspec import Struct

from clawbot.llm.errors import ModelError, RateLimitError
from clawbot.llm.protocol import FinalPart, ReasoningPart, RetryPart, StreamPart

LONGEST_ASKED_WAIT = 90.0
"""Seconds. Quotas by the minute ask for up to 60; a provider that asks for more than this is not waited for."""
_JITTER = 0.5
"""Seconds at most: clients that failed together should not come back together."""
_logger = logging.getLogger(__name__)

Attempt = Callable[[], AsyncGenerator[StreamPart, None]]
Sleep = Callable[[float], Awaitable[None]]


class RetryPolicy(Struct, frozen=True):
    """`attempts` calls altogether; `first_wait` seconds before the second, then doubled each time up to `max_wait`."""

    attempts: int = 4
    first_wait: float = 1.0
    max_wait: float = 30.0


async def with_retries(
    attempt: Attempt, policy: RetryPolicy, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[StreamPart, None]:
    """Yield the parts of `attempt()`, beginning again after a retryable error that came before any visible part.

    Visible is what the reader takes for the answer: text and tool calls; reasoning may be said again, since the
    RetryPart stands between. Raises what the last attempt raised, and any error after visible text.
    """
    for number in range(1, policy.attempts + 1):
        visible = False
        try:
            async with aclosing(attempt()) as parts:
                async for part in parts:
                    visible = visible or not isinstance(part, ReasoningPart | FinalPart)
                    yield part
            return
        except ModelError as error:
            wait = None if visible else wait_before_next(error, number, policy)
            if wait is None:
                raise
            _logger.info("attempt %d failed (%s), the next follows in %.1f s", number, error.kind, wait)
            yield RetryPart(number + 1, wait, error.message)
        await sleep(wait)


def wait_before_next(error: ModelError, number: int, policy: RetryPolicy) -> float | None:
    """Seconds to wait after attempt `number` failed with `error`; None when there is to be no other."""
    if not error.retryable or number >= policy.attempts:
        return None
    if isinstance(error, RateLimitError):
        if error.exhausted:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= LONGEST_ASKED_WAIT else None
    return _backoff(number, policy)


def _backoff(number: int, policy: RetryPolicy) -> float:
    # Deferred: 25 ms of import that a start without a failure does not need.
    from tenacity import RetryCallState, Retrying, wait_exponential, wait_random

    state = RetryCallState(retry_object=Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = number
    rising = wait_exponential(multiplier=policy.first_wait, max=policy.max_wait)
    return (rising + wait_random(0, min(_JITTER, policy.first_wait)))(state)
