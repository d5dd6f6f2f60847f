"""Fits the scale of scores in the profile `lines`, and checks it: which share of right results is below 0.35?

Run: .venv/bin/python benchmarks/score_scale.py DIR [DIR ...]

Each DIR is one as for retrieval.py. For each mode the exponent is the largest with which at most 3 % of the right first
results of every folder are below 0.35, even if they were said in a conversation. It belongs into
clawbot/memory/search/scale.py; the columns are of what stands there now. "lost" is the recall that a `min_score` of
0.35 costs, over all results of a search as the settings have it.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retrieval import Question, QuestionClock, lines_of, read_questions

from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.config.schema_memory import QuerySettings
from clawbot.indexing import open_index
from clawbot.memory.search.scale import EXPONENTS
from clawbot.memory.values import Hit, Mode, SearchRequest

THRESHOLD, BELOW = 0.35, 0.03
SETUPS: dict[Mode, dict[str, Any]] = {
    "hybrid": {},
    "fts-only": {"provider": "none"},
    "vector-only": {"query": {"hybrid": {"enabled": False}}},
}
Found = Mapping[str, tuple[Hit, ...]]


async def ask(workspace: Path, questions: Sequence[Question], setup: dict[str, Any]) -> Found:
    """The results of each question, as a search returns them."""
    found = {}
    with tempfile.TemporaryDirectory() as home:
        paths, clock = Paths(Path(home)), QuestionClock()
        here = {"workspace": str(workspace), "timezone": "UTC", "memory_search": setup}
        settings = load_settings(paths, overrides={"agents": {"defaults": here}}).settings
        index = open_index(settings, MAIN_AGENT, paths, clock, long_lived=True)
        if index is None:
            raise SystemExit("memory_search.enabled is off")
        try:
            await index.sync()
            for question in questions:
                clock.day = question.day
                found[question.id] = (await index.search(SearchRequest(queries=(question.text,)))).hits
        finally:
            await index.close()
    return found


def ask_all(folder: Path, questions: Sequence[Question], setup: dict[str, Any]) -> Found:
    """The results of all questions, from copies of their workspaces."""
    found: dict[str, tuple[Hit, ...]] = {}
    for name in dict.fromkeys(question.workspace for question in questions):
        with tempfile.TemporaryDirectory() as copy:
            workspace = Path(copy) / "workspace"
            shutil.copytree(folder / name, workspace, copy_function=shutil.copyfile)
            found |= asyncio.run(ask(workspace, [each for each in questions if each.workspace == name], setup))
    return found


def first_right(questions: Sequence[Question], found: Found) -> Iterator[float]:
    """The score of the first right result of each question that has one."""
    for question in questions:
        yield from [hit.score for hit in found[question.id] if question.gold & set(lines_of(hit))][:1]


def recall(questions: Sequence[Question], found: Found, least: float = 0.0) -> float:
    """The mean share of gold lines in the results with at least the score `least`."""
    shares = []
    for question in questions:
        seen = {line for hit in found[question.id] if hit.score >= least for line in lines_of(hit)}
        shares.append(len(seen & question.gold) / len(question.gold))
    return sum(shares) / len(shares)


def exponent_for(scores: Sequence[float], mode: Mode) -> float:
    """The largest exponent for these right `scores`, which are on the present scale."""
    shares = sorted(score ** (1 / EXPONENTS[mode]) for score in scores)
    said = shares[int(BELOW * len(shares))] * QuerySettings().transcript_weight
    return math.log(THRESHOLD) / math.log(said)


def main() -> None:
    """Print a row for each mode and folder, then the exponents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    fitted: dict[Mode, float] = {}
    print(f"| mode | set | right | below {THRESHOLD} | as conversation | recall | lost | exponent |")
    print("|---|---|---|---|---|---|---|---|")
    for mode, setup in SETUPS.items():
        weight = QuerySettings().transcript_weight ** EXPONENTS[mode]
        for folder in options.folders:
            questions = [each for each in read_questions(folder / "questions.jsonl") if each.counts]
            found = ask_all(folder, questions, setup)
            scores = list(first_right(questions, found))
            below = [sum(score * factor < THRESHOLD for score in scores) / len(scores) for factor in (1, weight)]
            all_of, kept = recall(questions, found), recall(questions, found, THRESHOLD)
            exponent = exponent_for(scores, mode)
            fitted[mode] = min(exponent, fitted.get(mode, 1.0))
            shares = " | ".join(f"{share:.1%}" for share in below)
            print(
                f"| {mode} | {folder.name} | {len(scores)} | {shares} | {all_of:.3f} | {all_of - kept:.3f} |"
                f" {exponent:.3f} |"
            )
    print("\n" + ", ".join(f"{mode}: {math.floor(exponent * 100) / 100:.2f}" for mode, exponent in fitted.items()))


if __name__ == "__main__":
    main()
