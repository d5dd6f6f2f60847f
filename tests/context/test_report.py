"""The report on the context: its parts add up, and its words say what they mean."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.context.report import certainty, coming
from tests.context.reports import FLUSH, MESSAGES, QUOTE, made, part


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
