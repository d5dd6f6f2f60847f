"""What is kept from request to request of a conversation: it is always what a fresh look at all of it finds."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_agent import ContextPruningSettings
from clawbot.context.bootstrap import Bootstrap
from clawbot.context.counting import Kept, TokenCounter
from clawbot.context.prompt import PromptInputs, build_system_prompt
from clawbot.context.pruning import Guard, Pruner, prune
from clawbot.context.window import NextRequest, Report, Tally, measure
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.tokens import weigh_tokens
from clawbot.llm.wire import Speller
from clawbot.messages import (
    NOTES_HEAD,
    AssistantMessage,
    BashExecutionMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolSpec,
    Usage,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem, Pairing, repair_pairs
from tests.context.talk import PICTURE, items, result, user

IDS = ("c1", "c2", "c3")
TOOLS = (ToolSpec("read", "Read a file.", {"type": "object"}),)
PROMPT = build_system_prompt(
    PromptInputs(Path("/ws"), TOOLS, Bootstrap(()), datetime(2026, 11, 20, tzinfo=UTC), "openai/gpt-5")
)


def answer(text: str, calls: list[str], prompt: int, stop: StopReason) -> AssistantMessage:
    blocks = [ToolCallBlock(call, "read", {"path": "a.md"}) for call in calls]
    usage = Usage(input=prompt, output=2, total_tokens=prompt + 2) if prompt else None
    return AssistantMessage(
        [TextBlock(text), *blocks], provider="openai", model="gpt-5", usage=usage, stop_reason=stop, timestamp=3
    )


_texts = st.sampled_from(["", "fine", "你好，世界。", "a longer text, " * 30, "x" * 9_000])
_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, _texts, st.sampled_from([0, 1_760_000_000_000])),
    st.just(UserMessage([TextBlock("look"), PICTURE])),
    st.just(UserMessage(f"{NOTES_HEAD}\n\n```\nold\n```")),
    st.builds(
        answer,
        _texts,
        st.lists(st.sampled_from(IDS), max_size=2),
        st.sampled_from([0, 900]),
        st.sampled_from(["stop", "stop", "aborted"]),
    ),
    st.builds(result, _texts, st.sampled_from(IDS), picture=st.booleans()),
    st.builds(BashExecutionMessage, command=st.just("ls"), output=_texts),
)


def round_of_tools(calls: list[str], answered: int) -> list[Message]:
    results = [result("found", call) for call in calls[:answered]]
    return [answer("I look.", calls, 900, "toolUse"), *results, answer("Done.", [], 900, "stop")]


_rounds = st.builds(round_of_tools, st.lists(st.sampled_from(IDS), min_size=1, max_size=3), st.integers(1, 3))
# What happens between two requests: something is said, the last of it is stored in another form, a result takes its
# place, a compaction leaves the end, a job's turn is taken out, or the transcript is read anew.
_steps = st.one_of(
    st.tuples(st.just("say"), _rounds),
    st.tuples(st.just("say"), st.lists(_messages, min_size=1, max_size=4)),
    st.tuples(st.just("store"), st.builds(result, st.just("late"), st.sampled_from(IDS))),
    st.tuples(st.just("store"), _messages),
    st.tuples(st.just("compact"), st.integers(1, 4)),
    st.tuples(st.just("take out"), st.integers(1, 3)),
    st.tuples(st.just("read anew"), st.none()),
)


def after(talk: list[Message], step: tuple[str, Any]) -> list[Message]:
    match step:
        case "say", said:
            return [*talk, *said]
        case "store", message:
            return [*talk[:-1], message]
        case "compact", kept:
            return [user("It was about tea."), *talk[-kept:]]
        case "take out", count:
            return talk[:-count]
        case _:
            return copy.deepcopy(talk)


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Message]]:
    """A conversation at each of its requests."""
    talks: list[list[Message]] = [[]]
    for step in draw(st.lists(_steps, min_size=2, max_size=7)):
        talks.append(after(talks[-1], step))
    return talks


@given(conversations())
def test_values_are_those_of_the_members(talks: list[list[Message]]) -> None:
    kept = Kept[Message, str](lambda message: message.text)
    for talk in talks:
        assert kept.of(talk) == [message.text for message in talk]


@given(conversations())
def test_calls_and_results_are_paired_as_if_seen_together(talks: list[list[Message]]) -> None:
    pairing = Pairing()
    for talk in talks:
        assert pairing.of(talk) == repair_pairs(talk)


@given(conversations(), st.integers(500, 20_000))
def test_results_are_cut_as_if_seen_together(talks: list[list[Message]], window: int) -> None:
    guard = Guard()
    for talk in talks:
        assert guard.view(items(*talk), window=window, fixed=200) == Guard().view(
            items(*talk), window=window, fixed=200
        )


@given(conversations(), st.lists(st.integers(0, 700_000), min_size=8, max_size=8))
def test_results_are_pruned_as_if_seen_together(talks: list[list[Message]], times: list[int]) -> None:
    settings = ContextPruningSettings.model_validate({"mode": "cache-ttl", "soft_trim_ratio": 0.05})
    pruner = Pruner(settings)
    pruner.touch(0)
    for talk, now in zip(talks, sorted(times), strict=False):
        state = pruner.state
        view = pruner.view(items(*talk), now_ms=now, window=4_000)
        assert (view, pruner.state) == prune(items(*talk), settings, state, now_ms=now, window=4_000)


@given(conversations(), st.none() | st.builds(Report, st.integers(0, 3_000), st.integers(0, 3_000)), st.integers(0, 4))
def test_a_request_is_measured_as_if_nothing_was_known(
    talks: list[list[Message]], report: Report | None, fresh: int
) -> None:
    counter = TokenCounter(weigh_tokens)
    tally = Tally(counter)
    for talk in talks:
        request = NextRequest(PROMPT, TOOLS, tuple(talk), fresh > 0, min(fresh, len(talk)), "openai/gpt-5")
        assert tally.measure(request, report) == measure(request, TokenCounter(weigh_tokens), report)
        counter.forget_except(talk, most=4 * len(talk))


@given(
    conversations(),
    st.sampled_from(["openai/gpt-5", "anthropic/claude-5", "mistral/m", "gemini/g", "deepseek/r1"]),
    st.sampled_from([None, "http://127.0.0.1:1/v1"]),
    st.booleans(),
)
def test_a_request_is_spelled_as_if_it_were_the_first(
    talks: list[list[Message]], ref: str, base: str | None, tools: bool
) -> None:
    speller, sent = Speller(), []
    for talk in talks:
        request = ChatRequest("Be kind.", tuple(talk), TOOLS, zone=UTC)
        body = speller.body(request, ref, base, tools=tools)
        assert body == Speller().body(request, ref, base, tools=tools)
        sent.append((body, msgspec.json.encode(body)))
    assert all(msgspec.json.encode(body) == was for body, was in sent), "a body that was sent is not changed later"


def test_what_was_added_is_looked_at_alone() -> None:
    seen: list[str] = []

    def look(item: ContextItem) -> int:
        seen.append(item.entry_id)
        return len(seen)

    kept = Kept(look)
    talk = items(user("a"), user("b"))
    kept.of(talk)
    talk.append(ContextItem("new", user("c")))
    assert kept.of(talk) == [1, 2, 3]
    assert seen == ["e0", "e1", "new"]
