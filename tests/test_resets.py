"""The end of sessions through the whole program: by hand and by the clock, with the shipped hooks, jobs and notes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import threading
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest

from clawbot.agent.events import (
    CommandOutput,
    Event,
    MemoryWritten,
    MessageQueued,
    NoteKept,
    NotesQuoted,
    Notice,
    SessionChanged,
    TurnStarted,
)
from clawbot.background import Background
from clawbot.cli.schedule import session_is_over
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.indexing import open_index
from clawbot.memory.values import SearchRequest
from clawbot.messages import ToolCallBlock
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.scheduling.jobs import Every, Job, jobs_of
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import Schedule
from clawbot.sessions.entries import CustomEntry
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.store import OpenSession, SessionStore
from clawbot.sessions.text import Asked, UserWords
from clawbot.sessions.transcript import Transcript
from tests.agent.fakes import calls, says
from tests.agent.gate_host import notes, offers
from tests.memory.index_host import until
from tests.program import Home, say
from tests.tables import load_table

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 11, 20, 21, 30, tzinfo=BERLIN)
AUTO = "session:auto-reset"
NIGHT = timedelta(hours=10)  # from EVENING on, the boundary at 04:00 lies in it
CONFIG = {
    "agents": {"defaults": {"memory_search": {"enabled": False}}},
    "hooks": {"entries": {"session-memory": {"llm_slug": False}}},
}


class Program(Home):
    """The program with the notes that it writes and what its model was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, EVENING, CONFIG, window=64_000)
        self.model.replies = defaultdict(lambda: [says("fine")], self.model.replies)

    async def run_job(self, job: Job) -> str:
        """Run it in a runtime of its own."""
        runtime = await self.open(job.session_key)
        try:
            return await runtime.run_job(job)
        finally:
            await runtime.close()

    @property
    def notes(self) -> dict[str, str]:
        return {path.name: path.read_text("utf-8") for path in sorted(self.memory.glob("*.md"))}

    @property
    def asked(self) -> list[str]:
        return self.model.purposes


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(monkeypatch)


def of(events: list[Event], *kinds: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


def job(prompt: str, session: str = "main") -> Job:
    return Job(
        name="morning",
        agent_id="main",
        kind="prompt",
        when=Every(1_800),
        session_key=f"agent:main:{session}",
        prompt=prompt,
    )


def background(runtime: Runtime, program: Program, *jobs: Job) -> Background:
    schedule = Schedule(jobs, Ledger(program.folder / "schedule.json"), program.clock)
    beside = Background("main", schedule, program.clock, program.run_job)
    beside.agents.append(runtime.agent)
    return beside


# -- 4.1, by hand -----------------------------------------------------------------------------------------------------


async def test_new_alone_asks_no_model_and_its_text_is_the_first_message(program: Program) -> None:
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    asked = len(program.asked)
    events = await say(runtime, "  /NEW ")
    assert [event.text for event in of(events, CommandOutput)] == ["New conversation started."]
    assert len(program.asked) == asked
    events = await say(runtime, "/new 港口几点开门？\nand when does it close?")
    assert program.model.of("chat")[-1].messages[-1].text == "港口几点开门？\nand when does it close?"
    assert [kind.__name__ for kind in map(type, events)][:2] == ["TurnStarted", "SessionChanged"]
    await runtime.close()


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is found by reading what the user said, whenever that is something else than before."""
    whole, reads = UserWords.read, list[list[str]]()

    def read(words: UserWords, transcript: Transcript) -> Asked:
        asked = whole(words, transcript)
        found = [text.text for text in asked.texts]
        if reads[-1:] != [found]:
            reads.append(found)
        return asked

    monkeypatch.setattr(UserWords, "read", read)
    return reads


async def test_what_the_user_said_is_read_from_the_first_key_on(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that `/new` needs to read no more than the last turn of a long talk."""
    reads = reads_of(monkeypatch)
    runtime = await Runtime.open(RuntimeOptions(session="main"))
    await runtime.agent.warm()
    await until(lambda: reads == [[]])
    await say(runtime, "the harbour opens at six")
    await until(lambda: reads[1:] == [["the harbour opens at six"]])
    await runtime.close()


async def test_a_very_long_talk_is_read_when_something_was_said_in_it(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first key press costs no more than that of a short one."""
    reads = reads_of(monkeypatch)
    monkeypatch.setattr("clawbot.agent.agent.READ_AT_ONCE", 100)
    runtime = await Runtime.open(RuntimeOptions(session="main"))
    await runtime.agent.warm()
    await say(runtime, "the harbour opens at six")
    await until(lambda: len(reads) > 0)
    assert reads == [["the harbour opens at six"]]
    await runtime.close()


async def test_the_note_is_of_the_session_that_ended_and_not_of_the_newest_file(program: Program) -> None:
    """Sheet 11.1, BUG, and list B 18: there the newest transcript of the folder could be taken for it."""
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    other = await program.open("garden")
    await say(other, "tulips need water")
    await other.close()
    await say(runtime, "/new")
    [note] = program.notes.values()
    assert "harbour" in note
    assert "tulips" not in note
    await runtime.close()


async def test_notes_of_the_same_name_stand_side_by_side(program: Program) -> None:
    """Sheet 11.1, BUG, and list B 18: there the second one overwrote the first."""
    (program.memory / "2026-11-20-harbour-opens.md").write_text("mine\n", encoding="utf-8")
    runtime = await program.open()
    for _ in range(2):
        await say(runtime, "harbour opens six")
        await say(runtime, "/new")
    names = [f"2026-11-20-harbour-opens{number}.md" for number in ("-2", "-3", "")]
    assert list(program.notes) == names
    assert program.notes[names[2]] == "mine\n"
    ids = [line for note in program.notes.values() for line in note.splitlines() if "Session ID" in line]
    assert len(set(ids)) == 2
    await runtime.close()


async def test_a_session_of_commands_and_silence_leaves_no_note(program: Program) -> None:
    """List B 10 and 18: slash commands, and what was answered with silence, are nobody's conversation."""
    program.model.replies["chat"] = [says("NO_REPLY")]
    runtime = await program.open()
    await say(runtime, "/status")
    await runtime.run_job(job("Look around. If nothing needs attention, reply with NO_REPLY."))
    await say(runtime, "/new")
    assert program.notes == {}
    await runtime.close()


async def test_hooks_that_fail_or_die_keep_no_reset_back_and_are_told_once(program: Program) -> None:
    """List B 30: each hears the session while it is still there, and what it says is told once."""
    program.write_hook("angry", "async def handle(event):\n    raise ValueError('no')\n", "command")
    program.write_hook("dying", "import os\n\nasync def handle(event):\n    os._exit(3)\n", "command")
    told = "said = await event.hook.said(9)\n    await event.hook.tell(f'{len(said)} texts')\n"
    program.write_hook("talking", f"async def handle(event):\n    {told}", "command")
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    events = await say(runtime, "/new")
    lines = [notice.text for notice in of(events, Notice)]
    assert [sum(name in line for line in lines) for name in ("angry", "dying", "2 texts")] == [1, 1, 1]
    assert len(of(events, SessionChanged)) == len(of(events, NoteKept)) == len(program.notes) == 1
    again = await say(runtime, "/reset")
    assert len(of(again, SessionChanged)) == len(program.notes) == 1
    await runtime.close()


# -- 4.2, by the clock ------------------------------------------------------------------------------------------------


async def test_the_first_message_behind_the_boundary_begins_a_session(program: Program) -> None:
    """Sheet 4.2, BUG: there nothing was kept, no hook called, no session ended, and the chosen model lost."""
    topics = "event.topic + ' ' + getattr(event, 'reason', '')"
    program.write_hook(
        "watching",
        f"async def handle(event):\n    await event.hook.tell({topics})\n",
        "session",
    )
    runtime = await program.open()
    await runtime.agent.set_model("fake/chosen")
    await say(runtime, "the harbour opens at six")
    old = runtime.agent.conversation.session
    program.clock.moment += NIGHT
    later: list[Event] = []
    runtime.agent.listen(later.append)
    events = await say(runtime, "good morning")
    hooks = runtime.agent.deps.hooks
    assert hooks is not None
    await hooks.settled()
    kinds = [kind for kind in map(type, events) if kind is not Notice]
    assert kinds[:5] == [MessageQueued, NoteKept, SessionChanged, NotesQuoted, TurnStarted]
    assert [event.reason for event in of(events, SessionChanged)] == ["daily"]
    [(name, note)] = program.notes.items()
    assert name.startswith("2026-11-20-")
    assert note.startswith("# Session: 2026-11-20 21:30 (Europe/Berlin)\n")
    assert "- **Reason**: daily" in note
    assert "\n21:30 user: the harbour opens at six\n" in note
    # Nobody waits for hooks of the last two: the turn may have ended before they tell.
    lines = {notice.text for notice in of([*events, *later], Notice)}
    assert {"session:auto-reset daily", "session:end daily", "session:start daily"} <= lines
    assert runtime.agent.status.model.ref == "fake/chosen"
    assert runtime.agent.conversation.session.record.model_override == "fake/chosen"
    [summary] = [each for each in await runtime.sessions.all() if each.session_id == old.record.session_id]
    assert summary.ended == "daily"
    assert "the harbour opens at six" in old.transcript.path.read_text("utf-8")
    await runtime.close()


async def test_where_no_hook_keeps_sessions_the_clock_saves_to_memory(program: Program) -> None:
    """List B 5: a reset by the clock passes the gate like any other."""
    program.configure(hooks={"enabled": False})
    program.model.replies["flush"] = notes("- 港口 opens at six\n")
    runtime = await program.open()
    await say(runtime, "the harbour opens at six. " * 200)
    program.clock.moment += NIGHT
    events = await say(runtime, "good morning")
    await runtime.agent.ended.settled()
    events += await say(runtime, "and now?")
    lines = [notice for notice in of(events, Notice) if notice.text == "memory: 1 line from the conversation before"]
    assert [(notice.path, notice.line) for notice in lines] == [("memory/2026-11-20.md", 1)]
    assert "opens at six" in program.notes["2026-11-20.md"]
    await runtime.close()


async def test_hooks_hear_of_an_end_also_where_session_memory_is_off(program: Program) -> None:
    program.configure(hooks={"entries": {"session-memory": {"enabled": False}}})
    talking = "texts = await event.hook.said(9)\n    await event.hook.tell(f'{event.topic} {len(texts)}')"
    program.write_hook("watching", f"async def handle(event):\n    {talking}\n", "command", "session:auto-reset")
    runtime = await program.open()
    lines: list[str] = []
    for text in ("/new", "good morning"):
        await say(runtime, "the harbour opens at six")
        program.clock.moment += timedelta(days=1)
        lines += [notice.text for notice in of(await say(runtime, text), Notice)]
    assert lines == ["command:new 2", "session:auto-reset 2"]
    assert program.notes == {}
    await runtime.close()


async def test_the_words_that_a_hook_kept_are_offered_to_nobody_else(program: Program) -> None:
    """The record of the gate names the hook, and no model is asked."""
    runtime = await program.open()
    await say(runtime, "the harbour opens at six. " * 200)
    path = runtime.agent.conversation.session.transcript.path
    await say(runtime, "/new")
    [record] = [
        line["data"]
        for line in map(json.loads, path.read_text("utf-8").splitlines())
        if line.get("customType") == "clawbot.memory-offer" and line["data"]["phase"] == "end"
    ]
    assert (record["by"], record["exit"], record["result"], record["messages"]) == (
        "session-memory",
        "reset",
        "written",
        2,
    )
    assert [write["path"] for write in record["writes"]] == [f"memory/{name}" for name in program.notes]
    assert set(program.asked) == {"chat"}
    assert offers(runtime.agent) == []
    await runtime.close()


async def test_what_a_job_says_ends_no_session_and_keeps_none_alive(program: Program) -> None:
    """Sheet 4.2, BUG: there the first heartbeat of the day reset the session, and others kept idle ones alive."""
    program.configure(session={"reset": {"mode": "idle", "idle_minutes": 60}})
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    for _ in range(3):
        program.clock.moment += timedelta(minutes=40)
        await runtime.run_job(job("Is anything due?"))
    assert runtime.agent.conversation.session_id == first
    [changed] = of(await say(runtime, "hello"), SessionChanged)
    assert changed.reason == "idle"
    [note] = program.notes.values()
    assert "user: the harbour opens at six" in note
    assert "Is anything due?" not in note
    await runtime.close()


@pytest.mark.parametrize("text", ["/new", "/reset everything", "/model offline"])
async def test_what_a_job_says_is_no_command(program: Program, text: str) -> None:
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    await runtime.run_job(job(text))
    assert runtime.agent.conversation.session_id == first
    assert program.model.of("chat")[-1].messages[-1].text.startswith(text)
    await runtime.close()


async def test_the_clock_ends_a_session_once_while_nobody_speaks(program: Program) -> None:
    """List B 15: one reset for the boundaries that were passed, and the next look is at the next one."""
    runtime = await program.open()
    seen: list[Event] = []
    runtime.agent.listen(seen.append)
    await say(runtime, "the harbour opens at six")
    looking = background(runtime, program)
    assert await looking.check() == datetime(2026, 11, 21, 4, 0, tzinfo=BERLIN)
    assert seen == []
    program.clock.moment += timedelta(days=3)
    for _ in range(3):
        assert await looking.check() == datetime(2026, 11, 24, 4, 0, tzinfo=BERLIN)
    program.clock.moment -= timedelta(hours=20)
    await looking.check()
    assert [type(event) for event in seen] == [NoteKept, SessionChanged]
    assert not of(await say(runtime, "hello"), SessionChanged)
    await runtime.close()


async def test_a_pause_ends_a_session_whose_clock_was_read_before_its_first_message(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an end that failed, and after a clock that was wrong for a while."""
    program.configure(session={"reset": {"mode": "idle", "idle_minutes": 30}})
    runtime = await program.open()
    first = runtime.agent.conversation.session_id
    checks = background(runtime, program)
    assert await checks.check() is None
    await say(runtime, "the harbour opens at six")
    pause = timedelta(minutes=30)
    assert await checks.check() == program.clock.moment + pause + timedelta(milliseconds=1)
    program.clock.moment -= NIGHT
    await checks.check()
    program.clock.moment += NIGHT + pause
    await checks.check()
    assert runtime.agent.conversation.session_id == first
    program.clock.moment += timedelta(minutes=1)
    with monkeypatch.context() as broken:
        broken.setattr(SessionStore, "rotate", Mock(side_effect=SessionStoreError("The index is locked.")))
        for _ in range(3):
            await checks.check()
    assert runtime.agent.conversation.session_id == first
    program.clock.moment += timedelta(minutes=10)
    await checks.check()
    assert runtime.agent.conversation.session_id != first
    await runtime.close()


@pytest.mark.parametrize("looks", [[6.5], [5, 6.5, 7], [60]])
async def test_the_first_look_of_the_schedule_ends_a_session_that_is_over(program: Program, looks: list[float]) -> None:
    """`clawbot schedule run` by a system's cron, so many hours after the evening: nobody looked at this home before."""
    zone = {"timezone": "Europe/Berlin", "memory_search": {"enabled": False}}
    program.configure(agents={"defaults": zone})
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    jobs = jobs_of(runtime.settings)
    await runtime.close()

    schedule = Schedule(jobs, Ledger(program.folder / "schedule.json"), program.clock)
    for hours in looks:
        program.clock.moment = EVENING + timedelta(hours=hours)
        await schedule.run_due(program.run_job, program.clock.now())
        assert bool(program.notes) is (hours >= 6.5)
    [(name, note)] = program.notes.items()
    assert name == "2026-11-20-harbour-opens.md"
    assert "- **Reason**: daily" in note
    runtime = await program.open()
    assert runtime.agent.conversation.session_id != first
    await runtime.close()


IDLE = [("idle", 2.0, "idle"), ("idle", 9.0, "idle"), ("daily+idle", 2.0, "idle")]


@pytest.mark.parametrize(("mode", "hours", "reason"), IDLE)
async def test_the_first_look_ends_a_session_in_which_nobody_spoke_for_long(
    program: Program, monkeypatch: pytest.MonkeyPatch, mode: str, hours: float, reason: str
) -> None:
    program.configure(session={"reset": {"mode": mode}})
    monkeypatch.setattr("clawbot.cli.schedule.SystemClock", lambda _zone=None: program.clock)
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    jobs = jobs_of(runtime.settings)
    is_over = functools.partial(session_is_over, runtime.settings, runtime.paths)
    await runtime.close()
    opened: list[str] = []

    async def run(job: Job) -> str:
        opened.append(job.name)
        return await program.run_job(job)

    schedule = Schedule(jobs, Ledger(program.folder / "schedule.json"), program.clock, is_over)
    for passed in (0.5, hours, hours + 0.5):
        program.clock.moment = EVENING + timedelta(hours=passed)
        await schedule.run_due(run, program.clock.now())
        assert opened == (["reset"] if passed >= hours else [])
    [note] = program.notes.values()
    assert f"- **Reason**: {reason}" in note


async def test_a_session_in_which_nothing_was_said_begins_anew_without_a_word(program: Program) -> None:
    runtime = await program.open()
    path = runtime.agent.conversation.session.transcript.path
    program.clock.moment += NIGHT
    events = await say(runtime, "good morning")
    assert not of(events, SessionChanged, NoteKept)
    assert runtime.agent.conversation.session.transcript.path == path
    assert len(await runtime.sessions.all()) == 1
    await runtime.close()


async def test_a_session_that_can_not_be_ended_goes_on(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock asks for the reset, not the user: who writes in the morning gets an answer."""
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    program.clock.moment += NIGHT
    tried = 0

    def rotate(*_: Any, **__: Any) -> None:
        nonlocal tried
        tried += 1
        raise SessionStoreError("The index is locked.")

    with monkeypatch.context() as broken:
        broken.setattr(SessionStore, "rotate", rotate)
        events = await say(runtime, "good morning")
        for _ in range(5):
            with contextlib.suppress(SessionStoreError):
                await runtime.agent.check_clock()
        assert tried == 1  # looks leave it alone for a while
        program.clock.moment += timedelta(minutes=10)
        with pytest.raises(SessionStoreError):
            await runtime.agent.check_clock()
    assert tried == 2
    assert runtime.agent.conversation.session_id == first
    assert any("The index is locked." in notice.text for notice in of(events, Notice))
    assert program.model.of("chat")[-1].messages[-1].text == "good morning"
    [changed] = of(await say(runtime, "hello"), SessionChanged)
    assert (changed.reason, len(program.notes)) == ("daily", 1)
    await runtime.close()


async def test_esc_stops_the_hooks_of_a_reset_by_the_clock_and_nothing_else(program: Program) -> None:
    program.write_hook("hangs", "import asyncio\nasync def handle(event):\n    await asyncio.Event().wait()\n", AUTO)
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    program.clock.moment += NIGHT
    looking = asyncio.create_task(runtime.agent.check_clock())
    await until(runtime.agent.interrupt)
    await looking
    assert runtime.agent.conversation.session_id != first
    assert not runtime.agent.interrupt()
    await runtime.close(hasty=True)


async def test_a_resumed_session_finds_its_note_under_the_name_that_it_got_since(program: Program) -> None:
    program.configure(hooks={"entries": {"session-memory": {"llm_slug": True}}})
    program.model.replies["slug"] = [says("harbour-hours")]
    runtime = await program.open()
    await say(runtime, "the gate opens at six")
    first = runtime.agent.conversation.session_id
    kept, *_ = of(await say(runtime, "/new"), NoteKept)
    hooks = runtime.agent.deps.hooks
    assert hooks is not None
    await hooks.settled()
    assert list(program.notes) == ["2026-11-20-harbour-hours.md"]
    await runtime.sessions.resume(first)
    assert await runtime.workspace.locate_note(kept.path) == "memory/2026-11-20-harbour-hours.md"
    for other in ("AGENTS.md", "memory/2026-11-20.md", "memory/2026-11-20-harbour-hours.md"):
        assert await runtime.workspace.locate_note(other) == other
    await runtime.sessions.resume("main")
    assert await runtime.workspace.locate_note(kept.path) == kept.path
    await runtime.close()


# -- 19, one day for all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "instant", "today", "yesterday"),
    load_table(__file__, "flush_note_and_quote_mean_the_same_day"),
)
async def test_flush_note_and_quote_mean_the_same_day(
    program: Program, zone: str, instant: str, today: str, yesterday: str
) -> None:
    """Sheet 19 and list B 19: there these were three days, and none of them the user's."""
    program.configure(session={"reset": {"mode": "none"}})
    program.clock.moment = datetime.fromisoformat(instant).replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    (program.memory / f"{yesterday}.md").write_text("- 昨天 the day before\n", encoding="utf-8")
    program.model.replies["flush"] = notes("- of the flush\n")
    runtime = await program.open()
    [quote] = of(await say(runtime, "the harbour opens at six. " * 200), NotesQuoted)
    assert quote.files == (f"memory/{yesterday}.md",)
    assert today in program.model.of("chat")[-1].system
    [written] = of(await say(runtime, "/compact"), MemoryWritten)
    assert written.path == f"memory/{today}.md"
    await say(runtime, "the harbour opens at seven")
    kept, *_ = of(await say(runtime, "/new"), NoteKept)
    assert kept.path.startswith(f"memory/{today}-")
    [quote] = of(await say(runtime, "hello"), NotesQuoted)
    assert set(quote.files) == {written.path, kept.path, f"memory/{yesterday}.md"}
    await runtime.close()


@pytest.mark.parametrize(
    ("zone", "evening", "day"),
    [
        ("Pacific/Kiritimati", "2026-11-20", "2026-11-21"),
        ("Etc/GMT+12", "2026-11-20", "2026-11-21"),
        ("Europe/Berlin", "2026-10-24", "2026-10-25"),
        ("America/New_York", "2026-03-07", "2026-03-08"),
    ],
)
async def test_the_reset_is_at_the_users_four_in_the_morning(
    program: Program, zone: str, evening: str, day: str
) -> None:
    """Sheet 4.2: there it was the machine's four, which is UTC here."""
    program.clock.moment, early, due = (
        datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
        for text in (f"{evening}T20:00", f"{day}T03:59", f"{day}T04:00")
    )
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    program.clock.moment = early
    assert not of(await say(runtime, "still awake"), SessionChanged)
    program.clock.moment = due
    [kept] = of(await say(runtime, "good morning"), NoteKept)
    assert kept.path.startswith(f"memory/{day}-")
    await runtime.close()


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("zone", "spoken", "ended"),
    [
        ("Europe/Berlin", "2026-11-20T23:59", "2026-11-21T00:01"),
        ("Europe/Berlin", "2026-10-25T00:30", "2026-10-26T09:00"),
        ("America/New_York", "2026-03-07T23:30", "2026-03-09T00:30"),
        ("Pacific/Kiritimati", "2026-11-20T00:10", "2026-11-20T13:00"),
        ("Etc/GMT+12", "2026-11-20T23:50", "2026-11-30T23:50"),
        ("Europe/Berlin", "2016-11-18T14:00", "2026-11-23T09:00"),
    ],
)
@pytest.mark.parametrize("end", ["/new", "/reset", "by the clock"])
async def test_a_note_is_of_the_day_of_the_users_last_words(
    program: Program, zone: str, spoken: str, ended: str, end: str
) -> None:
    program.configure(
        session={"reset": {"mode": "idle", "idle_minutes": 1} if end == "by the clock" else {"mode": "none"}}
    )
    program.clock.moment, later = (datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(zone)) for at in (spoken, ended))
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    program.clock.moment = later
    await say(runtime, "good morning" if end == "by the clock" else end)
    [(path, note)] = program.notes.items()
    day, time = spoken.split("T")
    assert path == f"{day}-harbour-opens.md"
    assert note.startswith(f"# Session: {day} {time} ({zone})\n")
    assert f"\n{time} user: the harbour opens at six\n\n{time} assistant: fine\n" in note
    await runtime.close()


async def test_a_talk_over_midnight_is_of_the_day_of_its_last_words_and_tells_both(program: Program) -> None:
    program.clock.moment = datetime(2026, 11, 20, 23, 50, tzinfo=BERLIN)
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    program.clock.moment += timedelta(minutes=20)
    await say(runtime, "and the lighthouse at ten")
    program.clock.moment += timedelta(days=2)
    await say(runtime, "/new")
    [(path, note)] = program.notes.items()
    assert path.startswith("2026-11-21-")
    assert note.startswith("# Session: 2026-11-20 23:50 – 2026-11-21 00:10 (Europe/Berlin)\n")
    said = note.partition("## Conversation Summary\n\n")[2]
    assert said.split("\n\n") == [
        "23:50 user: the harbour opens at six",
        "23:50 assistant: fine",
        "2026-11-21 00:10 user: and the lighthouse at ten",
        "00:10 assistant: fine\n",
    ]
    await runtime.close()


async def test_a_talk_from_friday_to_monday_is_found_by_the_days_on_which_things_were_said(program: Program) -> None:
    """Kept by the clock, by `/new` days later, and resumed after that."""
    off = {"hooks": CONFIG["hooks"], "agents": {"defaults": {"timezone": "Europe/Berlin"}}}
    program.configure(**off)
    runtime = await program.open()
    first = runtime.agent.conversation.session_id
    for day, time, text in (
        ("2026-11-20", "14:00", "the launch party is at the lighthouse on 5 May"),
        ("2026-11-20", "23:58", "the party needs lanterns"),
        ("2026-11-21", "00:20", "the party needs 蛋糕 as well"),
        ("2026-11-21", "09:00", "good morning"),  # the clock ends the session of the night first
        ("2026-11-23", "08:30", "/new"),
    ):
        program.clock.moment = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=BERLIN)
        await say(runtime, text)
    await runtime.sessions.resume(first)
    await say(runtime, "the party is off")
    await say(runtime, "/new")
    await runtime.close()
    assert [name[:10] for name in program.notes] == ["2026-11-21", "2026-11-21"]
    loaded = load_settings(Paths(program.folder))
    index = open_index(loaded.settings, "main", Paths(program.folder), program.clock, long_lived=False)
    assert index is not None
    try:
        for at, found in ((19, []), (20, ["lighthouse", "lanterns"]), (21, ["蛋糕"]), (22, []), (23, ["off"])):
            asked = SearchRequest(queries=("party",), after=date(2026, 11, at), before=date(2026, 11, at))
            text = "\n".join(hit.snippet for hit in (await index.search(asked)).hits)
            assert [word for word in ("lighthouse", "lanterns", "蛋糕", "off") if word in text] == found, (at, text)
    finally:
        await index.close()


async def test_a_session_that_is_resumed_keeps_its_note_whose_heading_tells_the_new_end(program: Program) -> None:
    """Links and quotes name the file and the line: neither changes with the day of the last words."""
    program.configure(session={"reset": {"mode": "none"}})
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    await say(runtime, "/new")
    [(path, before)] = program.notes.items()
    for days, text in ((3, "the lighthouse opens at ten"), (5, "灯塔十点开门")):
        program.clock.moment = EVENING + timedelta(days=days)
        await runtime.sessions.resume(first)
        await say(runtime, text)
        await say(runtime, "/new")
    [(name, note)] = program.notes.items()
    assert name == path == "2026-11-20-harbour-opens.md"
    assert note.startswith("# Session: 2026-11-20 21:30 – 2026-11-25 21:30 (Europe/Berlin)\n")
    lines = before.splitlines()
    place = lines.index("21:30 user: the harbour opens at six")
    assert note.splitlines()[place] == lines[place]
    assert "\n2026-11-23 21:30 user: the lighthouse opens at ten\n\n21:30 assistant: fine\n" in note
    assert "\n2026-11-25 21:30 user: 灯塔十点开门\n" in note
    await runtime.close()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
async def test_a_session_that_is_resumed_in_another_zone_keeps_each_text_once(program: Program, zone: str) -> None:
    program.configure(session={"reset": {"mode": "none"}})
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    await say(runtime, "/new")
    program.clock.moment = (EVENING + timedelta(minutes=7)).astimezone(ZoneInfo(zone))
    await runtime.sessions.resume(first)
    await say(runtime, "the harbour opens at six")
    await say(runtime, "/new")
    [note] = program.notes.values()
    said = [block.partition(" user: ")[2] for block in note.split("\n\n") if " user: " in block]
    assert said == ["the harbour opens at six"] * 2
    await runtime.close()


async def test_a_note_that_outgrows_the_texts_that_are_kept_stays_whole_and_dated(program: Program) -> None:
    program.configure(
        hooks={"entries": {"session-memory": {"llm_slug": False, "messages": 3}}}, session={"reset": {"mode": "none"}}
    )
    runtime = await program.open()
    first = runtime.agent.conversation.session_id
    for day, text in enumerate(("harbour at six", "lighthouse at ten", "ferry at noon")):
        program.clock.moment = EVENING + timedelta(days=day)
        await runtime.sessions.resume(first)
        await say(runtime, text)
        await say(runtime, "/new")
    [note] = program.notes.values()
    assert note.startswith("# Session: 2026-11-20 21:30 – 2026-11-22 21:30 (Europe/Berlin)\n")
    assert note.partition("## Conversation Summary\n\n")[2].split("\n\n") == [
        "21:30 user: harbour at six",
        "21:30 assistant: fine",
        "2026-11-21 21:30 user: lighthouse at ten",
        "21:30 assistant: fine",
        "2026-11-22 21:30 user: ferry at noon",
        "21:30 assistant: fine\n",
    ]
    await runtime.close()


async def test_a_note_of_before_times_were_told_goes_on_where_it_stopped(program: Program) -> None:
    program.configure(session={"reset": {"mode": "none"}})
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    session = runtime.agent.conversation.session
    old = f"# Session: 2026-11-20 21:30 (Europe/Berlin)\n\n- **Session ID**: {session.record.session_id}\n\n"
    old += "## Conversation Summary\n\nuser: the harbour opens at six\n\nassistant: fine\n"
    (program.memory / "2026-11-20-harbour.md").write_text(old, encoding="utf-8")
    digest = hashlib.sha256(old.encode()).hexdigest()
    session.transcript.append(CustomEntry(custom_type="clawbot.note", data={"digest": digest, "path": "x"}), sync=True)
    program.clock.moment += timedelta(minutes=5)
    await say(runtime, "the lighthouse opens at ten")
    await say(runtime, "/new")
    [note] = program.notes.values()
    assert note.startswith("# Session: 2026-11-20 21:30–21:35 (Europe/Berlin)\n")
    assert note.count("the harbour opens at six") == 1
    assert note.endswith("\n\n21:35 user: the lighthouse opens at ten\n\n21:35 assistant: fine\n")
    await runtime.close()


# -- 21, heartbeats ---------------------------------------------------------------------------------------------------


def heartbeat() -> Job:
    return Job(
        name="heartbeat",
        agent_id="main",
        kind="heartbeat",
        when=Every(1_800),
        session_key="agent:main:cron:heartbeat",
    )


async def test_heartbeats_leave_no_trace_in_the_conversation(program: Program) -> None:
    """Sheet 21, BUG: there the main transcript was cut back behind each one, and words of the user with it."""
    (program.workspace / "HEARTBEAT.md").write_text("- 提醒我浇花 (water the plants)\n", encoding="utf-8")
    runtime = await program.open()
    seen: list[Event] = []
    runtime.agent.listen(seen.append)
    await say(runtime, "the harbour opens at six")
    path = runtime.agent.conversation.session.transcript.path
    written, context = path.read_bytes(), list(runtime.agent.conversation.messages)
    looking = background(runtime, program, heartbeat())
    await looking.check()
    program.model.replies["chat"] = [says("NO_REPLY"), says("Water the plants!"), says("fine")]
    for _ in range(2):
        program.clock.moment += timedelta(minutes=30)
        await looking.check()
    assert path.read_bytes() == written
    assert runtime.agent.conversation.messages == context
    assert [event.text for event in of(seen, Notice)] == ["heartbeat: Water the plants! (full text: /sessions)"]
    await say(runtime, "hello")
    assert not any("heartbeat" in message.text for message in program.model.of("chat")[-1].messages)
    await runtime.close()


async def test_a_heartbeat_knows_no_notes_and_can_not_ask(program: Program) -> None:
    """Sheet 1.7 and 20: in a session of the clock MEMORY.md is not in the prompt."""
    (program.workspace / "HEARTBEAT.md").write_text("- look\n", encoding="utf-8")
    (program.workspace / "MEMORY.md").write_text("The safe opens with 4711.\n", encoding="utf-8")
    program.model.replies["chat"] = [
        calls(ToolCallBlock("1", "shell", {"command": "touch here"})),
        says("NO_REPLY"),
    ]
    runtime = await program.open()
    looking = background(runtime, program, heartbeat())
    await looking.check()
    program.clock.moment += timedelta(minutes=30)
    await looking.check()
    assert len(program.model.of("chat")) == 2
    assert not any("4711" in request.system for request in program.model.of("chat"))
    assert not (program.workspace / "here").exists()
    await runtime.close()


@pytest.mark.parametrize("answer", ["NO_REPLY", "**no_reply**."])
async def test_a_jobs_turn_with_nothing_to_say_is_no_part_of_the_context(program: Program, answer: str) -> None:
    """Sheet 21 and list B 10: also where the settings put it into the conversation, and over a restart. The transcript
    keeps it, and what was offered to memory stays offered."""
    looking = calls(ToolCallBlock("1", "read", {"path": "AGENTS.md"}))
    program.model.replies["flush"] = [says("NO_REPLY")]
    runtime = await program.open()
    await say(runtime, "the harbour opens at six. " * 200)
    context = [message.text for message in runtime.agent.conversation.messages]
    for _ in range(2):
        program.model.replies["chat"] = [looking, says(answer), says("fine")]
        assert await runtime.run_job(job("Is anything due? 有事吗？")) == ""
    assert [message.text for message in runtime.agent.conversation.messages] == context
    path = runtime.agent.conversation.session.transcript.path
    assert path.read_text("utf-8").count("有事吗？") == 2
    await runtime.close()
    runtime = await program.open()
    assert [message.text for message in runtime.agent.conversation.messages] == context
    await say(runtime, "hello")
    sent = program.model.of("chat")[-1].messages
    assert [message.text for message in sent] == [*context, "hello"]
    await say(runtime, "/compact")
    await say(runtime, "and now?")
    await runtime.close()


async def test_a_jobs_turn_that_did_or_said_something_stays(program: Program) -> None:
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    writing = calls(ToolCallBlock("1", "append", {"path": "memory/plants.md", "text": "- watered\n"}))
    program.model.replies["chat"] = [writing, says("NO_REPLY"), says("Water the plants!"), says("fine")]
    for prompt in ("water them", "are they dry?"):
        await runtime.run_job(job(prompt))
    texts = [message.text for message in runtime.agent.conversation.messages]
    assert [text.partition("\n")[0] for text in texts if text.startswith(("water", "are", "Water"))] == [
        "water them",
        "are they dry?",
        "Water the plants!",
    ]
    await runtime.close()


async def test_what_concerns_the_user_is_told_also_when_it_comes_in_a_silent_turn(program: Program) -> None:
    teller = 'async def handle(event):\n    await event.hook.tell("备份好了 the backup is done")\n'
    program.write_hook("teller", teller, "agent:bootstrap")
    program.model.replies["chat"] = [says("NO_REPLY")]
    runtime = await program.open()
    # Found while nobody was there to be told, so it comes with the next turn.
    runtime.agent.notify(Notice(level="warning", text="a line of the transcript is damaged"))
    seen: list[Event] = []
    runtime.agent.listen(seen.append)
    assert await runtime.run_job(job("look")) == ""
    told = ["a line of the transcript is damaged", "备份好了 the backup is done"]
    assert sorted(event.text for event in of(seen, Notice)) == told
    assert len(seen) == len(told)
    await runtime.close()


async def test_a_session_of_heartbeats_does_not_grow(program: Program) -> None:
    (program.workspace / "HEARTBEAT.md").write_text("- look\n", encoding="utf-8")
    program.model.replies["chat"] = [says("HEARTBEAT_OK")]
    runtime = await program.open()
    looking = background(runtime, program, heartbeat())
    for _ in range(4):
        await looking.check()
        program.clock.moment += timedelta(minutes=30)
    sent = [request.messages for request in program.model.of("chat")]
    assert [len(messages) for messages in sent] == [1, 1, 1]
    await runtime.close()


async def test_the_screen_goes_on_while_a_talk_is_being_ended(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old session is closed a moment before the new one is there: a key may be pressed in between."""
    runtime = await Runtime.open(RuntimeOptions(session="main"))
    await say(runtime, "the harbour opens at six")
    closed, go_on = threading.Event(), threading.Event()
    rotate = SessionStore.rotate

    def and_wait(store: SessionStore, opened: OpenSession, reason: str, *, pending: bool = False) -> OpenSession:
        begun = rotate(store, opened, reason, pending=pending)
        closed.set()
        assert go_on.wait(100)
        return begun

    monkeypatch.setattr(SessionStore, "rotate", and_wait)
    ending = asyncio.create_task(say(runtime, "/new"))
    try:
        await until(closed.is_set)
        await runtime.agent.warm()
        shown = [item.message.text for item in await runtime.sessions.history() if item.message]
        assert shown[0] == "the harbour opens at six"
        assert runtime.agent.status.session_key == "main"
    finally:
        go_on.set()
        await ending
    assert await runtime.sessions.history() == []
    await runtime.close()
