"""No model reads what was imported unless somebody continues it, or asks for notes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.importing.ledger import Ledger
from clawbot.importing.runs import Importer
from clawbot.llm.protocol import ChatRequest
from clawbot.sessions.summary import SessionSummary
from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel, notes, talk
from tests.agent.keeping_house import BEGIN, DAILY, MinuteClock, open_agent, store_in
from tests.importing import homes

START = int((datetime(2026, 11, 20, 9, tzinfo=UTC) - BEGIN).total_seconds() / 60)
DAY = 24 * 60
LONG = [*homes.ENGLISH, *((f"question {n} about the geese", "corn and barley " * 50) for n in range(60))]


def model(slug: str = "a-name") -> PurposeModel:
    return PurposeModel(flush=notes("- something\n"), slug=[says(slug)], title=[says("A title")])


def bring(folder: Path, program: str, *, with_notes: bool = False) -> list[SessionSummary]:
    theirs = folder / "theirs"
    theirs.mkdir(parents=True)
    path = homes.HOMES[program](theirs, LONG)
    store = store_in(folder, START)
    Importer(store, folder / "workspace", Ledger(folder / "imports"), MinuteClock(START), notes=with_notes).run(path)
    return [*store.list()]


async def leave(agent: Agent) -> None:
    await agent.ended.settled()
    await agent.deps.hooks.settled() if agent.deps.hooks else None
    await agent.close()


async def two_days(folder: Path, brain: PurposeModel) -> None:
    """Say hello on one day, and on the next."""
    for day in (0, 1, 2):
        agent = await open_agent(folder, brain, START + day * DAY, DAILY, interactive=True)
        agent.deps.workspace.mkdir(exist_ok=True)
        agent.ended.wake()
        await talk(agent, "hello again")
        await leave(agent)


def sent(brain: PurposeModel) -> list[tuple[str, int]]:
    """What was sent to the model, sorted: the purpose of each call, and its size in characters. A conversation is named
    in the background, before the next turn or behind its prompt: those calls are counted only."""
    return sorted((request.purpose, 0 if request.purpose == "slug" else size_of(request)) for request in brain.requests)


def size_of(request: ChatRequest) -> int:
    return len(request.system) + sum(len(message.text) for message in request.messages)


@pytest.mark.few(2)
@pytest.mark.parametrize("program", list(homes.HOMES))
async def test_the_days_after_the_move_cost_what_a_fresh_start_costs(program: str, tmp_path: Path) -> None:
    moved, fresh = tmp_path / "a", tmp_path / "b"
    assert bring(moved, program)
    fresh.mkdir()
    if (moved / "workspace").exists():
        shutil.copytree(moved / "workspace", fresh / "workspace")
    # No conversation is named: the next turn reads the note under its old name or under the new one.
    after, before = model("NO_REPLY"), model("NO_REPLY")
    await two_days(moved, after)
    await two_days(fresh, before)
    assert sent(after) == sent(before)
    assert not any("corn" in message.text for request in after.requests for message in request.messages)


async def test_of_a_conversation_that_goes_on_memory_is_offered_what_is_said_here(tmp_path: Path) -> None:
    newest = bring(tmp_path, "claude-code")[0]
    brain = model()
    agent = await open_agent(tmp_path, brain, START, DAILY, session=newest.session_id, interactive=True)
    agent.deps.workspace.mkdir(exist_ok=True)
    await talk(agent, "the gander is called Otto")
    assert any("corn" in message.text for message in brain.of("chat")[0].messages)
    await talk(agent, "/new")
    await leave(agent)
    # Too long for the window of this model: a summary takes the place of the old messages.
    others = [request for request in brain.requests if request.purpose not in ("chat", "title", "summary")]
    assert {request.purpose for request in others} >= {"slug"}
    assert not any("corn" in message.text for request in others for message in request.messages)
    (note,) = (tmp_path / "workspace/memory").glob("*-*-*-*.md")
    assert "Otto" in note.read_text()
    assert "corn" not in note.read_text()


async def test_with_notes_memory_is_offered_each_conversation_once(tmp_path: Path) -> None:
    assert len(bring(tmp_path, "chatgpt", with_notes=True)) == len(store_in(tmp_path).pending()) == 2
    brain, calls = model(), []
    for day in (0, 1):
        agent = await open_agent(tmp_path, brain, START + day, interactive=True)
        agent.deps.workspace.mkdir(exist_ok=True)
        agent.ended.wake()
        await leave(agent)
        calls.append(len(brain.of("flush")))
    assert calls[0] == calls[1] > 0
    assert store_in(tmp_path).pending() == []
    texts = "".join(message.text for request in brain.of("flush") for message in request.messages)
    assert all(f"question {number} about" in texts for number in range(60))


@pytest.mark.parametrize("program", ["claude-code", "codex", "openclaw"])
async def test_a_call_that_has_no_result_is_never_run(program: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    path = homes.HOMES[program](theirs, homes.ENGLISH)
    for file in path.rglob("*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        calls = [place for place, line in enumerate(lines) if "touch" in line or "rm" in line]
        if calls:
            text = "".join(lines[: calls[-1] + 1])
            for command in ('"rm -rf /"', '"rm\\\\", \\\\"-rf\\\\", \\\\"/"', '"touch /tmp/hacked"'):
                text = text.replace(command, f'"touch {tmp_path}/hacked"')
            file.write_text(text)
    store = store_in(tmp_path, START)
    Importer(store, tmp_path / "workspace", Ledger(tmp_path / "imports"), MinuteClock(START)).run(path)
    brain = model()
    for summary in store.list():
        agent = await open_agent(tmp_path, brain, START, session=summary.session_id)
        agent.deps.workspace.mkdir(exist_ok=True)
        await talk(agent, "go on")
        await leave(agent)
    assert brain.of("chat")
    assert not (tmp_path / "hacked").exists()
