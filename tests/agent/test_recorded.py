"""What real models answered, played again: the answers of small ones are seldom what a template promises."""

from __future__ import annotations

from pathlib import Path

from clawbot.agent.events import ToolFinished, TurnEnded
from clawbot.config.paths import Paths, find_home
from clawbot.runtime import Runtime, RuntimeOptions

RECORDED = Path(__file__).parent / "recorded"
NOTE = "the staging proxy listens on port 8443"


async def play(name: str, message: str) -> tuple[list[ToolFinished], str]:
    """Send `message` where the model answers as recorded; return the calls that ran, and how the turn ended."""
    paths = Paths(find_home())
    paths.ensure_home()
    model = f"script:{RECORDED / name}"
    paths.config_file.write_text(f"agents: {{defaults: {{model: '{model}', retries: {{first_wait: 0}}}}}}\n")
    runtime = await Runtime.open(RuntimeOptions().unattended())
    events = [event async for event in runtime.agent.submit(message)]
    await runtime.close()
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    return [event for event in events if isinstance(event, ToolFinished)], ended.status


async def test_a_small_model_appends_a_note_and_finds_it_again() -> None:
    """Its calls are text, before results that it makes up; one answer repeats itself, and the last ones are empty."""
    calls, status = await play("append.yaml", f"Append this line to memory/proxy.md: {NOTE}")
    note = find_home() / "workspace/memory/proxy.md"
    assert {call.name for call in calls} == {"append"}
    assert note.read_text().splitlines() == [NOTE, "nothing was added.", "Appended to memory/proxy.md (+1 lines)."]
    assert status == "failed"

    calls, status = await play("find.yaml", "Use memory_search to find the port of the staging proxy.")
    assert {call.name for call in calls} == {"memory_search"}
    assert "8443" in calls[0].output
    assert status == "stopped"
