"""The questions on the work logs are well-formed, and the answers of the tool are read as a model reads them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.retrieval import Question, Texts, read_answer

LOGS = Path(__file__).parent / "worklogs"
ROWS = [json.loads(line) for line in (LOGS / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
LINES = {language: Texts(LOGS / language).lines for language in ("en", "zh")}
LEAST = {"list": 12, "why": 10, "update": 10, "time": 10, "identifier": 10, "nested": 10, "paraphrase": 10, "multi": 8}
LINE = "the gate of the shed rattles at night, " * 5


@pytest.mark.parametrize("language", LINES)
def test_each_language_has_enough_questions_of_each_category(language: str) -> None:
    counts = Counter(row["category"] for row in ROWS if row["workspace"] == language)
    assert counts.keys() == {*LEAST, "unanswerable"}
    assert counts["unanswerable"] >= 14
    assert all(counts[category] >= least for category, least in LEAST.items())
    assert len({row["id"] for row in ROWS}) == len({row["question"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_the_gold_lines_exist_and_hold_the_answer(row: dict[str, Any]) -> None:
    lines = LINES[row["workspace"]]
    gold = [(g["path"], n) for g in row["gold"] for n in range(g["start_line"], g["end_line"] + 1)]
    text = "\n".join(lines[line] for line in gold)
    assert bool(gold) == (row["category"] != "unanswerable")
    assert all(lines[line].strip() for line in gold)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["now"])
    assert all(part in text for part in row.get("answer", "").split("; "))


@pytest.mark.parametrize(
    ("line", "answer", "recall", "weak"),
    [
        ('  - [ ] say  "no"', json.dumps({"results": [{"snippet": '- x\n  - [ ] say "no"'}]}), 1, False),
        ("1. C:\\new", json.dumps({"results": [{"snippet": "1. C:\\new"}]})[:-4], 1, False),
        ("- weak tea", "notice\n12: - weak tea", 1, False),
        ("- weak tea", "The evidence is weak.\n- strong tea", 0, True),
        (LINE, LINE[:150], 1, False),
        (LINE, LINE[:140], 0, False),
        ("tea", "x" * 3_998 + "tea", 0, False),
    ],
)
def test_a_line_counts_if_its_text_is_in_the_answer(
    line: str, answer: str, recall: int, *, weak: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(f"{line}\n", encoding="utf-8")
    read = read_answer(answer, "1 hit", Question("q", "?", frozenset({("a.md", 1)}), "w", "list"), Texts(tmp_path))
    assert (read.recall, read.weak) == (recall, weak)
