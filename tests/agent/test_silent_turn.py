"""Memory as a silent turn: which model is asked, in how many parts, and what several turns come to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.agent.events import silent_scope
from clawbot.agent.flush import SilentTurn, joined
from clawbot.agent.offers import FlushOutcome
from clawbot.agent.request_builder import RequestBuilder
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.counting import TokenCounter
from clawbot.context.detached import Detached
from clawbot.context.window import Windows
from clawbot.errors import ClawbotError
from clawbot.llm.errors import UnreachableError
from clawbot.llm.protocol import ChatModel, ChatRequest, ModelInfo
from clawbot.messages import Message, UserMessage
from clawbot.sessions.entries import MemoryWrite
from clawbot.tools.registry import build_toolbox
from tests.agent.fakes import Answer, FakeModel, agent_deps, says
from tests.agent.gate_host import WORD, PurposeModel, notes

WRITE = MemoryWrite("memory/2026-11-20.md", 0, 9, 1, 1, "0")
OTHER = MemoryWrite("memory/2026-11-20.md", 9, 5, 2, 2, "1")


class Memory:
    """A silent turn with `usual` as the model of the conversation, and those that can be opened by name."""

    def __init__(self, workspace: Path, usual: ChatModel, model: str | None = None, **others: ChatModel) -> None:
        self.others = {f"{name}/model": other for name, other in others.items()}
        given = {"workspace": workspace, "compaction": {"memory_flush": {"model": model}}}
        settings = AgentSettings.model_validate(given)
        clock = SystemClock()
        toolbox = build_toolbox(workspace, settings, clock, Paths(find_home()))
        requests = SimpleNamespace(
            windows=Windows(None),
            toolbox=toolbox,
            request_of=lambda messages: ChatRequest("", tuple(messages)),
            answer_room=lambda _: None,
        )
        deps = agent_deps(workspace, model=usual, open_model=self._open, settings=settings, tools=toolbox, clock=clock)
        self.turn = SilentTurn(deps, cast("RequestBuilder", requests))
        self.scope = silent_scope()

    async def _open(self, ref: str) -> ChatModel:
        if ref not in self.others:
            raise ClawbotError(f"There is no {ref}.")
        return self.others[ref]

    async def take(self, *texts: str) -> FlushOutcome:
        """Offer `texts`."""
        messages: tuple[Message, ...] = tuple(UserMessage(text) for text in texts)
        return await self.turn.take(Detached(messages, 0, len(messages)), lambda _write: None, self.scope)


def reader(window: int, *answers: Answer) -> FakeModel:
    """A model with that window."""
    model = FakeModel(*answers)
    model.info = ModelInfo(ref="reader/model", window=window)
    return model


def shown(request: ChatRequest, texts: tuple[str, ...]) -> list[str]:
    """The marks of those of `texts` that are in `request`."""
    said = [message.text for message in request.messages]
    return [text.split()[0] for text in texts if any(text.split()[0] in words for words in said)]


TEXTS = tuple(f"<{number}> {WORD * 400}" for number in range(16))
MARKS = [f"<{number}>" for number in range(16)]


async def test_the_model_of_the_conversation_is_asked_once_and_stays_open(tmp_path: Path) -> None:
    usual = reader(4_000, says("NO_REPLY"))
    memory = Memory(tmp_path, usual)
    assert memory.turn.model == "reader/model"
    assert (await memory.take(*TEXTS)).result == "nothing"
    assert shown(usual.requests[0], TEXTS) == MARKS
    assert not usual.closed


async def test_a_model_of_its_own_with_room_sees_all_of_it_at_once(tmp_path: Path) -> None:
    usual, other = FakeModel(), reader(128_000, says("NO_REPLY"))
    memory = Memory(tmp_path, usual, "other/model", other=other)
    assert memory.turn.model == "other/model"
    assert (await memory.take(*TEXTS)).result == "nothing"
    assert (len(usual.requests), len(other.requests), other.closed) == (0, 1, True)


@pytest.mark.parametrize("window", [4_000, 5_000, 8_000])
async def test_with_a_smaller_window_it_sees_each_message_once_in_parts_that_fit(tmp_path: Path, window: int) -> None:
    other = reader(window, *[says("NO_REPLY")] * 16)
    assert (await Memory(tmp_path, FakeModel(), "other/model", other=other).take(*TEXTS)).result == "nothing"
    assert 1 < len(other.requests) < 16
    assert [mark for request in other.requests for mark in shown(request, TEXTS)] == MARKS
    counter = TokenCounter(ref=other.info.ref)
    sizes = [counter.text(request.system) + sum(map(counter.of, request.messages)) for request in other.requests]
    assert max(sizes) < window * 3 // 4  # the rest is for the tools, and for what it reads and writes
    assert other.closed


async def test_where_prompt_and_tools_take_the_whole_window_a_little_is_shown_at_a_time(tmp_path: Path) -> None:
    """What is asked then may be refused, but it says enough to be judged, and is not asked for ever."""
    other = reader(1_000, *[says("NO_REPLY")] * 6)
    await Memory(tmp_path, FakeModel(), "other/model", other=other).take(*TEXTS[:6])
    assert [request.messages[0].text for request in other.requests] == list(TEXTS[:6])


async def test_after_a_part_that_failed_no_other_is_tried(tmp_path: Path) -> None:
    other = reader(4_000, says("NO_REPLY"), [UnreachableError("no route")], says("NO_REPLY"))
    outcome = await Memory(tmp_path, FakeModel(), "other/model", other=other).take(*TEXTS)
    assert (outcome.result, "no route" in outcome.error) == ("failed", True)
    assert (len(other.requests), other.closed) == (2, True)


async def test_what_the_parts_wrote_is_one_outcome(tmp_path: Path) -> None:
    other = PurposeModel(flush=notes("- a note\n") * 16)
    other.info = ModelInfo(ref="other/model", window=4_000)
    outcome = await Memory(tmp_path, FakeModel(), "other/model", other=other).take(*TEXTS)
    parts = len(other.requests) // 2
    assert parts > 1
    assert (outcome.result, len(outcome.writes)) == ("written", parts)
    assert (tmp_path / outcome.writes[0].path).read_text().count("- a note\n") == parts


async def test_a_model_that_is_not_there_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    usual = FakeModel()
    outcome = await Memory(tmp_path, usual, "other/model").take("hello")
    assert outcome == FlushOutcome("failed", error="There is no other/model.")
    assert usual.requests == []


async def test_a_wish_to_stop_opens_no_model(tmp_path: Path) -> None:
    other = reader(8_000)
    memory = Memory(tmp_path, FakeModel(), "other/model", other=other)
    memory.scope.cancel.request()
    assert (await memory.take("hello")).result == "interrupted"
    assert (other.requests, other.closed) == ([], False)


NOTHING, FAILED, STOPPED = FlushOutcome("nothing"), FlushOutcome("failed", error="why"), FlushOutcome("interrupted")
WRITTEN = FlushOutcome("written", (WRITE,), "done", tokens=3)


@pytest.mark.parametrize(
    ("before", "after", "both"),
    [
        (NOTHING, NOTHING, NOTHING),
        (NOTHING, WRITTEN, WRITTEN),
        (NOTHING, FAILED, FAILED),
        (NOTHING, STOPPED, STOPPED),
        (WRITTEN, NOTHING, FlushOutcome("written", (WRITE,), tokens=3)),
        (WRITTEN, FAILED, FlushOutcome("written", (WRITE,), error="why", tokens=3)),
        (WRITTEN, STOPPED, FlushOutcome("interrupted", (WRITE,), tokens=3)),
        (
            WRITTEN,
            FlushOutcome("written", (OTHER,), "完", tokens=4),
            FlushOutcome("written", (WRITE, OTHER), "完", "", 7),
        ),
        (FlushOutcome("nothing", error="refused"), NOTHING, FlushOutcome("nothing", error="refused")),
    ],
)
def test_what_two_turns_come_to(before: FlushOutcome, after: FlushOutcome, both: FlushOutcome) -> None:
    assert joined(before, after) == both


_outcomes = st.one_of(
    st.sampled_from([NOTHING, FAILED, STOPPED]),
    st.builds(
        FlushOutcome,
        st.sampled_from(["written", "interrupted"]),
        st.lists(st.sampled_from([WRITE, OTHER]), min_size=1).map(tuple),
        error=st.sampled_from(["", "late"]),
        tokens=st.integers(0, 9),
    ),
)


@given(st.lists(_outcomes, min_size=1, max_size=6))
def test_no_write_and_no_token_is_lost_whatever_follows(outcomes: list[FlushOutcome]) -> None:
    whole = NOTHING
    for outcome in outcomes:
        whole = joined(whole, outcome)
    assert whole.writes == tuple(write for outcome in outcomes for write in outcome.writes)
    assert whole.tokens == sum(outcome.tokens for outcome in outcomes)
    assert (whole.result == "interrupted") == (outcomes[-1].result == "interrupted")
    assert whole.result in ("written", "interrupted") or not whole.writes
