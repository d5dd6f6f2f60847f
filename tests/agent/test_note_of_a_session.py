"""The one note of a session that ends more than once: it was resumed, or edited, or a kill came between."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent import notes as notes_module
from clawbot.agent.agent import Agent
from clawbot.agent.events import NoteKept
from clawbot.agent.hooks import SessionServices
from clawbot.guarded import PRIVATE_FILE, GuardedFolder
from clawbot.hooks.events import CommandNew
from clawbot.sessions.entries import CustomEntry
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.store import OpenSession, SessionStore
from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel, notes, talk
from tests.agent.keeping_house import BEGIN, hooks_of, notes_in, open_agent, taken
from tests.hooks.stage import write_hook

UNNAMED = [says("")]


async def chat(home: Path, minutes: int, *texts: str, session: str = "") -> str:
    """Say `texts` in the main session, or first resume `session`; returns the id of the one that they were said in."""
    agent = await open_agent(home, PurposeModel(slug=UNNAMED), minutes)
    if session:
        await resume(agent, session)
    said_in = agent.conversation.session_id
    for text in texts:
        await talk(agent, text)
    await hooks_of(agent).settled()
    await agent.close()
    return said_in


async def resume(agent: Agent, session: str) -> None:
    await agent.switch(agent.deps.store.open(session))


def words_of(home: Path) -> list[str]:
    [note] = notes_in(home / "workspace")
    return [text for _, text in note.said]


async def test_a_session_that_is_resumed_and_ended_again_without_a_word_keeps_its_note_as_it_is(tmp_path: Path) -> None:
    session = await chat(tmp_path, 0, "plan the api", "/new")
    [path] = (tmp_path / "workspace/memory").glob("*.md")
    before = path.read_bytes()
    await chat(tmp_path, 5, "/new", session=session)
    assert path.read_bytes() == before
    await chat(tmp_path, 6, "加上端口", "/new", session=session)
    assert words_of(tmp_path) == ["plan the api", "fine", "加上端口", "fine"]


async def test_the_messages_of_the_open_session_are_read_without_a_search_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of all sessions is read for that."""
    found: list[str] = []
    find = SessionStore.find

    def counted(store: SessionStore, name: str) -> SessionRecord:
        found.append(name)
        return find(store, name)

    monkeypatch.setattr(SessionStore, "find", counted)
    agent = await open_agent(tmp_path, PurposeModel(slug=UNNAMED), 0)
    await talk(agent, "plan the api")
    said = await SessionServices(agent.hooks, agent.hooks.event(CommandNew)).overview()
    assert ([each.text for each in said], found) == (["plan the api"], [])
    await agent.close()


async def test_a_note_that_was_edited_is_added_to_once(tmp_path: Path) -> None:
    session = await chat(tmp_path, 0, "plan the api", "/new")
    [path] = (tmp_path / "workspace/memory").glob("*.md")
    path.write_text(path.read_text("utf-8") + "\n- mine\n", "utf-8")
    for minutes, words in [(5, ["加上端口"]), (6, []), (7, [])]:
        await chat(tmp_path, minutes, *words, "/new", session=session)
    text = path.read_text("utf-8")
    assert text.count("- mine") == 1
    assert text.count("user: 加上端口") == 1
    assert text.index("- mine") < text.index("user: 加上端口")


async def test_a_long_session_that_is_resumed_keeps_what_its_note_held_before(tmp_path: Path) -> None:
    """The hook is told the last 15 texts; the note has said more of the same session by then."""
    before = [f"plan {number}" for number in range(7)]
    after = [f"端口 {number}" for number in range(6)]
    session = await chat(tmp_path, 0, *before, "/new")
    for minutes, texts in [(5, after), (6, []), (7, ["last"])]:
        await chat(tmp_path, minutes, *texts, "/new", session=session)
    said = [*before, *after, "last"]
    assert words_of(tmp_path) == [text for words in said for text in (words, "fine")]


async def test_a_note_of_words_that_a_flush_had_taken_before_is_replaced_like_any_other(tmp_path: Path) -> None:
    model = PurposeModel(flush=notes("- an api is planned"))
    agent = await open_agent(tmp_path, model, 0, hooked=False)
    session = agent.conversation.session_id
    await talk(agent, "plan the api")
    await talk(agent, "/new")
    await agent.close()
    assert "flush" in model.purposes
    await chat(tmp_path, 5, "/new", session=session)
    assert words_of(tmp_path) == ["plan the api", "fine"]
    await chat(tmp_path, 6, "加上端口", "/new", session=session)
    assert words_of(tmp_path) == ["plan the api", "fine", "加上端口", "fine"]


async def test_the_note_of_a_session_that_began_before_the_clock_was_set_back_is_found_again(tmp_path: Path) -> None:
    session = await chat(tmp_path, 600, "plan the api")
    await chat(tmp_path, 5, "/new")
    [path] = (tmp_path / "workspace/memory").glob("*.md")
    written = (BEGIN + timedelta(minutes=5)).timestamp()
    os.utime(path, (written, written))
    await chat(tmp_path, 6, "加上端口", "/new", session=session)
    assert words_of(tmp_path) == ["plan the api", "fine", "加上端口", "fine"]


async def test_a_note_that_is_being_written_when_the_hooks_are_stopped_is_recorded_for_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await open_agent(tmp_path, PurposeModel(slug=UNNAMED), 0)
    await talk(agent, "plan the api")
    loop, goes_on = asyncio.get_running_loop(), threading.Event()

    def stop() -> None:
        agent.interrupt()
        # By then whoever would not wait for the thread has gone on.
        loop.call_later(0, loop.call_later, 0, loop.call_soon, goes_on.set)

    class SlowFolder(GuardedFolder):
        def create(self, path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
            loop.call_soon_threadsafe(stop)
            assert goes_on.wait(100)
            return super().create(path, data, mode=mode)

    monkeypatch.setattr(notes_module, "GuardedFolder", SlowFolder)
    old = agent.conversation.session
    events = await talk(agent, "/new")
    assert [event.session_id for event in events if isinstance(event, NoteKept)] == [old.record.session_id]
    assert set(taken(old.transcript.path).values()) == {1}
    assert words_of(tmp_path) == ["plan the api", "fine"]
    offer = [entry for entry in old.transcript.entries if isinstance(entry, CustomEntry)][-2]
    assert isinstance(offer.data, dict)
    assert (offer.data["phase"], offer.data["result"]) == ("end", "written")
    await agent.close()


LATER = """
    import asyncio
    import pathlib

    async def handle(event):
        async def keep():
            while not pathlib.Path(event.home, "go").exists():
                await asyncio.sleep(0.01)
            await event.hook.keep_note(f"Session {event.session_id}\\n\\n稍后 kept later", "later")
        event.hook.later(keep())
"""


async def test_what_a_hook_keeps_later_needs_no_session_that_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later work often goes on just when the transcript is closed; no record of it belongs into the next session."""
    write_hook(tmp_path / "hooks", "session-memory", LATER, head="events: [command:new]")
    agent = await open_agent(tmp_path, PurposeModel(), 0)
    await talk(agent, "plan the api")
    told, rotate = threading.Event(), agent.deps.store.rotate
    results: list[object] = []

    def tell(result: object, *_: object) -> None:
        results.append(result)
        told.set()

    def rotate_slowly(opened: OpenSession, reason: str, *, pending: bool) -> OpenSession:
        begun = rotate(opened, reason, pending=pending)
        (tmp_path / "go").touch()
        assert told.wait(100)
        return begun

    hooks_of(agent).on_failure = tell
    profile = structs.replace(agent.deps.profile, home=tmp_path)
    agent.hooks.deps = structs.replace(agent.deps, profile=profile)
    agent.hooks.notify = tell
    monkeypatch.setattr(agent.deps.store, "rotate", rotate_slowly)
    await talk(agent, "/new")
    assert [type(result) for result in results] == [NoteKept]
    assert "稍后" in (tmp_path / "workspace/memory/2024-03-11-later.md").read_text("utf-8")
    assert agent.conversation.session.transcript.entries == []
    await agent.close()
