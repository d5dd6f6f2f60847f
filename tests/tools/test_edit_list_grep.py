"""edit, list and grep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import cast

import pytest

from clawbot.clock import SystemClock
from clawbot.tools import grep
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.grep import _BLOCK, GrepArguments, GrepTool
from clawbot.tools.listing import glob_of
from clawbot.tools.matching import Find, compiled, fitting_lines
from clawbot.tools.protocol import ToolError
from tests.tools.conftest import TABLES, Run


async def test_edit_replaces_the_only_match(run: Run, workspace: Path) -> None:
    outcome = await run("edit", path="MEMORY.md", old="tabs", new="spaces\n- drinks tea")
    assert (outcome.text, outcome.summary) == ("Edited MEMORY.md (+2 -1 lines).", "+2 -1")
    assert (workspace / "MEMORY.md").read_text(encoding="utf-8") == "# Memory\n- prefers spaces\n- drinks tea\n"


async def test_edit_names_the_lines_of_several_matches(run: Run, workspace: Path) -> None:
    (workspace / "x.md").write_text("port 1\n\nport 2\nport 3\n", encoding="utf-8")
    outcome = await run("edit", path="x.md", old="port", new="door")
    assert outcome.is_error
    assert "`old` is 3 times in x.md, on lines 1, 3, 4." in outcome.text
    everywhere = await run("edit", path="x.md", old="port", new="door", replace_all=True)
    assert everywhere.text == "Edited x.md in 3 places (+3 -3 lines)."


async def test_edit_without_a_match_names_the_nearest_line(run: Run, workspace: Path) -> None:
    assert (
        "The nearest is line 2: - prefers tabs"
        in (await run("edit", path="MEMORY.md", old="- prefer tab", new="x")).text
    )
    assert (
        "first line is line 2, but white space"
        in (await run("edit", path="MEMORY.md", old="- prefers tabs  \nmore", new="x")).text
    )
    assert "Nothing in it is similar" in (await run("edit", path="MEMORY.md", old="zebra", new="x")).text
    assert (workspace / "MEMORY.md").read_text(encoding="utf-8") == "# Memory\n- prefers tabs\n"


async def test_edit_keeps_crlf_and_bytes_that_are_no_utf8(run: Run, workspace: Path) -> None:
    (workspace / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\n\xff two\r\nthree\r\n")
    assert (await run("edit", path="dos.txt", old=" two\nthree", new=" 2\nmore\n3")).summary == "+3 -2"
    assert (workspace / "dos.txt").read_bytes() == b"\xef\xbb\xbfone\r\n\xff 2\r\nmore\r\n3\r\n"


@pytest.mark.parametrize(("path", "old", "new", "reason"), TABLES["edit_errors"])
async def test_edit_errors(run: Run, workspace: Path, path: str, old: str, new: str, reason: str) -> None:
    (workspace / "blob").write_bytes(b"a\0b")
    outcome = await run("edit", path=path, old=old, new=new)
    assert outcome.is_error
    assert reason in outcome.text


async def test_list_shows_folders_first_hidden_ones_and_links(run: Run, workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".hidden").touch()
    (workspace / "a.md").symlink_to("MEMORY.md")
    assert (await run("list")).text == "memory/\n.hidden\nMEMORY.md\na.md -> MEMORY.md"
    assert (await run("list", path="memory")).text == "2026-11-20.md"


async def test_list_by_pattern(run: Run, workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "notes.md").touch()
    assert (await run("list", pattern="**/*.md")).text == "MEMORY.md\nmemory/2026-11-20.md"
    assert (await run("list", pattern="*.md")).text == "MEMORY.md"
    assert (await run("list", pattern="mem*")).text == "memory/"
    assert (await run("list", pattern="*.py")).text == "Nothing fits."


async def test_list_caps_and_says_so(run: Run, workspace: Path) -> None:
    (workspace / "many").mkdir()
    for number in range(1001):
        (workspace / "many" / f"{number:04}").touch()
    outcome = await run("list", path="many")
    assert outcome.text.endswith("0999\n[1,000 of 1,001 entries shown: narrow it with pattern or path]")
    assert outcome.summary == "1,001 entries"


async def test_list_of_an_empty_folder_a_file_and_nothing(run: Run, workspace: Path) -> None:
    (workspace / "empty").mkdir()
    assert (await run("list", path="empty")).text == "[empty is empty]"
    assert "is not a folder" in (await run("list", path="MEMORY.md")).text
    assert "does not exist" in (await run("list", path="none")).text


async def test_names_that_are_no_utf8_can_be_shown(run: Run, workspace: Path) -> None:
    (workspace / "memory" / os.fsdecode(b"caf\xe9.md")).write_text("tabs\n", encoding="utf-8")
    assert (await run("list", path="memory")).text == "2026-11-20.md\ncaf⟦U+DCE9⟧.md"
    assert "memory/caf⟦U+DCE9⟧.md:1:tabs" in (await run("grep", pattern="tabs")).text


@pytest.mark.parametrize(("path", "pattern", "fits"), TABLES["globs"])
def test_globs(path: str, pattern: str, fits: bool) -> None:
    assert glob_of(pattern).fits(path) is fits


async def test_grep_answers_path_line_text(run: Run) -> None:
    outcome = await run("grep", pattern="PROXY|tabs", ignore_case=True)
    assert outcome.text == "MEMORY.md:2:- prefers tabs\nmemory/2026-11-20.md:1:proxy moved to 8443"
    assert outcome.summary == "2 matches"
    assert (await run("grep", pattern="PROXY")).text == "No matches."


async def test_grep_in_a_file_a_folder_and_by_glob(run: Run, workspace: Path) -> None:
    (workspace / "memory" / "x.txt").write_text("8443\n", encoding="utf-8")
    assert (await run("grep", pattern="tabs", path="MEMORY.md")).text == "MEMORY.md:2:- prefers tabs"
    assert (await run("grep", pattern="8443", path="memory", glob="*.md")).text.startswith("memory/2026-11-20.md:1:")
    assert (await run("grep", pattern="8443", glob="memory/*.txt")).text == "memory/x.txt:1:8443"
    assert (await run("grep", pattern="8443", path="memory", glob="memory/*.txt")).text == "memory/x.txt:1:8443"
    assert "none does not exist" in (await run("grep", pattern="x", path="none")).text


async def test_grep_skips_binary_pipes_links_out_and_git(run: Run, workspace: Path, outside: Path) -> None:
    (workspace / "blob").write_bytes(b"secret\0")
    os.mkfifo(workspace / "pipe")
    (workspace / "linked").symlink_to(outside)
    (workspace / "link.txt").symlink_to(outside / "secret.txt")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("secret", encoding="utf-8")
    assert (await run("grep", pattern="secret")).text == "No matches."
    assert (await run("grep", pattern="secret", path="link.txt")).is_error


async def test_grep_caps_matches_and_long_lines(run: Run, workspace: Path) -> None:
    (workspace / "many.txt").write_text("hit\n" * 300, encoding="utf-8")
    text = (await run("grep", pattern="hit")).text
    assert text.endswith("many.txt:200:hit\n[stopped after 200 matches: narrow the pattern, path or glob]")
    (workspace / "wide.txt").write_text("x" * 5000 + "NEEDLE" + "y" * 5000, encoding="utf-8")
    line = (await run("grep", pattern="NEEDLE")).text
    assert line.startswith("wide.txt:1:…xxx")
    assert "NEEDLEyyy" in line
    assert len(line) < 450


async def test_grep_counts_lines_behind_an_overlong_one(run: Run, workspace: Path) -> None:
    (workspace / "long.txt").write_text("x" * 200_000 + "\nfound\n", encoding="utf-8")
    assert (await run("grep", pattern="found")).text == "long.txt:2:found"


@pytest.mark.parametrize("pattern", ["needle", "Needle|nadel", "n.edle", "é", "x{2}"])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"needle",
        b"a\r\nneedle\r\n" * 3,
        b"x" * 70_000 + b"\nneedle\n",
        b"need\nle\nn\nedle\n",
        b"\xff needle\n\xe9\nb\n",
        "é needle\nN\nNeedle".encode("utf-16"),
        b"a\n" * 50_000 + b"needle\n" + b"b\n" * 50_000 + b"needle",
    ],
)
def test_lines_that_are_searched_together_fit_like_each_alone(text: bytes, pattern: str) -> None:
    found = compiled(pattern, ignore_case=False)
    assert not isinstance(found, str)
    find = found.search
    together, alone = (list(fitting_lines(BufferedReader(BytesIO(text)), find, block=block)) for block in (_BLOCK, 1))
    assert together == alone


async def test_a_word_is_searched_in_many_lines_at_once(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "long.txt").write_text("hay\n" * 10_000 + "needle\n")
    searched: list[str] = []

    def counted(stream: BufferedReader, find: Find, *, block: int) -> Iterator[tuple[int, str]]:
        def count(text: str) -> object:
            searched.append(text)
            return find(text)

        return fitting_lines(stream, cast("Find", count), block=block)

    monkeypatch.setattr(grep, "fitting_lines", counted)
    assert (await run("grep", pattern="straw", path="long.txt")).text == "No matches."
    assert len(searched) == 1
    assert (await run("grep", pattern="^straw", path="long.txt")).text == "No matches."
    assert len(searched) == 1 + 10_001


async def test_a_bad_pattern_is_explained(run: Run) -> None:
    outcome = await run("grep", pattern="(")
    assert outcome.is_error
    assert "not a valid regular expression: missing )" in outcome.text


def test_a_pattern_that_explodes_is_stopped(workspace: Path) -> None:
    (workspace / "trap.txt").write_text("a" * 60 + "b\n", encoding="utf-8")
    tool = GrepTool(WorkspaceFolder(workspace), SystemClock(), seconds=0.2)
    with pytest.raises(ToolError, match=r"stopped after 0\.2 s"):
        tool.act(GrepArguments(pattern="(a|aa)+$"))
