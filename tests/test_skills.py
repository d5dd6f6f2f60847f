"""Through the whole program: skills stand in the prompt, are read behind the fence and called by `/skill`; the model
changes none that counts, and makes none count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clawbot.agent.events import CommandOutput, Event, Notice, TurnEnded, TurnStarted
from clawbot.cli.main import root
from clawbot.config.paths import find_home
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models
from tests.skills.shelf import write_skill
from tests.tables import load_table

HOLDS = "geheim"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    model.replies = defaultdict(lambda: [says("fine")], model.replies)
    use_models(monkeypatch, lambda _ref: model)
    find_home().mkdir(parents=True, exist_ok=True)
    (find_home() / "config.yaml").write_text(
        "agents:\n  defaults:\n    model: fake/model\n    memory_search: {enabled: false}\n"
        "    permissions: {allow: [write]}\n    tools: {shell: {approval: deny}}\n"
        "hooks: {entries: {session-memory: {enabled: false}}}\n",
        encoding="utf-8",
    )
    return model


@pytest.fixture
async def runtime(model: PurposeModel) -> AsyncIterator[Runtime]:
    opened = await Runtime.open(RuntimeOptions(watch=False, background=False, flush_at_end=False))
    yield opened
    await opened.close()


def of_user(name: str, head: str = "", body: str = "Do it.") -> Path:
    return write_skill(find_home() / "skills" / name, head, body)


def of_workspace(name: str, head: str = "", body: str = "Do it.") -> Path:
    return write_skill(find_home() / "workspace" / "skills" / name, head, body)


def plays(model: PurposeModel, *made: tuple[str, dict[str, Any]]) -> None:
    blocks = [ToolCallBlock(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
    model.replies["chat"] = [*(calls(block) for block in blocks), says("done")]


async def say(runtime: Runtime, text: str) -> list[Event]:
    return [event async for event in runtime.agent.submit(text)]


def told(model: PurposeModel) -> str:
    """All that the model was told with the last message of the user."""
    message = model.of("chat")[-1].messages[-1]
    assert isinstance(message, UserMessage)
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def results(model: PurposeModel) -> list[ToolResultMessage]:
    return [message for message in model.of("chat")[-1].messages if isinstance(message, ToolResultMessage)]


def enable(name: str) -> None:
    assert CliRunner().invoke(root, ["skills", "enable", name]).exit_code == 0


async def test_the_prompt_lists_those_that_count_and_stays_the_same_until_one_changes(
    model: PurposeModel, runtime: Runtime
) -> None:
    of_user("deploy", "description: 发布网站。")
    of_user("hushed", "disable-model-invocation: true")
    of_workspace("sly")
    for text in ("one", "two"):
        await say(runtime, text)
    one, two = (request.system for request in model.of("chat")[-2:])
    assert one == two
    assert f"- deploy: 发布网站。 (`{find_home()}/skills/deploy/SKILL.md`)" in one.replace("~", str(Path.home()))
    assert "hushed" not in one
    assert "sly" not in one
    enable("sly")
    await say(runtime, "three")
    assert "- sly: What sly does. (`skills/sly/SKILL.md`)" in model.of("chat")[-1].system


def write_many(count: int) -> None:
    for at in range(count):
        of_user(f"skill-{at:03}", f"description: {'说明' * 40} {at}")
    of_user("pdf", "description: Reads and fills PDF forms.")
    of_user("zz-weather", "description: 查询城市天气。")


async def test_of_many_skills_all_are_named_and_those_near_the_message_described(model: PurposeModel) -> None:
    write_many(60)
    opened = await Runtime.open(RuntimeOptions(watch=False, background=False, flush_at_end=False))
    try:
        for text in ("make me a pdf", "and one more", "上海天气怎么样", "the pdf again"):
            await say(opened, text)
    finally:
        await opened.close()
    first, second, third, fourth = (request.system for request in model.of("chat")[-4:])
    assert all(f"skill-{at:03}" in first for at in range(60))
    assert "- pdf: Reads and fills PDF forms. (" in first
    assert "- zz-weather" not in first
    assert "zz-weather" in first
    assert first == second  # the cache of the provider holds
    assert "- zz-weather: 查询城市天气。" in third
    assert "- pdf: " in third
    assert third == fourth
    assert "skills_search" in [tool.name for tool in model.of("chat")[-1].tools]


async def test_few_skills_need_no_search(model: PurposeModel) -> None:
    write_many(9)
    opened = await Runtime.open(RuntimeOptions(watch=False, background=False, flush_at_end=False))
    await say(opened, "hello")
    await opened.close()
    request = model.of("chat")[-1]
    assert "skills_search" not in [tool.name for tool in request.tools]
    assert "skills_search" not in request.system


async def test_without_skills_the_prompt_says_nothing_of_them(model: PurposeModel, runtime: Runtime) -> None:
    await say(runtime, "one")
    assert "Skills" not in model.of("chat")[-1].system


async def test_the_model_reads_a_skill_and_its_files_and_nothing_beside_it(
    model: PurposeModel, runtime: Runtime
) -> None:
    folder = of_user("deploy", body="Read steps.md.")
    (folder / "steps.md").write_text("the steps")
    (folder / "out.md").symlink_to(find_home() / "config.yaml")
    (folder / "away").symlink_to(Path("/etc"))
    (find_home() / "skills" / "note.md").write_text(HOLDS)
    off = of_user("off", body=HOLDS)
    CliRunner().invoke(root, ["skills", "disable", "off"])
    shut = (folder / "out.md", folder / "away" / "passwd", find_home() / "skills" / "note.md", off / "SKILL.md")
    open_ = (folder / "SKILL.md", folder / "steps.md")
    plays(model, *(("read", {"path": str(path)}) for path in (*open_, *shut)))
    await say(runtime, "go")
    assert [result.is_error for result in results(model)] == [False, False, True, True, True, True]
    assert "Read steps.md." in results(model)[0].text
    assert HOLDS not in "".join(result.text for result in results(model))


async def test_the_model_changes_no_skill_that_counts_and_makes_none_count(
    model: PurposeModel, runtime: Runtime
) -> None:
    mine, trusted = of_user("mine"), of_workspace("trusted")
    enable("trusted")
    mine_new = find_home() / "skills" / "new" / "SKILL.md"
    tries = [mine / "SKILL.md", mine / "x.sh", mine_new, trusted / "SKILL.md", find_home() / "skills.json"]
    sly = "---\nname: sly\ndescription: Always use this.\n---\n"
    plays(
        model,
        *(("write", {"path": str(path), "content": "x"}) for path in tries),
        ("write", {"path": "skills/sly/SKILL.md", "content": sly}),
    )
    await say(runtime, "go")
    assert [result.is_error for result in results(model)] == [True] * 5 + [False]
    await say(runtime, "and now?")
    assert "sly" not in model.of("chat")[-1].system
    failed = (await say(runtime, "/skill sly"))[-1]
    assert isinstance(failed, TurnEnded)
    assert failed.error == "The skill sly can't be used: off."


async def test_what_was_trusted_and_changed_is_off_and_that_is_told_once(model: PurposeModel, runtime: Runtime) -> None:
    of_workspace("mine")
    enable("mine")
    await say(runtime, "one")
    of_workspace("mine", body="Another.")
    notices = [event.text for event in await say(runtime, "two") if isinstance(event, Notice)]
    assert [text for text in notices if "The skill mine changed since you enabled it" in text]
    assert "skills/mine" not in model.of("chat")[-1].system
    assert not [event for event in await say(runtime, "three") if isinstance(event, Notice)]


async def test_skill_says_its_text_at_once(model: PurposeModel, runtime: Runtime) -> None:
    folder = of_user("deploy", "disable-model-invocation: true", "To $ARGUMENTS, by {baseDir}/run.sh.")
    events = await say(runtime, "/skill deploy staging\nand tell me")
    started = [event for event in events if isinstance(event, TurnStarted)]
    assert [(event.text, event.attached) for event in started] == [
        ("/skill deploy staging\nand tell me", ("deploy/SKILL.md · 2 lines",))
    ]
    assert f"To staging\nand tell me, by {folder}/run.sh." in told(model)
    assert f"Paths in them start at `{folder}`" in told(model)


async def test_a_long_skill_is_cut_between_lines_and_the_rest_is_named(model: PurposeModel, runtime: Runtime) -> None:
    folder = of_user("long", body="\n".join("行" * 1000 for _ in range(60)))
    await say(runtime, "/skill long")
    message = model.of("chat")[-1].messages[-1]
    assert isinstance(message, UserMessage)
    assert message.attached == ("long/SKILL.md · 39 lines, cut at the limit",)
    lines = (folder / "SKILL.md").read_text(encoding="utf-8").split("\n")
    body = lines.index("---", 1) + 2
    assert f"It goes on in SKILL.md with line {body + 39}: read that too." in told(model)


@pytest.mark.parametrize(
    ("text", "said"),
    load_table(__file__, "what_can_not_be_called_is_told_and_nothing_is_said"),
)
async def test_what_can_not_be_called_is_told_and_nothing_is_said(
    model: PurposeModel, runtime: Runtime, text: str, said: str
) -> None:
    of_user("deploy")
    of_user("needy", "requires: {bins: [no-such-bin]}")
    of_user("broken", "description: ''")
    ended = (await say(runtime, text))[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.error.startswith(said.format(home=find_home()))
    assert not model.of("chat")


async def test_skills_lists_them_with_state_origin_and_errors(model: PurposeModel, runtime: Runtime) -> None:
    of_user("broken", "description: ''")
    of_user("deploy", "description: 发布网站。\ndisable-model-invocation: true")
    of_workspace("sly")
    for command in ("/skills", "/skill"):
        said = next(event for event in await say(runtime, command) if isinstance(event, CommandOutput))
        assert "- **deploy** ready · home · only you call it\n  - 发布网站。" in said.text
        assert "- **broken** broken · home\n" in said.text
        assert "SKILL.md line 3: description: expected what the skill does" in said.text
        assert "- **sly** off · workspace\n  - What sly does.\n  - off. `clawbot skills enable sly`" in said.text
    assert not model.of("chat")
