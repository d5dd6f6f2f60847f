"""Do the weights of `query.lines` carry over to other notes? Learns them on all folders but one, and asks that one.

Run: .venv/bin/python benchmarks/weights.py DIR DIR [DIR ...] [--every N] [--rounds N]

Each DIR is one as for retrieval.py. Learning is coordinate ascent from the shipped weights, on the mean recall within
1,500, 2,500 and 3,000 characters; each folder counts the same. `--every N` takes every Nth question of a folder with
more than 200.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
from pathlib import Path

from retrieval import BUDGETS, Question, QuestionClock, Texts, ask_one, read_questions, recall_within

from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.config.schema_memory import LineWeights
from clawbot.indexing import open_index

STEPS = {"term": 0.06, "meaning": 1.0, "speaker": 0.7, "question": -0.5, "note": 0.03, "number": 1.0, "day": 1.0}
"""The weights that are learned, with the size of a step."""

MANY = 200
GAIN = 0.001
"""Less than this is noise."""

Weights = tuple[tuple[str, float], ...]


class Folder:
    """One set of questions with its notes, indexed once."""

    def __init__(self, source: Path, home: Path, every: int) -> None:
        self.name = source.name
        asked = [question for question in read_questions(source / "questions.jsonl") if question.counts]
        self.questions = asked[::every] if len(asked) > MANY else asked
        self._home = home / source.name
        for name in {question.workspace for question in self.questions}:
            shutil.copytree(source / name, self._home / "of" / name, copy_function=shutil.copyfile)
        self._known: dict[Weights, tuple[float, ...]] = {}

    def recall(self, weights: Weights) -> tuple[float, ...]:
        """The mean recall within each of BUDGETS."""
        if weights not in self._known:
            within = asyncio.run(self._ask(weights))
            self._known[weights] = tuple(statistics.fmean(shares) for shares in zip(*within, strict=True))
        return self._known[weights]

    async def _ask(self, weights: Weights) -> list[list[float]]:
        found = []
        for name in sorted({question.workspace for question in self.questions}):
            workspace, paths, clock = self._home / "of" / name, Paths(self._home / "homes" / name), QuestionClock()
            here = {
                "workspace": str(workspace),
                "timezone": "UTC",
                "memory_search": {"query": {"lines": dict(weights)}},
            }
            settings = load_settings(paths, overrides={"agents": {"defaults": here}}).settings
            index = open_index(settings, MAIN_AGENT, paths, clock, long_lived=True)
            if index is None:
                raise SystemExit("memory_search.enabled is off")
            texts = Texts(workspace)
            try:
                await index.sync()
                for question in self._of(name):
                    clock.day = question.day
                    hits = await ask_one(index, question.text)
                    found.append([recall_within(question, hits, texts, budget) for budget in BUDGETS])
            finally:
                await index.close()
        return found

    def _of(self, workspace: str) -> list[Question]:
        return [question for question in self.questions if question.workspace == workspace]


def learned(folders: list[Folder], rounds: int) -> Weights:
    """The weights that are best for `folders` together."""
    shipped = LineWeights()
    best: Weights = tuple((name, getattr(shipped, name)) for name in STEPS)
    most = mean(folders, best)
    for _ in range(rounds):
        before = best
        for name, step in STEPS.items():
            for change in (step, -step):
                tried = tuple((key, round(value + change * (key == name), 4)) for key, value in best)
                if (reached := mean(folders, tried)) > most + GAIN:
                    best, most = tried, reached
                    break
        if best == before:
            break
    return best


def mean(folders: list[Folder], weights: Weights) -> float:
    """The mean recall of `folders` over all budgets."""
    return statistics.fmean(statistics.fmean(folder.recall(weights)) for folder in folders)


def main() -> None:
    """Print a row for each folder: the shipped weights, those learned on the others, and those learned on all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folders = [Folder(source, Path(home), options.every) for source in options.folders]
        shipped = learned(folders, 0)
        together = learned(folders, options.rounds)
        print(f"| B{BUDGETS[1]} | questions | shipped | learned on the others | learned on all | changed without it |")
        print("|---|---|---|---|---|---|")
        for folder in folders:
            others = learned([each for each in folders if each is not folder], options.rounds)
            changed = ", ".join(f"{name} {value:g}" for name, value in others if (name, value) not in shipped)
            shares = " | ".join(f"{folder.recall(each)[1]:.3f}" for each in (shipped, others, together))
            print(f"| {folder.name} | {len(folder.questions)} | {shares} | {changed or 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
