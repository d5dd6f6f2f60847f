"""Where things lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths, check_agent_id, find_home, shipped


def test_the_state_folder_is_where_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWBOT_HOME", "~/elsewhere")
    assert find_home() == Path.home() / "elsewhere"
    monkeypatch.setenv("CLAWBOT_HOME", "near")
    assert find_home() == Path.cwd() / "near"
    for unset in ("", "  "):
        monkeypatch.setenv("CLAWBOT_HOME", unset)
        assert find_home() == Path.home() / ".clawbot"
    monkeypatch.delenv("CLAWBOT_HOME")
    assert find_home() == Path.home() / ".clawbot"


def test_a_home_that_cannot_be_found_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWBOT_HOME", "~nobody-has-this-name/x")
    with pytest.raises(ConfigError, match="Set CLAWBOT_HOME"):
        find_home()


def test_everything_is_below_the_state_folder(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert paths.config_file == tmp_path / "config.yaml"
    assert paths.env_file == tmp_path / ".env"
    assert paths.log_file == tmp_path / "logs" / "clawbot.log"
    assert paths.hooks == tmp_path / "hooks"
    assert paths.sessions("work") == tmp_path / "agents" / "work" / "sessions"
    assert paths.workspace("main") == tmp_path / "workspace"
    assert paths.workspace("work") == tmp_path / "workspace-work"
    assert paths.memory_db("main") == tmp_path / "memory" / "main.sqlite"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("agent_id", ["main", "a", "0", "my-agent_2", "x" * 64])
def test_agent_ids(agent_id: str) -> None:
    assert check_agent_id(agent_id) == agent_id


@pytest.mark.parametrize(
    "wrong", ["", "..", "a/b", "A", "-a", "_a", "a b", "a\n", "ä", "a.b", "x" * 65, "defaults", "a\0", "con/../x"]
)
def test_what_becomes_no_safe_path_is_refused(wrong: str, tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    for place in (paths.sessions, paths.workspace, paths.memory_db):
        with pytest.raises(ConfigError):
            place(wrong)


def test_shipped_files_are_found() -> None:
    assert shipped("config.yaml").is_file()
    with pytest.raises(ConfigError, match="lacks nothing-of-this-name"):
        shipped("nothing-of-this-name")


@pytest.mark.parametrize("folder", ["", "models", "imports", "run", "workspaces", "mcp-tools", "agents/main/sessions"])
def test_what_a_killed_process_left_is_removed_when_it_is_nobodys_work(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    ident = "0123456789abcdef" * 2
    old, young, others = (place / name for name in (f".env.{ident}.tmp", f".look.json.{ident}.tmp", ".other.tmp"))
    for path in (old, young, others):
        path.touch()
    for path in (old, others):
        os.utime(path, (0, 0))
    (place / f".folder.{ident}.tmp").mkdir()
    Paths(tmp_path).ensure_home()
    assert [path.exists() for path in (old, young, others)] == [False, True, True]
    assert (place / f".folder.{ident}.tmp").is_dir()
