"""What the small world of `lossless.py` knows of sessions that end: hooks that keep them as notes, and are disturbed at
it; when the clock ends one; and what their notes must say."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from clawbot.clock import Clock, epoch_ms
from clawbot.config.paths import shipped
from clawbot.config.schema_extensions import HookSettings
from clawbot.hooks.discovery import discover
from clawbot.hooks.dispatch import Dispatcher
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.silence import spoken
from tests.agent.ledger import Ledger

KEEPER = "session-memory"
NOTES = "????-??-??-?*.md"
MESSAGES = 15
BOUNDARY = time(4)
_SPOKEN = re.compile(r"^(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(user|assistant):\s+(?:> )?([ua]\d{6})\b", re.MULTILINE)
_MARK = re.compile(r"[ua]\d{6}\b")
_SESSION = re.compile(r"\*\*Session ID\*\*: (\S+)")
_ENDS = ["command:new", "command:reset", "session:auto-reset"]
_HANDLER = """
from tests.agent.lossless_keeping import TROUBLES


async def handle(event):
    await TROUBLES[event.workspace]("{name}")
"""

TROUBLES: dict[str, Callable[[str], Any]] = {}
"""What befalls a workspace when the hooks `early` and `tardy` run in it: before the keeper, and behind it."""


def write_hooks(folder: Path) -> None:
    """The shipped hook that keeps sessions, and two that do whatever `TROUBLES` has for them."""
    shutil.copytree(shipped("hooks") / KEEPER, folder / KEEPER)
    for name, order in (("early", 1), ("tardy", 20)):
        (folder / name).mkdir()
        head = f"name: {name}\ndescription: of a test\nevents: [{', '.join(_ENDS)}]\norder: {order}"
        (folder / name / "HOOK.md").write_text(f"---\n{head}\n---\n", encoding="utf-8")
        (folder / name / "handler.py").write_text(_HANDLER.format(name=name), encoding="utf-8")


async def open_hooks(folder: Path, clock: Clock) -> Dispatcher:
    """The hooks in `folder`, in this process."""
    dispatcher = Dispatcher(lambda: discover([("shipped", folder)], HookSettings()), clock, timeout=60)
    await dispatcher.load()
    return dispatcher


async def hooks_done(dispatcher: Dispatcher, stalled: set[asyncio.Task[Any]], stalls: asyncio.Event) -> None:
    """Wait for the later work of the hooks, save for what is `stalled`: its model does not answer. `stalls` is set
    when there is more of that."""
    while waiting := {future for runner in dispatcher._runners.values() for future in runner.pending} - stalled:
        stalls.clear()
        more = asyncio.create_task(stalls.wait())
        await asyncio.wait({*waiting, more}, return_when=asyncio.FIRST_COMPLETED)
        more.cancel()


class Ends(Struct, frozen=True):
    """When the clock ends sessions, in a way that is easy to be sure of: `idle` in minutes."""

    daily: bool = False
    idle: int | None = None

    @property
    def policy(self) -> ResetPolicy:
        return ResetPolicy(daily_at=BOUNDARY if self.daily else None, idle_minutes=self.idle)

    def is_over(self, record: SessionRecord, spoke: int | None, now: datetime) -> bool:
        """Whether a session in which the user spoke last at `spoke` (in milliseconds) is over."""
        return self._daily(record, now) or self._idle(record, spoke, now)

    def _daily(self, record: SessionRecord, now: datetime) -> bool:
        began = record.began_at or 0
        return self.daily and began <= epoch_ms(now) and boundary_behind(began) <= now

    def _idle(self, record: SessionRecord, spoke: int | None, now: datetime) -> bool:
        if self.idle is None or spoke is None or spoke > epoch_ms(now):
            return False
        return max(spoke, record.began_at or 0) + self.idle * 60_000 < epoch_ms(now)


def boundary_behind(began_ms: int) -> datetime:
    """The first boundary behind that moment."""
    began = datetime.fromtimestamp(began_ms / 1000, UTC)
    boundary = datetime.combine(began.date(), BOUNDARY, UTC)
    return boundary if boundary > began else boundary + timedelta(days=1)


def assert_one_reset_for_each(records: Sequence[SessionRecord], rewound: int) -> None:
    """Each boundary ended one session at most; one more for each that the user began in a past that came again."""
    daily = [record for record in records if record.ended_reason == "daily"]
    ended = Counter(boundary_behind(record.began_at or 0) for record in daily)
    for boundary, count in ended.items():
        assert count <= 1 + rewound, f"{count} sessions ended at {boundary}"


def last_spoken(ledger: Ledger) -> int | None:
    """When the user, and no job, spoke last in the session."""
    found = None
    for line in ledger.lines[1:]:
        message = line.get("message", {})
        text = message.get("content") if message.get("role") == "user" else None
        if isinstance(text, str) and not message.get("scheduled"):
            found = message["timestamp"]
    return found


def worth_keeping(ledger: Ledger) -> list[tuple[str, str]]:
    """The last texts of a session, by role and mark: what its note must hold."""
    said = [
        (role, spoken(text, cut=False) if role == "assistant" else text) for role, text in ledger.said if role != "job"
    ]
    marks = [(role, found[0]) for role, text in said if (found := _MARK.match(text))]
    last = marks[-MESSAGES:]
    if any(role == "user" for role, _ in last):
        return last
    asked = [mark for mark in marks if mark[0] == "user"]
    return [asked[-1], *last[1:]] if asked else []


def notes_of(memory: Path) -> dict[str, list[tuple[str, str]]]:
    """What the notes of sessions hold, by the session's id. No session has two."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(memory.glob(NOTES)):
        text = path.read_text(encoding="utf-8")
        ids = _SESSION.findall(text)
        assert len(ids) == 1, f"{path.name} is the note of {ids}"
        assert ids[0] not in found, f"{ids[0]} has two notes, one of them {path.name}"
        assert text.endswith("\n"), f"{path.name} is torn"
        found[ids[0]] = [(role, mark) for role, mark in _SPOKEN.findall(text)]
    return found


def assert_in_order(note: Sequence[tuple[str, str]], ledger: Ledger) -> None:
    """A note holds a part of what was said, in order, once: more than the last texts when its session ended twice."""
    said = iter([(role, found[0]) for role, text in ledger.said if (found := _MARK.match(text))])
    assert all(mark in said for mark in note), f"the note says {note}"
