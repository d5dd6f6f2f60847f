"""Does the memory index find what was said? Asks the questions of a folder and prints how many answers came back.

Run: .venv/bin/python benchmarks/retrieval.py DIR [--results FILE] [--profile P] [--questions NAME]

DIR holds `questions.jsonl`, one object a line: id, question, gold (path, start_line, end_line) and optionally category
workspace (a folder beside the file, "workspace" by default) and now (the day on which it is asked, from which "last
Tuesday" counts; today by default). Questions of the category "adversarial" have no answer
and are left out of the table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.indexing import open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import Hit, SearchRequest

FIRST = 6
BUDGETS = (1_500, 2_500, 3_000)
"""Characters. A model gets 2,500 by default."""
# More than a model gets, so that any budget can be scored.
RESULTS = 48
RESULT_CHARS = 12_000
SETUPS: dict[str, dict[str, Any]] = {
    "lines": {},
    "lines, keywords only": {"provider": "none"},
    "lines, vectors only": {"query": {"hybrid": {"vector_weight": 1.0, "text_weight": 0.0}}},
    "classic": {"profile": "classic"},
    "classic, keywords only": {"profile": "classic", "provider": "none"},
    "classic, vectors only": {"profile": "classic", "query": {"hybrid": {"vector_weight": 1.0, "text_weight": 0.0}}},
}
Line = tuple[str, int]


@dataclass(frozen=True)
class Question:
    """A question, the lines that answer it, and the day on which it is asked, if not today."""

    id: str
    text: str
    gold: frozenset[Line]
    workspace: str
    counts: bool
    day: date | None = None


@dataclass(frozen=True)
class Score:
    """What one question got: the share of its lines among the first six results, the characters of these, the share
    within each budget of characters, and the milliseconds that the search took."""

    recall: float
    chars: int
    within: tuple[float, ...]
    ms: float


def read_questions(file: Path) -> list[Question]:
    """The questions of a file."""
    found = []
    for row in map(json.loads, filter(str.strip, file.read_text(encoding="utf-8").splitlines())):
        gold = {(g["path"], line) for g in row["gold"] for line in range(g["start_line"], g["end_line"] + 1)}
        counts = row.get("category") != "adversarial"
        day = date.fromisoformat(row["now"]) if row.get("now") else None
        workspace = row.get("workspace", "workspace")
        found.append(Question(row["id"], row["question"], frozenset(gold), workspace, counts, day))
    return found


class QuestionClock(SystemClock):
    """The system's clock, on the day of a question."""

    day: date | None = None

    def now(self) -> datetime:
        """Noon of the day, else the current time."""
        return super().now() if self.day is None else datetime.combine(self.day, time_of_day(12), UTC)


def lines_of(hit: Hit) -> list[Line]:
    """The lines that a result stands for."""
    return [(hit.path, line) for line in range(hit.start_line, hit.end_line + 1)]


class Texts:
    """How long each line of a workspace is, in characters."""

    def __init__(self, workspace: Path) -> None:
        self._lengths = {
            (file.relative_to(workspace).as_posix(), number): len(line)
            for file in workspace.rglob("*.md")
            for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1)
        }

    def chars(self, lines: Iterable[Line]) -> int:
        """Characters of `lines`, each with its end."""
        return sum(self._lengths.get(line, 0) + 1 for line in lines)


def recall_within(question: Question, hits: Iterable[Hit], texts: Texts, budget: int) -> float:
    """The share of the gold lines that a reader meets within `budget` characters, whole lines only."""
    met = set()
    spent = 0
    for line in (line for hit in hits for line in lines_of(hit)):
        spent += texts.chars([line])
        if spent > budget:
            break
        met.add(line)
    return len(met & question.gold) / len(question.gold)


def score(question: Question, hits: tuple[Hit, ...], texts: Texts, ms: float) -> Score:
    """What `hits` are worth for `question`."""
    first = hits[:FIRST]
    seen = {line for hit in first for line in lines_of(hit)}
    return Score(
        len(seen & question.gold) / len(question.gold),
        sum(texts.chars(lines_of(hit)) - 1 for hit in first),
        tuple(recall_within(question, hits, texts, budget) for budget in BUDGETS),
        ms,
    )


async def ask(workspace: Path, questions: list[Question], setup: dict[str, Any]) -> dict[str, tuple[Score, list[Hit]]]:
    """Index `workspace` anew and put every question to it."""
    found: dict[str, tuple[Score, list[Hit]]] = {}
    with tempfile.TemporaryDirectory() as home:
        paths = Paths(Path(home))
        here = {"workspace": str(workspace), "timezone": "UTC", "memory_search": setup}
        settings = load_settings(paths, overrides={"agents": {"defaults": here}}).settings
        clock = QuestionClock()
        index = open_index(settings, MAIN_AGENT, paths, clock, long_lived=True)
        if index is None:
            raise SystemExit("memory_search.enabled is off")
        texts = Texts(workspace)
        try:
            await index.sync()
            await ask_one(index, questions[0].text)
            for question in questions:
                clock.day = question.day
                began = time.perf_counter()
                hits = await ask_one(index, question.text)
                ms = (time.perf_counter() - began) * 1000
                found[question.id] = (score(question, hits, texts, ms), list(hits))
        finally:
            await index.close()
    return found


async def ask_one(index: MemoryBackend, text: str) -> tuple[Hit, ...]:
    """The results of one question, more than a model would get."""
    request = SearchRequest(queries=(text,), max_results=RESULTS, max_chars=RESULT_CHARS)
    return (await index.search(request)).hits


def ask_all(folder: Path, questions: list[Question], setup: dict[str, Any]) -> dict[str, tuple[Score, list[Hit]]]:
    """Put all questions to their workspaces, copied: an index must never be led to write beside the originals."""
    found: dict[str, tuple[Score, list[Hit]]] = {}
    for name in dict.fromkeys(question.workspace for question in questions):
        mine = [question for question in questions if question.workspace == name]
        with tempfile.TemporaryDirectory() as copy:
            workspace = Path(copy) / "workspace"
            shutil.copytree(folder / name, workspace, copy_function=shutil.copyfile)
            found |= asyncio.run(ask(workspace, mine, setup))
    return found


def write_results(file: Path, found: dict[str, tuple[Score, list[Hit]]]) -> None:
    """One line a question: its id and its results, the best first."""
    with file.open("w", encoding="utf-8") as out:
        for name, (_, hits) in found.items():
            results = [
                {"path": hit.path, "startLine": hit.start_line, "endLine": hit.end_line, "score": hit.score}
                for hit in hits
            ]
            out.write(json.dumps({"id": name, "results": results}, ensure_ascii=False) + "\n")


def print_row(name: str, scores: list[Score]) -> None:
    """One line of the table."""
    recall = statistics.fmean(each.recall for each in scores)
    chars = statistics.fmean(each.chars for each in scores)
    within = [statistics.fmean(each.within[at] for each in scores) for at in range(len(BUDGETS))]
    ms = statistics.median(each.ms for each in scores)
    print(f"| {name} | {recall:.3f} | {chars:,.0f} | {' | '.join(f'{share:.3f}' for share in within)} | {ms:.1f} |")


def main() -> None:
    """Ask, print the table, and write the results of one profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path, help="where the results of the profile go")
    parser.add_argument("--profile", choices=("lines", "classic"), help="only this one; the results are of lines else")
    parser.add_argument("--questions", default="questions.jsonl", help="the file of questions in the folder")
    options = parser.parse_args()
    questions = read_questions(options.folder / options.questions)
    print(f"{sum(question.counts for question in questions)} questions of {options.folder.name}\n")
    print(f"| | R@{FIRST} | characters | {' | '.join(f'B{budget}' for budget in BUDGETS)} | median ms |")
    print("|---|---|---|" + "---|" * (len(BUDGETS) + 1))
    for name, setup in SETUPS.items():
        if options.profile is None or name.startswith(options.profile):
            found = ask_all(options.folder, questions, setup)
            print_row(name, [found[question.id][0] for question in questions if question.counts])
            if options.results is not None and name == (options.profile or "lines"):
                write_results(options.results, found)


if __name__ == "__main__":
    main()
