"""How full the window is: what was reported, what is counted on top, and when memory is saved or it is compacted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.schema_agent import CompactionSettings
from clawbot.context.bootstrap import Bootstrap, BootstrapFile
from clawbot.context.counting import MESSAGE_TOKENS, PRIMING_TOKENS, TokenCounter
from clawbot.context.prompt import PromptInputs, build_system_prompt
from clawbot.context.window import (
    Measure,
    NextRequest,
    Report,
    WindowBudget,
    copy_limit,
    measure,
    plan_budget,
    should_compact,
    should_flush,
    should_flush_by_size,
)
from clawbot.llm.tokens import count_now
from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from clawbot.sessions.entries import CompactionEntry
from clawbot.sessions.transcript import Transcript
from tests.sessions.helpers import CLOCK
from tests.tables import load_table

TOOLS = (ToolSpec("read", "Read a file.", {"type": "object"}),)
AGENTS = BootstrapFile("AGENTS.md", Path("/ws/AGENTS.md"), False, 5, "rules", truncated=False)
PROMPT = build_system_prompt(
    PromptInputs(Path("/ws"), TOOLS, Bootstrap((AGENTS,)), datetime(2026, 11, 20, tzinfo=UTC), "openai/gpt-5")
)
BUDGET = WindowBudget(window=10_000, reserve=2_000, limit=8_000, flush=7_000, keep_recent=1_000, summary=500)


def view(*messages: Message, summary: bool = False, fresh_from: int = 0) -> NextRequest:
    return NextRequest(PROMPT, TOOLS, messages, has_summary=summary, fresh_from=fresh_from)


def answer(text: str = "fine", prompt: int = 0, output: int = 1, *, stop: StopReason = "stop") -> AssistantMessage:
    usage = Usage(input=prompt, output=output, total_tokens=prompt + output) if prompt else None
    return AssistantMessage([TextBlock(text)], usage=usage, stop_reason=stop)


def seen(*messages: Message, summary: bool = False, fresh_from: int = 0, report: Report | None = None) -> Measure:
    return measure(view(*messages, summary=summary, fresh_from=fresh_from), TokenCounter(), report)


def tokens_of(*messages: Message) -> int:
    return sum(map(TokenCounter().of, messages))


FIXED = seen().fixed


# Parts


def test_the_parts_of_a_call() -> None:
    summary, question = UserMessage("so far: all is well"), UserMessage("read it")
    call = AssistantMessage([ToolCallBlock("1", "read", {"path": "a.md"})], stop_reason="toolUse")
    result = ToolResultMessage("1", "read", [TextBlock("the text " * 50)])
    found = seen(summary, question, call, result, summary=True, fresh_from=1)

    assert found.summary == tokens_of(summary)
    assert found.messages == tokens_of(question, call)
    assert found.tool_results == tokens_of(result)
    assert found.tools == TokenCounter().tool(TOOLS[0])
    assert found.system + found.bootstrap == count_now(PROMPT.text) + MESSAGE_TOKENS + PRIMING_TOKENS
    assert found.bootstrap == count_now(f"{PROMPT.sections[-2].text}\n\n")
    assert found.counted == FIXED + tokens_of(summary, question, call, result)


def test_without_a_report_everything_is_counted() -> None:
    found = seen(UserMessage("hello"), answer("hi"))
    assert (found.used, found.exact, found.stale) == (found.counted, False, False)
    assert found.reported == 0


# Reports


def test_the_last_good_answer_says_what_is_in_use() -> None:
    """Sheet 6.4: its whole prompt, cached or not, and its output; what came since is counted."""
    usage = Usage(input=100, cache_read=FIXED, cache_write=50, output=1)
    done = (UserMessage("hello"), AssistantMessage([TextBlock("fine")], usage=usage))
    found = seen(*done)
    assert (found.used, found.exact) == (FIXED + 150 + 1, True)
    assert found.reported == FIXED + 150

    later = UserMessage("a word " * 1000)
    more = seen(*done, later)
    ratio = found.reported / (FIXED + tokens_of(done[0]))
    assert not more.exact
    assert more.used == pytest.approx(found.reported + ratio * tokens_of(done[1], later), abs=1)


def test_what_the_offline_model_weighs_is_no_count() -> None:
    """Seen: `/context` showed `unaccounted -1,103`, since its weights are below what was counted here."""
    weighed = AssistantMessage([TextBlock("fine")], provider=OFFLINE, usage=Usage(input=FIXED - 200, output=1))
    found = seen(UserMessage("hello"), weighed)
    assert (found.used, found.reported, found.exact, found.stale) == (found.counted, 0, False, False)


def test_a_report_in_hand_is_of_the_call_that_it_was_made_of() -> None:
    """What is left out of the next call, by pruning, comes off the figure."""
    long, question = ToolResultMessage("1", "read", [TextBlock("word " * 1000)]), UserMessage("hello")
    before = seen(long, question)
    report = Report(before.counted, before.counted)

    assert seen(long, question, report=report).used == before.counted
    assert seen(long, question, report=report).exact
    assert seen(question, report=report).used == before.counted - tokens_of(long)


@pytest.mark.parametrize(("ratio", "scale"), [(0.5, 0.5), (0.8, 0.8), (1.0, 1.0), (2.5, 2.5), (20.0, 3.0)])
def test_what_came_since_is_scaled_by_how_the_provider_counts(ratio: float, scale: float) -> None:
    report = Report(round(FIXED * ratio), FIXED)
    since = UserMessage("word " * 1000)
    assert seen(since, report=report).used == pytest.approx(FIXED * ratio + scale * tokens_of(since), abs=2)


def test_a_report_of_less_than_half_is_not_believed() -> None:
    """Some servers report only what their cache did not hold: by that, an 8k window would never be full."""
    question = UserMessage("word " * 3000)
    found = seen(question, answer(prompt=40))
    assert found.used == found.counted > 3000
    assert not found.exact
    assert found.reported == 0


def test_reasoning_in_the_output_is_not_sent_again() -> None:
    prompt = FIXED + 10
    assert seen(UserMessage("hi"), answer("fine", prompt, output=5)).used == prompt + 5
    thought = seen(UserMessage("hi"), answer("fine", prompt, output=9_000))
    assert thought.used < prompt + 20
    assert not thought.exact


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_answer_reports_nothing(stop: StopReason) -> None:
    good, bad = answer("x", FIXED + 500), answer("part", 9_999, stop=stop)
    found = seen(UserMessage("a"), good, UserMessage("b"), bad)
    assert found.reported == FIXED + 500
    assert FIXED + 500 < found.used < FIXED + 600


@pytest.mark.parametrize("usage", [None, Usage(), Usage(output=7), Usage(input=-5)])
def test_an_answer_without_figures_leaves_it_to_the_one_before(usage: Usage | None) -> None:
    silent = AssistantMessage([TextBlock("x")], usage=usage)
    assert seen(UserMessage("a"), answer("x", FIXED + 500), UserMessage("b"), silent).reported == FIXED + 500
    assert seen(UserMessage("a"), silent).used == FIXED + tokens_of(UserMessage("a"), silent)


def test_bug_4_5_the_figure_is_of_the_last_call_and_never_a_sum_over_the_calls_of_a_turn() -> None:
    """Sheet 4.4, 4.5 and 6.3: input and output that were added up over a tool loop say nothing of the context."""
    messages: list[Message] = [UserMessage("look")]
    for number in range(5):
        usage = Usage(input=FIXED + 100 + number, output=12, total_tokens=FIXED + 112 + number)
        call = ToolCallBlock(str(number), "read", {"path": "a.md"})
        messages.append(AssistantMessage([call], usage=usage, stop_reason="toolUse"))
        messages.append(ToolResultMessage(str(number), "read", [TextBlock("short")]))
    messages.append(answer("done", FIXED + 200))
    assert seen(*messages).used == FIXED + 201


def test_bug_4_4_usage_is_found_behind_a_line_of_more_than_8_kib(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append_message(UserMessage("hello"))
        transcript.append_message(answer("long " * 10_000, FIXED + 77, output=10_001))
    with Transcript.open(transcript.path, clock=CLOCK) as again:
        found = seen(*(item.message for item in again.context()))
    assert (found.reported, found.used, found.exact) == (FIXED + 77, FIXED + 77 + 10_001, True)


# After a compaction


def compacted(*since: Message) -> Measure:
    """A summary and a kept answer that carries the usage of the context before the compaction."""
    summary, kept = UserMessage("summary"), answer("kept", prompt=9_900)
    return seen(summary, UserMessage("q"), kept, *since, summary=True, fresh_from=3)


def test_bug_7_1_a_kept_answer_does_not_call_for_the_next_compaction() -> None:
    """The trap: it still carries its old, large usage."""
    found = compacted()
    assert found.stale
    assert found.used == found.counted < 1_000
    assert not should_compact(found, BUDGET)
    assert not should_flush(found, BUDGET, flushed=False, failures=0)
    assert not should_compact(compacted(UserMessage("next")), BUDGET)


def test_bug_7_1_not_from_a_file_either(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append_message(UserMessage("first"))
        kept = transcript.append_message(UserMessage("q"))
        transcript.append_message(answer("kept", prompt=9_900))
        transcript.append(
            CompactionEntry(id="", timestamp="", summary="so far", first_kept_entry_id=kept.id, tokens_before=9_900)
        )
    with Transcript.open(transcript.path, clock=CLOCK) as again:
        messages = [item.message for item in again.context()]
    found = seen(*messages, summary=True, fresh_from=len(messages))
    assert len(messages) == 3
    assert found.stale
    assert not should_compact(found, BUDGET)


def test_the_first_report_after_a_compaction_ends_that() -> None:
    found = compacted(UserMessage("next"), answer("new", prompt=8_500))
    assert (found.stale, found.reported, found.used) == (False, 8_500, 8_501)
    assert should_compact(found, BUDGET)


def test_a_report_in_hand_from_before_the_compaction_is_not_used() -> None:
    messages = (UserMessage("summary"), UserMessage("q"))
    found = seen(*messages, summary=True, fresh_from=2, report=Report(9_900, 9_000))
    assert found.stale
    assert found.used == found.counted


def test_figures_of_a_model_that_reports_nothing_are_not_stale_for_ever() -> None:
    found = compacted(UserMessage("next"), answer("new"))
    assert not found.stale
    assert found.used == found.counted


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_answer_after_a_compaction_leaves_the_figures_stale(stop: StopReason) -> None:
    assert compacted(UserMessage("next"), answer("part", prompt=9_900, stop=stop)).stale


# Decisions


def used(tokens: int, *, stale: bool = False) -> Measure:
    return seen()._replace(used=tokens, stale=stale)


@pytest.mark.parametrize(
    ("tokens", "stale", "compact"),
    load_table(__file__, "compaction_comes_beyond_the_limit"),
)
def test_compaction_comes_beyond_the_limit(tokens: int, stale: bool, compact: bool) -> None:
    """Sheet 7.1: strictly more than the window without the reserve; stale figures only when nothing fits."""
    assert should_compact(used(tokens, stale=stale), BUDGET) is compact


@pytest.mark.parametrize(
    ("tokens", "stale", "flushed", "failures", "flush"),
    load_table(__file__, "the_flush_comes_from_its_mark_on_once_in_a_cycle"),
)
def test_the_flush_comes_from_its_mark_on_once_in_a_cycle(
    tokens: int, stale: bool, flushed: bool, failures: int, flush: bool
) -> None:
    """Sheet 8.2; after three failures not again in this cycle."""
    assert should_flush(used(tokens, stale=stale), BUDGET, flushed=flushed, failures=failures) is flush


def test_no_flush_without_a_mark() -> None:
    assert not should_flush(used(9_999), BUDGET._replace(flush=0), flushed=False, failures=0)


@pytest.mark.parametrize(
    ("grown", "force", "failures", "flush"),
    [(99, 100, 0, False), (100, 100, 0, True), (100, 100, 3, False), (10**9, 0, 0, False), (0, 0, 0, False)],
)
def test_the_flush_by_size(grown: int, force: int, failures: int, flush: bool) -> None:
    assert should_flush_by_size(grown, force, failures) is flush


@pytest.mark.parametrize("window", [8_192, 24_000, 200_000])
def test_bug_6_5_a_conversation_that_grows_is_flushed_before_it_is_compacted(window: int) -> None:
    budget = plan_budget(window, CompactionSettings(), fixed=3_200)
    flushes = [
        tokens for tokens in range(0, window, 50) if should_flush(used(tokens), budget, flushed=False, failures=0)
    ]
    compactions = [tokens for tokens in range(0, window, 50) if should_compact(used(tokens), budget)]
    assert 3_200 < flushes[0] < compactions[0]


@pytest.mark.parametrize(
    ("reported", "beyond", "limit"),
    [(0, 0, 8_000), (8_500, 0, 8_500), (8_500, 300, 8_200), (8_500, 4_000, 8_000)],
    ids=["not known", "known", "counts more", "counts far more"],
)
def test_a_silent_turn_may_reach_into_the_reserve(reported: int, beyond: int, limit: int) -> None:
    """Where the provider's figures are known; a quarter of the reserve, and 1,500 tokens, are left for its answers."""
    budget = plan_budget(10_000, CompactionSettings(reserve_tokens=2_000, reserve_tokens_floor=0))
    figures = used(0)._replace(reported=reported)
    figures = figures._replace(used=figures.counted + beyond)
    assert copy_limit(figures, budget) == limit
    large = plan_budget(200_000, CompactionSettings())
    assert copy_limit(figures._replace(used=0, reported=1), large) == 200_000 - large.reserve // 4


# Cost and sanity


def test_a_long_history_is_not_counted_again() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    counter = TokenCounter(count)
    history: list[Message] = [UserMessage(f"message {number}") for number in range(2_000)]
    measure(view(*history), counter)
    asked.clear()
    history.append(UserMessage("the new one"))
    measure(view(*history), counter)
    assert asked == ["the new one"]


_messages = st.one_of(
    st.text(max_size=30).map(UserMessage),
    st.builds(answer, st.text(max_size=30), st.integers(0, 20_000), st.integers(0, 3_000)),
    st.builds(lambda stop: answer("x", 5_000, stop=stop), st.sampled_from(["error", "aborted"])),
    st.text(max_size=30).map(lambda text: ToolResultMessage("1", "read", [TextBlock(text)])),
)


@settings(deadline=None)  # the first example loads the vocabulary
@given(
    st.lists(_messages, max_size=8),
    st.integers(0, 8),
    st.none() | st.builds(Report, st.integers(0, 30_000), st.integers(0, 30_000)),
)
def test_no_conversation_breaks_the_figures(messages: list[Message], fresh: int, report: Report | None) -> None:
    found = seen(*messages, fresh_from=min(fresh, len(messages)), report=report)
    assert found.used >= 0
    assert found.counted == FIXED + tokens_of(*messages)
    assert not (found.stale and found.reported)
    assert not (found.exact and not found.reported)
