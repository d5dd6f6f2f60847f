"""Random conversations with faults: no message is lost, each one that leaves the context was offered to memory once."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from clawbot.agent.agent import Agent
from clawbot.agent.events import CommandOutput, Event, MessageFinished, Notice, TextDelta, TurnEnded
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage
from clawbot.sessions.appending import LineAppender
from clawbot.sessions.errors import SessionStoreError
from clawbot.tools import append_only
from tests.agent.ledger import Ledger, assert_in_context, assert_offered_once, assert_written_once, read_ledger
from tests.agent.lossless import (
    CHINESE,
    ENGLISH,
    Plan,
    PlannedModel,
    Reply,
    Setup,
    World,
    listen,
    marks_of,
    open_agent,
)

T = TypeVar("T")

EXAMPLES = int(os.environ.get("LOSSLESS_EXAMPLES", "12"))
STEPS = int(os.environ.get("LOSSLESS_STEPS", "20"))

SIZES = st.sampled_from([1, 40, 200, 400, 700, 1_500, 3_000])
LIMITS = st.sampled_from([None, None, 8_000, 6_500, 5_000])


def replies(kinds: list[str]) -> st.SearchStrategy[tuple[Reply, ...]]:
    one = st.builds(Reply, kind=st.sampled_from(kinds), size=SIZES, chinese=st.booleans(), limit=LIMITS)
    return st.lists(one, max_size=5).map(tuple)


CHAT = ["good", "good", "good", "tools", "tools", "tools", "silent", "mixed", "empty", "overflow", "fail", "bug", "odd",
        "crash", "interrupt", "stall", "partial", "partial_silent", "broken", "stopped_tool"]  # fmt: skip
FLUSH = ["good", "prose", "write", "write", "write", "write_elsewhere", "fail", "bug", "late", "overflow", "crash",
         "interrupt", "stall", "partial", "broken"]  # fmt: skip
SUMMARY = ["good", "prose", "silent", "empty", "refusal", "fail", "bug", "late", "overflow", "crash", "interrupt",
           "stall", "partial", "broken"]  # fmt: skip

# What comes in the middle of a silent turn, after something was written.
CUT_OFF = st.sampled_from(
    ["crash", "crash", "stall", "fail", "bug", "late", "overflow", "write", "write_elsewhere"]
).map(lambda kind: (Reply("write"), Reply(kind)))

SELDOM = st.one_of(st.none(), st.none(), st.integers(0, 12))
PLANS = st.builds(
    Plan,
    chat=replies(CHAT),
    flush=st.one_of(replies(FLUSH), CUT_OFF),
    summary=replies(SUMMARY),
    full=st.one_of(
        st.just(frozenset()), st.just(frozenset()), st.frozensets(st.integers(0, 14), min_size=1, max_size=5)
    ),
    crash=SELDOM,
    torn=st.sampled_from([0.0, 0.3, 0.999]),
    interrupt=SELDOM,
    notes_full=st.sampled_from([False, False, False, True]),
)
SETUPS = st.builds(
    Setup,
    window=st.sampled_from([6_000, 8_000]),
    ratio=st.sampled_from([1.0, 1.0, 0.0, 1.3, 0.7]),
    flush=st.sampled_from([True, True, True, False]),
    reset_min=st.sampled_from([0, 500]),
    quit_min=st.sampled_from([0, 2_000]),
    force_bytes=st.sampled_from([0, 8_000]),
    pruning=st.booleans(),
)


class NothingLost(RuleBasedStateMachine):
    """A conversation, and after each step what its files must say."""

    @initialize(setup=SETUPS)
    def start(self, setup: Setup) -> None:
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp())
        self.world = World(self.root, setup)
        self.patch = pytest.MonkeyPatch()
        through = LineAppender._write
        world = self.world
        self.patch.setattr(LineAppender, "_write", lambda own, data: world.write(own, data, through))
        note = append_only.append_whole
        self.patch.setattr(append_only, "append_whole", lambda handle, data: world.write_note(handle, data, note))
        self.patch.setattr(os, "fsync", lambda _handle: None)
        self.model = PlannedModel(self.world, self.check_request)
        self.known: dict[Path, bytes] = {}
        self.excused: set[str] = set()
        self.broken = False
        self.agent = self.open()

    def open(self) -> Agent:
        async def opened() -> Agent:
            return open_agent(self.world, self.model)

        return self.run(opened())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # -- what happens ---------------------------------------------------------------------------------------------

    @rule(size=SIZES, chinese=st.booleans(), plan=PLANS, leaves=SELDOM)
    def say(self, size: int, chinese: bool, plan: Plan, leaves: int | None) -> None:
        self.submit(f"{self.world.mark('u')} {(CHINESE if chinese else ENGLISH) * size}", plan, leaves)

    @rule(size=SIZES, looks=SIZES, writes=st.booleans())
    def say_in_peace(self, size: int, looks: int, writes: bool) -> None:
        flush = (Reply("write"),) if writes else ()
        self.submit(f"{self.world.mark('u')} {ENGLISH * size}", Plan((Reply("tools", looks),), flush), None)

    @rule(focus=st.sampled_from(["", " the harbour"]), plan=PLANS)
    def compact(self, focus: str, plan: Plan) -> None:
        self.submit(f"/compact{focus}", plan, None)

    @precondition(lambda self: len(self.agent.conversation.items) > 5)
    @rule(more=st.booleans(), plan=PLANS)
    def renew(self, more: bool, plan: Plan) -> None:
        self.submit(f"/new {self.world.mark('u')} again" if more else "/new", plan, None)

    @rule(plan=PLANS, minutes=st.sampled_from([0, 0, 6, 24 * 60]))
    def restart(self, plan: Plan, minutes: int) -> None:
        self.world.clock.moment += timedelta(minutes=minutes)
        self.begin(plan)
        try:
            self.run(self.agent.close())
        except SessionStoreError:
            assert self.world.failed_appends, "closing failed without a reason"
        self.model.begin(Plan())
        if self.world.crashed:
            self.world.wake()
        self.begin(Plan())
        self.agent = self.open()
        self.settle()

    @rule()
    def ask_in_peace(self) -> None:
        """However it went before: a model that behaves answers."""
        events = self.submit(f"{self.world.mark('u')} and now?", Plan(), None)
        last = events[-1]
        assert isinstance(last, TurnEnded)
        assert last.status == "done", f"the session is not usable: {events[1:]}"
        assert any(isinstance(event, MessageFinished) and event.text for event in events)

    # -- how -------------------------------------------------------------------------------------------------------

    def begin(self, plan: Plan) -> None:
        self.world.begin(plan)
        self.model.begin(plan)

    def submit(self, text: str, plan: Plan, leaves: int | None) -> list[Event]:
        self.begin(plan)
        before = self.agent.conversation.session.transcript.path
        events = self.run(listen(self.agent, text, leaves))
        failed = self.world.failed_appends
        if leaves is None:
            assert isinstance(events[-1], TurnEnded), "a submission without an end"
            assert sum(isinstance(event, TurnEnded) for event in events) == 1
            for event in events:
                if isinstance(event, TurnEnded):
                    assert event.error_kind != "internal" or "bug" in event.error, event
        assert_never_silent(events)
        if failed and any(isinstance(event, Notice) and "saved to memory" in event.text for event in events):
            # Nothing could be recorded: that was told, and the session is left all the same.
            self.excused.add(before.name)
        if self.world.crashed:
            self.begin(Plan())
            self.run(self.agent.close(hasty=True))
            self.world.wake()
            self.agent = self.open()
            self.settle()
        else:
            self.settle()
        return events

    # -- what holds ------------------------------------------------------------------------------------------------

    def check_request(self, request: ChatRequest) -> None:
        items = self.agent.conversation.items
        asked = [mark for mark in marks_of(request.messages) if mark.startswith("u")]
        there = [mark for mark in marks_of([item.message for item in items]) if mark.startswith("u")]
        assert asked == there, "the model is not shown what the user said"
        marks = [int(mark[1:]) for mark in marks_of(request.messages)]
        assert marks == sorted(set(marks)), "messages in another order, or twice"

    def settle(self) -> None:
        self.broken = True
        for failure in self.model.failures:
            raise failure
        current = self.agent.conversation.session.transcript.path
        ledgers: list[Ledger] = []
        for path in self.world.transcripts:
            self.check_grown(path)
            ledger = read_ledger(path)
            ledgers.append(ledger)
            assert_offered_once(ledger, archived=path != current and path.name not in self.excused)
            if path == current:
                assert_in_context(ledger, self.agent.conversation)
        memory = self.world.workspace / "memory"
        for path in memory.glob("*.md"):
            self.check_grown(path)
        assert_written_once(memory, ledgers)
        assert not (self.world.workspace / "MEMORY.md").exists()
        for item in self.agent.conversation.session.transcript.history(limit=10_000):
            if isinstance(item.message, AssistantMessage):
                assert "NO_REPLY" not in item.message.text
        self.broken = False

    def check_grown(self, path: Path) -> None:
        name = Path(path.parent.name) / path.name
        old, new = self.known.get(name, b""), path.read_bytes()
        if self.world.crashed:
            # What was said in the step that the crash ended may be gone.
            old = old[: len(new)] if len(new) < len(old) else old
        assert new.startswith(old), f"{path.name} changed before its end"
        self.known[name] = new

    def teardown(self) -> None:
        if not hasattr(self, "agent"):
            return
        try:
            if not self.broken:
                self.ask_in_peace()
        finally:
            self.begin(Plan())
            self.run(self.agent.close(hasty=True))
            self.patch.undo()
            self.run(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.root)


def assert_never_silent(events: list[Event]) -> None:
    shown = "".join(event.text if isinstance(event, TextDelta) else "\n" for event in events)
    told = [event.text for event in events if isinstance(event, MessageFinished | Notice | CommandOutput)]
    assert not any("NO_REPLY" in text for text in [shown, *told])


def test_nothing_is_lost_and_what_leaves_was_offered_once() -> None:
    run_state_machine_as_test(
        NothingLost,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize="LOSSLESS_EXAMPLES" not in os.environ,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
