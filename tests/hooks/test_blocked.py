"""Hooks that the user wants and that can't run are not passed over."""

from __future__ import annotations

from pathlib import Path

from clawbot.config.schema_extensions import HookSettings
from clawbot.config.switches import NOTHING, Switches
from clawbot.hooks.discovery import FoundHook, discover
from clawbot.hooks.dispatch import LOADING, Dispatcher
from tests.clocks import StillClock
from tests.hooks.stage import Services, places, settings, tool, trusting, write_handler, write_hook

WORKS = "async def handle(event): pass\n"
GUARD = "events: tool:before"


def of_workspace(root: Path, trusted: Switches, config: HookSettings) -> FoundHook:
    [found] = discover(places(root, workspace=root / "workspace"), config, trusted)
    return found


def test_a_hook_of_a_workspace_that_the_user_wants_and_that_breaks_is_not_passed_over(tmp_path: Path) -> None:
    folder = write_hook(tmp_path / "workspace", "guard", WORKS, head=GUARD)
    trusted, by_name = trusting(folder), settings(guard={"enabled": True})
    assert not of_workspace(tmp_path, trusted, settings()).blocked
    for break_it in (lambda: (folder / "HOOK.md").write_text("---\nevents: [\n---\n"), (folder / "handler.py").unlink):
        break_it()
        assert of_workspace(tmp_path, trusted, settings()).blocked
        assert of_workspace(tmp_path, NOTHING, by_name).blocked
        assert not of_workspace(tmp_path, NOTHING, settings()).blocked
        assert not of_workspace(tmp_path, trusted, settings(guard={"enabled": False})).blocked
        assert not of_workspace(tmp_path, trusted, by_name).ready


async def test_handlers_are_loaded_ahead_and_failures_are_told_once(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "guard", "import no_such_module", head=GUARD)
    write_hook(tmp_path / "home", "later", "import no_such_module", head="events: message")
    write_hook(tmp_path / "home", "good", WORKS, head=GUARD)
    dispatcher = Dispatcher(lambda: discover(places(tmp_path), settings()), StillClock(), timeout=60)
    told: list[tuple[str, str]] = []
    dispatcher.on_failure = lambda name, run: told.append((name, run.topic))
    await dispatcher.load()
    await dispatcher.prepare("tool:before")
    assert told == [("guard", LOADING)]
    await dispatcher.prepare()
    assert sorted(told) == [("guard", LOADING), ("guard", LOADING), ("later", LOADING)]
    write_handler(tmp_path / "home" / "guard", WORKS)
    await dispatcher.run(tool(), Services())
    assert dispatcher.results["guard"].status == "ok"
    await dispatcher.close()
    assert len(told) == 3


async def test_a_handler_that_is_loading_when_the_program_ends_is_no_failure(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "guard", "import time\ntime.sleep(99)", head=GUARD)
    dispatcher = Dispatcher(lambda: discover(places(tmp_path), settings()), StillClock(), timeout=60)
    await dispatcher.load()
    loading = dispatcher.prepare()
    await dispatcher.close()
    await loading
    assert dispatcher.results == {}


async def test_a_handler_that_fails_to_load_while_the_program_ends_is_told(tmp_path: Path) -> None:
    write_hook(tmp_path / "home", "guard", "import no_such_module", head=GUARD)
    dispatcher = Dispatcher(lambda: discover(places(tmp_path), settings()), StillClock(), timeout=60)
    await dispatcher.load()
    loading = dispatcher.prepare()
    await dispatcher.close(60)
    await loading
    assert dispatcher.results["guard"].topic == LOADING
