"""Five sources, one order, and no way out of a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clawbot.config.schema_extensions import HookSettings
from clawbot.config.switches import NOTHING, Switches
from clawbot.entry_points import installed
from clawbot.extensions import manifest
from clawbot.extensions.manifest import Requires
from clawbot.hooks.discovery import GROUP, FoundHook, Manifest, discover
from tests.hooks.stage import Places, places, settings, trusting, write_hook

HANDLER = "async def handle(event): pass\n"


def one(where: Places, config: HookSettings | None = None, trusted: Switches = NOTHING) -> FoundHook:
    (found,) = discover(where, config or HookSettings(), trusted, installed(GROUP))
    return found


def test_a_hook_of_the_user_replaces_a_shipped_one_which_replaces_one_of_a_folder(tmp_path: Path) -> None:
    where = places(tmp_path, dirs=(tmp_path / "dir",))
    write_hook(tmp_path / "dir", "greeter", HANDLER)
    assert one(where).source == "dir"
    write_hook(tmp_path / "shipped", "greeter", HANDLER)
    assert one(where).source == "shipped"
    write_hook(tmp_path / "home", "other-folder", HANDLER, head="name: greeter\nevents: tool")
    found = one(where)
    assert (found.source, found.manifest.events, found.ready) == ("home", ("tool",), True)


def test_a_hook_of_a_workspace_replaces_nothing_and_is_off_until_it_is_enabled(tmp_path: Path) -> None:
    where = places(tmp_path, workspace=tmp_path / "workspace")
    write_hook(tmp_path / "workspace", "greeter", HANDLER)
    assert not one(where).enabled
    assert not one(where, settings(greeter={"timeout": 3})).enabled
    trusted = trusting(tmp_path / "workspace" / "greeter")
    assert one(where, trusted=trusted).ready
    assert not one(where, settings(greeter={"enabled": False}), trusted).enabled
    write_hook(tmp_path / "home", "greeter", HANDLER)
    users, workspaces = discover(where, settings(greeter={"enabled": True}), trusted)
    assert (users.source, users.ready) == ("home", True)
    assert (workspaces.source, workspaces.ready) == ("workspace", False)
    assert str(users.folder) in workspaces.problem


def test_a_folder_of_a_workspace_does_not_pass_for_a_hook_that_is_enabled(tmp_path: Path) -> None:
    where = places(tmp_path, workspace=tmp_path / "workspace")
    write_hook(tmp_path / "workspace", "greeter", HANDLER)
    write_hook(tmp_path / "workspace", "aaa", HANDLER, head="name: greeter\nevents: tool")
    trusted = trusting(tmp_path / "workspace" / "greeter")
    enabled = [hook for hook in discover(where, settings(greeter={"enabled": True}), trusted) if hook.ready]
    assert [hook.folder.name for hook in enabled] == ["greeter"]
    (tmp_path / "workspace" / "greeter" / "HOOK.md").unlink()
    (tmp_path / "workspace" / "greeter" / "handler.py").unlink()
    assert not any(hook.ready for hook in discover(where, settings(greeter={"enabled": True}), trusted))


def test_hooks_run_by_order_then_source_then_name(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "first", HANDLER, head="events: tool\norder: 1")
    write_hook(tmp_path / "home", "a", HANDLER)
    write_hook(tmp_path / "shipped", "c", HANDLER)
    write_hook(tmp_path / "shipped", "b", HANDLER)
    write_hook(tmp_path / "shipped", "last", HANDLER, head="events: tool\norder: 500")
    assert [hook.name for hook in discover(places(tmp_path), HookSettings())] == ["first", "b", "c", "a", "last"]


def test_of_two_folders_of_one_source_with_one_name_the_first_one_runs(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "a", HANDLER, head="name: same\nevents: tool")
    write_hook(tmp_path / "home", "b", HANDLER, head="name: same\nevents: tool")
    first, second = discover(places(tmp_path), HookSettings())
    assert (first.folder.name, first.ready) == ("a", True)
    assert "already a hook same" in second.problem


def test_a_folder_of_the_settings_may_be_a_hook_itself_and_later_ones_win(tmp_path: Path) -> None:
    early, late = write_hook(tmp_path / "1", "a", HANDLER), write_hook(tmp_path / "2", "a", HANDLER)
    found = discover(places(tmp_path, dirs=(early, tmp_path / "2", tmp_path / "nowhere")), HookSettings())
    assert [hook.folder for hook in found if hook.ready] == [late]


def test_settings_of_an_entry(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "greeter", HANDLER, head="events: tool\ntimeout: 4\nrequires: {env: TOKEN}")
    found = one(places(tmp_path))
    assert (found.manifest.timeout, found.missing, found.ready) == (4, ("env: TOKEN",), False)
    entry = {"timeout": 9, "env": {"TOKEN": "x"}, "greeting": "你好", "deep": {"a": [1]}}
    found = one(places(tmp_path), settings(greeter=entry))
    assert (found.manifest.timeout, found.env, found.ready) == (9, {"TOKEN": "x"}, True)
    assert found.settings == {"greeting": "你好", "deep": {"a": [1]}}
    assert not one(places(tmp_path), settings(greeter=entry | {"enabled": False})).ready


def test_one_switch_for_all(tmp_path: Path) -> None:
    write_hook(tmp_path / "shipped", "greeter", HANDLER)
    off = HookSettings.model_validate({"enabled": False, "entries": {"greeter": {"enabled": True}}})
    assert not one(places(tmp_path), off).enabled


def test_what_is_no_hook_is_no_hook(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in (".git", "__pycache__", "docs"):
        home.joinpath(folder).mkdir(parents=True)
    write_hook(home, ".hidden", HANDLER)
    home.joinpath("README.md").write_text("read me")
    assert discover(places(tmp_path), HookSettings()) == []


@pytest.mark.parametrize(
    ("file", "data", "problem"),
    [
        ("HOOK.md", b"---\nevents: nothing\n---\n", "there is no 'nothing'"),
        ("HOOK.md", b"---\nevents: tool\nname: [\n---\n", "HOOK.md line"),
        ("HOOK.md", b"---\nevents: tool\nname: \xff\n---\n", "HOOK.md line 3: is not UTF-8"),
        ("HOOK.md", b"x" * 300_000, "larger than 256 KiB"),
        ("HOOK.md", None, "there is no HOOK.md"),
        ("handler.py", None, "there is no handler.py"),
    ],
)
def test_a_broken_hook_is_listed_with_its_problem(tmp_path: Path, file: str, data: bytes | None, problem: str) -> None:
    folder = write_hook(tmp_path / "home", "broken", HANDLER)
    if data is None:
        folder.joinpath(file).unlink()
    else:
        folder.joinpath(file).write_bytes(data)
    found = one(places(tmp_path))
    assert problem in found.problem
    assert (found.name, found.ready) == ("broken", False)


@pytest.mark.parametrize("file", ["HOOK.md", "handler.py"])
def test_a_loop_of_links_keeps_no_other_hook_from_being_found(tmp_path: Path, file: str) -> None:
    looped = write_hook(tmp_path / "workspace", "a-loop", HANDLER) / file
    looped.unlink()
    looped.symlink_to(file)
    write_hook(tmp_path / "workspace", "good", HANDLER)
    trusted = trusting(tmp_path / "workspace" / "good")
    found = discover(places(tmp_path, workspace=tmp_path / "workspace"), HookSettings(), trusted)
    assert [(hook.name, hook.ready) for hook in found] == [("a-loop", False), ("good", True)]
    assert "loop" in found[0].problem


def test_a_name_that_no_system_can_look_up_is_a_problem_of_its_hook(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "odd", HANDLER, head='events: tool\nrequires: {env: ["\\ud800"]}')
    write_hook(tmp_path / "home", "plain", HANDLER)
    found = discover(places(tmp_path), HookSettings())
    assert [(hook.name, hook.ready, bool(hook.problem)) for hook in found] == [
        ("odd", False, True),
        ("plain", True, False),
    ]


def test_a_folder_that_is_shut_keeps_no_other_hook_from_being_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hook(tmp_path / "home", "a-shut", HANDLER)
    write_hook(tmp_path / "home", "open", HANDLER)
    real = Path.is_file

    def is_file(path: Path) -> bool:
        if path.parent.name == "a-shut":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    found = discover(places(tmp_path), HookSettings())
    assert [(hook.name, hook.ready) for hook in found] == [("a-shut", False), ("open", True)]
    assert "Permission denied" in found[0].problem


@pytest.mark.parametrize("file", ["HOOK.md", "handler.py"])
def test_no_file_may_lie_elsewhere(tmp_path: Path, file: str) -> None:
    folder = write_hook(tmp_path / "home", "linked", HANDLER)
    folder.joinpath(file).rename(tmp_path / file)
    folder.joinpath(file).symlink_to(tmp_path / file)
    assert f"{file} is a link to {tmp_path / file}" in one(places(tmp_path)).problem


def test_the_user_may_link_a_folder_but_a_workspace_may_not_lead_out(tmp_path: Path) -> None:
    away = write_hook(tmp_path / "src", "greeter", HANDLER)
    for name in ("home", "workspace"):
        tmp_path.joinpath(name).mkdir()
        tmp_path.joinpath(name, "greeter").symlink_to(away)
    assert one(places(tmp_path)).ready
    where = places(tmp_path, home=tmp_path / "none", workspace=tmp_path / "workspace")
    assert f"outside of {tmp_path / 'workspace'}" in one(where, settings(greeter={"enabled": True})).problem


def _install(site: Path, value: str) -> None:
    info = site / "acme_hooks-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-hooks\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(f"[clawbot.hooks]\ngreeter = {value}\n")


@pytest.mark.parametrize("value", ["acme_stage.greeter", "acme_stage.greeter.handler", "acme_stage:GREETER"])
def test_installed_packages_bring_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    site = tmp_path / "site"
    _install(site, value)
    package = write_hook(site / "acme_stage", "greeter", HANDLER)
    package.parent.joinpath("__init__.py").write_text(
        "from pathlib import Path\nGREETER = Path(__file__).parent / 'greeter'\n"
    )
    package.joinpath("__init__.py").write_text("")
    monkeypatch.syspath_prepend(site)
    for module in ("acme_stage", "acme_stage.greeter"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    where = places(tmp_path)
    found = one(where)
    assert (found.source, found.folder.resolve(), found.ready) == ("package", package.resolve(), True)
    write_hook(tmp_path / "home", "greeter", HANDLER)
    assert one(where).source == "home"


@pytest.mark.parametrize("value", ["acme_absent.greeter", "acme_broken", "acme_broken:HOOK"])
def test_a_package_that_cannot_be_imported_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    site = tmp_path / "site"
    _install(site, value)
    site.joinpath("acme_broken.py").write_text("raise SystemExit('内部错误')\n")
    monkeypatch.syspath_prepend(site)
    found = one(places(tmp_path))
    assert (found.name, found.ready) == ("greeter", False)
    assert found.problem


def test_no_more_entries_of_a_folder_are_looked_at_than_anybody_has_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(manifest, "MAX_FOLDERS", 3)
    for name in "abc":
        write_hook(tmp_path / "home", name, HANDLER)
    assert len(discover(places(tmp_path), HookSettings())) == 3
    assert not caplog.records
    write_hook(tmp_path / "home", "d", HANDLER)
    assert len(discover(places(tmp_path), HookSettings())) == 3
    assert "has more than 3 entries; the rest is ignored" in caplog.text


def lacks(requires: Requires, given: dict[str, str] | None = None, *, always: bool = False) -> tuple[str, ...]:
    return Manifest(name="a", requires=requires, always=always).unmet(given or {}, system="linux")


def test_each_kind() -> None:
    wanted = Requires(
        bins=("no-such-bin",),
        any_bins=("no-such", "nor-this"),
        env=("NO_SUCH_TOKEN",),
        os=("darwin", "win32"),
        python=("no_such_package",),
    )
    assert lacks(wanted) == (
        "os: darwin or win32",
        "bin: no-such-bin",
        "any bin: no-such, nor-this",
        "env: NO_SUCH_TOKEN",
        "python: no_such_package",
    )
    assert lacks(wanted, always=True) == ()


def test_what_is_there_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("gh").write_text("#!/bin/sh\n")
    tmp_path.joinpath("gh").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TOKEN", "x")
    wanted = Requires(
        bins=("gh",), any_bins=("no-such", "gh"), env=("TOKEN",), os=("linux",), python=("yaml", "PyYAML")
    )
    assert lacks(wanted) == ()


def test_the_entry_may_give_variables() -> None:
    assert lacks(Requires(env=("A", "B")), {"A": "1", "B": ""}) == ("env: B",)


@pytest.mark.parametrize(("system", "name"), [("win32", "windows"), ("darwin", "macos"), ("darwin", "Darwin")])
def test_systems_have_several_names(system: str, name: str) -> None:
    assert Manifest(name="a", requires=Requires(os=(name,))).unmet({}, system=system) == ()
