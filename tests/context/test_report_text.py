"""The report on the context as Markdown."""

from __future__ import annotations

import msgspec
import pytest

from clawbot.context.budget import ASSUMED, Window
from clawbot.context.report import LastFlush
from clawbot.context.report_text import BAR_CELLS, MARK, render_report
from tests.context.reports import BERLIN, FLUSH, MESSAGES, QUOTE, made, part


@pytest.mark.parametrize(("automatic", "marks"), [(True, 2), (False, 0)])
def test_the_bar_has_a_mark_for_what_comes_by_itself(automatic: bool, marks: int) -> None:
    assert render_report(made(automatic=automatic)).count(MARK) == marks


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
    assert f"{report.used:,} of 32,000 tokens in use, as the provider counted it." in lines


def test_the_detail_names_files_tools_and_sections() -> None:
    report = made()
    short, long = render_report(report), render_report(report, detail=True)
    assert long.startswith(short)
    tokens = report.bootstrap_files[0].tokens
    assert f"| `AGENTS.md` | truncated | 26,000 | 2,000 | {tokens:,} |" in long
    assert "| `SOUL.md` | missing | 0 | 9 | 0 |" in long
    assert long.index("`a bc`") < long.index("`read`")
    assert "| identity |" in long


def test_the_notes_at_the_start_have_a_line_where_there_are_any() -> None:
    report = made(messages=(*MESSAGES[:1], QUOTE, *MESSAGES[1:]))
    tokens = part(report, "notes")
    assert f"| ▓ | notes at the start | {tokens:,} | {100 * tokens / 32_000:.1f} % |" in render_report(report)
    assert "| `memory/2026-11-19-代理.md` |" in render_report(report, detail=True)
    assert "notes at the start" not in render_report(made())


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
