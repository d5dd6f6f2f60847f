"""Random conversations with faults: no message is lost, each one that leaves the context was offered to memory once,
and a session that ends leaves one note."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from msgspec import structs

from clawbot.agent import notes
from clawbot.agent.agent import Agent
from clawbot.agent.events import (
    CommandOutput,
    Event,
    MessageFinished,
    Notice,
    Origin,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from clawbot.files import write_atomic
from clawbot.guarded import PRIVATE_FILE, GuardedFolder
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage
from clawbot.sessions import index
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.lines import LineAppender
from clawbot.tools import append_only
from clawbot.tools.files import append_all
from tests.agent.ledger import DAILY, Ledger, assert_in_context, assert_offered_once, assert_written_once, read_ledger
from tests.agent.lossless import (
    CHINESE,
    ENGLISH,
    MARK,
    Plan,
    PlannedModel,
    Reply,
    Setup,
    World,
    listen,
    marks_of,
    open_agent,
)
from tests.agent.lossless_keeping import (
    MESSAGES,
    Ends,
    assert_in_order,
    assert_one_reset_for_each,
    hooks_done,
    last_spoken,
    notes_of,
    worth_keeping,
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

SLUG = ["good", "good", "prose", "refusal", "fail", "bug", "late", "overflow", "crash", "stall"]
TROUBLE = st.sampled_from(["", "", "", "", "", "raise", "crash", "interrupt", "stall"])

SELDOM = st.one_of(st.none(), st.none(), st.integers(0, 12))
PLANS = st.builds(
    Plan,
    chat=replies(CHAT),
    flush=st.one_of(replies(FLUSH), CUT_OFF),
    summary=replies(SUMMARY),
    slug=replies(SLUG),
    full=st.one_of(
        st.just(frozenset()), st.just(frozenset()), st.frozensets(st.integers(0, 14), min_size=1, max_size=5)
    ),
    crash=SELDOM,
    torn=st.sampled_from([0.0, 0.3, 0.999]),
    interrupt=SELDOM,
    notes_full=st.sampled_from([False, False, False, True]),
    early=TROUBLE,
    tardy=TROUBLE,
)
# A reset is a handful of writes.
RESETS = st.builds(
    structs.replace,
    PLANS,
    crash=st.one_of(st.none(), st.integers(0, 11)),
    interrupt=st.one_of(st.none(), st.none(), st.integers(0, 6)),
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
    hooks=st.sampled_from([True, True, False]),
    ends=st.builds(Ends, daily=st.sampled_from([True, True, False]), idle=st.sampled_from([None, 60])),
    chosen=st.booleans(),
)


def _name_of(doing: Coroutine[Any, Any, object]) -> str:
    return str(getattr(doing, "__name__", ""))


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
        note = append_all
        self.patch.setattr(append_only, "append_all", lambda handle, data: world.write_note(handle, data, note))

        class NoteFolder(GuardedFolder):
            def create(self, path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
                create = super().create
                return world.keep(lambda _, data: create(path, data, mode=mode), self.root / path, data)

            def replace_known(self, path: str | Path, before: bytes, after: bytes | None) -> None:
                change = super().replace_known
                world.keep(lambda _, after: change(path, before, after), self.root / path, after or b"")

            def rename(self, path: str | Path, name: str) -> bool:
                return world.change(super().rename, path, name)

        self.patch.setattr(notes, "GuardedFolder", NoteFolder)
        listed = write_atomic
        self.patch.setattr(
            index, "write_atomic", lambda path, data, mode: world.change(lambda: listed(path, data, mode=mode))
        )
        self.patch.setattr(os, "fsync", lambda _handle: None)
        self.model = PlannedModel(self.world, self.check_request)
        self.known: dict[Path, bytes] = {}
        self.excused: set[str] = set()
        self.unsure: set[str] = set()
        self.told: set[str] = set()
        self.kept: dict[str, list[tuple[str, str]]] = {}
        self.latest = self.world.clock.moment
        self.rewound = 0
        self.broken = False
        self.agent = self.open()
        self.chosen = "fake/model" if setup.chosen else None
        if self.chosen:
            self.run(self.agent.set_model(self.chosen))

    def open(self) -> Agent:
        agent = self.run(open_agent(self.world, self.model))
        agent.on_event = lambda _event: None
        if agent.conversation.session.others_pending:
            self.run(self.wake(agent))
            self.run(agent.ended.settled())
        return agent

    async def wake(self, agent: Agent) -> list[Event]:
        agent.ended.wake()
        return []

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

    @precondition(lambda self: len(self.agent.conversation.items) > 3)
    @rule(text=st.sampled_from(["/new", "/new", "/reset"]), more=st.booleans(), plan=RESETS)
    def renew(self, text: str, more: bool, plan: Plan) -> None:
        self.rewound += self.world.clock.moment < self.latest
        self.submit(f"{text} {self.world.mark('u')} again" if more else text, plan, None)

    @precondition(lambda self: len(self.agent.conversation.items) > 1)
    @rule(text=st.sampled_from(["/new", "/reset"]), slug=replies(SLUG))
    def renew_in_peace(self, text: str, slug: tuple[Reply, ...]) -> None:
        self.rewound += self.world.clock.moment < self.latest
        before = self.agent.conversation.session_id
        self.submit(text, Plan(slug=slug), None)
        if not any(reply.kind == "crash" for reply in slug):
            assert self.agent.conversation.session_id != before, "the session goes on"

    @rule(looks=st.booleans(), writes=st.booleans())
    def talk_at_length(self, looks: bool, writes: bool) -> None:
        for _ in range(MESSAGES // 2):
            self.say_in_peace(1, 1, writes) if looks else self.ask_in_peace()

    @rule(looks=st.booleans(), plan=PLANS)
    def find_nothing(self, looks: bool, plan: Plan) -> None:
        """A job that has nothing to say."""
        chat = (*([Reply("tools")] if looks else []), Reply("silent"))
        self.work(1, structs.replace(plan, chat=(*chat, *plan.chat)))

    @rule(size=SIZES, plan=PLANS)
    def work(self, size: int, plan: Plan) -> None:
        """A job speaks: that ends no session, and keeps none alive."""
        mark = self.world.mark("u")
        before = self.agent.conversation.session.record
        self.submit(f"{mark} {ENGLISH * size}", plan, None, "schedule")
        after = self.agent.conversation.session.record
        assert after.session_id == before.session_id
        assert after.last_interaction_at == before.last_interaction_at or self.woke

    @precondition(lambda self: len(self.agent.conversation.items) > 1)
    @rule(
        minutes=st.sampled_from([20, 61, 10 * 60, 24 * 60, 3 * 24 * 60, -30, -12 * 60]),
        plan=RESETS,
        looks=st.booleans(),
    )
    def wait(self, minutes: int, plan: Plan, looks: bool) -> None:
        """Time passes, or the clock is set back; then somebody looks at it, or not."""
        clock = self.world.clock
        clock.moment += timedelta(minutes=minutes)
        self.latest = max(self.latest, clock.moment)
        if not looks:
            return
        # Esc stops what the user asked for, and this is none of it.
        trouble = structs.replace(plan, early=_unstopped(plan.early), tardy=_unstopped(plan.tardy), interrupt=None)
        self.step(trouble, self.look())

    async def look(self) -> list[Event]:
        events: list[Event] = []
        self.agent.on_event = events.append
        try:
            await self.agent.check_clock()
        except SessionStoreError:
            assert self.world.failed_appends, "the look at the clock failed without a reason"
        finally:
            self.agent.on_event = lambda _event: None
        return events

    @rule(plan=PLANS, minutes=st.sampled_from([0, 0, 6, 24 * 60]), hooks=st.sampled_from([None, None, True, False]))
    def restart(self, plan: Plan, minutes: int, hooks: bool | None) -> None:
        self.world.clock.moment += timedelta(minutes=minutes)
        self.latest = max(self.latest, self.world.clock.moment)
        self.begin(plan)
        try:
            self.run(self.agent.close())
        except SessionStoreError:
            assert self.world.failed_appends, "closing failed without a reason"
        self.model.begin(Plan())
        if self.world.crashed:
            self.world.wake()
        self.world.hooked = self.world.hooked if hooks is None else hooks
        self.begin(Plan())
        self.agent = self.open()
        self.settle()

    @rule(plan=PLANS)
    def go_on(self, plan: Plan) -> None:
        """What ended sessions left is offered once more."""
        self.step(plan, self.wake(self.agent))

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

    def submit(self, text: str, plan: Plan, leaves: int | None, origin: Origin = "user") -> list[Event]:
        events = self.step(plan, listen(self.agent, text, leaves, origin), is_said=origin == "user" and text[0] != "/")
        if leaves is None:
            assert isinstance(events[-1], TurnEnded), "a submission without an end"
            assert sum(isinstance(event, TurnEnded) for event in events) == 1
            for event in events:
                if isinstance(event, TurnEnded):
                    assert event.error_kind != "internal" or "bug" in event.error, event
            if not self.woke:
                self.note_told(text, events)
        assert_never_silent(events)
        return events

    def note_told(self, text: str, events: list[Event]) -> None:
        """What was taken up stays; what was not is nowhere, and may be sent again."""
        for mark in MARK.findall(text):
            taken = any(isinstance(event, TurnStarted) and event.text.startswith(mark) for event in events)
            count = self.everywhere[mark]
            assert count == taken, f"{mark} was {'' if taken else 'not '}taken up, and is there {count} times"
            self.told |= {mark} if taken else set()

    def step(self, plan: Plan, doing: Coroutine[Any, Any, list[Event]], *, is_said: bool = False) -> list[Event]:
        """Do something that may end the session, by hand or by the clock, and look at what became of it."""
        self.run(self.let_go())
        self.begin(plan)
        old = self.agent.conversation.session
        due = self.is_due(self.world.clock.moment) if is_said or _name_of(doing) == "look" else False
        hooked = self.world.hooked
        events = self.run(self.before_the_rest(doing))
        self.run(self.agent.ended.settled())
        self.run(self.name_notes())
        failed, disturbed, self.woke = self.world.failed_appends, self.world.disturbed, self.world.crashed
        if failed and any(isinstance(event, Notice) and _unrecorded(event.text) for event in events):
            # Nothing could be recorded: that was told, and the session is left all the same.
            self.excused.add(old.transcript.path.name)
        if self.woke:
            self.begin(Plan())
            self.run(self.agent.close(hasty=True))
            self.world.wake()
            self.agent = self.open()
        ended = self.agent.conversation.session_id != old.record.session_id
        if not self.woke and not disturbed and old.record.session_id not in self.unsure:
            assert ended or not due, "a session that is over goes on"
        unsure = old.record.session_id in self.unsure
        assert due or not ended or unsure or (not is_said and _name_of(doing) != "look"), (
            "a session ended before its time"
        )
        if ended and hooked and not disturbed:
            path = self.agent.conversation.session.transcript.path.with_name(old.transcript.path.name)
            self.kept[old.record.session_id] = worth_keeping(read_ledger(path))
        self.settle()
        return events

    async def before_the_rest(self, doing: Coroutine[Any, Any, list[Event]]) -> list[Event]:
        """What ended sessions left is offered behind the step: which of the two writes first is else up to chance."""
        async with self.agent.ended.without():
            return await doing

    def is_due(self, now: datetime) -> bool:
        """Whether the clock has ended the session, by what its transcript says."""
        conversation = self.agent.conversation
        ledger = read_ledger(conversation.session.transcript.path)
        spoken = {line["id"] for line in ledger.lines if line["type"] == "message"}
        if spoken.isdisjoint(ledger.messages):
            return False  # nothing was said, or by jobs alone that found nothing: it just begins anew
        return self.world.setup.ends.is_over(conversation.session.record, last_spoken(ledger), now)

    async def name_notes(self) -> None:
        """Let the model answer how notes are to be called."""
        self.model.is_asked.set()
        if self.agent.deps.hooks is not None:
            await hooks_done(self.agent.deps.hooks, self.model.stalled, self.model.stalls)

    async def let_go(self) -> None:
        """What did not answer has waited for long enough."""
        for task in self.model.stalled:
            task.cancel()
        self.model.stalled.clear()
        await self.name_notes()

    # -- what holds ------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> set[str]:
        """The transcripts of which memory is to be offered something yet."""
        store = self.agent.deps.store
        return {store.path_of(record).name for record in store.pending()}

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
            archived = path != current and path.name not in self.excused | self.pending
            assert_offered_once(ledger, archived=archived)
            if path == current:
                assert_in_context(ledger, self.agent.conversation)
        memory = self.world.workspace / "memory"
        for path in memory.glob(DAILY):
            self.check_grown(path)
        assert_written_once(memory, ledgers)
        self.check_sessions(ledgers, memory)
        assert not (self.world.workspace / "MEMORY.md").exists()
        for item in self.agent.conversation.session.transcript.history(limit=10_000):
            if isinstance(item.message, AssistantMessage):
                assert "NO_REPLY" not in item.message.text
        self.broken = False

    def check_sessions(self, ledgers: list[Ledger], memory: Path) -> None:
        """Each session is listed, with its end; each word of the user is in one; each has the note that it must."""
        ledger_of = {str(ledger.lines[0]["id"]): ledger for ledger in ledgers}
        current = self.agent.conversation.session.record
        records = {record.session_id: record for record in self.agent.deps.store.records()}
        ended = {name for name, record in records.items() if record.ended_reason is not None}
        assert set(records) == set(ledger_of), "what is listed is not what there is"
        assert ended == set(ledger_of) - {current.session_id}, "a session that is over is not listed as such"
        assert current.model_override == self.chosen
        assert_one_reset_for_each(list(records.values()), self.rewound)
        self.everywhere = Counter(mark for each in ledgers for _, text in each.said for mark in MARK.findall(text[:8]))
        assert max(self.everywhere.values(), default=1) == 1, "a message is there twice"
        assert not (gone := {mark for mark in self.told if not self.everywhere[mark]}), f"gone: {gone}"
        kept = notes_of(memory)
        for name, marks in kept.items():
            assert_in_order(marks, ledger_of[name])
        for name, marks in self.kept.items():
            note = kept.get(name, [])
            assert note[len(note) - len(marks) :] == marks, f"the note of {name} does not say what was said last"

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
                self.restart(Plan(), 0, None)
                assert not self.pending, "an undisturbed start leaves nothing behind"
        finally:
            self.begin(Plan())
            self.run(self.agent.close(hasty=True))
            self.patch.undo()
            self.run(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.root)


def _unstopped(trouble: str) -> str:
    return "raise" if trouble in ("interrupt", "stall") else trouble


def _unrecorded(notice: str) -> bool:
    return "saved to memory" in notice or "Nothing was recorded" in notice


def assert_never_silent(events: list[Event]) -> None:
    shown = "".join(event.text if isinstance(event, TextDelta) else "\n" for event in events)
    told = [event.text for event in events if isinstance(event, MessageFinished | Notice | CommandOutput)]
    assert not any("NO_REPLY" in text for text in [shown, *told])


@pytest.mark.long
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
            phases=[Phase.generate] if "LOSSLESS_QUICK" in os.environ else tuple(Phase),
        ),
    )
