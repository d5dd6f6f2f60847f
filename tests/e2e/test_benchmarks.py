"""Each benchmark runs in a tiny form, so that none can rot. What it measures is asserted by nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = {
    "accounting": "--turns 14 --repeats 3",
    "growth": "--files 2",
    "index": "--files 2 --runs 1",
    "longrun": "--turns 60",
    "real_client": "turns --runs 1 --turns 2",
    "reranking": "{notes}",
    "reset": "--tiny --runs 1 --slug 0.1",
    "retrieval": "{notes} --profile lines",
    "scale": "--agents 3 --hours 0.2",
    "score_scale": "{notes}",
    "screen": "--tiny",
    "serve": "--files 1 --seconds 0.2 --rate 20 --chats 2",
    "startup": "--runs 1",
    "talks": "--megabytes 1 --runs 1",
    "tui": "--tiny",
    "turns": "--turns 3",
    "weights": "{notes} {others}",
}
# Other forms of these.
MORE = [("retrieval", "{notes} --tool --by-category")]
# tests/e2e/test_full_disk.py, test_kills.py, test_soak.py and test_trace.py run these and read their tables,
# `make test-real` and `make test-milvus` the last two.
OF_THEIR_OWN = {"full_disk", "kills", "soak", "trace", "real_model", "milvus"}


def write_notes(folder: Path) -> None:
    """A workspace with one note, and a question that it answers."""
    note = folder / "workspace" / "memory" / "2026-01-02.md"
    note.parent.mkdir(parents=True)
    note.write_text("# Friday\n\nThe staging proxy listens on port 8443.\n")
    question = {
        "id": "q1",
        "question": "Which port has the staging proxy?",
        "category": "exact",
        "gold": [{"path": "memory/2026-01-02.md", "start_line": 3, "end_line": 3}],
        "workspace": "workspace",
    }
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")


@pytest.mark.smoke
def test_each_benchmark_has_a_tiny_form() -> None:
    runnable = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert runnable == TINY.keys() | OF_THEIR_OWN


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "form"), [*TINY.items(), *MORE])
def test_a_benchmark_prints_its_table(name: str, form: str, tmp_path: Path) -> None:
    folders = {kind: tmp_path / kind for kind in ("notes", "others")}
    for folder in folders.values():
        write_notes(folder)
    arguments = form.format(**folders).split()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 1, done.stdout
