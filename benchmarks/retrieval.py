"""Does the memory index find what was said? Asks the questions of a folder and prints how many answers came back.

Run: .venv/bin/python benchmarks/retrieval.py DIR [--results FILE] [--profile P] [--questions NAME]
     .venv/bin/python benchmarks/retrieval.py DIR --tool [--by-category] [--questions NAME]

DIR holds `questions.jsonl`, one object a line: id, question, gold (path, start_line, end_line) and optionally category
workspace (a folder beside the file, "workspace" by default) and now (the day on which it is asked, from which "last
Tuesday" counts; today by default). Questions of the categories "adversarial" and "unanswerable" have no answer
and are left out of the table.

--tool measures what a model reads: the answer of the tool `memory_search` with the settings as shipped, its first 4,000
characters. A line counts if its text, or the first 150 characters of it, is part of that answer. "weak" is the share of
answers without a hit, or with the word "weak" outside of the notes: right for "unanswerable", wrong elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from benchmarks.tables import Table
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.config.schema import Settings
from clawbot.context.privacy import privacy_of
from clawbot.indexing import open_index
from clawbot.indexing.memories import AgentMemories
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import Hit, SearchRequest
from clawbot.tools.memory import MemorySearchTool

FIRST = 6
BUDGETS = (1_500, 2_500, 3_000)
"""Characters. A model gets 2,500 by default."""
# More than a model gets, so that any budget can be scored.
RESULTS = 48
RESULT_CHARS = 12_000
ANSWER_CHARS = 4_000
"""Characters of the tool's answer that count."""
LINE_CHARS = 150
UNANSWERED = frozenset({"adversarial", "unanswerable"})
SETUPS: dict[str, dict[str, Any]] = {
    "lines": {},
    "lines, keywords only": {"provider": "none"},
    "lines, vectors only": {"query": {"hybrid": {"vector_weight": 1.0, "text_weight": 0.0}}},
    "classic": {"profile": "classic"},
    "classic, keywords only": {"profile": "classic", "provider": "none"},
    "classic, vectors only": {"profile": "classic", "query": {"hybrid": {"vector_weight": 1.0, "text_weight": 0.0}}},
}
Line = tuple[str, int]
_JSON_STRING = re.compile(r'"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"?')
_WEAK = re.compile(r"\bweak")
_MARKER = re.compile(r"\s*(?:(?:[-*+•]|\d+[.)])\s+)?(?:\[[ xX]\]\s+)?")


@dataclass(frozen=True)
class Question:
    """A question, the lines that answer it, and the day on which it is asked, if not today."""

    id: str
    text: str
    gold: frozenset[Line]
    workspace: str
    category: str
    day: date | None = None

    @property
    def counts(self) -> bool:
        """Whether the notes answer it."""
        return self.category not in UNANSWERED


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
        day = date.fromisoformat(row["now"]) if row.get("now") else None
        workspace = row.get("workspace", "workspace")
        found.append(Question(row["id"], row["question"], frozenset(gold), workspace, row.get("category", ""), day))
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
    """The lines of a workspace."""

    def __init__(self, workspace: Path) -> None:
        self.lines = {
            (file.relative_to(workspace).as_posix(), number): line
            for file in workspace.rglob("*.md")
            for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1)
        }

    def chars(self, lines: Iterable[Line]) -> int:
        """Characters of `lines`, each with its end."""
        return sum(len(self.lines.get(line, "")) + 1 for line in lines)


def recall_within(question: Question, hits: Iterable[Hit], texts: Texts, budget: int) -> float:
    """The share of the gold lines that a reader meets within `budget` characters, whole lines only."""
    met = set()
    spent = 0
    for line in (line for hit in hits for line in lines_of(hit)):
        spent += texts.chars([line])
        if spent > budget:
            break
        met.add(line)
    return len(met & question.gold) / max(len(question.gold), 1)


def score(question: Question, hits: tuple[Hit, ...], texts: Texts, ms: float) -> Score:
    """What `hits` are worth for `question`."""
    first = hits[:FIRST]
    seen = {line for hit in first for line in lines_of(hit)}
    return Score(
        len(seen & question.gold) / max(len(question.gold), 1),
        sum(texts.chars(lines_of(hit)) - 1 for hit in first),
        tuple(recall_within(question, hits, texts, budget) for budget in BUDGETS),
        ms,
    )


def settings_for(workspace: Path, paths: Paths, setup: dict[str, Any]) -> Settings:
    """The settings as shipped but for `setup`, with `workspace`."""
    here = {"workspace": str(workspace), "timezone": "UTC", "memory_search": setup}
    return load_settings(paths, overrides={"agents": {"defaults": here}}).settings


async def ask(workspace: Path, questions: list[Question], setup: dict[str, Any]) -> dict[str, tuple[Score, list[Hit]]]:
    """Index `workspace` anew and put every question to it."""
    found: dict[str, tuple[Score, list[Hit]]] = {}
    with tempfile.TemporaryDirectory() as home:
        paths = Paths(Path(home))
        settings = settings_for(workspace, paths, setup)
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


def by_workspace(folder: Path, questions: list[Question]) -> Iterator[tuple[Path, list[Question]]]:
    """A copy of each workspace with its questions: an index must never be led to write beside the originals."""
    for name in dict.fromkeys(question.workspace for question in questions):
        with tempfile.TemporaryDirectory() as copy:
            workspace = Path(copy) / "workspace"
            shutil.copytree(folder / name, workspace, copy_function=shutil.copyfile)
            yield workspace, [question for question in questions if question.workspace == name]


def ask_all(folder: Path, questions: list[Question], setup: dict[str, Any]) -> dict[str, tuple[Score, list[Hit]]]:
    """Put all questions to their workspaces."""
    found: dict[str, tuple[Score, list[Hit]]] = {}
    for workspace, mine in by_workspace(folder, questions):
        found |= asyncio.run(ask(workspace, mine, setup))
    return found


@dataclass(frozen=True)
class Answer:
    """What the tool answered: the share of the gold lines in it, its characters, and whether it calls its evidence
    weak."""

    recall: float
    chars: int
    weak: bool


def decoded(text: str) -> str:
    """The strings of an answer in JSON, which may be cut off, one below the other; a plain answer as it is."""
    if not text.startswith("{"):
        return text
    return "\n".join(json.loads(f'"{string}"') for string in _JSON_STRING.findall(text))


def bare(line: str) -> str:
    """`line` without indentation and list marker, and with single spaces."""
    return " ".join(_MARKER.sub("", line, count=1).split())


def read_answer(text: str, summary: str, question: Question, texts: Texts) -> Answer:
    """What the answer `text` of the tool is worth for `question`; `summary` is what the screen shows of it."""
    lines = [bare(line) for line in decoded(text[:ANSWER_CHARS]).splitlines()]
    read = "\n".join(lines)
    met = sum(bare(texts.lines[line])[:LINE_CHARS] in read for line in question.gold)
    noted = [bare(line) for line in texts.lines.values() if _WEAK.search(line)]
    own = (line for line in lines if not any(line in note or note in line for note in noted))
    weak = any(map(_WEAK.search, own))
    return Answer(met / max(len(question.gold), 1), len(text), weak or summary == "no hits")


async def ask_tool(workspace: Path, questions: list[Question]) -> dict[str, Answer]:
    """Index `workspace` anew and let the tool of the user's own session answer every question."""
    found: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory() as home:
        paths = Paths(Path(home))
        clock = QuestionClock()
        settings = settings_for(workspace, paths, {})
        memories = AgentMemories(
            settings, MAIN_AGENT, paths, clock, long_lived=True, open_sessions=frozenset, ask=no_model
        )
        if memories.own is None:
            raise SystemExit("memory_search.enabled is off")
        [tool] = [tool for tool in memories.tools(lambda: None) if isinstance(tool, MemorySearchTool)]
        search = tool.for_session(privacy_of("main"))
        texts = Texts(workspace)
        try:
            await memories.own.sync()
            await search.run({"query": questions[0].text})
            for question in questions:
                clock.day = question.day
                outcome = await search.run({"query": question.text})
                found[question.id] = read_answer(outcome.text, outcome.summary, question, texts)
        finally:
            await memories.close()
    return found


async def no_model(system: str, prompt: str) -> str:
    """Fail: the settings as shipped ask no model."""
    raise SystemExit("memory_search asked a model")


def groups_of(questions: list[Question], *, by_category: bool) -> dict[str, list[Question]]:
    """The rows of the table: what the notes answer and what not, of each workspace; each category if wanted."""
    groups: dict[str, list[Question]] = {}
    several = len({question.workspace for question in questions}) > 1
    for question in questions:
        names = ["answerable" if question.counts else question.category]
        names += [question.category] if by_category and question.counts else []
        for name in names:
            groups.setdefault(f"{question.workspace}, {name}" if several else name, []).append(question)
    return dict(sorted(groups.items(), key=lambda row: (row[1][0].workspace, not row[0].endswith("answerable"))))


def print_answers(folder: Path, questions: list[Question], *, by_category: bool) -> None:
    """Ask the tool and print what its answers are worth."""
    found: dict[str, Answer] = {}
    for workspace, mine in by_workspace(folder, questions):
        found |= asyncio.run(ask_tool(workspace, mine))
    with Table("questions", "number", f"recall in {ANSWER_CHARS:,}", "characters", "weak") as table:
        for name, group in groups_of(questions, by_category=by_category).items():
            answers = [found[question.id] for question in group]
            recall = f"{statistics.fmean(each.recall for each in answers):.3f}" if group[0].counts else "–"
            chars = statistics.fmean(each.chars for each in answers)
            weak = statistics.fmean(each.weak for each in answers)
            table.row(name, len(group), recall, f"{chars:,.0f}", f"{weak:.3f}")


def write_results(file: Path, found: dict[str, tuple[Score, list[Hit]]]) -> None:
    """One line a question: its id and its results, the best first."""
    with file.open("w", encoding="utf-8") as out:
        for name, (_, hits) in found.items():
            results = [
                {"path": hit.path, "startLine": hit.start_line, "endLine": hit.end_line, "score": hit.score}
                for hit in hits
            ]
            out.write(json.dumps({"id": name, "results": results}, ensure_ascii=False) + "\n")


def row_of(name: str, scores: list[Score]) -> Iterator[str]:
    """Yield the cells of a line of the table."""
    yield name
    yield f"{statistics.fmean(each.recall for each in scores):.3f}"
    yield f"{statistics.fmean(each.chars for each in scores):,.0f}"
    yield from (f"{statistics.fmean(each.within[at] for each in scores):.3f}" for at in range(len(BUDGETS)))
    yield f"{statistics.median(each.ms for each in scores):.1f}"


def main() -> None:
    """Ask, print the table, and write the results of one profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path, help="where the results of the profile go")
    parser.add_argument("--profile", choices=("lines", "classic"), help="only this one; the results are of lines else")
    parser.add_argument("--questions", default="questions.jsonl", help="the file of questions in the folder")
    parser.add_argument("--every", type=int, default=1, help="only each N-th question")
    parser.add_argument("--tool", action="store_true", help="measure the answers of memory_search")
    parser.add_argument("--by-category", action="store_true", help="with --tool: one row for each category")
    options = parser.parse_args()
    questions = read_questions(options.folder / options.questions)[:: options.every]
    if options.tool:
        asked = [question for question in questions if question.category != "adversarial"]
        print_answers(options.folder, asked, by_category=options.by_category)
        return
    name = f"{sum(question.counts for question in questions)} questions of {options.folder.name}"
    with Table(name, f"R@{FIRST}", "characters", *(f"B{budget}" for budget in BUDGETS), "median ms") as table:
        for name, setup in SETUPS.items():
            if options.profile is None or name.startswith(options.profile):
                found = ask_all(options.folder, questions, setup)
                table.row(*row_of(name, [found[question.id][0] for question in questions if question.counts]))
                if options.results is not None and name == (options.profile or "lines"):
                    write_results(options.results, found)


if __name__ == "__main__":
    main()
