"""One agent with the shipped hooks whose sessions are kept as notes, by a clock that stands in the past."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.attachments.reading import Attachments
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_extensions import HookSettings
from clawbot.extensions.manifest import Source
from clawbot.hooks.discovery import discover
from clawbot.hooks.dispatch import Dispatcher
from clawbot.sessions.entries import FINAL, OFFER, CustomEntry, MessageEntry, Offer, offer_of
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.tools.registry import build_toolbox
from tests.agent.fakes import agent_deps
from tests.agent.gate_host import PurposeModel
from tests.hooks_shipped.test_session_memory import read

# Before any file that a test writes: notes are told from older ones by the time of their last change.
BEGIN = datetime(2024, 3, 11, 9, 30, tzinfo=ZoneInfo("Europe/Berlin"))

DAILY = ResetPolicy(daily_at=time(4), idle_minutes=None)


class MinuteClock:
    """Stands still so many minutes after `BEGIN`."""

    def __init__(self, minutes: int) -> None:
        self.moment = BEGIN + timedelta(minutes=minutes)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()


def store_in(folder: Path, minutes: int = 0) -> SessionStore:
    """The sessions that `open_agent` uses."""
    return SessionStore(folder / "sessions", MinuteClock(minutes), cwd=folder / "workspace")


async def open_agent(
    folder: Path,
    model: PurposeModel,
    minutes: int,
    policy: ResetPolicy | None = None,
    *,
    hooked: bool = True,
    least: int = 1,
    patience: float = 20.0,
    interactive: bool = False,
    session: str = "main",
) -> Agent:
    """The agent in its main session, or another one, `minutes` after `BEGIN`. Not `hooked`: no hook keeps sessions, so
    memory is offered them by a silent turn, if at least `least` tokens are left of them. The end of the program waits
    `patience` seconds for that."""
    clock, workspace = MinuteClock(minutes), folder / "workspace"
    flush = {"memory_flush": {"reset_min_tokens": least, "quit_min_tokens": 1, "quit_timeout": patience}}
    settings = AgentSettings.model_validate({"workspace": workspace, "compaction": flush})
    places: list[tuple[Source, Path]] = [("home", folder / "hooks"), ("shipped", shipped("hooks"))]
    dispatcher = Dispatcher(lambda: discover(places, HookSettings()), clock, timeout=10)
    await dispatcher.load()

    store = store_in(folder, minutes)
    opened = await asyncio.to_thread(store.open, session)
    deps = agent_deps(
        workspace,
        settings=settings,
        model=model,
        store=store,
        tools=build_toolbox(workspace, settings, clock, Paths(find_home())),
        clock=clock,
        approvals=interactive,
        flush_at_end=interactive,
        hooks=dispatcher if hooked else None,
        home=folder,
        reset=policy or ResetPolicy(daily_at=None, idle_minutes=None),
        attachments=Attachments(workspace, settings.attachments, state=folder),
    )
    return Agent(deps, Conversation(deps.store, opened, deps.clock))


def hooks_of(agent: Agent) -> Dispatcher:
    """What runs the hooks of `agent`, which has some."""
    assert agent.deps.hooks is not None
    return agent.deps.hooks


class Note(Struct, frozen=True):
    """A note as it lies in `memory/`: which session it is of, and what was said there."""

    name: str
    session_id: str
    said: tuple[tuple[str, str], ...]


def notes_in(workspace: Path) -> list[Note]:
    """All notes, each of them whole. A note that is torn fails."""
    return [_note(path) for path in sorted((workspace / "memory").glob("????-??-??-*.md"))]


def _note(path: Path) -> Note:
    text = path.read_text("utf-8")
    head, middle, _ = text.partition("\n## Conversation Summary\n")
    assert middle, f"{path.name} is torn:\n{text}"
    assert text.endswith("\n"), f"{path.name} is torn:\n{text}"
    facts = dict(line[4:].split("**: ", 1) for line in head.splitlines() if line.startswith("- **"))
    return Note(path.name, facts["Session ID"], tuple(read(text)))


def taken(path: Path) -> dict[str, int]:
    """How often each message of a transcript was offered to memory for good, by the message's id."""
    with Transcript.open(path, clock=MinuteClock(0), writable=False) as transcript:
        entries = list(transcript.entries)
    ids = [entry.id for entry in entries]
    records = [offer_of(entry) for entry in entries if isinstance(entry, CustomEntry) and entry.custom_type == OFFER]
    ends = [record for record in records if record is not None and record.phase == "end" and record.result in FINAL]
    places = [place for place, entry in enumerate(entries) if isinstance(entry, MessageEntry)]
    return {ids[place]: sum(_holds(ids, end, place) for end in ends) for place in places}


def _holds(ids: Sequence[str], offer: Offer, place: int) -> bool:
    return ids.index(offer.first) <= place <= ids.index(offer.last)
