"""What a session leaves that ended: offered to memory in the background, exactly once, whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, Notice
from clawbot.agent.offers import MAX_FAILURES, MAX_TRIES
from clawbot.llm.errors import UnreachableError
from clawbot.sessions.entries import CustomEntry, Offer, offer_of
from clawbot.sessions.locks import SessionLock
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from tests.agent.fakes import Stalling, says
from tests.agent.gate_host import PurposeModel, notes, talk
from tests.agent.keeping_house import DAILY, MinuteClock, open_agent, store_in, taken
from tests.hooks.stage import write_hook

FACT = "my dog is called Bruno"
KEPT = 15
DOWN = [UnreachableError("no route to the model")]
BROKEN = "async def handle(event):\n    raise ValueError('no')\n"
HEAD = "events: [command, session:auto-reset]"


async def long_talk(agent: Agent, turns: int = 10) -> Path:
    """Say a fact and then this and that; returns where it stands."""
    agent.deps.workspace.mkdir(exist_ok=True)
    await talk(agent, FACT)
    for turn in range(turns):
        await talk(agent, f"small talk {turn}")
    return agent.conversation.session.transcript.path


async def end(agent: Agent, *texts: str) -> list[Event]:
    """`/new`, then `texts`; what came of it until nothing is offered any more."""
    heard: list[Event] = []
    agent.on_event = heard.append
    for text in texts or ("/new",):
        heard += await talk(agent, text)
    await agent.ended.settled()
    return heard


async def leave(agent: Agent) -> None:
    await agent.deps.hooks.settled() if agent.deps.hooks else None
    await agent.close()


def records(path: Path) -> list[Offer]:
    """The offers in a transcript that ended, in their order."""
    with Transcript.open(path, clock=MinuteClock(0), writable=False) as transcript:
        found = [offer_of(entry) for entry in transcript.entries if isinstance(entry, CustomEntry)]
    return [offer for offer in found if offer is not None and offer.phase == "end"]


def lines(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def pending(home: Path) -> list[str]:
    return [record.session_id for record in store_in(home).pending()]


def daily(home: Path, day: str = "2024-03-11") -> str:
    path = home / "workspace/memory" / f"{day}.md"
    return path.read_text("utf-8") if path.exists() else ""


async def test_what_the_note_does_not_hold_is_offered_behind_the_reset_once(tmp_path: Path) -> None:
    model = PurposeModel(flush=notes("- the dog is Bruno\n"), slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    heard = await end(agent)
    assert [(each.by, each.result, each.messages) for each in records(path)] == [
        ("session-memory", "written", KEPT),
        ("flush", "written", 22 - KEPT),
    ]
    assert set(taken(path).values()) == {1}
    [request, _] = model.of("flush")
    assert any(message.text == FACT for message in request.messages)
    assert lines(heard) == ["memory: 1 line from the conversation before"]
    assert daily(tmp_path) == "- the dog is Bruno\n"
    assert pending(tmp_path) == []
    await leave(agent)


async def test_a_talk_that_its_note_holds_whole_asks_no_model(tmp_path: Path) -> None:
    model = PurposeModel(slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent, 5)
    assert lines(await end(agent)) == []
    assert [(each.by, each.messages) for each in records(path)] == [("session-memory", 12)]
    assert model.of("flush") == []
    await leave(agent)


@pytest.mark.parametrize("hook", ["off", "fails", "tells of no text"])
async def test_without_a_note_all_of_it_is_offered(tmp_path: Path, hook: str) -> None:
    model = PurposeModel(flush=notes("- the dog is Bruno\n"), slug=[says("")])
    if hook == "fails":
        write_hook(tmp_path / "hooks", "session-memory", BROKEN, head=HEAD)
    elif hook == "tells of no text":
        kept = "async def handle(event):\n    await event.hook.keep_note(f'{event.session_id}\\n\\nkept', 'x')\n"
        write_hook(tmp_path / "hooks", "session-memory", kept, head=HEAD)
    agent = await open_agent(tmp_path, model, 0, hooked=hook != "off")
    path = await long_talk(agent, 5)
    await end(agent)
    assert [(each.by, each.result, each.messages) for each in records(path) if each.result != "failed"] == [
        ("flush", "written", 12)
    ]
    assert set(taken(path).values()) == {1}
    await leave(agent)


async def test_a_folder_that_can_not_be_written_leaves_all_of_it_until_it_can(tmp_path: Path) -> None:
    """The hook fails at it, and so does the silent turn: that is told once, and nothing is given up."""
    model = PurposeModel(flush=[*notes("- lost?")[:1], says("no"), *notes("- the dog is Bruno\n")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent, 5)
    elsewhere, memory = tmp_path / "elsewhere", tmp_path / "workspace/memory"
    elsewhere.mkdir()
    memory.symlink_to(elsewhere)
    told = lines(await end(agent))
    assert sum("is not in memory yet" in line for line in told) == 1
    assert not any("goes on" in line or "HookServiceError" in line for line in told)
    assert pending(tmp_path) == [path.stem]
    memory.unlink()
    agent.ended.wake()
    await agent.ended.settled()
    assert set(taken(path).values()) == {1}
    assert daily(tmp_path) == "- the dog is Bruno\n"
    await leave(agent)


async def test_too_little_for_a_model_is_let_go_with_a_record(tmp_path: Path) -> None:
    model = PurposeModel(slug=[says("")])
    agent = await open_agent(tmp_path, model, 0, least=1_000)
    path = await long_talk(agent)
    await end(agent)
    assert [(each.by, each.result) for each in records(path)] == [("session-memory", "written"), ("flush", "skipped")]
    assert model.of("flush") == []
    assert pending(tmp_path) == []
    await leave(agent)


async def test_the_note_of_the_day_is_that_of_the_words(tmp_path: Path) -> None:
    """The chat stays open over the night: what was said on Monday is no note of Tuesday."""
    model = PurposeModel(flush=notes("- the dog is Bruno\n"), slug=[says("")])
    agent = await open_agent(tmp_path, model, 0, DAILY)
    await long_talk(agent)
    await leave(agent)
    agent = await open_agent(tmp_path, model, 2 * 24 * 60, DAILY)
    await end(agent, "good morning")
    assert daily(tmp_path) == "- the dog is Bruno\n"
    assert daily(tmp_path, "2024-03-13") == ""
    assert "Monday, March 11th" in model.of("flush")[0].messages[-1].text
    await leave(agent)


async def test_two_sessions_that_end_quickly_are_both_offered(tmp_path: Path) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await answered.wait()

    model = PurposeModel(flush=[[wait, *says("NO_REPLY")], says("NO_REPLY")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    paths = [await long_talk(agent)]
    await talk(agent, "/new")
    await asked.wait()
    paths.append(await long_talk(agent))
    await talk(agent, "/new")
    answered.set()
    await agent.ended.settled()
    assert [set(taken(path).values()) for path in paths] == [{1}, {1}]
    await leave(agent)


async def test_a_model_that_fails_is_told_once_tried_again_at_the_next_start_and_given_up_in_the_end(
    tmp_path: Path,
) -> None:
    model = PurposeModel(flush=[DOWN], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    told = lines(await end(agent))
    for _ in range(MAX_FAILURES):
        agent.ended.wake()
        await agent.ended.settled()
    assert sum("is not in memory yet: no route" in line for line in told) == 1
    assert len(model.of("flush")) == MAX_FAILURES
    await leave(agent)
    for _ in range(MAX_TRIES):
        agent = await open_agent(tmp_path, model, 1)
        told = lines(await end(agent, "/status"))
        agent.ended.wake()
        await agent.ended.settled()
        await leave(agent)
    assert [each.result for each in records(path) if each.by == "flush"] == [*["failed"] * MAX_TRIES, "abandoned"]
    assert pending(tmp_path) == []


async def test_what_is_pending_no_more_counts_no_failures(tmp_path: Path) -> None:
    model = PurposeModel(flush=[DOWN], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    await long_talk(agent)
    await end(agent)
    await agent.ended.settled()
    assert list(agent.ended._failures.values()) == [1]
    model.replies["flush"] = [says("NO_REPLY")]
    for _ in range(2):
        agent.ended.wake()
        await agent.ended.settled()
    assert pending(tmp_path) == []
    assert agent.ended._failures == {}
    await leave(agent)


async def test_what_another_process_talks_in_is_left_alone(tmp_path: Path) -> None:
    model = PurposeModel(slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    other = SessionLock(path)

    def rotate_and_lose(opened: Any, reason: str, *, pending: bool) -> Any:
        begun = SessionStore.rotate(agent.deps.store, opened, reason, pending=pending)
        other.acquire("main", MinuteClock(0))
        return begun

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent.deps.store, "rotate", rotate_and_lose)
        await end(agent)
    assert model.of("flush") == []
    assert pending(tmp_path) == [path.stem]
    other.release()
    agent.ended.wake()
    await agent.ended.settled()
    assert set(taken(path).values()) == {1}
    await leave(agent)


async def test_a_session_that_is_resumed_before_its_turn_offers_the_rest_itself(tmp_path: Path) -> None:
    model = PurposeModel(flush=[DOWN, says("NO_REPLY")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    await end(agent)
    assert pending(tmp_path) == [path.stem]
    await agent.switch(agent.deps.store.open(path.stem))
    assert pending(tmp_path) == []
    await talk(agent, "and a cat")
    await end(agent)
    assert set(taken(path).values()) == {1}
    assert pending(tmp_path) == []
    await leave(agent)


async def test_a_session_that_is_resumed_while_its_turn_runs_is_let_go(tmp_path: Path) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall], says("NO_REPLY")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    await talk(agent, "/new")
    await stall.reached.wait()
    async with agent.ended.without(path.stem):
        session = await asyncio.to_thread(agent.deps.store.open, path.stem)
    await agent.switch(session)
    assert [each.result for each in records(path) if each.by == "flush"] == ["interrupted"]
    await end(agent)
    assert set(taken(path).values()) == {1}
    await leave(agent)


async def test_the_end_of_the_program_waits_so_long_and_the_next_start_goes_on(tmp_path: Path) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall], *notes("- the dog is Bruno\n")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0, patience=0.01)
    path = await long_talk(agent)
    await talk(agent, "/new")
    await stall.reached.wait()
    assert agent.will_flush
    await leave(agent)
    assert pending(tmp_path) == [path.stem]
    agent = await open_agent(tmp_path, model, 1)
    assert agent.conversation.session.others_pending
    agent.ended.wake()
    await agent.ended.settled()
    assert daily(tmp_path) == "- the dog is Bruno\n"
    assert set(taken(path).values()) == {1}
    await leave(agent)


async def test_the_model_may_be_changed_meanwhile(tmp_path: Path) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall], says("NO_REPLY")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    path = await long_talk(agent)
    await talk(agent, "/new")
    await stall.reached.wait()
    await agent.set_model("fake/other")
    await agent.ended.settled()
    assert [each.result for each in records(path) if each.by == "flush"] == ["interrupted", "nothing"]
    await leave(agent)


async def test_a_lost_index_tells_what_is_pending_and_how_sessions_ended(tmp_path: Path) -> None:
    model = PurposeModel(flush=[DOWN], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    left = await long_talk(agent)
    await end(agent)
    whole = await long_talk(agent, 3)
    await end(agent)
    await leave(agent)
    (tmp_path / "sessions/sessions.json").unlink()
    agent = await open_agent(tmp_path, PurposeModel(slug=[says("")]), 1)
    assert pending(tmp_path) == [left.stem]
    ended = {each.session_id: each.ended for each in agent.deps.store.list()}
    assert (ended[left.stem], ended[whole.stem]) == ("/new", "/new")
    agent.ended.wake()
    await agent.ended.settled()
    assert set(taken(left).values()) == {1}
    assert pending(tmp_path) == []
    await leave(agent)


async def test_a_start_reads_no_transcript_of_a_session_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PurposeModel(slug=[says("")])
    agent = await open_agent(tmp_path, model, 0)
    for _ in range(3):
        await talk(agent, FACT)
        await end(agent)
    await leave(agent)
    opened: list[Path] = []
    through = Transcript.open

    def note(path: Path, **more: Any) -> Transcript:
        opened.append(path)
        return through(path, **more)

    monkeypatch.setattr(Transcript, "open", note)
    agent = await open_agent(tmp_path, model, 1)
    agent.ended.wake()
    await agent.ended.settled()
    assert [path.stem for path in opened] == [agent.conversation.session_id]
    await leave(agent)


@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_the_end_of_the_program_had_no_time_for_is_offered_if_nobody_goes_on(
    tmp_path: Path, goes_on: bool
) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall], says("NO_REPLY")], slug=[says("")])
    agent = await open_agent(tmp_path, model, 0, patience=0.5, interactive=True)
    path = await long_talk(agent)
    await leave(agent)
    assert stall.reached.is_set()
    assert pending(tmp_path) == [path.stem]
    agent = await open_agent(tmp_path, model, 1, session="main" if goes_on else "other")
    assert agent.conversation.session.others_pending is not goes_on
    agent.ended.wake()
    await agent.ended.settled()
    assert [(each.exit, each.result) for each in records(path)] == [
        ("quit", "interrupted"),
        *([] if goes_on else [("quit", "nothing")]),
    ]
    assert pending(tmp_path) == []
    assert {each.ended for each in agent.deps.store.list() if each.session_id == path.stem} == {"open"}
    await leave(agent)
