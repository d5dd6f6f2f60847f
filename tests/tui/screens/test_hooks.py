"""The table of the hooks."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest

from clawbot.agent.status import HookStatus
from clawbot.errors import ClawbotError
from clawbot.tui.render.lines import width_of
from clawbot.tui.screens.hooks import HooksScreen, hook_details, hooks_table
from tests.tui.chat_host import FixedClock, Runtime, seen, showing, until
from tests.tui.fake_runtime import NOW


def hook(name: str = "session-memory", **values: Any) -> HookStatus:
    usual: dict[str, Any] = {
        "description": "Keeps a conversation as a note",
        "source": "shipped",
        "folder": f"/opt/clawbot/hooks/{name}",
        "events": ("command:new", "command:reset"),
        "enabled": True,
        "ready": True,
    }
    return HookStatus(name=name, **{**usual, **values})


def below(shown: HooksScreen) -> Runtime:
    assert isinstance(shown.runtime, Runtime)
    return shown.runtime


RAN: dict[str, Any] = {"topic": "command:new", "duration_ms": 12, "at": NOW - timedelta(minutes=3)}
HOOKS = [
    hook(status="ok", **RAN),
    hook("greet", source="home", ready=False, missing=("bin: gh", "env: GITHUB_TOKEN"), description="问候 🎉"),
    hook("slow", source="workspace", status="timeout", error="It took longer than 10 s.", **RAN),
    hook("log", enabled=False, ready=False, events=("command",)),
    hook("broken", ready=False, problem="HOOK.md has no events\x1b[31m", source="dir", events=()),
]


def screen(hooks: list[HookStatus] | None = None) -> HooksScreen:
    below = Runtime()
    below.found_hooks = HOOKS if hooks is None else hooks
    return HooksScreen(below, clock=FixedClock())


async def test_each_hook_is_a_line_with_its_state_and_its_last_run() -> None:
    async with showing(screen(), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "broken" in seen(host))
        lines = [" ".join(line.strip(" │").split()) for line in seen(host).split("\n")]
        assert "Status Hook Events Last run Source" in lines
        assert "● ready session-memory command:new, command:reset ok, 12 ms · 3 min shipped" in lines
        assert "○ missing greet command:new, command:reset never home" in lines
        assert "● ready slow command:new, command:reset timed out, 12 ms · 3 min workspace" in lines
        assert "○ off log command never shipped" in lines
        assert "✕ broken broken never dir" in lines
        assert "Hooks · 5" in seen(host)


async def test_the_highlighted_hook_is_told_about() -> None:
    async with showing(screen(), (100, 30)) as (host, pilot):
        await until(pilot, lambda: "Keeps a conversation as a note" in seen(host))
        assert "folder    /opt/clawbot/hooks/session-memory" in seen(host)
        await pilot.press("down")
        await until(pilot, lambda: "missing   bin: gh, env: GITHUB_TOKEN" in seen(host) and "问候" in seen(host))
        await pilot.press("j")
        await until(pilot, lambda: "error     It took longer than 10 s." in seen(host))
        assert "last run  command:new: timed out, 12 ms, 2026-11-20 10:38:00" in seen(host)
        await pilot.press("down", "down")
        await until(pilot, lambda: "problem   HOOK.md has no events" in seen(host))
        assert "\x1b" not in seen(host)


@pytest.mark.long
async def test_looking_again_shows_what_there_is_now_and_stays_at_the_hook() -> None:
    shown = screen()
    async with showing(shown, (100, 30)) as (host, pilot):
        await until(pilot, lambda: "broken" in seen(host))
        await pilot.press("down", "down")
        await until(pilot, lambda: shown.chosen == "slow")
        below(shown).found_hooks = [hook("a-new-one"), *HOOKS]
        await pilot.press("r")
        await until(pilot, lambda: "a-new-one" in seen(host))
        assert shown.chosen == "slow"
        assert "It took longer than 10 s." in seen(host)


async def test_without_hooks_it_is_said_where_they_would_be() -> None:
    async with showing(screen([]), (100, 20)) as (host, pilot):
        await until(pilot, lambda: "then press r:" in seen(host))
        assert "/home/ada/.clawbot/hooks" in seen(host)
        assert "Status" not in seen(host)


async def test_hooks_that_can_not_be_found_are_an_error_on_the_screen() -> None:
    shown = screen()
    below(shown).faults["hooks"] = ClawbotError("The folder of hooks can't be read.")
    async with showing(shown, (100, 20)) as (host, pilot):
        await until(pilot, lambda: "can't be read" in seen(host))
        below(shown).faults.clear()
        await pilot.press("r")
        await until(pilot, lambda: "session-memory" in seen(host))


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_the_screen_closes(key: str) -> None:
    async with showing(screen(), (100, 20)) as (host, pilot):
        await until(pilot, lambda: "broken" in seen(host))
        await pilot.press(key)
        assert host.result is None


@pytest.mark.parametrize("width", [30, 54, 74, 114, 194])
def test_the_table_fits(width: int) -> None:
    head, rows = hooks_table([*HOOKS, hook("一个名字很长的钩子" * 4, events=("a:b",) * 20)], width, NOW)
    assert all(width_of(line.plain) <= width for line in (head, *rows))
    assert "session-memory" in rows[0].plain
    assert ("Source" in head.plain) == (width > 60)


def test_a_hook_without_words_has_details_too() -> None:
    assert "(no description)" in hook_details(hook(description="", folder=""), None).plain


def test_the_time_of_a_run_is_the_users() -> None:
    assert "2026-11-20 18:38:00" in hook_details(HOOKS[0], timezone(timedelta(hours=8))).plain
