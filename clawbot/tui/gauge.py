"""What the screen says of the context window: the tokens in use, where flush and compaction come, what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawbot.context.budget import ASSUMED
from clawbot.tui.meter import Gauge

if TYPE_CHECKING:
    from clawbot.agent.views import RuntimeStatus
    from clawbot.config.schema import Settings


def gauge_of(settings: Settings, status: RuntimeStatus) -> Gauge:
    """The meter for `status`; no marks while the budget is unknown, and when compaction is off."""
    exact = status.exact and not status.stale
    if status.budget is None or not settings.agent(status.agent_id).compaction.enabled:
        return Gauge(status.tokens, status.window, exact)
    return Gauge(status.tokens, status.window, exact, flush=status.budget.flush, compaction=status.budget.limit)


def window_note(status: RuntimeStatus) -> str:
    """What the user should know of the window; empty when somebody knows how large it is."""
    if status.window_source != ASSUMED:
        return ""
    return (
        f"Nobody says how large the window of {status.model.ref} is: {status.window:,} tokens are assumed. "
        "context_tokens in the settings changes that."
    )
