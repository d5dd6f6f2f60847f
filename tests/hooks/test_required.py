"""A required hook: no tool call passes without its answer, and nothing else waits for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.config.schema_extensions import HookSettings
from tests.hooks.stage import Services, command, dispatching, places, settings, tool, write_hook

WORKS = "async def handle(event): pass\n"
GUARD = "events: tool:before"
REQUIRED = settings(guard={"required": True})


def nothing(_: Path) -> None:
    """No hook at all."""


def hook(handler: str, head: str = GUARD, place: str = "home") -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_hook(root / place, "guard", handler, head=head)

    return write


def twice(root: Path) -> None:
    write_hook(root / "home", "guard", WORKS, head=GUARD)
    write_hook(root / "home", "other", WORKS, head=f"name: guard\n{GUARD}")
    write_hook(root / "workspace", "guard", WORKS, head=GUARD)


# What is there, and why a call is refused; "" for one that runs.
FORMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no hook": (nothing, "no hook has this name"),
    "bad YAML": (hook(WORKS, "events: [tool"), "no YAML"),
    "unknown event": (hook(WORKS, "events: before_tool_call"), "did you mean 'tool:before'"),
    "no handle": (hook("x = 1"), "has no handle"),
    "raises": (hook("async def handle(event): raise OSError('disk')"), "OSError: disk"),
    "swallows its end": (hook("async def handle(event):\n    import sys\n    sys.exit(0)"), "SystemExit"),
    "changes to nonsense": (hook("async def handle(event): event.refusal = 7"), "invalid value"),
    "shipped, raises": (hook("async def handle(event): raise OSError('disk')", place="shipped"), "OSError: disk"),
    "shipped, broken": (hook("def (", place="shipped"), "SyntaxError"),
    "of a workspace": (hook(WORKS, place="workspace"), "off"),
    "family": (hook("async def handle(event): raise OSError", "events: tool"), "OSError"),
    "works": (hook(WORKS), ""),
    "works, and others have its name": (twice, ""),
    "for other events": (hook("async def handle(event): raise OSError", "events: message"), ""),
    "for other events, unmet": (hook(WORKS, "events: message\nrequires: {bins: no-such-bin}"), ""),
    "without work": (hook(WORKS, f"{GUARD}\nidle_without: [rules]"), ""),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_call_runs_only_if_the_hook_checked_it(tmp_path: Path, form: str) -> None:
    write, why = FORMS[form]
    write(tmp_path)
    async with dispatching(places(tmp_path, workspace=tmp_path / "workspace"), REQUIRED) as hooks:
        refusal = (await hooks.run(tool(), Services())).refusal
        assert (why in refusal, bool(refusal)) == (True, bool(why))
        assert hooks.wants("tool:before") is (bool(why) or form.startswith("works"))
        # Only tool calls wait for it.
        assert (await hooks.run(command("hello"), Services())).text == "hello"


async def test_without_the_setting_nothing_is_refused(tmp_path: Path) -> None:
    for form in ("bad YAML", "raises"):
        FORMS[form][0](tmp_path)
        async with dispatching(places(tmp_path), settings(guard={"required": False})) as hooks:
            assert (await hooks.run(tool(), Services())).refusal == ""


@pytest.mark.parametrize("config", [{"enabled": False}, {"entries": {"guard": {"enabled": False}}}])
async def test_a_hook_that_is_switched_off_is_required_all_the_same(tmp_path: Path, config: dict[str, object]) -> None:
    FORMS["works"][0](tmp_path)
    entry = {"required": True} | ({"enabled": False} if "entries" in config else {})
    both = HookSettings.model_validate({**config, "entries": {"guard": entry}})
    async with dispatching(places(tmp_path), both) as hooks:
        assert "could not: off" in (await hooks.run(tool(), Services())).refusal


async def test_a_hook_that_comes_back_checks_again(tmp_path: Path) -> None:
    where = places(tmp_path)
    async with dispatching(where, REQUIRED) as hooks:
        for write, refused in (
            (nothing, True),
            (hook(WORKS), False),
            (hook(WORKS, "events: tool:befor"), True),
            (hook(WORKS), False),
            (lambda root: (root / "home" / "guard" / "HOOK.md").unlink(), True),
        ):
            write(tmp_path)
            assert bool((await hooks.run(tool(), Services())).refusal) is refused
