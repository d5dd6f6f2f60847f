"""A hook of a workspace runs only as the user enabled it: in that folder, with that content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clawbot.config.switches import NOTHING, Switches, read_switches, switch
from clawbot.extensions.discovery import BY_NAME
from clawbot.hooks.discovery import FoundHook, discover, trusted_hooks
from clawbot.hooks.dispatch import Dispatcher
from clawbot.hooks.loading import CHANGED, MAX_FILES, code_digest
from tests.clocks import StillClock
from tests.hooks.stage import Services, command, places, settings, trusting, write_handler, write_hook

HANDLER = "async def handle(event): await event.hook.tell('{}')\n"


def found(root: Path, trusted: Switches, **entries: dict[str, object]) -> FoundHook:
    [hook] = discover(places(root, workspace=root / "workspace" / "hooks"), settings(**entries), trusted)
    return hook


@pytest.fixture
def lint(tmp_path: Path) -> Path:
    return write_hook(tmp_path / "workspace" / "hooks", "lint", HANDLER.format("one"))


@pytest.mark.parametrize("file", ["handler.py", "HOOK.md", "helper.py", "deep/more.py"])
def test_what_changed_since_is_off_and_says_so(tmp_path: Path, lint: Path, file: str) -> None:
    (lint / "deep").mkdir()
    (lint / "deep" / "more.py").write_text("")
    trusted = trusting(lint)
    assert found(tmp_path, trusted).ready
    with (lint / file).open("a") as code:
        code.write("\n# more\n")
    hook = found(tmp_path, trusted)
    assert (hook.enabled, hook.changed, hook.off_because) == (False, True, CHANGED)
    assert found(tmp_path, trusting(lint)).ready


def test_what_it_writes_beside_its_code_changes_nothing(tmp_path: Path, lint: Path) -> None:
    trusted = trusting(lint)
    (lint / "state.json").write_text("{}")
    for folder in ("__pycache__", ".venv"):
        (lint / folder).mkdir()
        (lint / folder / "x.py").write_text("")
    assert found(tmp_path, trusted).ready


def test_a_copy_in_another_workspace_is_not_trusted_though_its_name_is_switched_on(tmp_path: Path, lint: Path) -> None:
    trusted = trusting(lint)
    write_hook(tmp_path / "other" / "workspace" / "hooks", "lint", HANDLER.format("one"))
    switched = Switches({"lint": True}, trusted.trusted)
    there = found(tmp_path / "other", switched, lint={"enabled": True})
    assert (there.enabled, there.changed, there.off_because) == (False, False, BY_NAME)
    assert not found(tmp_path / "other", trusted).off_because
    assert not found(tmp_path, trusted, lint={"enabled": False}).off_because


def test_a_name_in_the_settings_file_trusts_what_has_it_also_after_a_change(tmp_path: Path, lint: Path) -> None:
    named: dict[str, object] = {"enabled": True}
    assert found(tmp_path, NOTHING, lint=named).ready
    trusted = trusting(lint)
    write_handler(lint, HANDLER.format("two"))
    assert found(tmp_path, trusted, lint=named).ready
    assert not found(tmp_path, NOTHING).ready


def test_more_code_than_a_hook_needs_is_not_read(tmp_path: Path, lint: Path) -> None:
    for name in ("round", "again"):
        (lint / name).symlink_to(lint)
    assert "circle" in found(tmp_path, NOTHING).problem
    for name in ("round", "again"):
        (lint / name).unlink()
    for number in range(MAX_FILES):
        (lint / f"m{number}.py").write_text("")
    assert f"more than {MAX_FILES} Python files" in found(tmp_path, NOTHING).problem


class TestNamesThatWereEnabled:
    """hooks.json of the time when names alone decided."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "state" / "hooks.json"
        file.parent.mkdir()
        file.write_text('{"enabled": {"lint": true, "off": false, "../lint": true, "": true, "gone": true}}')
        return file

    def test_are_kept_for_the_folders_that_they_meant(self, tmp_path: Path, file: Path, lint: Path) -> None:
        write_hook(tmp_path / "workspace" / "hooks", "off", HANDLER)
        trusted = trusted_hooks(file, [tmp_path / "workspace", tmp_path / "nowhere"])
        assert trusted.trusted == {os.path.realpath(lint): code_digest(lint)}
        assert read_switches(file).enabled["lint"] is True

    def test_trust_nothing_that_comes_later(self, tmp_path: Path, file: Path, lint: Path) -> None:
        trusted_hooks(file, [tmp_path / "workspace"])
        write_handler(lint, HANDLER.format("two"))
        write_hook(tmp_path / "other" / "hooks", "lint", HANDLER.format("two"))
        write_hook(tmp_path / "workspace" / "hooks", "gone", HANDLER.format("two"))
        trusted = trusted_hooks(file, [tmp_path / "workspace", tmp_path / "other"]).trusted or {}
        assert list(trusted) == [os.path.realpath(lint)]
        assert trusted[os.path.realpath(lint)] != code_digest(lint)

    def test_are_none_in_a_file_of_now(self, tmp_path: Path, lint: Path) -> None:
        file = tmp_path / "hooks.json"
        assert trusted_hooks(file, [tmp_path / "workspace"]) == Switches({}, {})
        assert not file.exists()
        switch(file, "lint", on=True)
        assert trusted_hooks(file, [tmp_path / "workspace"]) == Switches({"lint": True}, {})
        assert read_switches(file) == Switches({"lint": True}, {})


@pytest.mark.parametrize("seen", [True, False])
async def test_what_changes_while_it_runs_runs_no_more(tmp_path: Path, lint: Path, seen: bool) -> None:
    """Also when the change is seen by nobody but the process that is about to load it."""
    trusted = trusting(lint)
    where = places(tmp_path, workspace=tmp_path / "workspace" / "hooks")
    first = discover(where, settings(), trusted)
    hooks = Dispatcher(lambda: discover(where, settings(), trusted) if seen else first, StillClock(), timeout=30)
    loaded: list[tuple[str, ...]] = []
    hooks.on_load = lambda found: loaded.append(tuple(hook.off_because for hook in found))
    services = Services()
    await hooks.load()
    try:
        await hooks.run(command(), services)
        assert services.told == ["one"]
        write_handler(lint, HANDLER.format("two"))
        await hooks.run(command(), services)
        assert services.told == ["one"]
        assert loaded[0] == ("",)
        assert loaded[-1] == ((CHANGED,) if seen else ("",))
        assert seen or CHANGED in hooks.results["lint"].error
    finally:
        await hooks.close(0)
