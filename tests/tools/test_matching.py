"""Searching files by pattern, in the program and in a process: what is found, and that nothing exceeds its bounds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.clock import SystemClock
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.grep import GrepArguments, GrepTool, ProcessMatcher, is_plain
from clawbot.tools.protocol import ToolError
from tests.tools.conftest import TABLES

Ended = list[int]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    """The processes that were started and have been waited for."""
    waited: Ended = []
    wait: Callable[[int, int], tuple[int, int]] = os.waitpid

    def noting(pid: int, options: int) -> tuple[int, int]:
        result = wait(pid, options)
        waited.append(pid)
        return result

    monkeypatch.setattr(os, "waitpid", noting)
    return waited


def grep(workspace: Path, pattern: str, *, seconds: float = 60.0, ignore_case: bool = False) -> list[str]:
    tool = GrepTool(WorkspaceFolder(workspace), SystemClock(), seconds=seconds)
    return tool.act(GrepArguments(pattern=pattern, ignore_case=ignore_case)).text.splitlines()


@pytest.mark.parametrize(("pattern", "ignore_case", "lines"), TABLES["patterns"])
def test_patterns_mean_what_python_means_by_them(
    tmp_path: Path, pattern: str, ignore_case: bool, lines: list[int]
) -> None:
    text = "un café noir\n今天 会议 取消\n今天要开会议吗\n端口：8443\ntabs tabs\nSTRAßE\n\n"
    (tmp_path / "n.md").write_text(text, encoding="utf-8")
    assert [int(line.split(":")[1]) for line in grep(tmp_path, pattern, ignore_case=ignore_case)] == lines


@pytest.mark.parametrize("pattern", ["(?R)", "(?:(?:(?:a{100}){100}){100}){100}"])
def test_a_pattern_that_wants_too_much_memory_is_ended(tmp_path: Path, pattern: str, ended: Ended) -> None:
    (tmp_path / "a.txt").write_text("a" * 60_000, encoding="utf-8")
    with pytest.raises(ToolError, match="needs too much memory: the search was ended"):
        grep(tmp_path, pattern)
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?b)(?:(?:foo)+bar){e<=20}z", "a" * 200 + "z"),
        ("(a|aa)+$", "a" * 60 + "b"),
        ("(((a{1,9999}){1,9999}){1,9999})b", "a" * 60_000),
    ],
)
def test_a_pattern_that_takes_for_ever_is_ended(tmp_path: Path, pattern: str, text: str, ended: Ended) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ToolError, match=r"stopped after 0\.5 s"):
        grep(tmp_path, pattern, seconds=0.5)
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"),
        ("(?:" * 200 + "a", "not a valid regular expression"),
        (r"\p{Klingon}", "unknown property"),
        ("a" * 1001, "longer than 1000 characters"),
    ],
)
def test_a_pattern_that_is_none_is_explained(tmp_path: Path, pattern: str, why: str, ended: Ended) -> None:
    with pytest.raises(ToolError, match=why.replace(")", r"\)")):
        grep(tmp_path, pattern)
    assert len(ended) <= 1


@pytest.mark.long
def test_what_was_found_before_the_time_was_up_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aaa\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("a" * 60 + "b\n", encoding="utf-8")
    first, notice = grep(tmp_path, "(a|aa)+$", seconds=5)
    assert first == "a.txt:1:aaa"
    assert notice.startswith("[stopped after 5 s")


def test_a_search_that_can_not_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(ToolError, match="could not be started: No such file or directory"):
        grep(tmp_path, "(?=a)")


def test_the_process_ends_when_nobody_is_left_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, sign: killed.append(pid))
    with ProcessMatcher("a", ignore_case=False, clock=clock, until=clock.monotonic() + 60):
        pass
    # Leaving waits for the end of the process, which was not killed here: it saw the other end close.
    assert len(killed) == 1


PLAIN = [
    "proxy",
    "会议|开会",
    r"\d{4}-\d{2}-\d{2}",
    r"^## .*(todo|done)$",
    r"\bwi-?fi\b",
    "[^]a-z]+?",
    r"\[x\] (?:a|b)",
    "(?i)straße",
    "(a|aa)" * 100 + "$",
]
COSTLY = [
    "(?R)", "(?e)(?:foo){e<=2}", "foo{e<=2}", "(a|aa)+$", "(?:a*)*b", "(a{1,9}){3}", "(?<=a)b", r"(a)\1",
    r"\L<words>", r"\p{Han}", "(?|a|b)", "[[a]--[b]]", "a++", "a{99}{99}", "a{1,9999}", "*", "\\",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PLAIN)
def test_no_process_is_started_for_a_plain_pattern(tmp_path: Path, pattern: str, ended: Ended) -> None:
    assert is_plain(pattern)
    (tmp_path / "n.md").write_text("nothing\n", encoding="utf-8")
    grep(tmp_path, pattern)
    assert ended == []


@pytest.mark.parametrize("pattern", COSTLY)
def test_what_may_take_long_in_spite_of_a_timeout_is_not_plain(pattern: str) -> None:
    assert not is_plain(pattern)


@pytest.mark.parametrize("pattern", ["(a|a)" * 150 + "b", "(?:a|a|aa)" * 60 + "b"])
def test_a_plain_pattern_that_takes_for_ever_is_ended(tmp_path: Path, pattern: str, ended: Ended) -> None:
    (tmp_path / "a.txt").write_text("a" * 60_000, encoding="utf-8")
    with pytest.raises(ToolError, match=r"stopped after 0\.2 s"):
        grep(tmp_path, pattern, seconds=0.2)
    assert ended == []


PARTS = st.sampled_from(
    [*"a会.^$|()[]{}*+?\\-,09e<", "(?:", "(?R)", "{1,9}", "{e<=2}", r"\w", r"\b", "[^a]", "(a|b)", "(?i)"]
)


@given(st.lists(PARTS, max_size=12).map("".join))
def test_plain_holds_no_repeated_group_and_nothing_beyond_the_usual(pattern: str) -> None:
    bare = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern.removeprefix("(?i)"))
    if is_plain(pattern):
        assert not re.search(r"\)[*+?{]|\(\?(?!:)|[*+?}][+{]|\{(?!\d{1,3}(,\d{0,3})?\})", bare)
