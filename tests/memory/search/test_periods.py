"""A question that names a period is answered by the lines of its days, whatever else it says."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.memory.search.notes import Searcher, build

TABLE = tomllib.loads((Path(__file__).parents[1] / "data" / "periods.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    notes = {f"memory/{day}.md": text for day, text in TABLE["notes"].items()}
    return Searcher(build(tmp_path_factory.mktemp("index") / "i", notes))


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("row", TABLE["questions"], ids=[row["text"] for row in TABLE["questions"]])
def test_the_lines_of_the_period_come_first(searcher: Searcher, row: dict[str, Any], vectors: bool) -> None:
    hits = searcher.ask(row["text"], vectors=vectors, today=date(2026, 2, 23), max_results=30).hits
    days = [*dict.fromkeys(hit.path[7:17] for hit in hits)][: len(row["first"])]
    assert (days if row.get("ordered") else sorted(days)) == row["first"]
