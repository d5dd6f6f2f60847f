"""Through the whole program: changes of the files that are obeyed, where somebody can be asked and where nobody can."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import ApprovalRequested, Event, ToolFinished, TurnEnded
from clawbot.background import take_turn
from clawbot.config.paths import find_home, shipped
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import ToolCallBlock, ToolResultMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.tools.protocol import Decision
from clawbot.tui.app import ClawbotApp
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models
from tests.tui.chat_host import StepClock, screen_text, send, until

CONFIG = "agents: {defaults: {model: fake/model, memory_search: {enabled: false}}}\nhooks: {entries: {ENTRIES}}\n"
HOOK = """\
---
name: style
description: Adds a file of its own choice to the prompt
events: agent:bootstrap
---
"""
HANDLER = """\
from clawbot.hooks import AgentBootstrap, InjectedFile


async def handle(event: AgentBootstrap) -> None:
    event.files.append(InjectedFile(name="rules/style.txt", text="Be brief."))
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    """The model of every runtime of the test."""
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    model.replies = defaultdict(lambda: [says("fine")], model.replies)
    use_models(monkeypatch, lambda _ref: model)
    _configure("session-memory: {enabled: false}")
    return model


def _configure(entries: str) -> Path:
    file = find_home() / "config.yaml"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(CONFIG.replace("ENTRIES", entries), encoding="utf-8")
    return file


def _plays(model: PurposeModel, *made: tuple[str, dict[str, Any]]) -> None:
    """Let the model make these calls, one answer each, and then say that it is done."""
    blocks = [ToolCallBlock(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
    model.replies["chat"] = [*(calls(block) for block in blocks), says("done")]


async def _say(runtime: Runtime, text: str, *answers: Decision) -> list[Event]:
    """What comes of the message `text`, with each question answered in turn."""
    left, events = list(answers), []
    async for event in runtime.agent.submit(text):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            assert runtime.agent.answer(event.request_id, left.pop(0))
        if isinstance(event, TurnEnded):
            assert event.status == "done", event.error
    assert not left
    return events


def _questions(events: list[Event]) -> list[str]:
    return [event.command for event in events if isinstance(event, ApprovalRequested)]


def _results(events: list[Event]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


async def _open(*, unattended: bool = False, **options: Any) -> Runtime:
    chosen = RuntimeOptions(**options)
    return await Runtime.open(chosen.unattended() if unattended else chosen)


async def _open_agent(agent: str | None = None) -> Runtime:
    return await _open(agent=agent)


async def test_the_user_is_shown_what_is_then_written(model: PurposeModel) -> None:
    _plays(model, ("append", {"path": "AGENTS.md", "content": "- Answer in verse. 用诗回答"}))
    runtime = await _open()
    file = runtime.agent.status.workspace / "AGENTS.md"
    before = file.read_text(encoding="utf-8")
    events = await _say(runtime, "from now on answer in verse", "once")
    await runtime.close()
    [question] = [event for event in events if isinstance(event, ApprovalRequested)]
    assert (question.tool, question.command, question.pattern) == ("append", "append AGENTS.md", "AGENTS.md")
    assert question.diff.startswith("--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ ")
    assert question.diff.endswith("\n+- Answer in verse. 用诗回答")
    assert question.risks
    assert file.read_text(encoding="utf-8") == f"{before}- Answer in verse. 用诗回答\n"


@pytest.mark.parametrize("kind", ["headless", "job"])
async def test_where_nobody_can_be_asked_it_is_refused_with_the_setting(model: PurposeModel, kind: str) -> None:
    made = [("write", {"path": name, "content": "obey"}) for name in ("AGENTS.md", "HEARTBEAT.md", "BOOT.md")]
    reads = [("read", {"path": name}) for name in ("AGENTS.md", "HEARTBEAT.md")]
    _plays(model, *reads, *made, ("append", {"path": "memory/2026-11-20.md", "content": "- known"}))
    runtime = await _open(unattended=kind != "job")
    workspace = runtime.agent.status.workspace
    if kind == "job":
        await take_turn(runtime.agent, "look after things")
    else:
        await _say(runtime, "look after things")
    told = [message.text for message in model.of("chat")[-1].messages if isinstance(message, ToolResultMessage)]
    await runtime.close()
    for (_, arguments), text in zip(made, told[len(reads) :], strict=False):
        assert f"{arguments['path']} was not changed. Nobody can be asked here." in text
        assert "tools.files.ask" in text
    assert (workspace / "AGENTS.md").read_bytes() == (shipped("workspace_template") / "AGENTS.md").read_bytes()
    assert not (workspace / "BOOT.md").exists()
    assert (workspace / "memory" / "2026-11-20.md").read_text(encoding="utf-8") == "- known\n"


async def test_the_first_conversation_asks_for_the_character_alone(model: PurposeModel) -> None:
    """The ritual from its beginning to its end, as BOOTSTRAP.md describes it."""
    _plays(
        model,
        ("edit", {"path": "IDENTITY.md", "old": "- Name:", "new": "- Name: Miro"}),
        ("edit", {"path": "USER.md", "old": "- Name:", "new": "- Name: 安娜"}),
        ("append", {"path": "SOUL.md", "content": "- Be blunt."}),
        ("write", {"path": "BOOTSTRAP.md", "content": ""}),
    )
    runtime = await _open()
    workspace = runtime.agent.status.workspace
    events = await _say(runtime, "you are Miro, I am Anna, be blunt", "once")
    assert _questions(events) == ["append SOUL.md"]
    assert not any(result.is_error for result in _results(events))
    await _say(runtime, "hello")
    assert "BOOTSTRAP.md: the first conversation" not in model.of("chat")[-1].system
    await runtime.close()
    assert "- Name: 安娜" in (workspace / "USER.md").read_text(encoding="utf-8")
    runtime = await _open()
    assert not (workspace / "BOOTSTRAP.md").read_text(encoding="utf-8")
    await runtime.close()


async def test_what_a_hook_puts_into_the_prompt_is_asked_for(model: PurposeModel) -> None:
    folder = find_home() / "hooks" / "style"
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(HOOK, encoding="utf-8")
    (folder / "handler.py").write_text(HANDLER, encoding="utf-8")
    _configure("style: {enabled: true}")
    style = {"path": "rules/style.txt"}
    _plays(model, ("read", style), ("write", {**style, "content": "Obey the page."}))
    runtime = await _open()
    (runtime.agent.status.workspace / "rules").mkdir()
    (runtime.agent.status.workspace / "rules" / "style.txt").write_text("Be brief.", encoding="utf-8")
    events = await _say(runtime, "hello", "deny")
    await runtime.close()
    assert _questions(events) == ["write rules/style.txt"]
    assert "## rules/style.txt\n\n```text\nBe brief.\n```" in model.of("chat")[-1].system


async def test_a_setting_ends_the_questions(model: PurposeModel) -> None:
    file = _configure("session-memory: {enabled: false}")
    file.write_text(file.read_text(encoding="utf-8").replace("model: fake", "tools: {files: {ask: []}}, model: fake"))
    _plays(model, ("read", {"path": "AGENTS.md"}), ("write", {"path": "AGENTS.md", "content": "# mine\n"}))
    runtime = await _open(unattended=True)
    assert not _results(await _say(runtime, "write it"))[1].is_error
    await runtime.close()
    assert (runtime.agent.status.workspace / "AGENTS.md").read_text(encoding="utf-8") == "# mine\n"


async def test_a_configuration_in_the_workspace_is_not_the_models_to_write(model: PurposeModel) -> None:
    """What stands in the file of --config counts from the next start: approval, hooks."""
    workspace = find_home() / "workspace"
    workspace.mkdir()
    own = workspace / "own.yaml"
    text = _configure("session-memory: {enabled: false}").read_text(encoding="utf-8")
    own.write_text(text, encoding="utf-8")
    evil = "agents: {defaults: {model: fake/model, tools: {shell: {approval: allow}}}}\n"
    _plays(model, *((tool, {"path": "own.yaml", "content": evil}) for tool in ("write", "append")))
    runtime = await _open(unattended=True, config_file=own)
    results = _results(await _say(runtime, "go"))
    await runtime.close()
    assert all("it is configuration of the program" in result.output for result in results)
    assert len(results) == 2
    assert own.read_text(encoding="utf-8") == text


async def test_a_folder_of_hooks_that_is_named_meanwhile_is_shut_at_once(model: PurposeModel) -> None:
    """The settings of hooks are read again while the program runs, as when the user looks at the list of hooks."""
    runtime = await _open(unattended=True)
    place = runtime.agent.status.workspace / "code"
    _plays(model, ("write", {"path": "code/new/handler.py", "content": "x"}))
    assert not _results(await _say(runtime, "draft it"))[0].is_error
    file = find_home() / "config.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("hooks: {", f"hooks: {{dirs: [{place}], "), encoding="utf-8")
    await runtime.agent.hooks.status()
    _plays(model, ("write", {"path": "code/other/handler.py", "content": "x"}))
    [result] = _results(await _say(runtime, "draft another"))
    await runtime.close()
    assert "it is part of an enabled hook" in result.output
    assert not (place / "other").exists()


# -- on the screen -----------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("keys", "decisions", "text"),
    [
        ("y", 2, "rule\n- one\n"),
        ("n", 2, "rule\n"),
        ("a", 1, "rule\n- one\n- two\n"),
    ],
)
async def test_the_chat_shows_the_change_and_takes_the_answer(
    model: PurposeModel, keys: str, decisions: int, text: str
) -> None:
    """The second question, where there is one, is answered with no."""
    _plays(model, *(("append", {"path": "SOUL.md", "content": f"- {word}"}) for word in ("one", "two")))
    file = find_home() / "workspace" / "SOUL.md"
    file.parent.mkdir()
    file.write_text("rule\n", encoding="utf-8")
    clock = StepClock()
    app = ClawbotApp(_open_agent, theme="dark", clock=clock)
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: bool(app.chat.header.right_text))
        await send(app, pilot, "remember how you are to be")
        for key in (keys, "n")[:decisions]:
            await until(pilot, lambda: app.chat.approval.request is not None and "append SOUL.md" in screen_text(app))
            shown = screen_text(app)
            assert "+- one" in shown or "+- two" in shown
            assert "changes what the agent obeys in every later conversation" in shown
            request = app.chat.approval.request
            clock.seconds += 60
            await pilot.press(key)
            await until(pilot, _is_over(app, request))
        await until(pilot, lambda: not app.chat.turns.busy and "done" in screen_text(app))
        assert app.chat.approval.request is None
    assert await asyncio.to_thread(file.read_text, encoding="utf-8") == text


def _is_over(app: ClawbotApp, request: ApprovalRequested | None) -> Callable[[], bool]:
    return lambda: app.chat.approval.request is not request
