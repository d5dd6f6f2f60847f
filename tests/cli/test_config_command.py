"""`clawbot config show | check | path`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["config", *arguments])


def write(text: str) -> Path:
    file = Paths(find_home()).config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_path_names_the_users_file_and_makes_nothing() -> None:
    result = run("path")
    assert (result.exit_code, result.output) == (0, f"{find_home()}/config.yaml\n")
    assert not find_home().exists()


def test_show_is_the_merged_file_with_the_origin_of_each_value() -> None:
    file = write("agents:\n  main: {contextTokens: 7}\n  defaults:\n    request_timeout: 90\n")
    result = run("show")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert f"context_tokens: 7  # {file}:2" in lines
    assert f"request_timeout: 90s  # {file}:4" in lines
    assert "model: auto  # default" in lines
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["agents"]["main"] == {"context_tokens": 7}


def test_what_show_prints_loads_again_to_the_same() -> None:
    write("agents: {main: {fallbacks: [openai/x]}, work: {}}\nhooks: {entries: {my-hook: {a: [1, {b: null}]}}}\n")
    first = run("show", "--json")
    printed = run("show").stdout
    write(printed)
    assert json.loads(run("show", "--json").stdout)["settings"] == json.loads(first.stdout)["settings"]


def test_show_masks_every_secret() -> None:
    write(
        "agents: {defaults: {api_key: hunter22, api_base: 'http://me:hunter22@host'}}\n"
        "hooks: {entries: {mine: {apiToken: hunter22, list: [{password: hunter22}]}}}\n"
    )
    for arguments in (["show"], ["show", "--json"]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "hunter22" not in result.output
        assert "[secret left out]" in result.stdout


def test_show_as_json_has_settings_origins_files_and_notices() -> None:
    file = write("agent: {model: offline}\n")
    shown = json.loads(run("show", "--json").stdout)
    assert shown["settings"]["agents"]["main"]["model"] == "offline"
    assert shown["origins"]["agents.defaults.model"] == f"{file}:1"
    assert shown["files"] == [str(file)]
    assert shown["notices"] == [f"{file}:1: agent is read as agents.defaults"]


def test_show_takes_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("tui: {theme: dark}")
    assert f"theme: dark  # {other}:1" in run("show", "--config", str(other)).stdout


def test_show_fails_with_one_line_when_the_settings_are_wrong() -> None:
    file = write("tui:\n  them: dark\n")
    result = run("show")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"clawbot: {file}:2: tui.them: unknown key; did you mean theme?\n"


@pytest.mark.parametrize("text", [None, "", "tui: {theme: dark}"])
def test_check_says_ok(text: str | None) -> None:
    if text is not None:
        write(text)
    result = run("check")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ok\n", "")


def test_check_says_how_older_keys_are_read() -> None:
    file = write("agent: {model: offline}\n")
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert result.stderr == f"note: {file}:1: agent is read as agents.defaults\n"


def test_check_lists_every_mistake_on_a_line_of_its_own() -> None:
    file = write("tui:\n  them: dark\n  editor: vi\nfoo: 1\n")
    result = run("check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"{file}:2: tui.them: unknown key; did you mean theme?",
        f"{file}:3: tui.editor: expected 'builtin' or 'external', found the text 'vi'",
        f"{file}:4: foo: unknown key; expected one of agents, session, hooks, skills, schedule, memory, mcp, tui, "
        "serve, logging",
    ]


def test_check_as_json() -> None:
    file = write("foo: 1\n")
    result = run("check", "--json")
    assert result.exit_code == 1
    checked = json.loads(result.stdout)
    assert checked["ok"] is False
    assert (checked["problems"][0]["place"], checked["problems"][0]["key"]) == (f"{file}:1", "foo")
    write("")
    assert json.loads(run("check", "--json").stdout) == {"ok": True, "problems": [], "notices": []}


def test_check_takes_another_file(tmp_path: Path) -> None:
    write("foo: 1")
    other = tmp_path / "other.yaml"
    other.write_text("tui: {theme: dark}")
    assert run("check", str(other)).stdout == "ok\n"
    result = run("check", str(tmp_path / "none.yaml"))
    assert (result.exit_code, result.stderr) == (1, f"{tmp_path}/none.yaml: does not exist\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1\nb: 2", "broken YAML"),
        (b"a: \xff", "is not UTF-8 text. Save the file as UTF-8."),
        (b"- a", "expected keys"),
    ],
)
def test_check_of_what_is_no_settings_file_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_check_of_a_folder_says_so(tmp_path: Path) -> None:
    assert run("check", str(tmp_path)).stderr == f"{tmp_path}: is a folder; expected a file\n"


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("check", "a", "b").exit_code == 2
    assert run("nonsense").exit_code == 2


def _commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        elif command is not None:
            yield " ".join((*words, name)), command


def test_every_command_that_reads_settings_takes_the_file_of_them() -> None:
    without = {
        words
        for words, command in _commands(root)
        if not any("--config" in parameter.opts for parameter in command.params)
    }
    # These are told the file as an argument, only name it, or read no settings.
    of_models = {f"model {each}" for each in ("list", "pull", "serve", "status", "stop")}
    of_extras = {"extras list", "extras install", "import list", "import undo", "import dismiss"}
    assert (
        without
        == {"config check", "config path", "script serve", "script record", "completion", "serve token"}
        | of_models
        | of_extras
    )


@pytest.mark.parametrize("words", ["memory status", "doctor --no-ping", "workspace init", "sessions list"])
def test_the_file_of_the_settings_counts_for(words: str) -> None:
    file = Path("mine.yaml")
    file.write_text("agents: {second: {workspace: second}}\n")
    asked = [*words.split(), "--agent", "second"]
    assert "second" in CliRunner().invoke(root, asked).output
    assert CliRunner().invoke(root, asked).exit_code == 1
    found = CliRunner().invoke(root, [*asked, "--config", str(file)])
    assert "no agent" not in found.output
    broken = CliRunner().invoke(root, [*asked, "--config", "missing.yaml"])
    assert "missing.yaml" in broken.output
