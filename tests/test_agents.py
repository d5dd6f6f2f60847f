"""Several agents in one program: each works with its own model, workspace, sessions and memory."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths, find_home
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import ToolCallBlock, ToolResultMessage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel, notes
from tests.program import say, use_models

CONFIG = """
agents:
  defaults:
    memory_search: {provider: none}
  main: {model: fake/main}
  research:
    model: fake/research
    workspace: ~/.clawbot/lab
    tools: {agents: [main]}
  ops: {model: fake/ops}
"""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, PurposeModel]:
    """The models by their references; what is opened is one of these."""
    known = {ref: PurposeModel() for ref in ("fake/main", "fake/research", "fake/ops")}
    for ref, model in known.items():
        model.info = ModelInfo(ref=ref, window=8_000)
        # Whatever else is asked, such as a hook for the name of a note.
        model.replies = defaultdict(lambda: [says("fine")], model.replies)

    use_models(monkeypatch, known.__getitem__)
    home = find_home()
    home.mkdir(parents=True)
    (home / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return known


async def _open(agent: str) -> Runtime:
    return await Runtime.open(RuntimeOptions(agent=agent).unattended())


def _results(model: PurposeModel) -> list[str]:
    """What the tools told the model, in its last request."""
    return [message.text for message in model.requests[-1].messages if isinstance(message, ToolResultMessage)]


def _daily_notes(workspace: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((workspace / "memory").glob("*.md"))]


async def test_the_archive_of_a_session_is_named_by_the_agents_own_model_in_its_own_workspace(
    models: dict[str, PurposeModel],
) -> None:
    """Reference sheet 18: there the default agent's model and workspace served them all."""
    home = find_home()
    research = models["fake/research"]
    research.replies["slug"] = [says("论文截止")]
    runtime = await _open("research")
    await say(runtime, "the paper is due on Friday")
    await say(runtime, "/new")
    await runtime.close()
    assert research.of("slug")
    assert models["fake/main"].requests == models["fake/ops"].requests == []
    [note] = (home / "lab" / "memory").glob("*论文截止*.md")
    assert "the paper is due on Friday" in note.read_text(encoding="utf-8")
    assert not (home / "workspace").exists()
    assert sorted(path.name for path in (home / "agents").iterdir()) == ["research"]
    assert not (home / "memory" / "main.sqlite").exists()


async def test_a_conversation_is_saved_and_summarised_by_the_agents_own_model(models: dict[str, PurposeModel]) -> None:
    ops = models["fake/ops"]
    ops.replies["flush"] = notes("- 部署 moved to Thursday")
    runtime = await _open("ops")
    for _ in range(4):
        await say(runtime, "harbour " * 900)
    await say(runtime, "/compact")
    workspace = runtime.agent.status.workspace
    await runtime.close()
    assert ops.of("flush")
    assert ops.of("summary")
    assert models["fake/main"].requests == models["fake/research"].requests == []
    assert workspace.name == "workspace-ops"
    assert any("部署 moved to Thursday" in text for text in _daily_notes(workspace))


async def test_an_agent_reads_and_searches_another_one_by_the_settings_alone(models: dict[str, PurposeModel]) -> None:
    home = find_home()
    main = Paths(home).workspace("main") / "memory" / "2026-11-20.md"
    main.parent.mkdir(parents=True)
    main.write_text("- the kettle is green\n", encoding="utf-8")
    search = {"query": "kettle", "agent": "main"}
    for agent in ("research", "ops"):
        asked = [
            ToolCallBlock("a", "read", {"path": str(main)}),
            ToolCallBlock("b", "memory_search", search),
            ToolCallBlock("c", "memory_get", {"path": "memory/2026-11-20.md", "agent": "main"}),
        ]
        models[f"fake/{agent}"].replies["chat"] = [calls(*asked), says("fine")]
        runtime = await _open(agent)
        await say(runtime, "what colour is the kettle?")
        await runtime.close()
    read, searched, got = _results(models["fake/research"])
    assert read == "- the kettle is green\n"
    assert searched.startswith("From the memory of agent main.\n")
    assert "\n1: - the kettle is green\n" in searched
    assert json.loads(got)["agent"] == "main"
    refused = _results(models["fake/ops"])
    assert len(refused) == 3
    assert not any("green" in text for text in refused)
    assert "belongs to agent main" in refused[0]
    assert "Unknown argument `agent`" in refused[1]


async def test_an_unknown_agent_is_an_error_that_names_the_nearest(models: dict[str, PurposeModel]) -> None:
    with pytest.raises(ConfigError) as caught:
        await _open("reserch")
    assert "main, research, ops" in caught.value.message
    assert caught.value.hint == "Did you mean research?"
    assert not (find_home() / "agents").exists()
