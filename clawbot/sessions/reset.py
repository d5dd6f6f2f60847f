"""When a session ends automatically: at a time of day, or after a pause. Pure decisions, in UTC and milliseconds.

A session that began before a daily boundary ends at it, once for each boundary, however long the machine slept or
however its clock was set back. Only user messages end a pause. Implausible values never end a session: an unknown start
(None or 0), and times in the future.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Literal

from msgspec import Struct

from clawbot.clock import epoch_ms, moment_of
from clawbot.config.schema import ResetSettings, SessionType

# A century; later times might exceed the calendar.
_MAX_IDLE_MINUTES = 100 * 366 * 24 * 60
_MINUTE_MS = 60_000


class ResetPolicy(Struct, frozen=True):
    """When sessions end: at `daily_at` in the user's zone, after a pause of `idle_minutes`; None disables either."""

    daily_at: time | None
    idle_minutes: int | None


class Expiry(Struct, frozen=True):
    """A session has been over since `at` (UTC)."""

    reason: Literal["daily", "idle"]
    at: datetime


def type_of(session_key: str) -> SessionType:
    """The session type, from the tokens of the key. The names of agents and sessions are not tokens."""
    words = session_key.lower().split(":")
    kinds = words[2:-1] if words[0] == "agent" else words[:-1]
    if "thread" in kinds or "topic" in kinds:
        return "thread"
    return "group" if "group" in kinds or "channel" in kinds else "direct"


def policy_of(settings: ResetSettings) -> ResetPolicy:
    """The policy of these settings. An explicit pause applies in the mode daily too."""
    idle = settings.pause
    return ResetPolicy(
        daily_at=None if settings.mode in ("idle", "none") else time.fromisoformat(settings.at),
        idle_minutes=None if idle is None else min(idle, _MAX_IDLE_MINUTES),
    )


def expiry(policy: ResetPolicy, now: datetime, *, started_ms: int | None, last_ms: int | None) -> Expiry | None:
    """Whether the session is over at `now` (in the user's zone); of two reasons the earlier one. `started_ms` is when
    it began or was resumed (`SessionRecord.began_at`), `last_ms` when the user last wrote in it, both in milliseconds
    since the epoch; None if unknown or never."""
    now_ms = epoch_ms(now)
    found: list[Expiry] = []
    if policy.daily_at is not None and started_ms and 0 < started_ms <= now_ms:
        boundary = boundary_after(moment_of(started_ms, now.tzinfo), policy.daily_at)
        if epoch_ms(boundary) <= now_ms:
            found.append(Expiry("daily", boundary))
    over_ms = _idle_until(policy, now_ms, started_ms, last_ms)
    if over_ms is not None and over_ms < now_ms:
        found.append(Expiry("idle", moment_of(over_ms)))
    return min(found, key=lambda each: each.at, default=None)


def next_check(policy: ResetPolicy, now: datetime, *, started_ms: int | None, last_ms: int | None) -> datetime | None:
    """The first time after `now` (UTC) at which `expiry` may change; None for never. Call it right after `expiry`: a
    session that is already over is not considered."""
    now_ms = epoch_ms(now)
    found: list[datetime] = []
    if policy.daily_at is not None:
        found.append(boundary_after(now, policy.daily_at))
    over_ms = _idle_until(policy, now_ms, started_ms, last_ms)
    if over_ms is not None and over_ms >= now_ms:
        found.append(moment_of(over_ms + 1))
    return min(found, default=None)


def boundary_after(moment: datetime, at: time) -> datetime:
    """The first time after `moment` (in the user's zone) when clocks there reach the time of day `at`, in UTC. A
    skipped time is reached at the end of the gap, a repeated one at its first occurrence. A day that the zone skipped
    has none."""
    zone, after, day = moment.tzinfo, moment.astimezone(UTC), moment.date()
    while True:
        instant = _reached(datetime.combine(day, at), zone)
        if instant > after and _reached(datetime.combine(day, time()), zone).astimezone(zone).date() == day:
            return instant
        day += timedelta(days=1)


def _reached(local: datetime, zone: tzinfo | None) -> datetime:
    """The first time, in UTC, when clocks in `zone` show `local` or, if it is skipped, something later."""
    shown = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if shown.astimezone(zone).replace(tzinfo=None) == local:
        return shown
    # Skipped: with the offset before the gap it is too late, with the one after it too early. The gap is between, on
    # a full second.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    low, high = 0, int((shown - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).replace(tzinfo=None) < local:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _idle_until(policy: ResetPolicy, now_ms: int, started_ms: int | None, last_ms: int | None) -> int | None:
    """Until when the session is not idle, in milliseconds; None if it never becomes idle or that is unknown. Messages
    from before a resume don't count."""
    if policy.idle_minutes is None or not last_ms or not 0 < last_ms <= now_ms:
        return None
    resumed_ms = started_ms if started_ms is not None and started_ms <= now_ms else 0
    return max(last_ms, resumed_ms) + policy.idle_minutes * _MINUTE_MS
