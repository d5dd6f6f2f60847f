"""The line that shows how far an index is: a bar on a terminal, quiet lines elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest

from clawbot.cli.memory_output import ProgressLine, describe
from clawbot.memory.values import Progress

CLEAR = "\r\x1b[2K"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def drawn(stream: StringIO) -> list[str]:
    return stream.getvalue().split(CLEAR)[1:]


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


def test_figures_rate_and_time_left() -> None:
    assert describe(Progress("vectors", 500, 1_000, "pieces", 85.2, 66.0), 79, fancy=True) == (
        f"embedding  {'━' * 12}{'─' * 12}  500/1,000 pieces  85/s  1 min 6 s left"
    )
    assert describe(Progress("scan", 0, 0, "files"), 79, fancy=False) == f"listing    {'-' * 24}  0/0 files"
    assert "3 s left" in describe(Progress("text", 9, 3, "files", 1.0, 3.2), 79, fancy=False)
    assert f"{'#' * 24}  9/3 files" in describe(Progress("text", 9, 3, "files"), 79, fancy=False)


@pytest.mark.parametrize(("width", "bar"), [(79, 24), (60, 5), (40, 0)])
def test_the_bar_gives_way_to_the_figures(width: int, bar: int) -> None:
    line = describe(Progress("vectors", 0, 96_040, "pieces", 8_512.0, 3599.0), width, fancy=False)
    assert line.count("-") == bar
    assert line.endswith("0/96,040 pieces  8,512/s  59 min 59 s left")
    assert len(line) <= width or not bar


def test_a_terminal_shows_one_line_that_goes_away() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressLine(stream, clock) as show:
        show(Progress("text", 1, 9, "files"))
        show(Progress("text", 2, 9, "files"))  # too soon after the first
        show(Progress("vectors", 1, 40, "pieces"))  # another step: at once
        clock.seconds = 1.0
        show(Progress("vectors", 9, 40, "pieces"))
    lines = drawn(stream)
    assert [line.split("  ")[-1] for line in lines] == ["1/9 files", "1/40 pieces", "9/40 pieces", ""]
    assert "\n" not in stream.getvalue()


def test_nothing_to_show_leaves_a_terminal_alone() -> None:
    stream = Terminal()
    with ProgressLine(stream, Clock()):
        pass
    assert stream.getvalue() == ""


def test_a_narrow_terminal_is_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with ProgressLine(stream, Clock(), name="work") as show:
        show(Progress("text", 1, 9, "files", 1.0, 9.0))
    assert drawn(stream)[0].startswith("work: reading")
    assert len(drawn(stream)[0]) == 29


@pytest.mark.parametrize("term", ["", "dumb"])
def test_without_a_real_terminal_each_step_is_a_line(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    stream = Terminal()
    with ProgressLine(stream, Clock(), name="work") as show:
        for done in range(3):
            show(Progress("text", done, 3, "files"))
        show(Progress("vectors", 0, 0, "pieces"))
        show(Progress("publish", 1, 1, "files"))
    assert stream.getvalue() == "work: reading: 3 files\nwork: publishing: 1 files\n"
