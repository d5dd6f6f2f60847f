"""The report on the context: its parts add up, its words say what they mean, and so does its Markdown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.context.report import BAR_CELLS, MARK, LastFlush, certainty, coming, render_report
from clawbot.context.window import ASSUMED, Window
from tests.context.reports import BERLIN, FLUSH, MESSAGES, QUOTE, made, part


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


@pytest.mark.parametrize("surplus", [None, 0, 300])
def test_the_notes_at_the_start_are_a_part_and_no_messages(surplus: int | None) -> None:
    report = made(messages=(*MESSAGES[:1], QUOTE, *MESSAGES[1:]), surplus=surplus)
    assert report.messages == 2
    assert [note.name for note in report.notes] == ["memory/2026-11-20.md", "memory/2026-11-19-代理.md"]
    assert 0 < sum(note.tokens for note in report.notes) < part(report, "notes")
    assert part(report, "messages") == part(made(), "messages")
    assert sum(share.tokens for share in report.parts if share.key not in ("free", "reserve")) == report.used


def test_it_goes_as_json() -> None:
    report = made(surplus=5, last_flush=FLUSH, compactions=2)
    sent = msgspec.json.decode(msgspec.json.encode(report))
    assert sent["parts"][6] == {"key": "toolResults", "name": "tool results", "tokens": part(report, "toolResults")}
    assert sent["lastFlush"]["endLine"] == 14


def test_without_automatic_compaction_there_are_no_marks() -> None:
    report = made(automatic=False)
    assert (report.flush_at, report.compact_at) == (0, 0)
    assert coming(report) == "no compaction comes by itself"


@pytest.mark.parametrize(
    ("room", "says"),
    [(20_000, "next: flush in "), (100, "next: compaction in "), (-1, "next: compaction, with the next message")],
)
def test_what_comes_next(room: int, says: str) -> None:
    """`room` is how many tokens are left before the limit, which is three quarters of such a window."""
    window = (made().used + room) * 4 // 3
    assert coming(made(window=window)).startswith(says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"exact": True, "reported": 9}, "as the provider counted it"),
        ({"stale": True}, "counted here since the compaction"),
        ({"reported": 9}, "the provider's count, and what came since"),
        ({}, "counted here"),
    ],
)
def test_how_sure_the_figure_is(change: dict[str, Any], says: str) -> None:
    assert certainty(msgspec.structs.replace(made(), **change)) == says


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
    assert "| ▒ | other, by the provider's count | +212 | 0.7 % |" in lines
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
