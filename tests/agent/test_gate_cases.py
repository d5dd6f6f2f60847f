"""Cases of the gate that random conversations brought to light, each in its shortest form."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, Notice, TurnEnded
from clawbot.llm.protocol import ChatRequest
from clawbot.sessions.lines import LineAppender
from clawbot.tools import append_only
from tests.agent.ledger import Ledger, assert_in_context, assert_offered_once, assert_written_once, read_ledger
from tests.agent.lossless import CHINESE, ENGLISH, Plan, PlannedModel, Reply, Setup, World, listen, open_agent


class Case:
    """An agent in a world, and what its files say."""

    def __init__(self, world: World, model: PlannedModel, agent: Agent) -> None:
        self.world = world
        self.model = model
        self.agent = agent

    @classmethod
    async def open(cls, root: Path, setup: Setup) -> Case:
        world = World(root, setup)
        model = PlannedModel(world, _no_check)
        return cls(world, model, await open_agent(world, model))

    async def say(self, text: str, plan: Plan | None = None) -> list[Event]:
        """What one submission yields, and what is told behind it while ended sessions are offered."""
        self.model.begin(plan or Plan())
        heard: list[Event] = []
        self.agent.on_event = heard.append
        events = await listen(self.agent, text)
        await self.agent.ended.settled()
        return [*heard, *events]

    async def go_on(self) -> None:
        """Offer once more what was left, undisturbed."""
        self.model.begin(Plan())
        self.agent.ended.wake()
        await self.agent.ended.settled()

    def ledgers(self) -> list[Ledger]:
        """Those of all transcripts, after what must hold of each."""
        current = self.agent.conversation.session.transcript.path
        found = [(path, read_ledger(path)) for path in self.world.transcripts]
        for path, ledger in found:
            assert_offered_once(ledger, archived=path != current)
            if path == current:
                assert_in_context(ledger, self.agent.conversation)
        assert_written_once(self.world.workspace / "memory", [ledger for _, ledger in found])
        return [ledger for _, ledger in found]


def _no_check(_request: ChatRequest) -> None:
    """Any request will do."""


def status(events: Sequence[Event]) -> str:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last.status


def fill_disk(patch: pytest.MonkeyPatch, when: Callable[[bytes], bool]) -> None:
    """Each line of a transcript of which `when` is true meets a full disk."""
    through = LineAppender._write

    def write(own: LineAppender, data: bytes) -> None:
        if when(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        through(own, data)

    patch.setattr(LineAppender, "_write", write)


async def test_an_answer_larger_than_the_window_leaves_it_and_the_next_message_is_answered(tmp_path: Path) -> None:
    case = await Case.open(tmp_path, Setup(window=6_000))
    await case.say("again", Plan(chat=(Reply("good", size=1_500, chinese=True),)))
    assert status(await case.say("and now?")) == "done"
    [ledger] = case.ledgers()
    assert ledger.kept == 2
    await case.agent.close()


async def test_a_message_larger_than_the_window_leaves_it_and_the_next_message_is_answered(tmp_path: Path) -> None:
    case = await Case.open(tmp_path, Setup(window=6_000))
    await case.say("hello")
    assert status(await case.say(CHINESE * 1_500)) == "failed"
    assert status(await case.say("and now?")) == "done"
    case.ledgers()
    await case.agent.close()


async def test_what_was_stopped_behind_a_new_is_offered_again_once(tmp_path: Path) -> None:
    case = await Case.open(tmp_path, Setup())
    await case.say("hello " + ENGLISH * 300)
    await case.say("/new", Plan(flush=(Reply("stall"),)))
    await case.go_on()
    old, _ = sorted(case.ledgers(), key=lambda ledger: -len(ledger.lines))
    assert [offer.result for offer in old.ended] == ["interrupted", "nothing"]
    await case.go_on()
    assert len(case.ledgers()[0].ended) + len(case.ledgers()[1].ended) == 2
    await case.agent.close()


async def test_a_silent_turn_that_is_stopped_after_it_wrote_is_not_made_again(tmp_path: Path) -> None:
    case = await Case.open(tmp_path, Setup())
    await case.say("hello " + ENGLISH * 300)
    await case.say("/new", Plan(flush=(Reply("write"), Reply("stall"))))
    old, _ = sorted(case.ledgers(), key=lambda ledger: -len(ledger.lines))
    assert [offer.result for offer in old.ended] == ["written"]
    await case.agent.close()


async def test_an_answer_that_could_not_be_written_has_a_name_when_it_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await Case.open(tmp_path, Setup())
    with monkeypatch.context() as patch:
        fill_disk(patch, lambda line: b'"assistant"' in line)
        await case.say("hello " + ENGLISH * 300)
    assert case.agent.conversation.items[-1].entry_id == ""
    await case.say("/new")
    old, _ = sorted(case.ledgers(), key=lambda ledger: -len(ledger.lines))
    assert [offer.messages for offer in old.ended] == [2]
    await case.agent.close()


async def test_what_was_written_is_not_written_again_when_its_record_met_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await Case.open(tmp_path, Setup(window=6_000))
    await case.say("one " + ENGLISH * 2_400)
    ends = iter([True])
    with monkeypatch.context() as patch:
        fill_disk(patch, lambda line: b'"end"' in line and next(ends, False))
        await case.say("two " + ENGLISH * 2_000, Plan(flush=(Reply("write"), Reply("good"), Reply("write"))))
    [ledger] = case.ledgers()
    assert next(ends, None) is None
    assert ledger.kept
    assert (ledger.ended[0].result, ledger.ended[0].recovered) == ("written", True)
    await case.agent.close()


async def test_a_disk_that_fails_under_the_notes_is_no_memory_that_had_nothing_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int, _data: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    case = await Case.open(tmp_path, Setup())
    await case.say("hello " + ENGLISH * 300)
    monkeypatch.setattr(append_only, "append_all", fail)
    events = await case.say("/new", Plan(flush=(Reply("write"),)))
    monkeypatch.undo()
    await case.go_on()
    old, _ = sorted(case.ledgers(), key=lambda ledger: -len(ledger.lines))
    assert [offer.result for offer in old.ended] == ["failed", "nothing"]
    assert any(isinstance(event, Notice) and os.strerror(errno.EIO) in event.text for event in events)
    await case.agent.close()


async def test_what_new_wrote_while_the_disk_was_full_is_recorded_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await Case.open(tmp_path, Setup())
    await case.say("hello " + ENGLISH * 300)
    ends = iter([True])
    with monkeypatch.context() as patch:
        fill_disk(patch, lambda line: b'"phase":"end"' in line and next(ends, False))
        await case.say("/new", Plan(flush=(Reply("write"),)))
    await case.go_on()
    old, _ = sorted(case.ledgers(), key=lambda ledger: -len(ledger.lines))
    assert [(offer.result, offer.recovered) for offer in old.ended] == [("written", True)]
    await case.agent.close()
