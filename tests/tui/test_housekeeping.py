"""What clawbot does by itself, on the page: notes that were written, turns that were summarised, live and restored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from textual.pilot import Pilot

from clawbot.agent.events import (
    CompactionFinished,
    CompactionRunning,
    CompactionTrigger,
    Event,
    MemoryWritten,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from clawbot.config.schema import Settings, TuiSettings
from clawbot.context.window import ASSUMED
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.entries import CompactionEntry, MemoryWrite, Offer
from clawbot.tui.app import ClawbotApp
from clawbot.tui.earlier import load_items
from clawbot.tui.render.housekeeping import MemoryItem, SummaryItem, memory_mark
from clawbot.tui.render.items import Item, NoticeItem, Page
from clawbot.tui.render.lines import width_of
from clawbot.tui.render.markdown import markdown_blocks
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.screens.context import ContextScreen
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.transcript import summary_item, unsummarised_item
from tests.tui.chat_host import StepClock, chatting, make_app, page_text, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, RuntimeStatus, reply

SUMMARY = """## Decisions

- the staging proxy moved to **8443**; 8080 clashed with Grafana (memory/2026-10-02.md:14)
- keep `make -j2`

## Open TODOs

1. renew the certificates

## Exact identifiers

`proxy.stg:8443`, https://example.org/runbook
"""
CHINESE = """## 决定

- 预发布代理改到 **8443** 端口，因为 8080 与 Grafana 冲突；这一段很长，用来检查换行是否正确，会不会超出页面的宽度 🎉

## 待办

- 更新证书（memory/2026-10-02.md:14）
"""
WRITTEN = MemoryWritten(path="memory/2026-11-20.md", line=12, end_line=14, bytes=180)
FOLDED = "earlier turns summarised · 182k → 41k tokens · ctrl+o to read"
STAMP = int(NOW.timestamp() * 1000)


def running(part: int, parts: int) -> CompactionRunning:
    return CompactionRunning(trigger="threshold", part=part, parts=parts)


def compacted(summary: str = SUMMARY) -> CompactionFinished:
    return CompactionFinished(
        trigger="threshold",
        status="done",
        entry_id="c1",
        tokens_before=182_000,
        tokens_after=41_200,
        summary=summary,
    )


def texts(item: Item, width: int = 80) -> list[str]:
    return [line.text for line in item.lines(Page(width, Lexers()))]


# Live


async def test_a_note_that_was_written_is_a_quiet_line_that_opens_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[WRITTEN, *reply("done")]])
    runtime.files["memory/2026-11-20.md"] = "\n".join(f"line {number}" for number in range(1, 20))
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: bool(runtime.submitted) and not app.chat.turns.busy)
        assert " ─ memory: 3 lines to memory/2026-11-20.md ───" in page_text(app)
        await pilot.press("f6", "enter")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen) and "saved" in screen_text(app))
        assert isinstance(app.screen, EditorScreen)
        assert app.screen.area.cursor_location[0] == 11


async def test_a_click_on_the_place_opens_the_note(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[WRITTEN, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "memory: 3 lines" in screen_text(app) and not app.chat.turns.busy)
        rows = screen_text(app).split("\n")
        row = next(number for number, line in enumerate(rows) if "memory: 3 lines" in line)
        await pilot.click(offset=(rows[row].index("2026-11-20"), row))
        await until(pilot, lambda: isinstance(app.screen, EditorScreen))


async def test_turns_that_were_summarised_unfold_to_the_summary(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[running(1, 1), compacted(), *reply("and on")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: bool(runtime.submitted) and not app.chat.turns.busy)
        assert FOLDED in page_text(app)
        assert "Decisions" not in page_text(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "renew the certificates" in page_text(app))
        assert "ctrl+o folds" in page_text(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "renew the certificates" not in page_text(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: "renew the certificates" in page_text(app))
        assert page_text(app).index("renew") < page_text(app).index("and on")


async def test_the_status_line_tells_how_far_the_summary_is_and_one_clock_runs(tmp_path: Path) -> None:
    first, second = Hold(), Hold()
    turn = [running(1, 5), first, running(2, 5), second, compacted(), *reply("done")]
    runtime = FakeRuntime(tmp_path, turns=[turn])
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await send(app, pilot, "go")
        await first.reached.wait()
        await until(pilot, lambda: app.chat.status.state.activity == "summarising 1/5")
        clock = app.chat.clock
        assert isinstance(clock, StepClock)
        clock.seconds += 7
        first.release()
        await second.reached.wait()
        await until(pilot, lambda: app.chat.status.state.activity == "summarising 2/5")
        await until(pilot, lambda: app.chat.status.state.seconds == 7)
        assert "summarising 2/5 7 s · esc stops" in screen_text(app)
        second.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert app.chat.status.state.activity == ""


async def test_escape_stops_the_summary_and_the_page_says_that_nothing_is_lost(tmp_path: Path) -> None:
    hold = Hold()
    stopped = CompactionFinished(trigger="manual", status="interrupted")
    runtime = FakeRuntime(tmp_path, turns=[[running(1, 2), hold]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await hold.reached.wait()
        await until(pilot, lambda: "summarising 1/2" in screen_text(app))
        app.chat.order.submitted(stopped)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "Summarising was stopped; the history is whole." in page_text(app)
        assert "interrupted" not in page_text(app)


@pytest.mark.parametrize("trigger", ["threshold", "overflow"])
async def test_escape_in_a_summary_in_the_middle_of_a_turn_says_that_the_answer_was_stopped_too(
    trigger: CompactionTrigger, tmp_path: Path
) -> None:
    stopped = CompactionFinished(trigger=trigger, status="interrupted")
    turn: list[Event] = [TextDelta(text="So far."), running(1, 2), stopped, TurnEnded(status="interrupted")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "So far." in page_text(app) and not app.chat.turns.busy)
        text = page_text(app)
        assert text.index("Summarising was stopped; the history is whole.") < text.index("interrupted")


async def test_marks_in_the_middle_of_an_answer_do_not_begin_another(tmp_path: Path) -> None:
    turn = [TextDelta(text="First part."), WRITTEN, compacted(), *reply("Second part.")]
    runtime = FakeRuntime(tmp_path, turns=[turn])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "Second part." in page_text(app))
        lines = [line for line in page_text(app).split("\n") if line.strip(" ▌")]
        assert [line.strip()[:14].strip() for line in lines[-4:]] == [
            "First part.", "─ memory: 3 li", "─ earlier turn", "Second part.",
        ]  # fmt: skip


async def test_the_meter_follows_the_budget_after_a_compaction(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[compacted(), *reply("done")]])
    async with chatting(runtime, (100, 24)) as (app, pilot):
        runtime.status = RuntimeStatus(tokens=41_200, stale=True)
        await send(app, pilot, "go")
        await until(pilot, lambda: "~21%" in screen_text(app))


@pytest.mark.parametrize(("text", "activity"), [("/compact the ports", "/compact"), ("why?", "thinking")])
async def test_a_command_that_takes_its_time_is_named(tmp_path: Path, text: str, activity: str) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, _):
        app.chat.order.submitted(TurnStarted(text=text, session_key="main", session_id="s", model="offline"))
        assert app.chat.status.state.activity == activity


async def test_an_assumed_window_is_told_once(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, status=RuntimeStatus(window=128_000, window_source=ASSUMED))
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "You said: go" in page_text(app) and not app.chat.turns.busy)
        assert page_text(app).count("Context size of openai/gpt-5 unknown; assuming 128,000") == 1


async def test_the_context_opens_on_the_screen_and_leads_to_what_was_written(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "/context")
        await until(pilot, lambda: isinstance(app.screen, ContextScreen) and "system prompt" in screen_text(app))
        assert runtime.submitted == []
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen) and "2026-11-20" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


# Restored


def history(*, summary: str = SUMMARY) -> list[HistoryItem]:
    writes = (
        MemoryWrite("memory/2026-11-20.md", 0, 10, 12, 13, ""),
        MemoryWrite("memory/2026-11-20.md", 10, 5, 14, 14, ""),
    )
    offer = Offer(offer="o1", phase="end", exit="threshold", by="flush", result="written", writes=writes)
    entry = CompactionEntry(
        id="c1",
        parent_id=None,
        timestamp=NOW.isoformat(),
        summary=summary,
        tokens_before=182_000,
        details={"tokensAfter": 41_200},
    )
    return [
        HistoryItem("u1", STAMP, UserMessage(content="我们为什么要换端口？")),
        HistoryItem("o1", STAMP, note="memory: 3 lines to memory/2026-11-20.md", offer=offer),
        HistoryItem("c1", STAMP, note="compacted", compaction=entry),
        HistoryItem("a1", STAMP, AssistantMessage(content=[TextBlock("因为 8080 与 Grafana 冲突。")])),
    ]


def test_what_is_restored_looks_as_it_did() -> None:
    marks = load_items(history(), UTC)[2:4]
    lines = [line for item in marks for line in texts(item)]
    assert [line.rstrip("─") for line in lines] == [
        "", " ─ memory: 3 lines to memory/2026-11-20.md ", f" ─ {FOLDED} ",
    ]  # fmt: skip
    told = compacted()
    live = summary_item(told.summary, told.tokens_before, told.tokens_after, marks[0])
    assert texts(live) == texts(marks[1])
    marks[1].unfolded = live.unfolded = True
    assert texts(live) == texts(marks[1])


def test_details_that_make_no_sense_leave_the_figure_out() -> None:
    entry = CompactionEntry(
        id="c", parent_id=None, timestamp=NOW.isoformat(), summary="s", details={"tokensAfter": "x"}
    )
    item = load_items([HistoryItem("c", STAMP, note="compacted", compaction=entry)], UTC)[0]
    assert " ─ earlier turns summarised · ctrl+o to read ──" in texts(item)[1]


# The items


@pytest.mark.parametrize("width", [20, 40, 62, 80, 120])
@pytest.mark.parametrize("summary", [SUMMARY, CHINESE], ids=["english", "chinese"])
@pytest.mark.parametrize("unfolded", [False, True])
def test_no_line_is_wider_than_the_page(width: int, summary: str, unfolded: bool) -> None:
    item = SummaryItem(markdown_blocks(summary), 182_000, 41_200, unfolded=unfolded)
    note = MemoryItem("memory/eine-sehr-lange-notiz-über-端口-und-mehr.md", 3, 1)
    assert all(width_of(line) <= width for one in (item, note) for line in texts(one, width))


def test_the_divider_drops_the_key_and_then_the_figures() -> None:
    item = SummaryItem((), 182_000, 41_200)
    assert "182k → 41k tokens ─" in texts(item, 60)[1]
    assert texts(item, 40)[1].startswith(" ─ earlier turns summarised ─")
    assert "tokens" not in texts(item, 40)[1]


def test_what_is_written_further_on_is_told_on_the_same_line() -> None:
    first, is_new = memory_mark(None, "memory/a.md", 3, 3)
    assert is_new
    assert "memory: 1 line to memory/a.md" in texts(first)[1]
    assert memory_mark(first, "memory/a.md", 4, 6) == (first, False)
    assert "memory: 4 lines to memory/a.md" in texts(first)[1]
    other, is_new = memory_mark(first, "memory/b.md", 7, 7)
    assert (is_new, other.joined) == (True, True)
    assert memory_mark(first, "memory/a.md", 9, 9)[1]


def test_a_summary_cannot_steer_the_terminal() -> None:
    hostile = "## A\x1b[2J\x07\n\n\u202egnp.exe [x](javascript:alert) \x1b]52;c;eA==\x07 שלום"
    item = summary_item(hostile, 0, 0, None)
    item.unfolded = True
    lines = item.lines(Page(80, Lexers()))
    text = "\n".join(line.text for line in lines)
    assert not any(sign in text for sign in "\x1b\x07\u202e")
    assert "\u2068שלום\u2069" in text
    assert {span.link for line in lines for span in line.spans} == {"", "fold:"}


FAILED = "Earlier turns could not be summarised; the history is whole. It timed out."


@pytest.mark.parametrize(
    ("event", "item"),
    [
        (
            CompactionFinished(trigger="manual", status="interrupted"),
            NoticeItem("info", "Summarising was stopped; the history is whole."),
        ),
        (CompactionFinished(trigger="threshold", status="failed", error="It timed out."), NoticeItem("info", FAILED)),
        (CompactionFinished(trigger="manual", status="failed", error="It timed out."), NoticeItem("warning", FAILED)),
    ],
    ids=["stopped", "by itself", "asked for"],
)
def test_who_did_not_ask_for_a_summary_is_not_alarmed(event: CompactionFinished, item: NoticeItem) -> None:
    assert unsummarised_item(event) == item


# How it looks


def talk(tmp_path: Path, theme: str, events: list[Event]) -> ClawbotApp:
    runtime = FakeRuntime(tmp_path, history=history(), turns=[events])
    runtime.settings = Settings(tui=TuiSettings.model_validate({"theme": theme}))
    return make_app(runtime)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("size", "theme", "keys", "summary"),
    [
        ((80, 24), "dark", [], SUMMARY),
        ((80, 24), "light", ["ctrl+o"], SUMMARY),
        ((140, 45), "dark", ["ctrl+o", "f6"], CHINESE),
        ((60, 20), "light", ["f6"], CHINESE),
    ],
    ids=["folded", "unfolded", "chinese", "narrow"],
)
def test_look(
    tmp_path: Path,
    snap_compare: Callable[..., bool],
    size: tuple[int, int],
    theme: str,
    keys: list[str],
    summary: str,
) -> None:
    events: list[Event] = [WRITTEN, compacted(summary), *reply("Because 8080 clashed."), TurnEnded(status="done")]

    async def before(pilot: Pilot[object]) -> None:
        app = pilot.app
        assert isinstance(app, ClawbotApp)
        await until(pilot, lambda: bool(app.chat.header.right_text) and len(app.chat.page.stack) > 0)
        await send(app, pilot, "and why did we change it?")
        await until(pilot, lambda: "Because 8080" in page_text(app) and not app.chat.turns.busy)
        await pilot.press(*keys)
        await until(pilot, lambda: app.chat.page.at_end and not app.workers)

    assert snap_compare(talk(tmp_path, theme, events), terminal_size=size, run_before=before)
