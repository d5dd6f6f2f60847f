"""`clawbot hooks list | info | check | enable | disable` as users and scripts see it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from tests.tables import load_table


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["hooks", *arguments])


def data(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write_hook(folder: Path, head: str) -> Path:
    """A hook that can run, but for what `head` says."""
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(f"---\n{head}\n---\n", encoding="utf-8")
    (folder / "handler.py").write_text("async def handle(event):\n    pass\n", encoding="utf-8")
    return folder


@pytest.fixture
def home() -> Path:
    return Path(os.environ["CLAWBOT_HOME"])


@pytest.fixture
def hooks(home: Path) -> Path:
    """One hook that is ready, one that lacks all it can lack, one that is broken, one in the workspace."""
    own = home / "hooks"
    write_hook(own / "greet", "description: 问候，每次新的对话\nevents: command:new\nemoji: 👋\norder: 1")
    wants = "{bins: [no-such-bin], anyBins: [no-a, no-b], env: [NO_TOKEN], os: [windows], python: [no_such_module]}"
    write_hook(own / "needy", f"events: [tool, command:new]\nrequires: {wants}\norder: 2")
    write_hook(own / "broken", "order: 3")
    write_hook(home / "workspace" / "hooks" / "found", "description: From the workspace\nevents: message")
    return own


def own_hooks(hooks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {hook["name"]: hook for hook in hooks if hook["source"] != "shipped"}


def test_list_says_what_runs(hooks: Path) -> None:
    lines = invoke("list").stdout.splitlines()
    assert lines[0].split() == ["Status", "Hook", "Description", "Source"]
    rows = {line.split()[1]: line.split() for line in lines[1:]}
    assert rows["greet"] == ["ready", "greet", "问候，每次新的对话", "home"]
    assert rows["needy"][0] == "missing"
    assert rows["broken"][0] == "broken"
    assert rows["found"] == ["off", "found", "From", "the", "workspace", "workspace"]
    names = [line.split()[1] for line in lines[1:]]
    assert names.index("greet") < names.index("needy") < names.index("found")


def test_list_says_what_is_missing_when_asked(hooks: Path) -> None:
    text = invoke("list", "-v").stdout
    assert "bin: no-such-bin" in text
    assert "events: expected at least one" in text


def test_only_those_that_run(hooks: Path) -> None:
    names = own_hooks(data("list", "--eligible")["hooks"])
    assert list(names) == ["greet"]


def test_list_as_json(hooks: Path, home: Path) -> None:
    found = data("list")
    assert (found["enabled"], found["workspaceDir"]) == (True, str(home / "workspace"))
    assert found["managedHooksDir"] == str(hooks)
    by_name = own_hooks(found["hooks"])
    assert by_name["greet"] == {
        "name": "greet",
        "description": "问候，每次新的对话",
        "source": "home",
        "folder": str(hooks / "greet"),
        "events": ["command:new"],
        "enabled": True,
        "eligible": True,
        "missing": {"bins": [], "anyBins": [], "env": [], "os": [], "python": []},
        "problem": "",
        "changed": False,
    }
    assert by_name["needy"]["missing"] == {
        "bins": ["no-such-bin"],
        "anyBins": ["no-a", "no-b"],
        "env": ["NO_TOKEN"],
        "os": ["windows"],
        "python": ["no_such_module"],
    }
    assert "events" in by_name["broken"]["problem"]
    assert (by_name["found"]["enabled"], by_name["found"]["source"]) == (False, "workspace")


def test_a_narrow_terminal_gets_whole_lines(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hook(hooks / "wordy", f"description: {'很长' * 60}\nevents: command")
    monkeypatch.setenv("COLUMNS", "70")
    line = next(line for line in invoke("list").stdout.splitlines() if "wordy" in line)
    assert "…" in line
    assert sum(2 if ord(character) > 0x2E80 else 1 for character in line) <= 70


def test_info_tells_all_but_secrets(hooks: Path, home: Path) -> None:
    config = "hooks: {entries: {greet: {timeout: 1m, env: {A_TOKEN: swordfish}, api_key: swordfish, tone: warm}}}"
    (home / "config.yaml").write_text(config)
    result = invoke("info", "greet")
    assert "👋 greet: ready" in result.stdout
    assert "tone: warm" in result.stdout
    assert "1m" in result.stdout
    found = data("info", "greet")
    assert (found["timeoutSeconds"], found["env"], found["settings"]["tone"]) == (60.0, ["A_TOKEN"], "warm")
    assert "swordfish" not in result.stdout + json.dumps(found)


def test_info_marks_what_is_missing(hooks: Path) -> None:
    assert "bin: no-such-bin (missing)" in invoke("info", "needy").stdout
    assert "python: no_such_module (missing)" in invoke("info", "needy").stdout


def test_check_says_why_and_what_mends_it_and_exits_with_zero(hooks: Path) -> None:
    result = invoke("check")
    assert result.exit_code == 0
    assert "needy: missing" in result.stdout
    assert "-m pip install no_such_module" in result.stdout
    assert "/workspace/hooks/found, then clawbot hooks enable found" in result.stdout
    found = data("check")
    assert "greet" in found["ready"]
    reasons = {each["name"]: each["status"] for each in found["notReady"]}
    assert {name: reasons[name] for name in ("needy", "broken", "found")} == {
        "needy": "missing",
        "broken": "broken",
        "found": "off",
    }


def test_a_hook_of_the_workspace_is_enabled_with_a_warning(hooks: Path, home: Path) -> None:
    file = home / "config.yaml"
    file.write_text("# mine\ntui: {theme: dark} # so\n")
    result = invoke("enable", "found")
    assert (result.exit_code, result.stdout) == (0, "found is on. It takes effect when clawbot starts next.\n")
    assert "code in the workspace" in result.stderr
    assert file.read_text() == "# mine\ntui: {theme: dark} # so\n"
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True


def test_a_hook_of_the_workspace_that_changed_is_off_and_every_command_says_so(hooks: Path, home: Path) -> None:
    folder = home / "workspace" / "hooks" / "found"
    invoke("enable", "found")
    (folder / "handler.py").write_text("async def handle(event): raise SystemExit\n")
    why = "its HOOK.md or its code changed since you enabled it"
    found = own_hooks(data("list")["hooks"])["found"]
    assert (found["enabled"], found["eligible"], found["changed"]) == (False, False, True)
    assert why in invoke("info", "found").stdout
    assert f"found: off: {why}" in invoke("check").stdout
    assert f"read {folder}, then clawbot hooks enable found" in invoke("check").stdout
    assert data("enable", "found")["changed"] is True
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True
    assert data("disable", "found")["changed"] is True
    assert own_hooks(data("list")["hooks"])["found"]["changed"] is False


def test_what_was_enabled_by_name_stays_on_where_it_is(hooks: Path, home: Path) -> None:
    """In hooks.json of earlier versions names alone decided."""
    (home / "hooks.json").write_text('{"enabled": {"found": true}}')
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True
    write_hook(home / "workspace-work" / "hooks" / "found", "events: message")
    (home / "config.yaml").write_text("agents: {work: {}}\n")
    there = own_hooks(data("list", "--agent", "work")["hooks"])["found"]
    assert (there["eligible"], there["changed"]) == (False, False)
    assert "it is switched on by name" in invoke("check", "--agent", "work").stdout
    assert data("enable", "found", "--agent", "work")["enabled"] is True
    assert own_hooks(data("list", "--agent", "work")["hooks"])["found"]["eligible"] is True
    assert data("disable", "found")["enabled"] is False
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is False
    assert own_hooks(data("list", "--agent", "work")["hooks"])["found"]["eligible"] is True
    (home / "config.yaml").write_text("hooks: {entries: {found: {enabled: false}}}\n")
    assert data("enable", "found")["enabled"] is True
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True


def test_a_hook_of_the_workspace_that_the_users_file_names_runs_until_it_is_disabled(hooks: Path, home: Path) -> None:
    (home / "config.yaml").write_text("hooks: {entries: {found: {enabled: true}}}\n")
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True
    assert data("disable", "found")["enabled"] is False
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is False
    assert data("enable", "found")["enabled"] is True
    assert own_hooks(data("list")["hooks"])["found"]["eligible"] is True


def test_disable_counts_over_the_users_file_and_leaves_it_as_it_is(hooks: Path, home: Path) -> None:
    config = "hooks: {entries: {greet: {enabled: true, tone: warm}}} # mine\n"
    (home / "config.yaml").write_text(config)
    assert data("disable", "greet")["file"] == str(home / "hooks.json")
    assert (home / "config.yaml").read_text() == config
    assert load_settings(Paths(find_home())).settings.hooks.entry("greet").own == {"tone": "warm"}
    assert load_settings(Paths(find_home())).settings.hooks.entry("greet").enabled is False
    assert invoke("disable", "greet").stdout == "greet is off already.\n"
    assert data("enable", "greet")["changed"] is True
    assert data("enable", "greet")["changed"] is False


def test_a_shipped_hook_can_be_disabled(home: Path) -> None:
    assert invoke("disable", "session-memory").exit_code == 0
    assert load_settings(Paths(find_home())).settings.hooks.entry("session-memory").enabled is False


def test_a_switch_counts_over_a_file_of_ones_own(hooks: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("hooks: {entries: {greet: {enabled: yes}}}\n")
    assert invoke("disable", "greet", "--config", str(other)).exit_code == 0
    assert other.read_text() == "hooks: {entries: {greet: {enabled: yes}}}\n"
    listed = own_hooks(data("list", "--config", str(other))["hooks"])
    assert listed["greet"]["enabled"] is False


def test_it_is_said_when_hooks_are_off_as_a_whole(hooks: Path, home: Path) -> None:
    (home / "config.yaml").write_text("hooks: {enabled: false}\n")
    assert "hooks.enabled is false" in invoke("list").stderr
    assert data("list", "--eligible") == data("list", "--eligible") | {"enabled": False, "hooks": []}
    assert own_hooks(data("list")["hooks"])["greet"]["enabled"] is True
    assert "hooks.enabled is false" in invoke("enable", "found").stderr


def test_a_folder_of_hooks_that_is_not_there_is_told_beside_the_answer(hooks: Path, home: Path) -> None:
    (home / "src").mkdir()
    (home / "config.yaml").write_text(f"hooks: {{dirs: [{home / 'src'}, nowhere/钩子]}}\n")
    told = f"clawbot: hooks.dirs: there is no folder {home / 'nowhere/钩子'}\n"
    assert [invoke(command).stderr for command in ("list", "check")] == [told, told]


@pytest.mark.parametrize(
    ("arguments", "said"),
    load_table(__file__, "errors_are_one_line_and_exit_code_one"),
)
def test_errors_are_one_line_and_exit_code_one(hooks: Path, home: Path, arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (home / "config.yaml").exists()


def test_what_a_hook_says_of_itself_can_not_steer_the_terminal(hooks: Path) -> None:
    write_hook(hooks / "evil", 'description: "red\\e[31m\\nline"\nevents: command')
    for result in (invoke("list"), invoke("info", "evil")):
        assert "\x1b" not in result.stdout
        assert "red line" in result.stdout


def test_names_are_completed(hooks: Path) -> None:
    complete = BashComplete(root, {}, "clawbot", "_CLAWBOT_COMPLETE")
    assert [item.value for item in complete.get_completions(["hooks", "enable"], "gr")] == ["greet"]
    assert "disable" in [item.value for item in complete.get_completions(["hooks"], "d")]


def test_another_agent_has_hooks_of_its_own_workspace(hooks: Path, home: Path) -> None:
    (home / "config.yaml").write_text("agents: {work: {}}\n")
    write_hook(home / "workspace-work" / "hooks" / "only-here", "events: command")
    assert "only-here" in own_hooks(data("list", "--agent", "work")["hooks"])
    assert "only-here" not in own_hooks(data("list")["hooks"])
