"""Each line of a scripted home goes back to the session that wrote it, and a guess is called one."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.history.blame import blame
from clawbot.messages import ToolCallBlock
from tests.agent.fakes import Answer, calls, says
from tests.agent.gate_host import Answerer, PurposeModel, notes, talk
from tests.agent.keeping_house import open_agent, store_in
from tests.history.fakes import history_in

THINGS = ["kettle", "ladder", "compass", "violin", "tractor", "lantern", "anvil", "saddle", "quilt", "barrel"]
COLOURS = ["crimson", "amber", "teal", "ivory", "violet", "olive"]


def facts(number: int) -> list[str]:
    """Six lines that only session `number` speaks of."""
    return [f"- the {colour} {THINGS[number]} stands in shed {number}{at}" for at, colour in enumerate(COLOURS)]


async def settled(agent: Agent) -> None:
    await agent.ended.settled()
    await agent.deps.hooks.settled() if agent.deps.hooks else None
    await agent.close()


async def session(folder: Path, number: int, model: PurposeModel, *texts: str) -> str:
    """Say `texts` in a session of its own, and end it with /new; returns the id of it."""
    agent = await open_agent(folder, model, number * 30, session=f"s{number}")
    agent.deps.workspace.mkdir(exist_ok=True)
    ident = agent.conversation.session_id
    for text in texts:
        await talk(agent, text)
    await talk(agent, "/new")
    await settled(agent)
    return ident


async def scripted_home(folder: Path, count: int) -> dict[str, str]:
    """Hold `count` sessions; returns the session of each line that the tools and the flush wrote."""
    owners: dict[str, str] = {}
    for number in range(count):
        lines = facts(number)
        added = ToolCallBlock("a", "append", {"path": "memory/sheds.md", "content": "\n".join(lines[:3])})
        edits = {"path": "memory/sheds.md", "old": lines[1], "new": f"{lines[1]}, repainted"}
        edited = ToolCallBlock("b", "edit", edits)
        chat: list[Answer | Answerer] = [calls(added), says("noted"), calls(edited), says("changed"), says("fine")]
        model = PurposeModel(chat=chat, flush=notes("\n".join(lines[3:])), slug=[says("NO_REPLY")])
        said = [
            f"Please note:\n{lines[0]}",
            f"It was repainted: {lines[1]}",
            *(f"{lines[3]} and {at}" for at in range(9)),
        ]
        ident = await session(folder, number, model, *said)
        owners |= dict.fromkeys([lines[0], f"{lines[1]}, repainted", *lines[2:]], ident)
    return owners


@pytest.mark.parametrize("count", [1, pytest.param(len(THINGS), marks=pytest.mark.long)])
async def test_every_line_of_a_scripted_home_names_its_session(count: int, tmp_path: Path) -> None:
    owners = await scripted_home(tmp_path, count)
    workspace, store = tmp_path / "workspace", store_in(tmp_path)
    seen = 0
    for file in sorted(workspace.glob("memory/*.md")):
        text = file.read_text()
        found = blame(workspace, f"memory/{file.name}", store, history_in(tmp_path))
        ident = next((ident for ident in owners.values() if ident in text), "")
        for line in found:
            wanted = owners.get(line.text, ident)
            if line.text.strip():
                assert wanted, line
                assert line.author is not None, line
                assert (line.author.session, line.author.guess) == (wanted, False), line
                seen += 1
    assert seen >= 20 * count


LINES = {
    # line of a note: whether its words lead to a message
    "- the crimson kettle stands in shed 0": True,
    "Amber kettle, in shed 01!": True,
    "- the rhubarb needs sulphur": False,
    "- the": False,
}


async def test_what_no_record_names_is_a_guess_or_unknown(tmp_path: Path) -> None:
    chat = [says("fine")]
    said = [f"Do remember this: {line}" for line in facts(0)]
    ident = await session(tmp_path, 0, PurposeModel(chat=chat, slug=[says("NO_REPLY")]), *said)
    note = tmp_path / "workspace/memory/garden.md"
    note.parent.mkdir(exist_ok=True)
    note.write_text("\n".join(LINES))
    for line in blame(tmp_path / "workspace", "memory/garden.md", store_in(tmp_path), history_in(tmp_path)):
        known = line.author and (line.author.session, line.author.guess, bool(line.author.entry))
        assert known == ((ident, True, True) if LINES[line.text] else None), line
