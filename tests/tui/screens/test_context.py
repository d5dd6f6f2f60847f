"""The context window on the screen: a bar that adds up, a table that fits, what comes next."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.report import ContextPart, ContextReport, FileSize, LastFlush, Tokens
from clawbot.errors import ClawbotError
from clawbot.tui.render.lines import width_of
from clawbot.tui.screens.context import AFTER_TURN, ContextScreen, context_lines, share_out
from tests.tables import load_table
from tests.tui.chat_host import FixedClock, Runtime, seen, showing, until
from tests.tui.fake_runtime import NOW, Hold, RuntimeStatus, context_report

BAR, NAMES = 2, 3  # the lines of the bar and of the names of its marks


def lines(report: ContextReport, width: int = 80, *, detail: bool = False) -> list[str]:
    return [line.plain for line in context_lines(report, width, NOW, detail=detail)]


def page(width: int = 80, *, detail: bool = False, **values: Any) -> str:
    return "\n".join(lines(context_report(**values), width, detail=detail))


# The bar


@given(st.lists(st.integers(0, 2_000_000), max_size=9), st.integers(9, 200))
def test_cells_are_shared_out_without_a_rest(amounts: list[int], cells: int) -> None:
    shares = share_out(amounts, cells)
    assert sum(shares) == (cells if any(amounts) else 0)
    assert [share > 0 for share in shares] == [amount > 0 for amount in amounts]
    for amount, share in zip(amounts, shares, strict=True):
        assert share <= 1 or abs(share - amount * cells / sum(amounts)) < len(amounts)


def test_the_bar_fills_the_line_and_carries_both_marks() -> None:
    bar, names = lines(context_report(), 100)[BAR : NAMES + 1]
    assert width_of(bar) == 100
    assert [place for place, sign in enumerate(bar) if sign == "┊"] == [88, 90]
    assert [place for place, sign in enumerate(names) if sign == "┊"] == [88, 90]
    assert names.endswith("flush ┊ ┊ compaction") or names.strip().startswith("flush · compaction")


@pytest.mark.parametrize(
    ("width", "flush", "limit", "names"),
    load_table(__file__, "the_names_of_the_marks_stand_beside_them"),
)
def test_the_names_of_the_marks_stand_beside_them(width: int, flush: int, limit: int, names: str) -> None:
    report = context_report(flush_at=flush, compact_at=limit)
    shown = lines(report, width)[NAMES]
    assert shown.strip() == names
    assert width_of(shown) <= width


def test_a_context_larger_than_the_window_is_shown_whole() -> None:
    parts = (ContextPart("messages", "messages", 300_000), ContextPart("unaccounted", "unaccounted", -400))
    text = lines(context_report(parts=parts, used=299_600))
    assert text[BAR].replace("┊", "▓") == "▓" * 80
    assert [text[BAR][place] for place in (45, 46, 47, 48)] == ["▓", "┊", "▓", "┊"]
    assert "150.0 %" in text[5]
    assert "-400" in text[6]
    assert "by the provider's count" in text[6]


def test_what_holds_nothing_has_no_line_but_what_is_free_has_one() -> None:
    amounts = {"system": 3_000, "summary": 0, "messages": 0, "toolResults": 0, "unaccounted": 0, "free": 0}
    parts = tuple(ContextPart(key, key, size) for key, size in amounts.items())
    text = "\n".join(lines(context_report(parts=parts, window=3_000, used=3_000)))
    assert [key for key in amounts if f" {key} " in text] == ["system", "free"]


def test_marks_that_were_passed_stand_in_the_bar() -> None:
    parts = (ContextPart("messages", "messages", 190_000), ContextPart("free", "free", 10_000))
    assert lines(context_report(parts=parts, used=190_000))[BAR] == "▓" * 70 + "┊▓┊" + "▓" * 3 + "░" * 4


# The words


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "next: flush in 53,955 tokens · last flush 09:12, 3 lines · 2 compactions"),
        ({"used": 177_000}, "next: compaction in 3,000 tokens"),
        ({"used": 180_000}, "next: compaction, with the next message"),
        ({"flush_at": 0, "compact_at": 0}, "no compaction comes by itself"),
        ({"compactions": 1, "last_flush": None}, "tokens · 1 compaction"),
        (
            {"last_flush": LastFlush("2026-11-18T23:12:00+02:00", "nothing")},
            "last flush 18 Nov 21:12, nothing to write",
        ),
        ({"last_flush": LastFlush("soon\x1b[2J", "failed")}, "last flush soon, failed"),
        ({"exact": False}, "used 122,045 of 200,000 · the provider's count, and what came since"),
        ({"exact": False, "stale": True}, "counted here since the compaction"),
        ({"exact": False, "reported": 0}, "200,000 · counted here"),
        ({"pruned": 3}, "3 old results left out"),
        ({"tools_left_out": ("edit", "weather")}, "Tools left out in a window below 8,000 tokens: edit, weather"),
        ({"assumed": True, "window_source": "assumed: nobody says"}, "The window is assumed; context_tokens sets it."),
    ],
)
def test_what_the_page_says(values: dict[str, Any], said: str) -> None:
    assert said in page(100, **values)


def test_the_time_is_that_of_the_user() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert "last flush 18:12," in "\n".join(line.plain for line in context_lines(context_report(), 100, there))


def test_an_unaccounted_rest_of_nothing_has_no_line() -> None:
    parts = (*context_report().parts[:6], ContextPart("unaccounted", "unaccounted", 0))
    assert "other, by" not in page(parts=parts)


def test_the_detail_tells_what_of_a_file_is_sent() -> None:
    rows = [line.split() for line in lines(context_report(), detail=True)]
    assert ["MEMORY.md", "31,120", "12,000", "3,500", "cut"] in rows
    assert ["TOOLS.md", "–", "–", "–", "missing"] in rows
    assert rows.index(["tool_0", "410"]) < rows.index(["tool_7", "200"])
    assert ["Memory", "Recall", "1,480"] in rows


@pytest.mark.parametrize("width", [40, 55, 75, 120])
@pytest.mark.parametrize("detail", [False, True])
def test_nothing_is_wider_than_the_page(width: int, detail: bool) -> None:
    name = "关于端口与代理的一份很长的记忆文件.md"
    report = context_report(
        model="ollama_chat/一个名字很长很长很长很长的模型:8b",
        assumed=True,
        window_source="assumed: neither the model's data nor its server says",
        bootstrap_files=(Tokens(name, 3_500), Tokens("规则.md", 2_000)),
        files=(FileSize(name, name, False, 30_000, 12_000, True),),
        tools=(Tokens("a_tool_" * 20, 9),),
    )
    assert max(map(width_of, lines(report, width, detail=detail))) <= width


def test_names_cannot_steer_the_terminal() -> None:
    report = context_report(model="evil\x1b[2J\x07", bootstrap_files=(Tokens("a\x1b]0;x\x07b.md", 3),))
    assert not any(sign in "\n".join(lines(report)) for sign in "\x1b\x07")


# The screen


async def test_it_opens_goes_into_detail_and_closes() -> None:
    async with showing(ContextScreen(Runtime(), clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: "system prompt" in seen(host))
        assert "tool_0" not in seen(host)
        await pilot.press("d")
        await until(pilot, lambda: "d less" in seen(host))
        await pilot.press("end")
        await until(pilot, lambda: "Workspace" in seen(host))
        await pilot.press("d", "escape")
        assert host.result is None


async def test_what_was_written_can_be_opened() -> None:
    async with showing(ContextScreen(Runtime(), clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: "3 lines" in seen(host))
        row = next(number for number, line in enumerate(seen(host).split("\n")) if "3 lines" in line)
        await pilot.click(offset=(seen(host).split("\n")[row].index("3 lines"), row))
        await until(pilot, lambda: host.result == "note:memory/2026-11-20.md:12")


async def test_without_a_note_there_is_nothing_to_open() -> None:
    runtime = Runtime()
    runtime.report = context_report(last_flush=None)
    async with showing(ContextScreen(runtime, clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: "system prompt" in seen(host))
        assert "open what was written" not in seen(host)
        await pilot.press("o")
        assert host.screen is host.shown


async def test_the_bar_follows_the_size_of_the_terminal() -> None:
    async with showing(ContextScreen(Runtime(), clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: "system prompt" in seen(host))
        report = host.screen.query_one("#report")
        await until(pilot, lambda: any(len(line.strip("│ ")) == 69 for line in seen(host).split("\n")))
        assert report.region.width == 69
        await pilot.resize_terminal(140, 45)
        await until(pilot, lambda: any(len(line.strip("│ ")) == 103 for line in seen(host).split("\n")))
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: report.region.width == 55)


async def test_an_error_is_said_in_place_of_the_figures() -> None:
    runtime = Runtime()
    runtime.faults["context_report"] = ClawbotError("The workspace\x1b[2J can't be read.")
    async with showing(ContextScreen(runtime, clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: "The workspace can't be read." in seen(host))
        await pilot.press("d", "o", "escape")
        assert host.result is None


async def test_while_a_turn_runs_it_says_what_it_waits_for_and_can_be_left() -> None:
    hold = Hold()

    class Slow(Runtime):
        async def context_report(self) -> ContextReport:
            hold.reached.set()
            await hold.released.wait()
            return self.report

    async with showing(ContextScreen(Slow(status=RuntimeStatus(busy=True)), clock=FixedClock())) as (host, pilot):
        await until(pilot, lambda: hold.reached.is_set() and AFTER_TURN in seen(host))
        await pilot.press("escape")
        assert host.result is None
        hold.release()
        await until(pilot, lambda: host.screen is not host.shown)


async def test_on_a_wide_screen_it_has_the_middle() -> None:
    async with showing(ContextScreen(Runtime(), clock=FixedClock()), (200, 50)) as (host, pilot):
        await until(pilot, lambda: "compactions" in seen(host))
        report = host.screen.query_one("#report").region
        assert report.width == 103
        assert abs(report.x - (200 - report.right)) <= 4  # the scroll bar and the margins
