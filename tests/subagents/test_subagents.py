"""A conversation that hands out errands: what sub-agents may, what bounds them, what comes back, and who sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import (
    ApprovalRequested,
    Event,
    SubagentStep,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import SubagentSettings
from clawbot.context.prompt import SUBAGENT
from clawbot.deadline import Cancellation
from clawbot.forget.forgetting import Forgetting, Request
from clawbot.llm.errors import AuthenticationError
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, TextPart
from clawbot.messages import AssistantMessage, Cost, TextBlock, ToolCallBlock, ToolResultMessage, Usage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.subagents.runner import Limits
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from tests.agent.fakes import Answer, Stalling, calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models
from tests.tables import load_table

Reply = Answer | Callable[[ChatRequest], Answer]
SPENT = Usage(input=1_000, output=200, cache_read=5_000, total_tokens=6_200, cost=Cost(total=0.25))


class TwoMinds(PurposeModel):
    """Answers the conversation by `main`, and each sub-agent by what `minds` holds for its prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.info = ModelInfo(ref="fake/model", window=60_000)
        self.main: list[Answer] = []
        self.minds: dict[str, list[Reply]] = {}
        self.below: list[ChatRequest] = []

    def answer_to(self, request: ChatRequest) -> Answer:
        if not request.system.startswith(SUBAGENT):
            return self.main.pop(0) if request.purpose == "chat" else super().answer_to(request)
        self.below.append(request)
        prompt = next(message.text for message in request.messages if isinstance(message, UserMessage))
        reply = self.minds[prompt].pop(0)
        return reply(request) if callable(reply) else reply


def hands(*errands: str) -> Answer:
    """An answer that hands out errands, each with the prompt `look at NAME`."""
    made = [("task", {"description": f"about {name}", "prompt": f"look at {name}"}) for name in errands]
    return calls(*(ToolCallBlock(f"t{at}", name, arguments) for at, (name, arguments) in enumerate(made)))


def uses(*made: tuple[str, dict[str, Any]], usage: Usage | None = None) -> Answer:
    blocks = [ToolCallBlock(f"u{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
    parts = list(calls(*blocks))
    return [*parts[:-1], FinalPart(AssistantMessage([*blocks], stop_reason="toolUse", usage=usage))]


def costs(text: str) -> Answer:
    return [TextPart(text), FinalPart(AssistantMessage([TextBlock(text)], usage=SPENT))]


def configure(subagents: str = "{}", more: str = "") -> None:
    file = find_home() / "config.yaml"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(
        "agents:\n  defaults:\n    model: fake/model\n    memory_search: {enabled: false}\n"
        f"    subagents: {subagents}\n    tools: {{shell: {{sandbox: 'off'}}}}\n{more}"
        "hooks: {entries: {session-memory: {enabled: false}}}\n",
        encoding="utf-8",
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> TwoMinds:
    model = TwoMinds()
    use_models(monkeypatch, lambda _ref: model)
    configure()
    return model


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[], Any]]:
    held: list[Runtime] = []

    async def open_runtime(**changes: Any) -> Runtime:
        options = RuntimeOptions(watch=False, background=False, flush_at_end=False, **changes)
        held.append(await Runtime.open(options))
        return held[-1]

    yield open_runtime
    for runtime in held:
        await runtime.close()


async def say(runtime: Runtime, text: str = "go", *, allow: bool = True) -> list[Event]:
    events = []
    async for event in runtime.agent.submit(text):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            runtime.agent.answer(event.request_id, "once" if allow else "deny")
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "done", events[-1].error
    return events


def of_kind(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def result_of(events: Sequence[Event], call_id: str = "t0") -> ToolFinished:
    found: dict[str, ToolFinished] = {event.call_id: event for event in of_kind(events, ToolFinished)}
    return found[call_id]


async def test_the_report_is_the_result_and_the_calls_stay_out_of_the_talk(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("list", {"path": "."})), says("It holds AGENTS.md.")]
    runtime = await opened()
    events = await say(runtime)
    done = result_of(events)
    assert (done.output, done.is_error, done.summary) == ("It holds AGENTS.md.", False, "1 call")
    assert done.details["subagent"]["calls"] == [{"title": "list .", "state": "done", "summary": done_of(events)}]
    said = [type(message) for message in runtime.agent.conversation.messages]
    assert said == [UserMessage, AssistantMessage, ToolResultMessage, AssistantMessage]


def done_of(events: Sequence[Event]) -> str:
    steps = [event.step for event in of_kind(events, SubagentStep)]
    return str(next(step.summary for step in steps if isinstance(step, ToolFinished)))


async def test_its_steps_are_told_with_the_call_that_they_belong_to(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("list", {}), usage=SPENT), costs("done")]
    events = await say(await opened())
    steps = of_kind(events, SubagentStep)
    assert {(step.parent_call_id, step.description) for step in steps} == {("t0", "about a")}
    assert [type(step.step).__name__ for step in steps] == [
        "MessageFinished", "ToolStarted", "ToolFinished", "MessageFinished",
    ]  # fmt: skip
    assert (steps[-1].calls, steps[-1].tokens) == (1, 2_400)
    assert not [event for event in of_kind(events, ToolStarted) if event.name != "task"]


async def test_errands_of_one_answer_run_side_by_side(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a", "b"), says("thanks")]
    first, second = asyncio.Event(), asyncio.Event()

    async def meets(mine: asyncio.Event, other: asyncio.Event) -> None:
        mine.set()
        await other.wait()

    model.minds["look at a"] = [[lambda: meets(first, second), *says("A")]]
    model.minds["look at b"] = [[lambda: meets(second, first), *says("B")]]
    events = await say(await opened())
    assert [result_of(events, call).output for call in ("t0", "t1")] == ["A", "B"]
    told = [message.text for message in model.of("chat")[-1].messages if isinstance(message, ToolResultMessage)]
    assert told == ["A", "B"]


async def test_no_more_than_allowed_work_at_once(model: TwoMinds, opened: Any) -> None:
    configure("{max_concurrent: 1}")
    model.main = [hands("a", "b"), says("thanks")]
    at_work: list[str] = []

    def alone(name: str) -> Answer:
        async def work() -> None:
            at_work.append(name)
            await asyncio.sleep(0)
            assert at_work == [name]
            at_work.remove(name)

        return [work, *says(name)]

    model.minds = {f"look at {name}": [alone(name)] for name in "ab"}
    events = await say(await opened())
    assert [result_of(events, call).is_error for call in ("t0", "t1")] == [False, False]


async def test_it_has_the_tools_but_no_task_and_no_notes(model: TwoMinds, opened: Any) -> None:
    configure("{deny: [append]}")
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("read", {"path": "MEMORY.md"})), says("done")]
    runtime = await opened()
    (runtime.agent.deps.workspace / "MEMORY.md").write_text("the cat is called Minka")
    await say(runtime)
    names = {tool.name for tool in model.below[0].tools}
    assert names == {"read", "write", "edit", "list", "grep", "shell"}
    refused = next(message for message in model.below[1].messages if isinstance(message, ToolResultMessage))
    assert refused.is_error
    assert "Minka" not in refused.text + model.below[0].system


async def test_it_may_delegate_on_where_that_is_allowed(model: TwoMinds, opened: Any) -> None:
    configure("{max_depth: 2}")
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [hands("b"), says("A with B")]
    model.minds["look at b"] = [uses(("list", {})), says("B")]
    runtime = await opened()
    events = await say(runtime)
    assert result_of(events).output == "A with B"
    assert "task" in {tool.name for tool in model.below[0].tools}
    assert "task" not in {tool.name for tool in model.below[1].tools}
    assert {step.description for step in of_kind(events, SubagentStep)} == {"about a", "about b"}


async def test_what_it_asks_goes_to_the_user_in_its_name(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("shell", {"command": "touch made"})), says("done")]
    runtime = await opened()
    events = await say(runtime)
    asked = of_kind(events, ApprovalRequested)
    assert [(each.call_id, each.by, each.command) for each in asked] == [("t0", "about a", "touch made")]
    assert (runtime.agent.deps.workspace / "made").exists()


async def test_where_nobody_can_be_asked_it_is_refused(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("shell", {"command": "touch made"})), says("refused")]
    runtime = await opened(approvals=False)
    await say(runtime)
    assert "Nobody can be asked" in str(model.below[1].messages[-1])
    assert not (runtime.agent.deps.workspace / "made").exists()


async def test_in_plan_mode_it_changes_nothing_either(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("write", {"path": "made", "content": "x"})), says("refused")]
    runtime = await opened(mode="plan")
    events = await say(runtime)
    assert result_of(events).output == "refused"
    assert "plan mode" in str(model.below[1].messages[-1])
    assert not (runtime.agent.deps.workspace / "made").exists()


async def test_where_each_change_is_asked_about_so_are_its_own(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("write", {"path": "made", "content": "x"})), says("done")]
    events = await say(await opened(mode="ask"))
    assert [(each.tool, each.by) for each in of_kind(events, ApprovalRequested)] == [("write", "about a")]


async def test_a_rule_may_forbid_it(model: TwoMinds, opened: Any) -> None:
    configure(more="    permissions: {deny: [task]}\n")
    model.main = [hands("a"), says("thanks")]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "permissions.deny: task" in result_of(events).output
    assert not model.below


async def test_too_many_tokens_end_it_with_what_it_said(model: TwoMinds, opened: Any) -> None:
    configure("{max_tokens: 1000}")
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("list", {}), usage=SPENT), says("never")]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "1,200 tokens (agents.defaults.subagents.max_tokens" in result_of(events).output
    assert len(model.minds["look at a"]) == 1


@pytest.mark.parametrize(
    ("settings", "errands", "refused", "why"),
    load_table(__file__, "all_of_one_message_have_a_bound_together"),
)
async def test_all_of_one_message_have_a_bound_together(
    model: TwoMinds, opened: Any, settings: str, errands: int, refused: int, why: str
) -> None:
    """A second message begins anew."""
    configure(f"{{{settings}}}")
    runtime = await opened()
    names = [f"n{number}" for number in range(errands)]
    for _ in range(2):
        model.main = [hands(*names), says("thanks")]
        model.minds = {f"look at {name}": [costs(name)] for name in names}
        events = await say(runtime)
        results = [result_of(events, f"t{number}") for number in range(errands)]
        failed = [result.output for result in results if result.is_error]
        assert len(failed) == refused
        assert all(why in output for output in failed)


async def test_one_that_is_at_work_is_stopped_by_what_all_used(model: TwoMinds, opened: Any) -> None:
    configure("{max_concurrent: 1, max_total_tokens: 2000}")
    model.main = [hands("a", "b"), says("thanks")]
    model.minds["look at a"] = [costs("A")]
    model.minds["look at b"] = [uses(("list", {}), usage=SPENT), says("never")]
    events = await say(await opened())
    assert not result_of(events, "t0").is_error
    assert "all of this message used 2,400 tokens" in result_of(events, "t1").output
    assert len(model.minds["look at b"]) == 1


async def test_those_below_count_with_them(model: TwoMinds, opened: Any) -> None:
    configure("{max_depth: 2, max_total: 2}")
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [hands("b", "c"), lambda request: says(results_in(request))]
    model.minds["look at b"] = [says("B")]
    model.minds["look at c"] = [says("C")]
    output = result_of(await say(await opened())).output
    assert "2 worked on this message" in output
    assert "B" in output


def results_in(request: ChatRequest) -> str:
    return " ".join(message.text for message in request.messages if isinstance(message, ToolResultMessage))


async def test_calls_that_repeat_themselves_end_it(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [uses(("list", {})) for _ in range(10)]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "repeating the same call of list" in result_of(events).output
    assert len(model.minds["look at a"]) == 6
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "done"


async def test_too_much_time_ends_it(model: TwoMinds, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Limits] = []

    def start(limits: Limits) -> None:
        begun.append(limits)

    monkeypatch.setattr(Limits, "start", start)

    async def time_is_up() -> None:
        begun[0]._expire()
        await asyncio.Event().wait()

    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [[TextPart("so far"), time_is_up]]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "not done after 900 seconds (agents.defaults.subagents.timeout" in result_of(events).output
    assert "What it said last: so far" in result_of(events).output


async def test_no_time_goes_by_while_the_user_is_asked() -> None:
    limits = Limits(SubagentSettings(), Cancellation(), [])
    running: list[bool] = []

    async def approve(_question: ApprovalQuestion) -> ApprovalAnswer:
        running.append(limits._alarm is not None)
        return ApprovalAnswer("once")

    limits.start()
    await limits.pausing(approve)(ApprovalQuestion("shell", "ls", "/", "", ""))
    running.append(limits._alarm is not None)
    limits.stop()
    assert running == [False, True]


async def test_a_model_that_fails_is_an_error_of_the_call(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [[AuthenticationError("The key is wrong.", provider="fake", hint="Check it.")]]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "The key is wrong." in result_of(events).output


async def test_an_answer_without_words_is_no_report(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [says("NO_REPLY")]
    events = await say(await opened())
    assert result_of(events).is_error
    assert "ended without a report" in result_of(events).output


async def test_the_user_stops_all_of_it(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a", "b")]
    stalled = [Stalling(), Stalling()]
    model.minds = {f"look at {name}": [[TextPart("so far"), each]] for name, each in zip("ab", stalled, strict=True)}
    runtime = await opened()

    async def stop() -> None:
        for each in stalled:
            await each.reached.wait()
        runtime.agent.interrupt()

    stopping = asyncio.create_task(stop())
    events = [event async for event in runtime.agent.submit("go")]
    await stopping
    assert of_kind(events, TurnEnded)[0].status == "interrupted"
    assert [result_of(events, call).summary for call in ("t0", "t1")] == ["interrupted", "interrupted"]
    # Their own transcripts keep what they said.
    assert len(kept(runtime)) == 2
    assert all("so far" in path.read_text() for path in kept(runtime))


def kept(runtime: Runtime) -> list[Path]:
    """The transcripts of the sub-agents of the open session."""
    conversation = runtime.agent.conversation
    return sorted(runtime.agent.deps.store.subagents(conversation.session_id).folder.glob("*.jsonl"))


async def test_what_it_used_counts_for_the_conversation(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [costs("done")]
    runtime = await opened()
    await say(runtime)
    record = runtime.agent.conversation.session.record
    assert (record.cost, record.input_tokens, record.output_tokens) == (0.25, 6_000, 200)
    assert record.turns == 1


async def test_its_talk_is_kept_beside_the_session_and_no_list_names_it(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [says("the report")]
    runtime = await opened()
    events = await say(runtime)
    store, session = runtime.agent.deps.store, runtime.agent.conversation.session_id
    assert [path.stem for path in kept(runtime)] == [result_of(events).details["subagent"]["sessionId"]]
    assert [summary.name for summary in store.list()] == ["main"]
    assert [summary.title for summary in store.subagents(session).list()] == ["look at a"]
    assert [path.stat().st_mode & 0o777 for path in kept(runtime)] == [0o600]
    assert not store.subagents(session).pending()


async def test_it_goes_to_the_trash_with_its_session_and_comes_back(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [says("the report")]
    runtime = await opened(session="work")
    await say(runtime)
    store, session = runtime.agent.deps.store, runtime.agent.conversation.session_id
    await runtime.close()
    store.delete("work")
    assert not store.subagents(session).folder.exists()
    store.restore(session)
    assert [summary.title for summary in store.subagents(session).list()] == ["look at a"]


async def test_another_model_may_do_it(monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    main, cheap = TwoMinds(), TwoMinds()
    use_models(monkeypatch, lambda ref: cheap if ref == "fake/cheap" else main)
    configure("{model: fake/cheap}")
    main.main = [hands("a"), says("thanks")]
    cheap.minds["look at a"] = [says("the report")]
    events = await say(await opened())
    assert result_of(events).output == "the report"
    assert cheap.closed
    assert not main.below


async def test_what_is_forgotten_is_found_and_taken_out_there_too(model: TwoMinds, opened: Any) -> None:
    model.main = [hands("a"), says("thanks")]
    model.minds["look at a"] = [says("the report about zanzibar spices")]
    runtime = await opened()
    await say(runtime)
    folder, (path,) = runtime.agent.deps.store.folder, kept(runtime)
    await runtime.close()
    request = Request(text="zanzibar spices", transcripts=True)
    work = Forgetting(load_settings(Paths(find_home())).settings, Paths(find_home()), "main", request)
    outcome = await asyncio.to_thread(work.run)
    assert outcome.complete
    assert f"sessions/{path.relative_to(folder)}" in {part.path for part in outcome.done}
    assert "zanzibar" not in path.read_text()


@pytest.mark.parametrize(
    ("enabled", "window", "ref", "offered"),
    load_table(__file__, "who_is_offered_it"),
)
async def test_who_is_offered_it(
    model: TwoMinds, opened: Any, enabled: str, window: int, ref: str, offered: bool
) -> None:
    configure(f"{{enabled: '{enabled}'}}")
    model.info = ModelInfo(ref=ref, window=window)
    model.main = [says("fine")]
    await say(await opened())
    assert ("task" in {tool.name for tool in model.of("chat")[0].tools}) is offered


@pytest.mark.parametrize("reader", ["the conversation", "a sub-agent"])
async def test_what_another_has_read_is_not_seen(model: TwoMinds, opened: Any, reader: str) -> None:
    """A file is replaced by whoever has read it, and by nobody else."""
    looks, writes = uses(("read", {"path": "plan.md"})), uses(("write", {"path": "plan.md", "content": "mine"}))
    below = [looks] if reader == "a sub-agent" else [writes, looks, writes]
    above = [writes, looks, writes] if reader == "a sub-agent" else [looks]
    model.minds["look at a"] = [*below, says("done")]
    hand = [hands("a")]
    model.main = [*hand, *above, says("done")] if reader == "a sub-agent" else [*above, *hand, says("done")]
    runtime = await opened()
    file = runtime.agent.deps.workspace / "plan.md"
    file.write_text("- by hand\n", encoding="utf-8")
    events = await say(runtime)
    steps = of_kind(events, SubagentStep) if reader == "the conversation" else events
    finished = [event.step if isinstance(event, SubagentStep) else event for event in steps]
    done = [(event.name, event.is_error) for event in finished if isinstance(event, ToolFinished)]
    assert [each for each in done if each[0] == "write"] == [("write", True), ("write", False)]
    assert file.read_text(encoding="utf-8") == "mine"
