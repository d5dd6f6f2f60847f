"""The report on the context: its parts add up, and it reads well as Markdown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.schema_context import CompactionSettings
from clawbot.context.bootstrap import Bootstrap, BootstrapFile
from clawbot.context.budget import ASSUMED, Window, plan_budget
from clawbot.context.counting import TokenCounter
from clawbot.context.prompt import PromptInputs, build_system_prompt
from clawbot.context.report import (
    BAR_CELLS,
    MARK,
    ContextReport,
    LastFlush,
    ReportInputs,
    build_report,
    render_report,
)
from clawbot.context.window import Report, View, measure
from clawbot.messages import Message, TextBlock, ToolResultMessage, ToolSpec, UserMessage

TOOLS = (ToolSpec("read", "Read a file.", {"type": "object"}), ToolSpec("a|b`c", "Odd. " * 20, {"type": "object"}))
FILES = (
    BootstrapFile("AGENTS.md", Path("/ws/AGENTS.md"), False, 26_000, "the rules " * 200, truncated=True),
    BootstrapFile("用户.md", Path("/ws/用户.md"), False, 120, "喜欢制表符。" * 20, truncated=False),
    BootstrapFile("SOUL.md", Path("/ws/SOUL.md"), True, 0, "[MISSING]", truncated=False),
)
INPUTS = PromptInputs(Path("/ws"), TOOLS, Bootstrap(FILES), datetime(2026, 11, 20, tzinfo=UTC), "openai/gpt-5")
MESSAGES: tuple[Message, ...] = (
    UserMessage("the summary " * 40),
    UserMessage("我们用哪个端口？"),
    ToolResultMessage("1", "read", [TextBlock("line\n" * 400)]),
)
BERLIN = ZoneInfo("Europe/Berlin")
FLUSH = LastFlush("2026-11-20T09:12:44.000Z", "written", "memory/2026-11-20.md", 12, 14, 180)


def made(
    *, window: int = 32_000, surplus: int | None = None, source: Window | None = None, **more: Any
) -> ContextReport:
    """A report on the conversation above, of which the provider counted `surplus` more than we do (None: nothing)."""
    counter = TokenCounter()
    view = View(build_system_prompt(INPUTS), TOOLS, MESSAGES, has_summary=True, fresh_from=0)
    counted = measure(view, counter).counted
    report = None if surplus is None else Report(counted + surplus, counted)
    found = measure(view, counter, report)
    given = ReportInputs(
        view=view,
        measure=found,
        budget=plan_budget(window, CompactionSettings(), found.fixed),
        window=source or Window(window, "from the server", False),
        prompt=INPUTS,
        **more,
    )
    return build_report(given, counter)


def part(report: ContextReport, key: str) -> int:
    return next(part.tokens for part in report.parts if part.key == key)


@settings(deadline=None)  # the first example loads the vocabulary
@given(window=st.integers(3_000, 400_000), surplus=st.none() | st.integers(-400, 3_000))
def test_the_parts_add_up_to_what_is_in_use_and_to_the_window(window: int, surplus: int | None) -> None:
    report = made(window=window, surplus=surplus)
    in_use = sum(part.tokens for part in report.parts if part.key not in ("free", "reserve"))
    assert in_use == report.used
    assert in_use + part(report, "free") + part(report, "reserve") == max(window, report.used)
    assert report.flush_at <= report.compact_at == window - report.reserve


def test_what_the_provider_counted_beyond_the_parts_is_a_part() -> None:
    """Sheet 4.5: what is not accounted for is shown instead of hidden."""
    report = made(surplus=212)
    assert part(report, "unaccounted") == report.unaccounted == 212
    assert (report.exact, report.reported) == (True, report.used)
    assert part(made(surplus=-30), "unaccounted") == -30
    assert part(made(), "unaccounted") == 0


def test_the_figures_of_files_tools_and_messages() -> None:
    report = made()
    assert [file.name for file in report.bootstrap_files] == ["AGENTS.md", "用户.md"]
    assert part(report, "bootstrap") > sum(file.tokens for file in report.bootstrap_files)
    assert part(report, "tools") == sum(tool.tokens for tool in report.tools)
    assert [(file.name, file.missing, file.truncated) for file in report.files] == [
        ("AGENTS.md", False, True),
        ("用户.md", False, False),
        ("SOUL.md", True, False),
    ]
    assert report.messages == 2
    assert part(report, "summary") > 0
    assert part(report, "toolResults") > 400


def test_it_goes_as_json() -> None:
    report = made(surplus=5, last_flush=FLUSH, compactions=2)
    sent = msgspec.json.decode(msgspec.json.encode(report))
    assert sent["parts"][5] == {"key": "toolResults", "name": "tool results", "tokens": part(report, "toolResults")}
    assert sent["lastFlush"]["endLine"] == 14


def test_without_automatic_compaction_there_are_no_marks() -> None:
    report = made(automatic=False)
    assert (report.flush_at, report.compact_at) == (0, 0)
    assert MARK not in render_report(report)
    assert "no compaction by itself" in render_report(report)


def test_as_markdown() -> None:
    report = made(surplus=212, last_flush=FLUSH, compactions=2)
    lines = render_report(report, zone=BERLIN).splitlines()

    assert lines[0] == "**Context window** · `openai/gpt-5` · 32,000 tokens (from the server)"
    bar = lines[3]
    assert len(bar) == BAR_CELLS
    assert bar.count(MARK) == 2
    assert bar.lstrip("█").lstrip("▓").lstrip("▒").startswith("░")
    assert bar.endswith("·")
    assert "| ▒ | unaccounted | +212 | 0.7 % |" in lines
    assert f"| ░ | free | {part(report, 'free'):,} | {100 * part(report, 'free') / 32_000:.1f} % |" in lines
    assert lines[-1] == (
        f"next: flush in {report.flush_at - report.used:,} tokens · "
        "last flush 2026-11-20 10:12, 3 lines to `memory/2026-11-20.md:12` · compactions 2"
    )
    assert f"{report.used:,} of 32,000 tokens in use, as the provider counted them." in lines


def test_the_detail_names_files_tools_and_sections() -> None:
    report = made()
    short, long = render_report(report), render_report(report, detail=True)
    assert long.startswith(short)
    tokens = report.bootstrap_files[0].tokens
    assert f"| `AGENTS.md` | truncated | 26,000 | 2,000 | {tokens:,} |" in long
    assert "| `SOUL.md` | missing | 0 | 9 | 0 |" in long
    assert long.index("`a bc`") < long.index("`read`")
    assert "| identity |" in long


@pytest.mark.parametrize(
    ("room", "says"), [(20_000, "flush in "), (100, "compaction in "), (-1, "compaction with the next message")]
)
def test_what_comes_next(room: int, says: str) -> None:
    """`room` is how many tokens are left before the limit, which is three quarters of such a window."""
    window = (made().used + room) * 4 // 3
    assert f"next: {says}" in render_report(made(window=window))


@pytest.mark.parametrize(
    ("flush", "says"),
    [
        (FLUSH, "3 lines to `memory/2026-11-20.md:12`"),
        (msgspec.structs.replace(FLUSH, end_line=12), "1 line to"),
        (LastFlush("2026-11-20T09:12:44Z", "nothing"), "nothing to write"),
        (LastFlush("2026-11-20T09:12:44Z", "failed"), "failed"),
        (LastFlush("some day", "failed"), "last flush `some day`, failed"),
        (LastFlush("2026-11-20T09:12:44Z", ""), "not finished"),
    ],
)
def test_the_last_flush(flush: LastFlush, says: str) -> None:
    assert says in render_report(made(last_flush=flush))


def test_an_overfull_window_fills_the_bar() -> None:
    bar = render_report(made(window=made().used // 2)).splitlines()[3]
    assert len(bar) == BAR_CELLS
    assert set(bar) <= set("█▓▒")


def test_an_assumed_window_is_said_to_be_assumed() -> None:
    report = made(source=Window(32_000, ASSUMED, True))
    assert report.assumed
    assert ASSUMED in render_report(report)
