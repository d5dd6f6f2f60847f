"""What the pages state is checked: files, tests, limits, commands and counts that they name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks import check
from clawbot.context.privacy import privacy_of
from clawbot.entry_points import GROUPS

ROOT = Path(__file__).parents[1]
SHEET, _, FAULTS = ROOT.joinpath("docs", "reference-behaviour.md").read_text(encoding="utf-8").partition("## Tests\n")
SECTIONS = dict(re.findall(r"^\| (\d+(?:\.\d+)?)\b(.*)$", SHEET, re.MULTILINE))
CHAPTERS = {"1", "3", "4", "6", "7", "8", "9", "10", "11", "18", "19", "20", "21"}
CASES = set(re.findall(r"^(\d+)\. ", SHEET.partition("## List B")[2], re.MULTILINE))


def test_every_fault_of_the_sheet_has_a_file_of_tests_that_is_there() -> None:
    rows = re.findall(r"^\| (`[\w/]+\.py`) \| ([\dB., ]+) \|$", FAULTS, re.MULTILINE)
    assert_held(" ".join(file for file, _ in rows), least=20)
    listed = {each for _, sections in rows for each in re.findall(r"B \d+|\d+(?:\.\d+)?", sections)}
    faults = {number for number, text in SECTIONS.items() if "**Fault:**" in text}
    assert {number for number in faults if number.partition(".")[0] in CHAPTERS} <= listed
    assert listed <= SECTIONS.keys() | {f"B {case}" for case in CASES}


def test_what_the_page_on_security_promises_is_held_by_tests_that_are_there() -> None:
    page = ROOT.joinpath("docs", "security.md").read_text(encoding="utf-8")
    assert_held(page.partition("## What does not hold")[0], least=30)


def test_what_the_page_on_habits_counts_as_whole_is_held_by_a_test() -> None:
    rows = re.findall(r"^\| \d+b? \|.*$", PAGES["habits.md"], re.MULTILINE)
    assert len(rows) == 39
    for row in rows:
        assert_held(row, least=0 if "| missing: " in row else 1)
    assert_held(PAGES["habits.md"], least=len(rows))


def assert_held(text: str, *, least: int) -> None:
    """The tests that `text` names are there, and `least` at least."""
    promised = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert len(promised) >= least, text
    for file, name in promised:
        found = ROOT.joinpath("tests", file).read_text(encoding="utf-8")
        assert re.search(rf"(?:def|class) {name}\b", found) if name else "def test_" in found, (file, name)


# -- what pages for builders state -------------------------------------------------------------------------------------

PAGES = {path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
BUILDERS = ("architecture.md", "benchmarks.md", "CONTRIBUTING.md", "systems.md")
MAKEFILE = ROOT.joinpath("Makefile").read_text(encoding="utf-8")
TOPS = ("clawbot/", "tests/", "benchmarks/", "docs/", ".ci/")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_tree_that_a_page_names_is_there(page: str) -> None:
    drawings = re.findall(r"^```\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE) if page in BUILDERS else []
    named = set(re.findall(r"`([\w.-]+/[\w./-]*(?:\.\w+|/))(?:::\w+)*`", PAGES[page]))
    named |= {path for drawing in drawings for path in re.findall(r"(?<![\w/])\w+/[\w/]+\.py\b", drawing)}
    inside = {path for path in named if path.startswith(TOPS) or (page in BUILDERS and path.endswith(".py"))}
    tops = [ROOT, ROOT / "clawbot", ROOT / "tests"] if page in BUILDERS else [ROOT]
    assert {path for path in inside if not any((top / path).exists() for top in tops)} == set()


def test_the_tree_that_is_drawn_has_every_package() -> None:
    drawing = PAGES["architecture.md"].partition("```\nclawbot/\n")[2].partition("```")[0]
    packages = {path.parent.name for path in ROOT.glob("clawbot/*/__init__.py")}
    assert {name for name in packages if f"{name}/" not in drawing} == set()
    assert {
        name for name in re.findall(r"^  (\w+)/", drawing, re.MULTILINE) if name not in {*packages, "locale"}
    } == set()
    drawn = re.findall(r"\b\w+\.py\b", "".join(re.findall(r"```\n(.*?)```", PAGES["architecture.md"], re.DOTALL)))
    assert set(drawn) - {path.name for path in ROOT.glob("clawbot/**/*.py")} == set()


def test_the_limits_that_are_named_are_those_of_the_house() -> None:
    house = tomllib.loads(ROOT.joinpath(".ci", "house.toml").read_text(encoding="utf-8"))
    text = " ".join(PAGES["CONTRIBUTING.md"].split())
    [found] = re.findall(
        r"lines of a file \((\d+)\) and of a function \((\d+)\), the modules that one imports \((\d+)\),"
        r" the fields of a struct of dependencies \((\d+)\)",
        text,
    )
    kinds = ("file_lines", "function_lines", "fan_out", "dependency_fields")
    assert [int(number) for number in found] == [house[kind]["limit"] for kind in kinds]


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", "\n".join(PAGES.values()), re.MULTILINE))
    assert {"chat", "test", "bench"} <= targets
    assert {name for name in targets if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)} == set()


def test_the_benchmarks_of_make_are_named() -> None:
    [run] = re.findall(r"for name in (.*); do \$\(BIN\)/python benchmarks", MAKEFILE)
    [named] = re.findall(r"`make bench` runs (.*?)\. ", " ".join(PAGES["benchmarks.md"].split()))
    assert re.findall(r"`(\w+)`", named) == run.split()


def test_each_table_of_the_benchmarks_is_printed_and_each_figure_is_in_one() -> None:
    text = PAGES["benchmarks.md"]
    pages = {path: ROOT.joinpath(path).read_text("utf-8") for path in check.FIGURES}
    assert [*check.page_problems(text), *check.prose_problems(pages, check.printed(text))] == []


PRINTED = """
| start | measured, s | memory |
|---|--:|--:|
| first echo | 0.34 | 12.5 MB, 1,000 kB |

`benchmarks/startup.py --runs 5`, 2026-11-27, 2 cores, x86_64, Linux, Python 3.11.2, load 0.1 to 0.2, \
a million squares 60 to 60 ms of CPU
"""


@pytest.mark.parametrize(
    ("prose", "found"),
    [
        ("It takes 0.34 s, 12.5 MB and 1,000 kB; 0.34 seconds.", []),
        ("It takes 0.3 s.", ["0.3 s"]),
        ("It takes 0.34 ms.", ["0.34 ms"]),
        ("half an hour, `9 s`, [page](5-MB.md), six parts, version 3.11 seconded", ["half an hour"]),
        ("twice as fast, three times more, 7% of it", ["twice as fast", "three times", "7%"]),
        ("| a table of a page | 8 GB |\n", ["8 GB"]),
        ("```\n5 s\n```\n", []),
    ],
)
def test_a_figure_without_a_row_is_found(prose: str, found: list[str]) -> None:
    tables = check.printed(PRINTED)
    problems = list(check.prose_problems({"page.md": prose}, tables))
    assert [problem.split("'")[1] for problem in problems] == found


def test_a_table_that_no_command_printed_is_found() -> None:
    named = "`benchmarks/kills.py --kills 9`, not measured yet\n"
    assert list(check.commands_of(named + PRINTED)) == [
        "benchmarks/kills.py --kills 9",
        "benchmarks/startup.py --runs 5",
    ]
    assert list(check.page_problems(PRINTED)) == []
    assert list(check.page_problems(PRINTED.replace(", load 0.1", ""))) != []
    assert list(check.page_problems(PRINTED.replace("startup", "nothing"))) != []


def test_what_each_session_may_know_is_what_the_policy_says() -> None:
    allows = ["memory_file", "notes", "transcripts", "notes", "startup_notes", "citations"]
    table = PAGES["context.md"].partition("| files in the prompt |")[2]
    rows = re.findall(r"^\| .* \| (yes|no) \| (yes|no) \| (yes|no) \| (yes|no) \|$", table, re.MULTILINE)
    keys = ("agent:main:main", "agent:main:a:group:b", "agent:main:cron:a", "agent:main:subagent:a")
    held = [[getattr(privacy_of(key), allowed) for key in keys] for allowed in allows]
    assert [[cell == "yes" for cell in row] for row in rows] == held


def test_every_group_of_entry_points_is_named() -> None:
    assert {group for group in GROUPS if f"`{group}`" not in PAGES["CONTRIBUTING.md"]} == set()


@pytest.mark.parametrize(("heading", "rows"), [("Ten keys", 10), ("Five things to try", 5)])
def test_readme_counts_what_it_lists(heading: str, rows: int) -> None:
    section = PAGES["README.md"].partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^(?:\| `|\d+\. )", section, re.MULTILINE)) == rows
