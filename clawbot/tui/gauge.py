"""Where on the context meter the flush and the compaction come, from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawbot.tui.meter import Gauge

if TYPE_CHECKING:
    from clawbot.agent.views import RuntimeStatus
    from clawbot.config.schema import Settings

RESERVE_SHARE = 4  # the reserve is a quarter of the window at most


def gauge_of(settings: Settings, status: RuntimeStatus) -> Gauge:
    """The meter for `status`; no marks when compaction is off or the window is unknown."""
    compaction = settings.agent(status.agent_id).compaction
    if not status.window or not compaction.enabled:
        return Gauge(status.tokens, status.window, status.exact)
    reserve = max(compaction.reserve_tokens, compaction.reserve_tokens_floor)
    limit = status.window - min(reserve, status.window // RESERVE_SHARE)
    flush = compaction.memory_flush
    soft = max(0, limit - flush.soft_threshold_tokens) if flush.enabled else 0
    return Gauge(status.tokens, status.window, status.exact, flush=soft, compaction=limit)
