"""The end of sessions through the whole program: by hand and by the clock, with the shipped hooks, jobs and notes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from clawbot import ground
from clawbot.agent.events import (
    CommandOutput,
    Event,
    MemoryWritten,
    NoteKept,
    NotesQuoted,
    Notice,
    SessionChanged,
    TurnEnded,
    TurnStarted,
)
from clawbot.background import Background, BackgroundParts
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import ToolCallBlock
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.scheduling.jobs import Every, Job
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import Schedule
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.store import SessionStore
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel, notes, offers
from tests.memory.index_host import until

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 11, 20, 21, 30, tzinfo=BERLIN)
AUTO = "session:auto-reset"
NIGHT = timedelta(hours=10)  # from EVENING on, the boundary at 04:00 lies in it
CONFIG = {
    "agents": {"defaults": {"memory_search": {"enabled": False}}},
    "hooks": {"entries": {"session-memory": {"llm_slug": False}}},
}


class WallClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.moment = EVENING

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()


class Program:
    """The program in a home of its own; `model` answers whatever is asked, `wall` is its clock."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workspace = home / "workspace"
        # Somebody lives here, so the ritual of the first start is over.
        self.memory = self.workspace / "memory"
        self.memory.mkdir(parents=True)
        self.wall = WallClock()
        self.model = PurposeModel()
        self.model.info = ModelInfo(ref="fake/model", window=64_000)
        self.model.replies = defaultdict(lambda: [says("fine")], self.model.replies)
        self.configure()

    def configure(self, **changes: Any) -> None:
        (self.home / "config.yaml").write_text(json.dumps({**CONFIG, **changes}), encoding="utf-8")

    async def open(self, session: str = "main") -> Runtime:
        return await Runtime.open(RuntimeOptions(session=session, interactive=False))

    def write_hook(self, name: str, handler: str, *topics: str) -> None:
        folder = self.home / "hooks" / name
        folder.mkdir(parents=True)
        head = f"name: {name}\ndescription: of a test\nevents: {json.dumps(topics)}\norder: 5"
        (folder / "HOOK.md").write_text(f"---\n{head}\n---\n", encoding="utf-8")
        (folder / "handler.py").write_text(handler, encoding="utf-8")

    @property
    def notes(self) -> dict[str, str]:
        return {path.name: path.read_text("utf-8") for path in sorted(self.memory.glob("*.md"))}

    @property
    def asked(self) -> list[str]:
        return self.model.purposes


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, own_world: Path) -> Program:
    program = Program(own_world / "home" / ".clawbot")

    async def open_model(ref: str, *_: Any, **__: Any) -> PurposeModel:
        program.model.info = ModelInfo(ref=ref, window=64_000)
        return program.model

    monkeypatch.setattr(ground, "open_model", open_model)
    monkeypatch.setattr(ground, "SystemClock", lambda _zone: program.wall)
    return program


async def say(runtime: Runtime, text: str) -> list[Event]:
    events = [event async for event in runtime.submit(text)]
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert last.status == "done", last.error
    return events


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
    async def elsewhere(job: Job) -> str:
        other = await program.open(job.session_key)
        try:
            return await other.run_job(job)
        finally:
            await other.close()

    schedule = Schedule(jobs, Ledger(program.home / "schedule.json"), program.wall)
    return Background(BackgroundParts(runtime.agent, schedule, program.wall, elsewhere, runtime.agent.announce))


# -- 4.1, by hand -----------------------------------------------------------------------------------------------------


async def test_new_alone_asks_no_model_and_its_text_is_the_first_message(program: Program) -> None:
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    asked = len(program.asked)
    events = await say(runtime, "  /NEW ")
    assert [event.text for event in of(events, CommandOutput)] == ["New session started."]
    assert len(program.asked) == asked
    events = await say(runtime, "/new 港口几点开门？\nand when does it close?")
    assert program.model.of("chat")[-1].messages[-1].text == "港口几点开门？\nand when does it close?"
    assert [kind.__name__ for kind in map(type, events)][:2] == ["TurnStarted", "SessionChanged"]
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
    (program.memory / "2026-11-20-harbour-opens-six.md").write_text("mine\n", encoding="utf-8")
    runtime = await program.open()
    for _ in range(2):
        await say(runtime, "harbour opens six")
        await say(runtime, "/new")
    names = [f"2026-11-20-harbour-opens-six{number}.md" for number in ("-2", "-3", "")]
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
    await runtime.set_model("fake/chosen")
    await say(runtime, "the harbour opens at six")
    old = runtime.agent.conversation.session
    program.wall.moment += NIGHT
    events = await say(runtime, "good morning")
    await runtime.agent.parts.hooks.settled()
    kinds = [kind for kind in map(type, events) if kind is not Notice]
    assert kinds[:4] == [NoteKept, SessionChanged, NotesQuoted, TurnStarted]
    assert [event.reason for event in of(events, SessionChanged)] == ["daily"]
    [(name, note)] = program.notes.items()
    assert name.startswith("2026-11-21-")
    assert "- **Reason**: daily" in note
    assert "user: the harbour opens at six" in note
    lines = {notice.text for notice in of(events, Notice)}
    assert {"session:auto-reset daily", "session:end daily", "session:start daily"} <= lines
    assert runtime.status.model.ref == "fake/chosen"
    assert runtime.agent.conversation.session.record.model_override == "fake/chosen"
    [summary] = [each for each in await runtime.sessions() if each.session_id == old.record.session_id]
    assert summary.ended == "daily"
    assert "the harbour opens at six" in old.transcript.path.read_text("utf-8")
    await runtime.close()


async def test_where_no_hook_keeps_sessions_the_clock_saves_to_memory(program: Program) -> None:
    """List B 5: a reset by the clock passes the gate like any other."""
    program.configure(hooks={"enabled": False})
    program.model.replies["flush"] = notes("- 港口 opens at six\n")
    runtime = await program.open()
    await say(runtime, "the harbour opens at six. " * 200)
    program.wall.moment += NIGHT
    events = await say(runtime, "good morning")
    assert [event.path for event in of(events, MemoryWritten)] == ["memory/2026-11-21.md"]
    assert "opens at six" in program.notes["2026-11-21.md"]
    await runtime.close()


async def test_hooks_hear_of_an_end_also_where_session_memory_is_off(program: Program) -> None:
    program.configure(hooks={"entries": {"session-memory": {"enabled": False}}})
    talking = "texts = await event.hook.said(9)\n    await event.hook.tell(f'{event.topic} {len(texts)}')"
    program.write_hook("watching", f"async def handle(event):\n    {talking}\n", "command", "session:auto-reset")
    runtime = await program.open()
    lines: list[str] = []
    for text in ("/new", "good morning"):
        await say(runtime, "the harbour opens at six")
        program.wall.moment += timedelta(days=1)
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
        program.wall.moment += timedelta(minutes=40)
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
    runtime.on_event = seen.append
    await say(runtime, "the harbour opens at six")
    looking = background(runtime, program)
    assert await looking.look() == datetime(2026, 11, 21, 4, 0, tzinfo=BERLIN)
    assert seen == []
    program.wall.moment += timedelta(days=3)
    for _ in range(3):
        assert await looking.look() == datetime(2026, 11, 24, 4, 0, tzinfo=BERLIN)
    program.wall.moment -= timedelta(hours=20)
    await looking.look()
    assert [type(event) for event in seen] == [NoteKept, SessionChanged]
    assert not of(await say(runtime, "hello"), SessionChanged)
    await runtime.close()


async def test_a_session_in_which_nothing_was_said_begins_anew_without_a_word(program: Program) -> None:
    runtime = await program.open()
    path = runtime.agent.conversation.session.transcript.path
    program.wall.moment += NIGHT
    events = await say(runtime, "good morning")
    assert not of(events, SessionChanged, NoteKept)
    assert runtime.agent.conversation.session.transcript.path == path
    assert len(await runtime.sessions()) == 1
    await runtime.close()


async def test_a_session_that_can_not_be_ended_goes_on(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock asks for the reset, not the user: who writes in the morning gets an answer."""
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    program.wall.moment += NIGHT

    def rotate(*_: Any) -> None:
        raise SessionStoreError("The index is locked.")

    with monkeypatch.context() as broken:
        broken.setattr(SessionStore, "rotate", rotate)
        events = await say(runtime, "good morning")
    assert runtime.agent.conversation.session_id == first
    assert any("The index is locked." in notice.text for notice in of(events, Notice))
    assert program.model.of("chat")[-1].messages[-1].text == "good morning"
    [changed] = of(await say(runtime, "hello"), SessionChanged)
    assert (changed.reason, len(program.notes)) == ("daily", 1)
    await runtime.close()


async def test_looks_leave_a_session_alone_for_a_while_that_can_not_be_ended(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    program.wall.moment += NIGHT
    tried = 0

    def rotate(*_: Any) -> None:
        nonlocal tried
        tried += 1
        raise SessionStoreError("The index is locked.")

    with monkeypatch.context() as broken:
        broken.setattr(SessionStore, "rotate", rotate)
        for _ in range(5):
            with contextlib.suppress(SessionStoreError):
                await runtime.agent.look_at_clock()
        assert tried == 1
        program.wall.moment += timedelta(minutes=10)
        with pytest.raises(SessionStoreError):
            await runtime.agent.look_at_clock()
    assert tried == 2
    [changed] = of(await say(runtime, "hello"), SessionChanged)
    assert (changed.reason, len(program.notes)) == ("daily", 1)
    await runtime.close()


async def test_esc_stops_the_hooks_of_a_reset_by_the_clock_and_nothing_else(program: Program) -> None:
    program.write_hook("hangs", "import asyncio\nasync def handle(event):\n    await asyncio.Event().wait()\n", AUTO)
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    first = runtime.agent.conversation.session_id
    program.wall.moment += NIGHT
    looking = asyncio.create_task(runtime.agent.look_at_clock())
    await until(runtime.interrupt)
    await looking
    assert runtime.agent.conversation.session_id != first
    assert not runtime.interrupt()
    await runtime.close(hasty=True)


async def test_a_resumed_session_finds_its_note_under_the_name_that_it_got_since(program: Program) -> None:
    program.configure(hooks={"entries": {"session-memory": {"llm_slug": True}}})
    program.model.replies["slug"] = [says("harbour-hours")]
    runtime = await program.open()
    await say(runtime, "the gate opens at six")
    first = runtime.agent.conversation.session_id
    kept, *_ = of(await say(runtime, "/new"), NoteKept)
    await runtime.agent.parts.hooks.settled()
    assert list(program.notes) == ["2026-11-20-harbour-hours.md"]
    await runtime.resume(first)
    assert await runtime.note_place(kept.path) == "memory/2026-11-20-harbour-hours.md"
    for other in ("AGENTS.md", "memory/2026-11-20.md", "memory/2026-11-20-harbour-hours.md"):
        assert await runtime.note_place(other) == other
    await runtime.resume("main")
    assert await runtime.note_place(kept.path) == kept.path
    await runtime.close()


# -- 19, one day for all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "instant", "today", "yesterday"),
    [
        ("Pacific/Kiritimati", "2026-11-20T15:30", "2026-11-21", "2026-11-20"),  # UTC+14: tomorrow already
        ("Etc/GMT+12", "2026-11-20T10:30", "2026-11-19", "2026-11-18"),  # UTC-12: yesterday still
        ("Europe/Berlin", "2026-10-25T23:30", "2026-10-26", "2026-10-25"),  # behind the end of summer time
        ("America/New_York", "2026-03-09T03:30", "2026-03-08", "2026-03-07"),  # behind its beginning
        ("UTC", "2026-11-20T00:00", "2026-11-20", "2026-11-19"),
    ],
)
async def test_flush_note_and_quote_mean_the_same_day(
    program: Program, zone: str, instant: str, today: str, yesterday: str
) -> None:
    """Sheet 19 and list B 19: there these were three days, and none of them the user's."""
    program.configure(session={"reset": {"mode": "none"}})
    program.wall.moment = datetime.fromisoformat(instant).replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
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
    ("zone", "evening", "before", "after"),
    [
        ("Pacific/Kiritimati", "2026-11-20T20:00", "2026-11-21T03:59", "2026-11-21T04:00"),
        ("Etc/GMT+12", "2026-11-20T20:00", "2026-11-21T03:59", "2026-11-21T04:00"),
        ("Europe/Berlin", "2026-10-24T20:00", "2026-10-25T03:59", "2026-10-25T04:00"),
        ("America/New_York", "2026-03-07T20:00", "2026-03-08T03:59", "2026-03-08T04:00"),
    ],
)
async def test_the_reset_is_at_the_users_four_in_the_morning(
    program: Program, zone: str, evening: str, before: str, after: str
) -> None:
    """Sheet 4.2: there it was the machine's four, which is UTC here."""
    program.wall.moment, early, due = (
        datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)) for text in (evening, before, after)
    )
    runtime = await program.open()
    await say(runtime, "the harbour opens at six")
    program.wall.moment = early
    assert not of(await say(runtime, "still awake"), SessionChanged)
    program.wall.moment = due
    [kept] = of(await say(runtime, "good morning"), NoteKept)
    assert kept.path.startswith(f"memory/{after[:10]}-")
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
    runtime.on_event = seen.append
    await say(runtime, "the harbour opens at six")
    path = runtime.agent.conversation.session.transcript.path
    written, context = path.read_bytes(), list(runtime.agent.conversation.messages)
    looking = background(runtime, program, heartbeat())
    await looking.look()
    program.model.replies["chat"] = [says("NO_REPLY"), says("Water the plants!"), says("fine")]
    for _ in range(2):
        program.wall.moment += timedelta(minutes=30)
        await looking.look()
    assert path.read_bytes() == written
    assert runtime.agent.conversation.messages == context
    assert [event.text for event in of(seen, Notice)] == [
        "heartbeat: Water the plants! (/sessions has the whole of it)"
    ]
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
    await looking.look()
    program.wall.moment += timedelta(minutes=30)
    await looking.look()
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
    runtime.agent.announce(Notice(level="warning", text="a line of the transcript is damaged"))
    seen: list[Event] = []
    runtime.on_event = seen.append
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
        await looking.look()
        program.wall.moment += timedelta(minutes=30)
    sent = [request.messages for request in program.model.of("chat")]
    assert [len(messages) for messages in sent] == [1, 1, 1]
    await runtime.close()
