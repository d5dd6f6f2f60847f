"""When a session ends by itself: at a time of the day, or after a pause. Pure decisions, in UTC and milliseconds.

Rules: reference sheet 4.2 and list B 15. A session that began before a daily boundary ends at it, once for each
boundary, however long the machine slept and wherever its clock was set back to. Only words of the user count for the
pause. What can't be right never ends a session: a start that is unknown (None or 0), and times that lie in the future.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal

from msgspec import Struct

from clawbot.clock import epoch_ms, moment_of
from clawbot.config.schema import ResetSettings, SessionType

# A century: nobody waits for longer, and any later moment might be in no calendar.
_LONGEST_IDLE_MINUTES = 100 * 366 * 24 * 60
_MINUTE_MS = 60_000
# Today, and those that may have to be passed over: one that is over already, one that the zone skipped, one to spare.
_DAYS_AHEAD = 4


class ResetPolicy(Struct, frozen=True):
    """When sessions end: at `daily_at` in the user's zone, after a pause of `idle_minutes`; None: not for that."""

    daily_at: time | None
    idle_minutes: int | None


class Expiry(Struct, frozen=True):
    """A session is over, since `at` (in UTC)."""

    reason: Literal["daily", "idle"]
    at: datetime


def type_of(session_key: str) -> SessionType:
    """What type of session the key is of, by its tokens (reference sheet 4.2). The names of an agent and of a session
    are no tokens."""
    words = session_key.lower().split(":")
    kinds = words[2:-1] if words[0] == "agent" else words[:-1]
    if "thread" in kinds or "topic" in kinds:
        return "thread"
    return "group" if "group" in kinds or "channel" in kinds else "direct"


def policy_of(settings: ResetSettings) -> ResetPolicy:
    """What these settings ask for. A pause counts in the mode daily too when it has a number."""
    idle = settings.pause
    return ResetPolicy(
        daily_at=None if settings.mode in ("idle", "none") else time.fromisoformat(settings.at),
        idle_minutes=None if idle is None else min(idle, _LONGEST_IDLE_MINUTES),
    )


def expiry(policy: ResetPolicy, now: datetime, *, started_ms: int | None, last_ms: int | None) -> Expiry | None:
    """Whether the session is over at `now`, which is in the user's zone; of two reasons the one that came first.

    `started_ms` is when it began or was resumed (`SessionRecord.began_at`), `last_ms` when the user last spoke in it,
    both in milliseconds since the epoch; None where nothing is known, or nothing was said.
    """
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


def next_look(policy: ResetPolicy, now: datetime, *, started_ms: int | None, last_ms: int | None) -> datetime | None:
    """The first moment after `now` (in UTC) at which `expiry` may say something new; None when it never will by itself.

    A session that is over at `now` already is not asked about: who calls this has just looked.
    """
    now_ms = epoch_ms(now)
    found: list[datetime] = []
    if policy.daily_at is not None:
        found.append(boundary_after(now, policy.daily_at))
    over_ms = _idle_until(policy, now_ms, started_ms, last_ms)
    if over_ms is not None and over_ms >= now_ms:
        found.append(moment_of(over_ms + 1))
    return min(found, default=None)


def boundary_after(moment: datetime, at: time) -> datetime:
    """The first instant after `moment` (in the user's zone) when clocks there reach the time `at` of a day, in UTC.

    A time that the clocks skip is reached when they go on behind it, one that they show twice at the first showing. A
    day that a zone left out of its calendar has none.
    """
    after = moment.astimezone(UTC)
    return next(instant for instant in _boundaries(moment, at) if instant > after)


def _boundaries(moment: datetime, at: time) -> Iterator[datetime]:
    zone = moment.tzinfo
    for ahead in range(_DAYS_AHEAD):
        day = moment.date() + timedelta(days=ahead)
        if _exists(day, zone):
            yield _reached(datetime.combine(day, at), zone)


def _exists(day: date, zone: tzinfo | None) -> bool:
    return _reached(datetime.combine(day, time()), zone).astimezone(zone).date() == day


def _reached(local: datetime, zone: tzinfo | None) -> datetime:
    """The first instant, in UTC, when clocks in `zone` show `local` or, where they skip it, something later."""
    shown = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _local(shown, zone) == local:
        return shown
    # It is skipped: by the offset before the jump it comes too late, by the one behind it too early. In between they
    # jumped, on a whole second.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    low, high = 0, int((shown - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _local(before + timedelta(seconds=middle), zone) < local:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _local(instant: datetime, zone: tzinfo | None) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def _idle_until(policy: ResetPolicy, now_ms: int, started_ms: int | None, last_ms: int | None) -> int | None:
    """Up to when the session is not idle, in milliseconds; None when it never gets so, or can't be told.

    A session that was resumed is not idle for what was said in it before.
    """
    if policy.idle_minutes is None or not last_ms or not 0 < last_ms <= now_ms:
        return None
    resumed_ms = started_ms if started_ms is not None and started_ms <= now_ms else 0
    return max(last_ms, resumed_ms) + policy.idle_minutes * _MINUTE_MS
