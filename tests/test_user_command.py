"""Through the whole program: what the user runs at the prompt, and who gets to know of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.agent.events import (
    CommandOutput,
    Event,
    MessageQueued,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from clawbot.agent.slash import ShellCommand, parse_shell, without_escape
from clawbot.cli.line_chat import EventPrinter
from clawbot.config.paths import find_home
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import BashExecutionMessage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.export import to_markdown
from clawbot.sessions.text import spoken_part
from clawbot.text.secrets import MARK
from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models

CONFIG = """
agents: {{defaults: {{model: fake/model, memory_search: {{enabled: false}}, permissions: {{mode: plan}},
  tools: {{shell: {{sandbox: "off", approval: {approval}}}}}}}}}
hooks: {{entries: {{session-memory: {{enabled: false}}}}}}
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    use_models(monkeypatch, lambda _ref: model)
    configure()
    return model


def configure(approval: str = "ask") -> None:
    file = find_home() / "config.yaml"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(CONFIG.format(approval=approval), encoding="utf-8")


async def opened() -> Runtime:
    runtime = await Runtime.open(RuntimeOptions(watch=False, background=False))
    runtime.agent.runs_shell = True
    return runtime


@pytest.fixture
async def chat(model: PurposeModel) -> AsyncIterator[Runtime]:
    runtime = await opened()
    yield runtime
    await runtime.close()


async def said(runtime: Runtime, text: str) -> list[Event]:
    return [event async for event in runtime.agent.submit(text)]


def result(events: list[Event]) -> ToolFinished:
    return next(event for event in events if isinstance(event, ToolFinished))


def context(runtime: Runtime) -> list[str]:
    """What the user said and ran, as the model sees it."""
    messages = runtime.agent.conversation.messages
    return [message.text for message in messages if isinstance(message, UserMessage | BashExecutionMessage)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("!ls -l", ShellCommand("ls -l")),
        ("! ls", ShellCommand("ls")),
        ("!!git log  ", ShellCommand("git log", shared=True)),
        ("!for i in 1 2\ndo echo $i\ndone", ShellCommand("for i in 1 2\ndo echo $i\ndone")),
        ("!", None),
        ("!!", None),
        (" !ls", None),
        ("\\!ls", None),
        ("wow!", None),
        ("\uff01ls", None),
    ],
)
def test_what_is_a_command_of_the_shell(text: str, found: ShellCommand | None) -> None:
    assert parse_shell(text) == found


def test_a_backslash_says_it() -> None:
    assert without_escape("\\!important") == "!important"
    assert without_escape("C:\\!x") == "C:\\!x"


async def test_it_is_told_as_a_call_and_asks_nobody_in_plan_mode_too(chat: Runtime, model: PurposeModel) -> None:
    events = await said(chat, "!echo hello > made; cat made; exit 3")
    kinds = [type(event) for event in events if not isinstance(event, ToolOutput)]
    assert kinds[:4] == [TurnStarted, ToolStarted, ToolFinished, TurnEnded]
    done = result(events)
    assert (done.output, done.summary, done.details, done.is_error) == ("hello", "exit 3", {"shared": False}, True)
    assert (chat.agent.status.workspace / "made").read_text(encoding="utf-8") == "hello\n"
    assert model.requests == []


async def test_what_is_not_shared_reaches_no_model(chat: Runtime, model: PurposeModel) -> None:
    await said(chat, "good morning")
    await said(chat, "!echo zebra")
    await said(chat, "!!echo giraffe")
    await said(chat, "what did I run?")
    await said(chat, "/compact")
    await chat.agent.close()
    asked = "".join(str(request.messages) + request.system for request in model.requests)
    assert "giraffe" in asked
    assert "zebra" not in asked
    assert {"chat", "flush"} <= set(model.purposes)


async def test_a_start_and_the_index_keep_it_apart_as_well(chat: Runtime) -> None:
    await said(chat, "!echo zebra")
    await said(chat, "!!echo giraffe")
    transcript = chat.agent.conversation.session.transcript
    await chat.close()
    again = await opened()
    try:
        assert context(again) == ["Ran `echo giraffe` (exit 0)\ngiraffe"]
        items = await again.sessions.history()
        assert [item.message.output for item in items if isinstance(item.message, BashExecutionMessage)] == [
            "zebra", "giraffe",
        ]  # fmt: skip
        exported = "".join(to_markdown(items, "", None))
        assert "You ran (the model did not see it): echo zebra" in exported
        assert "You ran: echo giraffe" in exported
        assert spoken_part(transcript.path).lines == ()
    finally:
        await again.close()


async def test_what_is_shared_stands_before_the_next_words(chat: Runtime, model: PurposeModel) -> None:
    await said(chat, "!!echo 8443")
    await said(chat, "which port?")
    sent = [message.text.rpartition("\n")[2] for message in model.of("chat")[-1].messages]
    assert sent[-2:] == ["8443", "which port?"]
    assert chat.agent.conversation.session.record.turns == 1


async def test_esc_stops_it_and_what_it_printed_is_kept(chat: Runtime) -> None:
    printed = asyncio.Event()
    events: list[Event] = []

    async def read() -> None:
        async for event in chat.agent.submit("!echo begun; sleep 600"):
            events.append(event)
            if isinstance(event, ToolOutput):
                printed.set()

    reading = asyncio.create_task(read())
    await printed.wait()
    assert chat.agent.interrupt()
    await reading
    assert (result(events).output, result(events).summary) == ("begun\n", "interrupted")
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "interrupted"
    [item] = await chat.sessions.history()
    assert isinstance(item.message, BashExecutionMessage)
    assert (item.message.cancelled, item.message.exit_code, item.message.ending) == (True, None, "interrupted")


async def test_while_a_turn_runs_it_waits_and_is_never_said_in_it(chat: Runtime, model: PurposeModel) -> None:
    going, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        going.set()
        await go_on.wait()

    model.replies["chat"] = [[hold, *says("done")]]
    chat.agent.steers = True
    turn = asyncio.create_task(said(chat, "go"))
    await going.wait()
    command = chat.agent.submit("!echo after")
    queued = await anext(command)
    assert isinstance(queued, MessageQueued)
    go_on.set()
    events = [event async for event in command]
    await turn
    assert result(events).output == "after"
    assert context(chat) == ["go"]


async def test_no_secret_is_kept_of_what_it_prints(chat: Runtime) -> None:
    key = "sk-ant-api03-" + "aB3dE5gH7j" * 9
    done = result(await said(chat, f"!!printf %s {key[:20]}; printf '%s\\n' {key[20:]}"))
    assert key not in done.output
    assert MARK in done.output
    assert key not in chat.agent.conversation.messages[-1].text.partition("\n")[2]


async def test_long_output_is_bounded(chat: Runtime) -> None:
    done = result(await said(chat, "!seq 200000"))
    assert len(done.output) < 60_000
    assert "bytes of output left out here" in done.output
    [item] = await chat.sessions.history()
    assert isinstance(item.message, BashExecutionMessage)
    assert item.message.truncated


async def test_commands_that_are_switched_off_are_so_for_everybody(model: PurposeModel) -> None:
    configure("deny")
    runtime = await opened()
    try:
        done = result(await said(runtime, "!touch made"))
        assert "tools.shell.approval: deny" in done.output
        assert not (runtime.agent.status.workspace / "made").exists()
    finally:
        await runtime.close()


async def test_what_nobody_can_read_does_not_run(chat: Runtime) -> None:
    done = result(await said(chat, "!echo a\u202eb > made"))
    assert "invisible characters are never run" in done.output
    assert not (chat.agent.status.workspace / "made").exists()


async def test_where_nobody_sits_at_a_prompt_it_is_a_message(model: PurposeModel, tmp_path: Path) -> None:
    runtime = await Runtime.open(RuntimeOptions(watch=False, background=False))
    try:
        events = await said(runtime, f"!touch {tmp_path}/made")
        assert not any(isinstance(event, ToolStarted) for event in events)
        assert context(runtime) == [f"!touch {tmp_path}/made"]
        assert not (tmp_path / "made").exists()
    finally:
        await runtime.close()


async def test_the_chat_in_lines_prints_the_output(chat: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter()
    for event in await said(chat, "!echo one; echo two"):
        printer.print(event)
    assert capsys.readouterr().out == (
        "tool: $ echo one; echo two\none\ntwo\nshell: exit 0; the model does not see it\n"
    )


async def test_help_outside_the_screen_names_what_works_there(chat: Runtime) -> None:
    (output,) = [event.text for event in await said(chat, "/help") if isinstance(event, CommandOutput)]
    named = set(re.findall(r"\*\*(/\w+)", output))
    assert {"/status", "/sessions", "/new", "/quit"} <= named
    assert not {"/theme", "/copy", "/edit", "/rewind"} & named
