"""Each benchmark runs in a small form and prints its tables of docs/benchmarks.md. What it measures is asserted by
nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import check

ROOT = Path(__file__).parents[2]
# Those whose tables are not in docs/benchmarks.md, and other forms.
TINY = {
    "reranking": "{notes}",
    "score_scale": "{notes}",
    "screen": "--tiny",
    "talks": "--megabytes 1 --runs 1",
    "weights": "{notes} {others}",
}
MORE = [
    ("retrieval", "{notes} --profile lines"),
    ("retrieval", "{notes} --tool --by-category"),
    ("growth", "--files 2"),
]
COMMANDS = check.commands_of(check.PAGE.read_text("utf-8"))


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
def test_each_benchmark_has_a_small_form() -> None:
    runnable = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert runnable == TINY.keys() | set(map(check.name_of, COMMANDS)) | {"check"}


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_prints_its_tables(command: str) -> None:
    assert list(check.small_problems(command, COMMANDS[command])) == []


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
