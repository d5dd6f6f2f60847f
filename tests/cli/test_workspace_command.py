"""`clawbot workspace init | diff` as scripts see it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clawbot.cli.main import root


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["workspace", *arguments])


@pytest.fixture
def workspace() -> Path:
    return Path(os.environ["CLAWBOT_HOME"]) / "workspace"


def test_init_seeds_once(workspace: Path) -> None:
    first = invoke("init")
    assert first.exit_code == 0, first.output
    assert first.stdout.splitlines()[0] == f"created {workspace / 'AGENTS.md'}"
    assert (workspace / "BOOTSTRAP.md").exists()
    again = invoke("init")
    assert (again.exit_code, again.stdout) == (0, f"nothing to do: {workspace} has all its files\n")


def test_init_as_json_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    made = json.loads(invoke("init", "--workspace", str(tmp_path / "w"), "--json").stdout)
    assert made["workspace"] == str(tmp_path / "w")
    assert made["created"][0] == "AGENTS.md"


def test_diff(workspace: Path) -> None:
    invoke("init")
    assert invoke("diff").stdout == "no differences\n"
    (workspace / "SOUL.md").write_text("other\n", encoding="utf-8")
    (workspace / "TOOLS.md").unlink()
    text = invoke("diff").stdout
    assert "--- template/SOUL.md\n+++ workspace/SOUL.md\n" in text
    assert text.endswith("missing: TOOLS.md\n")
    files = json.loads(invoke("diff", "--json").stdout)["files"]
    assert {file["name"]: file["state"] for file in files}["SOUL.md"] == "changed"


def test_diff_of_one_file_and_of_a_file_that_is_older_than_its_template(workspace: Path) -> None:
    invoke("init")
    (workspace / "SOUL.md").write_text("other\n", encoding="utf-8")
    (workspace / "USER.md").write_text("older\n", encoding="utf-8")
    [record] = (workspace.parent / "workspaces").iterdir()
    state = json.loads(record.read_text(encoding="utf-8"))
    state["seeded"]["USER.md"] = hashlib.sha256(b"older\n").hexdigest()
    state["seeded"]["SOUL.md"] = hashlib.sha256(b"older\n").hexdigest()
    record.write_text(json.dumps(state), encoding="utf-8")
    found = invoke("diff", "USER.md")
    assert found.exit_code == 0
    assert "SOUL.md" not in found.stdout
    assert "outdated: USER.md" in found.stdout
    assert found.stdout.endswith(f"USER.md {workspace / 'USER.md'}\n"), "the command that takes the new one over"
    assert "both: SOUL.md" in invoke("diff").stdout
    assert invoke("diff", "AGENTS.md").stdout == "no differences\n"
    files = json.loads(invoke("diff", "--json", "USER.md", "soul.md").stdout)["files"]
    assert [(file["name"], file["state"]) for file in files] == [("USER.md", "outdated"), ("SOUL.md", "both")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff"], "There is no workspace"),
        (["init", "--agent", "nobody"], "nobody"),
        (["diff", "--workspace", "{folder}", "SOULS.md"], "Did you mean SOUL.md?"),
        (["init", "--workspace", "{file}"], "is a file. Move that file away"),
    ],
)
def test_errors_are_one_line_and_exit_code_one(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = tmp_path / "file"
    file.touch()
    result = invoke(*[argument.format(file=file, folder=tmp_path) for argument in arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_wrong_option_is_wrong_usage() -> None:
    assert invoke("init", "--nonsense").exit_code == 2
