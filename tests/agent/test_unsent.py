"""What the user said and no transcript holds yet: on disk before the screen shows it, said once whatever comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, MessageQueued, Notice, SessionChanged, TurnEnded, TurnStarted
from clawbot.messages import UserMessage
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.transcript import Transcript
from clawbot.sessions.unsent import Unsent, UnsentFile
from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel, talk
from tests.agent.keeping_house import DAILY, MinuteClock, open_agent
from tests.faults import kill_at_each

# Each step of the disk is an agent of its own, with a process for its hooks: minutes where others share the cores.
pytestmark = pytest.mark.timeout(400)

NEXT_DAY = 24 * 60
WORDS = "and now? 端口呢"
IMPORTS = """
    import asyncio
    from pathlib import Path
    from clawbot.agent.events import MessageQueued, TurnStarted
    from tests.agent.fakes import says
    from tests.agent.gate_host import PurposeModel, talk
    from tests.agent.keeping_house import DAILY, open_agent
"""
# What the user is shown is told by a file that is made at once, before any further step.
STORY = (
    IMPORTS
    + """
    async def main():
        agent = await open_agent(Path.cwd(), PurposeModel(slug=[says("api-plan")]), {minutes}, policy=DAILY)
        arm()
        async for event in agent.submit({text!r}):
            if isinstance(event, TurnStarted):
                Path("told").touch()
        await agent.deps.hooks.settled()
        await agent.close()

    asyncio.run(main())
"""
)
QUEUE = (
    IMPORTS
    + """
    async def main():
        release = asyncio.Event()
        agent = await open_agent(Path.cwd(), PurposeModel(chat=[[release.wait, *says("fine")]]), 5)
        running = asyncio.create_task(talk(agent, "first"))
        while not agent.status.busy:
            await asyncio.sleep(0)
        arm()
        told = []

        async def ask(text):
            async for event in agent.submit(text):
                if isinstance(event, MessageQueued):
                    Path("told-" + text).touch()
                    told.append(text)
                    if len(told) == 2:
                        release.set()

        await asyncio.gather(running, ask("second"), ask("third"))
        await agent.close()

    asyncio.run(main())
"""
)


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A state in which something was said in the main session."""
    place = tmp_path / "home"
    place.mkdir()
    agent = await open_agent(place, PurposeModel(), 0)
    await talk(agent, "plan the api")
    await agent.close()
    return place


def said(place: Path) -> list[str]:
    """What the user said, in all transcripts."""
    found: list[str] = []
    for path in sorted((place / "sessions").glob("*.jsonl")):
        with Transcript.open(path, clock=MinuteClock(0), writable=False) as transcript:
            messages = [item.message for item in transcript.history(limit=100)]
        found += [message.text for message in messages if isinstance(message, UserMessage)]
    return found


def files(place: Path) -> list[Path]:
    return list((place / "sessions").glob("*.unsent"))


async def reopened(place: Path, minutes: int) -> Agent:
    agent = await open_agent(place, PurposeModel(slug=[[]]), minutes)
    await agent.find_unsent()
    return agent


def status_of(events: list[Event]) -> str:
    """How the turn ended whose events these are."""
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    return ended.status


async def send_the_rest(place: Path, minutes: int) -> list[str]:
    """Send what was not sent, as the user who is asked does; returns that."""
    agent = await reopened(place, minutes)
    left = agent.outbox.left
    for unsent in left:
        assert status_of([event async for event in agent.submit(unsent.text, unsent_id=unsent.id)]) == "done"
    await agent.close()
    return [unsent.text for unsent in left]


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "minutes"),
    [(f"/new {WORDS}", 5), (f"/reset {WORDS}", 5), (WORDS, NEXT_DAY)],
    ids=["new", "reset", "clock"],
)
async def test_a_kill_at_every_step_of_a_reset_neither_loses_nor_doubles_what_is_said_first(
    home: Path, tmp_path: Path, text: str, minutes: int
) -> None:
    story = STORY.format(minutes=minutes, text=text)
    offered = set()
    for place in kill_at_each(IMPORTS, story, place=home, into=tmp_path / "steps", every=2):
        told = (place / "told").exists()
        before = said(place).count(WORDS)
        left = await send_the_rest(place, minutes + 2)
        assert len(left) + before == 1 or not (told or left or before), place
        offered.update(left)
        assert said(place).count(WORDS) == bool(left or before)
        assert said(place).count("plan the api") == 1
        assert not files(place)
    assert offered == {text}


@pytest.mark.long
async def test_a_kill_at_every_step_of_a_queue_neither_loses_nor_doubles_what_waits(home: Path, tmp_path: Path) -> None:
    offered = set()
    for place in kill_at_each(IMPORTS, QUEUE, place=home, into=tmp_path / "steps"):
        told = [text for text in ("second", "third") if (place / f"told-{text}").exists()]
        left = await send_the_rest(place, 7)
        assert [text for text in said(place) if text in told] == told
        assert all(said(place).count(text) <= 1 for text in ("first", "second", "third"))
        offered.add(tuple(left))
        assert not files(place)
    assert offered >= {(), ("second",), ("second", "third")}


class Waiting:
    """An agent whose first turn runs until it is released, with others that wait behind it."""

    def __init__(self, agent: Agent, release: asyncio.Event) -> None:
        self.agent = agent
        self.release = release
        self.tasks: list[asyncio.Task[None]] = []
        self.events: dict[str, list[Event]] = {}

    async def send(self, text: str) -> None:
        """Submit it, until it runs or waits."""
        shown = asyncio.Event()

        async def read() -> None:
            async for event in self.agent.submit(text):
                self.events.setdefault(text, []).append(event)
                shown.set()

        self.tasks.append(asyncio.create_task(read()))
        await shown.wait()

    def id_of(self, text: str) -> str:
        first = self.events[text][0]
        assert isinstance(first, MessageQueued)
        return first.unsent_id

    async def leave(self) -> None:
        """As a screen that is left."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.agent.close(hasty=True)


async def waiting(place: Path, minutes: int = 5, policy: ResetPolicy | None = None) -> Waiting:
    release = asyncio.Event()
    agent = await open_agent(place, PurposeModel(chat=[[release.wait, *says("fine")], says("fine")]), minutes, policy)
    await agent.find_unsent()
    host = Waiting(agent, release)
    await host.send("first")
    return host


async def test_what_waits_when_the_screen_is_left_is_there_at_the_next_start(home: Path) -> None:
    host = await waiting(home)
    for text in ("second", "第三条", "/new fourth"):
        await host.send(text)
    await host.leave()
    again = await reopened(home, 6)
    assert [unsent.text for unsent in again.outbox.left] == ["second", "第三条", "/new fourth"]
    assert again.status.unsent == 3
    await again.close()
    assert await send_the_rest(home, 7) == ["second", "第三条", "/new fourth"]
    assert sorted(said(home)) == sorted(["plan the api", "first", "second", "第三条", "fourth"])
    assert not files(home)


async def test_what_waits_and_is_taken_up_leaves_nothing_behind(home: Path) -> None:
    host = await waiting(home)
    await host.send("second")
    assert files(home)
    host.release.set()
    await asyncio.gather(*host.tasks)
    await host.agent.close()
    assert not files(home)
    assert said(home) == ["plan the api", "first", "second"]


async def test_what_is_taken_back_is_not_offered(home: Path) -> None:
    host = await waiting(home)
    await host.send("second")
    await host.send("third")
    await host.agent.outbox.drop(host.id_of("second"))
    host.tasks[1].cancel()
    await host.leave()
    assert await send_the_rest(home, 6) == ["third"]


async def test_words_that_wait_over_the_end_of_a_session_are_said_in_the_next(home: Path) -> None:
    host = await waiting(home)
    old = host.agent.conversation.session_id
    await host.send("second")
    await host.leave()
    agent = await open_agent(home, PurposeModel(slug=[[]]), NEXT_DAY, DAILY)
    await agent.find_unsent()
    assert isinstance(await agent.check_clock(), object)
    assert agent.conversation.session_id != old
    [unsent] = agent.outbox.left
    events = [event async for event in agent.submit(unsent.text, unsent_id=unsent.id)]
    assert not any(isinstance(event, SessionChanged) for event in events)
    assert [message.text for message in agent.conversation.messages][-2:] == ["second", "fine"]
    await agent.close()
    assert not files(home)


async def test_another_session_has_its_own(home: Path) -> None:
    host = await waiting(home)
    await host.send("second")
    await host.leave()
    agent = await reopened(home, 6)
    store = agent.deps.store
    await agent.switch(await asyncio.to_thread(store.open, "work"))
    assert agent.outbox.left == []
    kept = await agent.outbox.add("for work")
    await agent.switch(await asyncio.to_thread(store.open, "main"))
    assert [unsent.text for unsent in agent.outbox.left] == ["second"]
    await agent.switch(await asyncio.to_thread(store.open, "work"))
    assert [(unsent.id, unsent.text) for unsent in agent.outbox.left] == []  # this process has it in hand
    await agent.outbox.drop(kept)
    await agent.close()
    assert [path.name for path in files(home)] == ["main.unsent"]


async def test_a_message_of_its_own_turn_costs_no_file(home: Path) -> None:
    agent = await reopened(home, 5)
    await talk(agent, "hello")
    assert not list((home / "sessions").glob("*.unsent"))
    await agent.close()


async def test_a_command_that_was_taken_up_is_not_offered_again(home: Path) -> None:
    host = await waiting(home)
    await host.send("/compact")
    host.release.set()
    await asyncio.gather(*host.tasks)
    await host.agent.close()
    assert not files(home)


async def test_a_full_disk_is_told_and_keeps_nobody_from_talking(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = await waiting(home)

    def full(*_: object) -> None:
        raise SessionStoreError("There is no room.", hint="Make some.")

    monkeypatch.setattr(UnsentFile, "keep", full)
    await host.send("second")
    host.release.set()
    await asyncio.gather(*host.tasks)
    told = [event for events in host.events.values() for event in events if isinstance(event, Notice)]
    assert ["There is no room" in notice.text for notice in told] == [True]
    ends = [events[-1] for events in host.events.values()]
    assert [isinstance(end, TurnEnded) and end.status for end in ends] == ["done", "done"]
    await host.agent.close()


async def test_a_turn_that_failed_was_told_and_is_not_offered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = await waiting(home)
    await host.send("second")

    async def full(*_: object) -> str:
        raise SessionStoreError("There is no room.", hint="Make some.")

    monkeypatch.setattr(host.agent.conversation, "add_user", full)
    host.release.set()
    await asyncio.gather(*host.tasks)
    assert status_of(host.events["second"]) == "failed"
    assert not any(isinstance(event, TurnStarted) for event in host.events["second"])
    await host.agent.close()
    assert not files(home)


@pytest.mark.parametrize("steps", range(12))
async def test_what_is_left_while_it_is_being_taken_up_is_said_or_kept_once(home: Path, steps: int) -> None:
    """A screen that is left just after Enter, while what is mentioned is read."""
    agent = await reopened(home, 5)
    words = f"{WORDS} @AGENTS.md"
    stream = agent.submit(words)
    reader = asyncio.ensure_future(anext(stream))
    for _ in range(5 + steps):
        await asyncio.sleep(0)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await stream.aclose()
    await agent.close(hasty=True)
    before = said(home).count(words)
    assert [*await send_the_rest(home, 6), *[words] * before] == [words]
    assert said(home).count(words) == 1


async def test_a_command_that_is_left_is_not_kept(home: Path) -> None:
    agent = await reopened(home, 5)
    stream = agent.submit("/status")
    await anext(stream)
    await stream.aclose()
    await agent.close(hasty=True)
    assert await send_the_rest(home, 6) == []


@pytest.mark.parametrize("text", ["half a thought", "/new half a thought", "一半的想法"])
@pytest.mark.parametrize("sent", ["half", "half a thought and the rest"], ids=["as it was stored", "typed on"])
async def test_a_message_whose_draft_was_stored_is_there_once_whenever_the_program_is_killed(
    home: Path, text: str, sent: str
) -> None:
    """The transcript names the draft, so that what is left of it on disk is known as said."""
    agent = await reopened(home, 5)
    draft = await agent.outbox.add(text, draft=True)
    kept = files(home)[0].read_bytes()
    assert status_of([event async for event in agent.submit(f"{text} {sent}", unsent_id=draft)]) == "done"
    await agent.close()
    assert not files(home)
    (home / "sessions/main.unsent").write_bytes(kept)  # as after a kill between the two writes
    assert await send_the_rest(home, 6) == []
    assert not files(home)


async def test_a_draft_that_waits_is_stored_as_it_was_sent(home: Path) -> None:
    host = await waiting(home)
    draft = await host.agent.outbox.add("half a", draft=True)
    events = host.agent.submit("half a thought", unsent_id=draft)
    queued = await anext(events)
    assert isinstance(queued, MessageQueued)
    assert queued.unsent_id == draft
    await events.aclose()
    await host.leave()
    again = await reopened(home, 6)
    assert [(unsent.id, unsent.text, unsent.draft) for unsent in again.outbox.left] == [
        (draft, "half a thought", False)
    ]
    await again.close()


async def test_a_draft_of_an_earlier_process_that_waits_is_stored_as_it_was_sent(home: Path) -> None:
    agent = await reopened(home, 5)
    draft = await agent.outbox.add("half a", draft=True)
    await agent.close()
    host = await waiting(home)
    assert [unsent.id for unsent in host.agent.outbox.left] == [draft]
    events = host.agent.submit("half a thought", unsent_id=draft)
    await anext(events)
    await events.aclose()
    await host.leave()
    assert await send_the_rest(home, 6) == ["half a thought"]


async def test_a_message_waits_on_disk_though_its_draft_is_still_being_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shown as waiting before it is on disk."""
    host = await waiting(home)
    keep, released = UnsentFile.keep, threading.Event()

    def slow(file: UnsentFile, texts: Sequence[Unsent], instead_of: Collection[str] = ()) -> None:
        released.wait(100)
        keep(file, texts, instead_of)

    monkeypatch.setattr(UnsentFile, "keep", slow)
    draft = "0123abcd"
    storing = [asyncio.create_task(host.agent.outbox.add(text, ident=text)) for text in ("another", "one more")]
    storing.append(asyncio.create_task(host.agent.outbox.add("half a", ident=draft, draft=True)))
    await asyncio.sleep(0)
    events = host.agent.submit("half a thought", unsent_id=draft)
    queued = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(released.set)
    assert isinstance(await queued, MessageQueued)
    stored = UnsentFile(home / "sessions", "main").read()
    assert [(unsent.text, unsent.draft) for unsent in stored if unsent.id == draft] == [("half a thought", False)]
    await asyncio.gather(*storing)
    await events.aclose()
    await host.leave()


async def test_a_draft_follows_to_the_session_in_which_it_is_sent(home: Path) -> None:
    agent = await reopened(home, 5)
    draft = await agent.outbox.add("half a thought", draft=True)
    await agent.switch(await asyncio.to_thread(agent.deps.store.open, "work"))
    await agent.outbox.add("half a thought more", ident=draft, draft=True)
    assert [path.name for path in files(home)] == ["work.unsent"]
    await agent.close()


async def test_words_under_the_id_of_what_was_said_wait_under_one_of_their_own(home: Path) -> None:
    host = await waiting(home)
    events = host.agent.submit("second", unsent_id="said-before")
    queued = await anext(events)
    assert isinstance(queued, MessageQueued)
    await events.aclose()
    await host.leave()
    assert await send_the_rest(home, 6) == ["second"]
