"""When `chat -p` starts the process that calls models before it has read the settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clawbot.cli import one_turn
from clawbot.cli.main import root
from clawbot.llm import worker_reuse
from tests.tables import load_table


@pytest.mark.parametrize("row", load_table(__file__, "settings"))
def test_the_client_is_begun_if_the_settings_seem_to_need_it(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []

    async def run(*_: object, **__: object) -> int:
        done.append("turn")
        return 0

    monkeypatch.setattr(one_turn, "run_one_turn", run)
    monkeypatch.setattr(worker_reuse, "begin", lambda: done.append("begun"))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setenv("CLAWBOT_HOME", str(tmp_path))
    if row.get("key"):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    (tmp_path / ".env").write_text(row.get("env", ""))
    if row["text"]:
        (tmp_path / "config.yaml").write_text(row["text"])
    chosen = ["--model", row["model"]] if "model" in row else []
    assert CliRunner().invoke(root, ["chat", "-p", row.get("prompt", "hello"), *chosen]).exit_code == 0
    assert done == (["begun", "turn"] if row["begins"] else ["turn"])
