"""The shipped hooks as the program finds them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from clawbot.config.paths import shipped
from clawbot.config.schema_extensions import HookSettings
from clawbot.extensions.manifest import Source
from clawbot.hooks.discovery import FoundHook, discover

FOLDER = shipped("hooks")


def found(settings: HookSettings) -> dict[str, FoundHook]:
    places: list[tuple[Source, Path]] = [("home", Path("/nowhere")), ("shipped", FOLDER)]
    return {hook.name: hook for hook in discover(places, settings)}


def test_all_are_found_in_their_order_and_ready_but_the_log() -> None:
    hooks = found(HookSettings())
    assert list(hooks) == ["session-memory", "bootstrap-extra-files", "boot-md", "command-logger"]
    assert {name: hook.ready for name, hook in hooks.items()} == {
        "session-memory": True,
        "bootstrap-extra-files": True,
        "boot-md": True,
        "command-logger": False,
    }
    assert not any(hook.problem or hook.missing for hook in hooks.values())
    assert all(hook.manifest.description for hook in hooks.values())


def test_the_log_is_on_when_the_settings_say_so() -> None:
    assert found(HookSettings.model_validate({"entries": {"command-logger": {"enabled": True}}}))[
        "command-logger"
    ].ready


def test_what_session_memory_listens_to() -> None:
    manifest = found(HookSettings())["session-memory"].manifest
    assert manifest.events == ("command:new", "command:reset", "session:auto-reset")
    assert (manifest.timeout, manifest.order) == (20, 10)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.py")), ids=str)
def test_hooks_use_what_anybody_may_use(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module == "clawbot.hooks" or str(node.module).split(".")[0] in sys.stdlib_module_names
        elif isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1


def test_the_index_names_them_all() -> None:
    index = FOLDER.joinpath("README.md").read_text(encoding="utf-8")
    assert all(f"]({name}/HOOK.md)" in index for name in found(HookSettings()))
