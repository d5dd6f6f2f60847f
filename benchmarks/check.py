"""Checks docs/benchmarks.md: its commands run and print its tables, and each figure in prose has a row in one.

Run: .venv/bin/python benchmarks/check.py            every command of the page in a small form, and the figures
     .venv/bin/python benchmarks/check.py --prose    the figures alone
     .venv/bin/python benchmarks/check.py --write [COMMAND ...]   run the commands of the page in full, or those that
                                                     begin so ("index.py", "real_client.py turns"), and write the tables

A table of the page is what a command prints: below it are the command, the day, the machine and its load. Where nobody
has run it yet, the page has the command alone ("…, not measured yet"), and `--write` puts its tables there. The small
form is the command with the options of SMALL behind its own. It runs in a folder of its own, and reaches no network.

A figure is a number with a unit of time up to hours, of size or memory, a percentage, or a factor ("three times").
In the pages of FIGURES each must be in one row of a table of docs/benchmarks.md, or be named there with what sets it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
SMALL = {
    "accounting": "--turns 14 --repeats 3",
    "full_disk": "--every 70 --points 2",
    "growth": "--files 2 --questions 3 --cold 1",
    "index": "--files 2 --runs 1",
    "kills": "--kills 5",
    "longrun": "--turns 60",
    "milvus": "--pieces 200 --searches 2",
    "peers": "--runs 1 --files 3",
    "real_client": "--runs 1 --turns 2 --idle 1 --messages 300",
    "real_model": "--turns 4",
    "reset": "--tiny --runs 1 --slug 0.1",
    "retrieval": "--every 50",
    "scale": "--minutes 0.1",
    "screen": "--tiny",
    "serve": "--files 1 --seconds 0.2 --rate 20 --chats 2",
    "soak": "--seconds 4 --rate 2 --every 1 --warm-up 1",
    "startup": "--runs 1 --rest 1",
    "trace": "",
    "tui": "--tiny",
}
# Commands that end with this code need something that is not installed; they say what.
MISSING = 77
FIGURES: Mapping[str, Mapping[str, str]] = {
    "README.md": {},
    "docs/benchmarks.md": {
        "13 KB": "size of a note that index.py writes",
        "1.9 KB": "size of a note that growth.py writes",
        "ten seconds": "reset.py --slug",
    },
    "docs/memory.md": {
        "half a second": "query.wait_for_writes",
        "two seconds": "query.wait_for_vectors",
        "1.5 seconds": "memory/search: waits for a provider that has not answered yet",
        "four times": "max_results in the profile lines",
        "eight seconds": "the time limit of a model that orders",
    },
    "docs/memory-backends.md": {
        "ten seconds": "plugins/milvus/lite_server.py",
        "four seconds": "memory.qmd.limits.timeout_ms",
        "five minutes": "memory.qmd.update",
        "15 seconds": "memory.qmd.update",
        "one minute": "memory/backends/self_healing.py",
        "60,000 bytes": "plugins/milvus/passages.py",
        "2 GB": "models that qmd downloads",
    },
}

NUMBER = (
    r"(?:\d[\d,.]*\d|\d|half an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|sixty)"
)
UNITS = {
    "ms": r"ms|milliseconds?",
    "s": r"s|seconds?",
    "min": r"min|minutes?",
    "h": r"h|hours?",
    "kB": r"[kK]i?B|kilobytes?",
    "MB": r"Mi?B|megabytes?",
    "GB": r"Gi?B|gigabytes?",
    "bytes": r"bytes?",
    "%": r"%|percent",
    "times": r"times",
}
FIGURE = re.compile(rf"(?<![\w.,])({NUMBER})(?:[\s-]|(?<=\d))({'|'.join(UNITS.values())})(?!\w)|\b(twice|half) as \w+")
WORDS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8"}
WORDS |= {"twice": "2", "half": "0.5", "half a": "0.5", "half an": "0.5"}
CAPTION = re.compile(
    r"`(benchmarks/\w+\.py[^`]*)`, \d{4}-\d\d-\d\d, .+, load [\d.]+ to [\d.]+, a million squares \d+ to \d+ ms of CPU"
)
NAMED = re.compile(r"^`(benchmarks/\w+\.py[^`]*)`, not measured yet$", re.MULTILINE)
TABLE = re.compile(r"(?P<table>(?:^\|.*\|\n)+)(?:\n(?P<caption>`benchmarks/.*)\n)?", re.MULTILINE)


class Printed(NamedTuple):
    """A table: its columns and rows, the command that printed it ("" for none), and both as the page has them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str
    text: str

    def shows(self, number: str, unit: str) -> bool:
        """Return whether a row has the number, with the unit there or in the head."""
        unit_there = re.compile(rf"(?<![^\W\d])(?:{UNITS[unit]})(?!\w)")
        for row in self.rows:
            text = " ".join(row)
            if number in re.findall(r"\d[\d,.]*\d|\d", text) and unit_there.search(f"{text} {' '.join(self.columns)}"):
                return True
        return False


def printed(text: str) -> list[Printed]:
    """Return the tables in `text`."""
    found = []
    for match in TABLE.finditer(text):
        head, _, *rows = (
            tuple(cell.strip() for cell in line.strip("|").split("|")) for line in match["table"].splitlines()
        )
        caption = CAPTION.fullmatch(match["caption"] or "")
        found.append(Printed(head, tuple(rows), caption[1] if caption else "", match[0]))
    return found


def commands_of(text: str) -> dict[str, list[Printed]]:
    """Return the tables of a page by the command that printed them; none for one that is only named."""
    found: dict[str, list[Printed]] = {match[1]: [] for match in NAMED.finditer(text)}
    for table in printed(text):
        if table.command:
            found.setdefault(table.command, []).append(table)
    return found


def run(command: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of the page, with `more` options, in a home and a temporary folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        closed = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https")}
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "LANG", "CLAWBOT_MILVUS_URI")
            if name in os.environ
        }
        own = {"HOME": folder, "TMPDIR": folder, "TERM": "xterm-256color", "no_proxy": "127.0.0.1,localhost", **closed}
        return subprocess.run(
            [sys.executable, *command.split(), *more.split()],
            cwd=ROOT,
            env={**kept, **own},
            capture_output=True,
            text=True,
            check=False,
        )


def small_problems(command: str, tables: Sequence[Printed]) -> Iterator[str]:
    """Yield why a small run of `command` does not print its `tables` of the page."""
    done = run(command, SMALL[name_of(command)])
    there = {comparable(table) for table in printed(done.stdout)}
    if done.returncode == MISSING:
        print(f"skipped: {command}: {done.stderr.strip()}")
    elif done.returncode or not there:
        yield f"{command} ended with {done.returncode} and {len(there)} tables:\n{done.stderr}"
    else:
        gone = [table.columns for table in tables if comparable(table) not in there]
        yield from (f"{command} prints no table with the columns {columns}:\n{done.stdout}" for columns in gone)


def name_of(command: str) -> str:
    """Return the name of the benchmark: `index` of `benchmarks/index.py --runs 5`."""
    return Path(command.split()[0]).stem


def comparable(table: Printed) -> tuple[str, ...]:
    """Return the columns without their numbers, which depend on the size of a run."""
    first, *others = table.columns
    names = (re.sub(r"\d[\d,]*", "N", name) for name in (first, *others))
    return tuple(dict.fromkeys(names))


def page_problems(text: str) -> Iterator[str]:
    """Yield the tables of the page that no command prints."""
    for table in printed(text):
        if not table.command:
            yield f"{PAGE.name}: a table without a command, day, machine and load below it: {table.columns}"
    yield from (
        f"{name_of(each)} has no small form in check.py" for each in commands_of(text) if name_of(each) not in SMALL
    )


def prose_problems(pages: Mapping[str, str], tables: Sequence[Printed]) -> Iterator[str]:
    """Yield the figures in the prose of `pages` (text by path) that are in no table and not in FIGURES."""
    for path, text in pages.items():
        known = dict.fromkeys(FIGURES.get(path, ()), False)
        for match in FIGURE.finditer(prose(text)):
            figure, number = " ".join(match[0].split()), match[1] or match[3]
            unit = next(unit for unit, form in UNITS.items() if re.fullmatch(form, match[2] or "times"))
            if figure in known:
                known[figure] = True
            elif not any(table.shows(WORDS.get(number, number), unit) for table in tables):
                yield f"{path}: {figure!r} is in no table of {PAGE.name}"
        yield from (
            f"{path} has no {figure!r} any more: remove it from FIGURES" for figure in known if not known[figure]
        )


def prose(text: str) -> str:
    """Return a page without printed tables, code, and targets of links."""
    text = TABLE.sub(
        lambda table: "" if table["caption"] else table[0],
        re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE),
    )
    return re.sub(r"`[^`\n]*`|(?<=\])\([^)\s]*\)|<!--.*?-->", "", text, flags=re.DOTALL)


def write(wanted: Sequence[str]) -> None:
    """Run the commands of the page that begin like one of `wanted` (all if empty), and write their tables there."""
    for command, tables in commands_of(PAGE.read_text("utf-8")).items():
        if wanted and not command.removeprefix("benchmarks/").startswith(tuple(wanted)):
            continue
        done = run(command)
        sys.stderr.write(done.stderr)
        found = {comparable(table): table.text for table in printed(done.stdout)}
        text = PAGE.read_text("utf-8")
        for table in tables:
            text = text.replace(table.text, found.get(comparable(table), table.text))
        if found:
            text = text.replace(f"`{command}`, not measured yet\n", "\n".join(found.values()))
        PAGE.write_text(text, "utf-8")
        print(f"{command}: {len(found)} tables, exit code {done.returncode}", flush=True)


def main() -> int:
    """Check, or write; 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prose", action="store_true", help="only the figures in prose")
    parser.add_argument("--write", nargs="*", metavar="COMMAND", help="run in full and write the tables")
    options = parser.parse_args()
    if options.write is not None:
        write(options.write)
    text = PAGE.read_text("utf-8")
    tables = printed(text)
    problems = [
        *page_problems(text),
        *prose_problems({path: (ROOT / path).read_text("utf-8") for path in FIGURES}, tables),
    ]
    if not options.prose and options.write is None:
        for command, mine in commands_of(text).items():
            problems += small_problems(command, mine)
    print("\n".join(problems) or f"{len(tables)} tables, no problem")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
