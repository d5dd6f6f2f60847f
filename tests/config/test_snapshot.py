"""The snapshot of the settings: the same settings with and without it, and none of another state of things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import msgpack

import clawbot
from clawbot.config import load, snapshot
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.mcp_file import change_servers
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import Settings
from clawbot.config.snapshot import quick_settings
from clawbot.config.switches import switch
from clawbot.config.values import SettingsSection
from clawbot.files import PRIVATE_FILE
from tests.tables import load_table

TEXT = """
agents:
  defaults: {timezone: Europe/Berlin, memory_search: {extra_paths: [~/notes], query: {lines: {term: 0.5}}}}
  work: {workspace: ~/work, tools: {agents: [main]}}
memory: {citations: "off"}
logging: {level: debug}
"""


@pytest.fixture
def paths() -> Paths:
    home = Paths(find_home())
    home.home.mkdir(parents=True)
    home.config_file.write_text(TEXT)
    return home


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The loads of the whole settings so far."""
    seen: list[Path] = []

    def counted(paths: Paths, **options: Any) -> load.LoadedSettings:
        seen.append(paths.home)
        return load_settings(paths, **options)

    monkeypatch.setattr(load, "load_settings", counted)
    return seen


def file_of(paths: Paths) -> Path:
    return paths.home / "config.yaml.snapshot"


def plain(value: Any, model: Any) -> Any:
    """`value`, of a snapshot or not, as data by the keys of `model`."""
    if isinstance(model, SettingsSection):
        return {name: plain(getattr(value, name), getattr(model, name)) for name in type(model).model_fields}
    if isinstance(model, dict):
        assert list(value) == list(model)
        return {name: plain(value[name], each) for name, each in model.items()}
    return [plain(*pair) for pair in zip(value, model, strict=True)] if isinstance(model, list) else value


def sections(found: Settings, model: Settings) -> dict[str, Any]:
    return {name: plain(getattr(found, name), getattr(model, name)) for name in type(model).model_fields}


def test_the_second_command_has_the_same_settings_without_loading_them(paths: Paths, loads: list[Path]) -> None:
    first = quick_settings(paths)
    again = quick_settings(paths)
    assert type(first) is Settings
    assert type(again) is not Settings
    assert len(loads) == 1
    agent = again.agent("work")
    assert (agent.timezone, agent.workspace) == ("Europe/Berlin", Path.home() / "work")
    assert agent.memory_search.query.lines.window == first.agent("work").memory_search.query.lines.window
    assert again.agent_ids == ["main", "work"]
    assert again.allowed_agents("work") == ["main"]
    assert len(loads) == 1
    assert sections(again, first) == sections(first, first)


def test_what_is_not_kept_is_loaded_when_it_is_asked_for(paths: Paths, loads: list[Path]) -> None:
    first = quick_settings(paths)
    again = quick_settings(paths)
    assert again.session.reset_of("group") == first.session.reset_of("group")
    assert again.agent("work").model_dump_json() == first.agent("work").model_dump_json()
    changed = again.agent("main").memory_search.query.lines.model_copy(update={"term": 2.0})
    assert (changed.term, changed.section, changed.model_dump()["term"]) == (2.0, 0.2, 2.0)
    assert len(loads) == 2
    with pytest.raises(ConfigError, match=r"there is no agent 'wrk'.*Did you mean work"):
        again.agent("wrk")


def same_size(paths: Paths) -> None:
    """Another value of the same length, with the times of the file as they were."""
    before = paths.config_file.stat()
    paths.config_file.write_text(TEXT.replace("0.5", "0.7"))
    os.utime(paths.config_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert paths.config_file.stat().st_size == before.st_size


def other_schema(paths: Paths) -> None:
    folder = paths.home / "schema"
    folder.mkdir()
    for file in Path(snapshot.__file__).parent.glob("*.py"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "schema.py").write_bytes(b"# changed")
    snapshot.__file__ = str(folder / "snapshot.py")


def other_home(paths: Paths) -> None:
    other = paths.home / "other"
    other.mkdir()
    os.environ["HOME"] = str(other)


CHANGES = {
    "the user's file": lambda paths: paths.config_file.write_text(f"{TEXT}\n# more\n"),
    "the user's file, same size and time": same_size,
    "the user's file is gone": lambda paths: paths.config_file.unlink(),
    "the switches of hooks": lambda paths: switch(paths.switches_file, "boot-md", on=False),
    "the servers": lambda paths: change_servers(paths.mcp_file, {"time": {"command": "time"}}),
    "the home folder": other_home,
    "the schema": other_schema,
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_what_decides_the_settings_counts(
    change: str, paths: Paths, loads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", os.environ["HOME"])
    monkeypatch.setattr(snapshot, "__file__", snapshot.__file__)
    quick_settings(paths)
    CHANGES[change](paths)
    found = quick_settings(paths)
    assert len(loads) == 2
    assert found == load_settings(paths).settings
    again = quick_settings(paths)
    assert len(loads) == 2
    assert sections(again, found) == sections(found, found)


def test_the_version_of_the_program_counts(paths: Paths, loads: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    quick_settings(paths)
    monkeypatch.setattr(clawbot, "__version__", "0.0.0")
    quick_settings(paths)
    assert len(loads) == 2


def test_the_installed_packages_count(paths: Paths, loads: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    package = paths.home / "packages" / "msgspec"
    package.mkdir(parents=True)
    monkeypatch.setattr(msgspec, "__file__", str(package / "__init__.py"))
    quick_settings(paths)
    (package.parent / "other").mkdir()
    os.utime(package.parent, ns=(1, 1))
    quick_settings(paths)
    assert len(loads) == 2


def test_another_file_of_settings_counts(paths: Paths, loads: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"memory": {"citations": "on"}}')
    assert quick_settings(paths).memory.citations == "off"
    assert quick_settings(paths, config_file=other).memory.citations == "on"
    assert quick_settings(paths, config_file=other).memory.citations == "on"
    assert quick_settings(paths).memory.citations == "off"
    assert len(loads) == 3
    with pytest.raises(ConfigError, match="does not exist"):
        quick_settings(paths, config_file=tmp_path / "none.yaml")


def test_keys_in_the_environment_are_not_part_of_the_settings(
    paths: Paths, loads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghij")
    paths.env_file.write_text("GEMINI_API_KEY=AIza0123456789abcdefghij\n")
    quick_settings(paths)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    quick_settings(paths)
    assert len(loads) == 1
    assert b"0123456789" not in file_of(paths).read_bytes()


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "settings_with_secrets_or_of_other_things_are_not_kept"),
)
def test_settings_with_secrets_or_of_other_things_are_not_kept(text: str, paths: Paths, loads: list[Path]) -> None:
    paths.config_file.write_text(text)
    quick_settings(paths)
    assert not file_of(paths).exists()
    quick_settings(paths)
    assert len(loads) == 2


def test_wrong_settings_stop_each_command(paths: Paths) -> None:
    quick_settings(paths)
    paths.config_file.write_text("agents: {defaults: {modle: offline}}\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"config.yaml:1: agents.defaults.modle: .*model"):
            quick_settings(paths)


@pytest.mark.parametrize("mode", [0o000, 0o644, 0o620])
def test_only_a_file_of_the_user_alone_is_taken(mode: int, paths: Paths, loads: list[Path]) -> None:
    quick_settings(paths)
    assert file_of(paths).stat().st_mode & 0o777 == PRIVATE_FILE
    file_of(paths).chmod(mode)
    quick_settings(paths)
    assert len(loads) == (1 if mode == 0 and os.geteuid() == 0 else 2)


def test_a_link_is_neither_followed_nor_written_through(paths: Paths, loads: list[Path], tmp_path: Path) -> None:
    quick_settings(paths)
    elsewhere = tmp_path / "elsewhere"
    file_of(paths).rename(elsewhere)
    kept = elsewhere.read_bytes()
    file_of(paths).symlink_to(elsewhere)
    paths.config_file.write_text(f"{TEXT}\n")
    quick_settings(paths)
    assert len(loads) == 2
    assert elsewhere.read_bytes() == kept


def test_a_pipe_and_a_folder_are_no_snapshot(paths: Paths, loads: list[Path]) -> None:
    os.mkfifo(file_of(paths), 0o600)
    quick_settings(paths)
    file_of(paths).unlink(missing_ok=True)
    file_of(paths).mkdir()
    quick_settings(paths)
    assert len(loads) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_file_is_none(data: st.DataObject, paths: Paths) -> None:
    file_of(paths).unlink(missing_ok=True)
    quick_settings(paths)
    whole = file_of(paths).read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    torn = data.draw(st.booleans())
    file_of(paths).write_bytes(whole[:at] if torn else whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    assert type(quick_settings(paths)) is Settings
    assert file_of(paths).read_bytes() == whole


def test_what_has_a_valid_sum_and_another_form_is_none(paths: Paths) -> None:
    quick_settings(paths)
    digest = file_of(paths).read_bytes()[len(snapshot._MAGIC) :][:32]
    others: list[Any] = [[], {}, {"agents": 1}, {"agents": {"main": 1}}, "x", None]
    for body in (*map(msgpack.encode, others), b"", b"\x91" * 5_000, msgpack.encode(msgpack.Ext(9, b""))):
        file_of(paths).write_bytes(snapshot._MAGIC + digest + snapshot._sum(body) + body)
        assert type(quick_settings(paths)) is Settings


def test_a_file_that_changes_while_it_is_read_leaves_no_snapshot(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(paths: Paths, **options: Any) -> load.LoadedSettings:
        paths.config_file.write_text("logging: {level: error}\n")
        loaded = load_settings(paths, **options)
        paths.config_file.write_text(TEXT)
        return loaded

    monkeypatch.setattr(load, "load_settings", changed)
    assert quick_settings(paths).logging.level == "error"
    assert not file_of(paths).exists()
    monkeypatch.undo()
    assert quick_settings(paths).logging.level == "debug"


def test_no_folder_is_made_for_it() -> None:
    paths = Paths(find_home())
    assert quick_settings(paths) == Settings()
    assert not paths.home.exists()


def test_a_folder_that_cannot_be_written_has_none(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(snapshot, "write_atomic", refused)
    assert quick_settings(paths) == quick_settings(paths)
    assert not file_of(paths).exists()


def test_a_file_that_cannot_be_read_is_told(paths: Paths) -> None:
    quick_settings(paths)
    paths.config_file.unlink()
    paths.config_file.mkdir()
    with pytest.raises(ConfigError, match="is a folder; expected a file"):
        quick_settings(paths)


def test_processes_at_once_leave_a_whole_file(paths: Paths) -> None:
    code = "from clawbot.config.paths import *; from clawbot.config.snapshot import *\n"
    code += "print(quick_settings(Paths(find_home())).logging.level)"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in running] == ["debug\n"] * 4
    assert type(quick_settings(paths)) is not Settings
    assert [file.name for file in paths.home.iterdir() if file.name.startswith(".")] == []
