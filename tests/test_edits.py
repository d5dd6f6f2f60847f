"""What the user edits in the workspace is what the model is told with the very next message (list B 28)."""

from __future__ import annotations

import pytest

from clawbot.messages import ToolCallBlock
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import say, use_models


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    """The model that every runtime of the test opens."""
    model = PurposeModel()
    use_models(monkeypatch, lambda _ref: model)
    return model


async def _open() -> Runtime:
    return await Runtime.open(RuntimeOptions().unattended())


async def _prompt_of(runtime: Runtime, model: PurposeModel, text: str) -> str:
    """The system prompt that the model is given for the message `text`."""
    await say(runtime, text)
    return model.of("chat")[-1].system


@pytest.mark.parametrize("name", ["AGENTS.md", "SOUL.md"])
async def test_an_edit_counts_from_the_next_message_on(model: PurposeModel, name: str) -> None:
    runtime = await _open()
    before = await _prompt_of(runtime, model, "hello")
    text = await runtime.workspace.read(name)
    assert text.strip() in before
    await runtime.workspace.write(name, text + "\n- 称呼用户为船长 (captain)\n")
    assert "船长 (captain)" in await _prompt_of(runtime, model, "who am I?")
    await runtime.workspace.write(name, "# Empty\n")
    after = await _prompt_of(runtime, model, "and now?")
    assert "船长" not in after
    assert "# Empty" in after
    await runtime.close()


async def test_an_edit_of_a_file_of_windows_keeps_its_encoding(model: PurposeModel) -> None:
    runtime = await _open()
    file = runtime.agent.status.workspace / "USER.md"
    file.write_bytes("\ufeff- Name: 安娜\r\n".encode("utf-16-le"))
    text = await runtime.workspace.read("USER.md")
    assert text == "- Name: 安娜\r\n"
    await runtime.workspace.write("USER.md", text + "- Captain\r\n")
    assert file.read_bytes().decode("utf-16-le") == "\ufeff- Name: 安娜\r\n- Captain\r\n"
    assert "- Name: 安娜" in await _prompt_of(runtime, model, "who am I?")
    await runtime.close()


async def test_the_ritual_that_is_over_stands_in_no_prompt_and_never_comes_back(model: PurposeModel) -> None:
    runtime = await _open()
    assert "# BOOTSTRAP.md" in await _prompt_of(runtime, model, "hello")
    ritual = runtime.agent.status.workspace / "BOOTSTRAP.md"
    ritual.unlink()
    assert "# BOOTSTRAP.md" not in await _prompt_of(runtime, model, "done")
    await runtime.close()
    for _ in range(2):
        runtime = await _open()
        assert "# BOOTSTRAP.md" not in await _prompt_of(runtime, model, "again")
        assert not ritual.exists()
        await runtime.close()


async def test_the_heartbeat_file_costs_nothing_in_the_prompt(model: PurposeModel) -> None:
    runtime = await _open()
    assert (runtime.agent.status.workspace / "HEARTBEAT.md").exists()
    assert "what to look after" not in await _prompt_of(runtime, model, "hello")
    await runtime.close()


@pytest.mark.parametrize(
    ("text", "mention", "written"),
    [
        ("- tea\n", "@plan.md", True),
        ("- 茶\n\n- tea", "@plan.md", True),
        ("\ufeff- tea\r\n- milk\r\n\r\n", "@plan.md", True),
        ("```text\n- tea\n```\n", "@plan.md", True),
        ("- tea\n- milk\n", "@plan.md:1-2", True),
        ("- tea\n- milk\n", "@plan.md:1-1", False),
        ("- tea\n- milk\n", "@plan.md:2-2", False),
        ("- tea\n" * 20_000, "@plan.md", False),
        (f"{'`' * 90}\n", "@plan.md", False),
        ("- tea\n", "plan.md", False),
    ],
)
async def test_what_the_user_attaches_the_model_may_replace_until_it_changes(
    model: PurposeModel, text: str, mention: str, *, written: bool
) -> None:
    runtime = await _open()
    file = runtime.agent.status.workspace / "plan.md"
    file.write_bytes(text.encode())
    write = calls(ToolCallBlock("w1", "write", {"path": "plan.md", "content": "- coffee\n"}))
    model.replies["chat"] = [write, says("done")]
    await say(runtime, f"tidy up {mention}")
    assert (file.read_bytes() == b"- coffee\n") == written
    file.write_bytes(text.encode() + b"- by hand\n")
    model.replies["chat"] = [write, says("done")]
    await say(runtime, "and again")
    assert file.read_bytes() == text.encode() + b"- by hand\n"
    await runtime.close()


EDIT = ToolCallBlock("e1", "edit", {"path": "memory/plan.md", "old": "茶", "new": "咖啡"})
READ = ToolCallBlock("r1", "read", {"path": "memory/plan.md"})
PLAN, OTHER = "- 茶\n- tea\n", "- 茶\n- tea\n- 用户加的\n"


def gets(**part: int) -> ToolCallBlock:
    return ToolCallBlock("g1", "memory_get", {"path": "memory/plan.md", **part})


@pytest.mark.parametrize(
    ("steps", "written"),
    [
        ([gets()], True),
        ([gets(), EDIT], True),
        ([gets(why=1), EDIT], True),
        ([gets(lines=1)], False),
        ([gets(lines=1), gets(**{"from": 2})], True),
        ([gets(**{"from": 2})], False),
        ([gets(), OTHER], False),
        ([gets(), OTHER, gets()], True),
        ([gets(), OTHER, PLAN], True),
        ([ToolCallBlock("s1", "memory_search", {"query": "tea"})], False),
        (["@memory/plan.md", EDIT], True),
        (["@memory/plan.md", OTHER], False),
        ([READ, OTHER, "@memory/plan.md"], True),
        (["@memory/plan.md", OTHER, EDIT], False),
        ([READ, EDIT, PLAN], False),
    ],
)
async def test_each_way_to_see_a_note_counts(
    model: PurposeModel, steps: list[ToolCallBlock | str], *, written: bool
) -> None:
    """A step is a call, a message, or what the user makes of the file."""
    runtime = await _open()
    file = runtime.agent.status.workspace / "memory" / "plan.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(PLAN, encoding="utf-8")
    for step in steps:
        if isinstance(step, ToolCallBlock):
            model.replies["chat"] = [calls(step), says("done")]
            await say(runtime, "go on")
        elif step.startswith("@"):
            await say(runtime, f"look at {step}")
        else:
            file.write_text(step, encoding="utf-8")
    now = file.read_text(encoding="utf-8")
    write = calls(ToolCallBlock("w1", "write", {"path": "memory/plan.md", "content": "新\n"}))
    model.replies["chat"] = [write, says("done")]
    await say(runtime, "tidy up")
    assert file.read_text(encoding="utf-8") == ("新\n" if written else now)
    await runtime.close()
