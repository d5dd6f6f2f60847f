"""`/forget` in a conversation: first what would go, then, at a yes, it goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.agent.events import CommandOutput, TurnEnded
from clawbot.runtime import Runtime, RuntimeOptions

NOTE = "# Trip\n\n- the harbour code is 4711\n- bring a coat\n"


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    runtime = await Runtime.open(RuntimeOptions(model="offline", watch=False, background=False))
    (runtime.agent.status.workspace / "memory").mkdir(exist_ok=True)
    note(runtime).write_text(NOTE, encoding="utf-8")
    yield runtime
    await runtime.close(hasty=True)


def note(runtime: Runtime) -> Path:
    return runtime.agent.status.workspace / "memory" / "trip.md"


async def answer(runtime: Runtime, text: str) -> str:
    """What a command says, or why it failed."""
    parts = []
    async for event in runtime.agent.submit(text):
        if isinstance(event, CommandOutput):
            parts.append(event.text)
        elif isinstance(event, TurnEnded) and event.status == "failed":
            parts.append(event.error)
    return "\n".join(parts)


async def test_what_would_go_is_shown_and_goes_at_a_yes(runtime: Runtime) -> None:
    shown = await answer(runtime, "/forget Harbour  code")
    assert "memory/trip.md:3" in shown
    assert "`/forget yes Harbour code`" in shown
    assert note(runtime).read_text(encoding="utf-8") == NOTE
    done = await answer(runtime, "/forget yes Harbour  code")
    assert "memory/trip.md:3" in done
    assert "/forget yes" not in done
    assert note(runtime).read_text(encoding="utf-8") == NOTE.replace("- the harbour code is 4711\n", "")


@pytest.mark.parametrize("text", ["/forget", "/forget  ", "/forget nothing of that kind", "/forget yes x"])
async def test_what_names_nothing_changes_nothing(runtime: Runtime, text: str) -> None:
    assert await answer(runtime, text)
    assert note(runtime).read_text(encoding="utf-8") == NOTE


async def test_where_nobody_can_be_asked_nothing_is_forgotten() -> None:
    runtime = await Runtime.open(RuntimeOptions(model="offline", watch=False, background=False).unattended())
    try:
        assert (await answer(runtime, "/forget yes the harbour")).startswith(
            "Notes are forgotten only where you can be asked."
        )
    finally:
        await runtime.close(hasty=True)
