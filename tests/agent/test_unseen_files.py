"""What a user or another session adds to a file is never lost by a `write` of a model that did not see it: through a
conversation, whatever comes between its read and its write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, ToolFinished
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import ToolCallBlock, ToolResultMessage
from clawbot.sessions.entries import Offer
from tests.agent.fakes import Answer, calls, says
from tests.agent.gate_host import WORD, House, PurposeModel, compactions, fill, offers, talk
from tests.agent.test_rewind import entry_of

OLD = "# Notes\n- prefers tea\n"
MINE = "- added by hand\n"
NEW = "# Notes\n- prefers coffee\n"
FILES = ["MEMORY.md", "notes.md", "memory/plan.md"]


def uses(tool: str, **arguments: Any) -> Answer:
    return calls(ToolCallBlock(f"{tool}1", tool, arguments))


def replies(*answers: Answer) -> PurposeModel:
    return PurposeModel(chat=[*answers, says("fine")])


def prepared(house: House, name: str = "notes.md") -> Path:
    """The file as the model finds it; the ritual of the first start is over."""
    file = house.workspace / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(OLD, encoding="utf-8")
    return file


def add_by_hand(file: Path) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(MINE)


def result(events: list[Event], tool: str = "write") -> ToolFinished:
    return [event for event in events if isinstance(event, ToolFinished) and event.name == tool][-1]


async def read_then(house: House, model: PurposeModel, file: Path, *, window: int = 60_000) -> Agent:
    """The agent after a turn in which its model has read `file`."""
    path = file.relative_to(house.workspace).as_posix()
    model.replies["chat"] = [uses("read", path=path), says("read"), *model.replies["chat"]]
    agent = house.open(model, window=window)
    assert not result(await talk(agent, "read it"), "read").is_error
    return agent


@pytest.mark.parametrize("name", FILES)
async def test_within_a_turn(house: House, name: str) -> None:
    file = prepared(house, name)

    def write_after_the_user(_request: ChatRequest) -> Answer:
        add_by_hand(file)
        return uses("write", path=name, content=NEW)

    model = PurposeModel(chat=[uses("read", path=name), write_after_the_user, says("done")])
    written = result(await talk(house.open(model, window=60_000), "tidy up"))
    assert written.is_error
    assert MINE.strip() in written.output
    assert file.read_text(encoding="utf-8") == OLD + MINE


@pytest.mark.parametrize("name", FILES)
async def test_over_turns_and_after_a_second_read_it_is_written(house: House, name: str) -> None:
    file = prepared(house, name)
    model = replies(
        uses("write", path=name, content=NEW), uses("read", path=name), uses("write", path=name, content=NEW + MINE)
    )
    agent = await read_then(house, model, file)
    add_by_hand(file)
    events = await talk(agent, "tidy up")
    tools = [(event.name, event.is_error) for event in events if isinstance(event, ToolFinished)]
    assert tools == [("write", True), ("read", False), ("write", False)]
    assert file.read_text(encoding="utf-8") == NEW + MINE


# The file, what is in it, the user's lines during the turn: whether the prompt shows it whole, and it may be replaced.
IN_PROMPT: dict[str, tuple[str, str, str, bool]] = {
    "whole": ("MEMORY.md", OLD, "", True),
    "whole, of a person": ("USER.md", "- 喜欢茶\n", "", True),
    "another spelling": ("memory.md", OLD, "", True),
    "from Windows": ("MEMORY.md", "\ufeff# Notes\r\n- tea\r\n\r\n", "", True),
    "cut": ("MEMORY.md", "".join(f"- {number} tea\n" for number in range(9_000)), "", False),
    "ticks": ("MEMORY.md", f"{'`' * 90}\n", "", False),
    "changed in the turn": ("MEMORY.md", OLD, MINE, False),
    "not in it": ("notes.md", OLD, "", False),
    "in no prompt": ("memory/plan.md", OLD, "", False),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_PROMPT)
async def test_what_stands_in_the_prompt_was_seen(house: House, case: str) -> None:
    name, text, added, written = IN_PROMPT[case]
    file = prepared(house, name)
    file.write_bytes(text.encode())

    def after_the_user(_request: ChatRequest) -> Answer:
        file.write_bytes((text + added).encode())
        return uses("write", path=name, content=NEW)

    events = await talk(house.open(PurposeModel(chat=[after_the_user, says("done")]), window=60_000), "tidy up")
    assert result(events).is_error != written
    assert ("+- added by hand" in result(events).output) == bool(added)
    assert file.read_bytes() == (NEW if written else text + added).encode()


async def test_what_stood_in_an_earlier_prompt_is_no_view_of_the_file(house: House) -> None:
    """The prompt is made anew with each turn: the model knows the file as it is in this one."""
    file = prepared(house, "MEMORY.md")
    model = PurposeModel(chat=[says("hello"), uses("write", path="MEMORY.md", content=NEW + MINE), says("done")])
    agent = house.open(model, window=60_000)
    await talk(agent, "hello")
    add_by_hand(file)
    assert not result(await talk(agent, "tidy up")).is_error
    add_by_hand(file)
    model.replies["chat"] = [uses("edit", path="MEMORY.md", old="coffee", new="ale"), says("done")]
    await talk(agent, "ale")
    model.replies["chat"] = [uses("write", path="MEMORY.md", content="# Notes\n"), says("done")]
    assert not result(await talk(agent, "all of it")).is_error


async def test_unchanged_it_is_written_over_turns(house: House) -> None:
    file = prepared(house)
    agent = await read_then(house, replies(uses("write", path="./notes.md", content=NEW)), file)
    assert not result(await talk(agent, "tidy up")).is_error
    assert file.read_text(encoding="utf-8") == NEW


Between = Callable[[House, Agent, PurposeModel], Awaitable[Agent]]


async def compacted(_house: House, agent: Agent, _model: PurposeModel) -> Agent:
    await fill(agent, 12, 900)
    await talk(agent, "/compact")
    assert compactions(agent)
    assert not any(isinstance(message, ToolResultMessage) for message in agent.conversation.messages)
    return agent


async def resumed(house: House, agent: Agent, model: PurposeModel) -> Agent:
    session = agent.conversation.session_id
    await agent.close(hasty=True)
    again = house.open(model, window=60_000)
    assert again.conversation.session_id == session
    return again


async def compacted_and_resumed(house: House, agent: Agent, model: PurposeModel) -> Agent:
    return await resumed(house, await compacted(house, agent, model), model)


async def taken_back(_house: House, agent: Agent, _model: PurposeModel) -> Agent:
    await agent.rewind(entry_of(agent, "read it"))
    return agent


async def forked(_house: House, agent: Agent, _model: PurposeModel) -> Agent:
    await agent.fork()
    return agent


async def forked_before(_house: House, agent: Agent, _model: PurposeModel) -> Agent:
    await agent.fork(at=entry_of(agent, "read it"))
    return agent


async def begun_anew(_house: House, agent: Agent, _model: PurposeModel) -> Agent:
    await talk(agent, "/new")
    return agent


async def in_another_session(house: House, _agent: Agent, model: PurposeModel) -> Agent:
    return house.open(model, window=60_000, session="other")


# What came between -> whether the model still has what it read.
BETWEEN: dict[Between, bool] = {
    compacted: False, resumed: True, compacted_and_resumed: False, taken_back: False, begun_anew: False,
    in_another_session: False, forked: True, forked_before: False,
}  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN, ids=lambda between: between.__name__)
@pytest.mark.parametrize("changed", [True, False])
async def test_whatever_comes_between(house: House, between: Between, *, changed: bool) -> None:
    file = prepared(house)
    model = replies()
    agent = await between(house, await read_then(house, model, file), model)
    if changed:
        add_by_hand(file)
    model.replies["chat"] = [uses("write", path="notes.md", content=NEW), says("done")]
    written = result(await talk(agent, "tidy up"))
    assert written.is_error == (changed or not BETWEEN[between])
    assert ("+- added by hand" in written.output) == (changed and BETWEEN[between])
    assert file.read_text(encoding="utf-8") == (OLD + MINE * changed if written.is_error else NEW)


async def test_a_result_that_the_window_has_no_room_for_was_not_seen(house: House) -> None:
    file = prepared(house)
    file.write_text("".join(f"- {number} {WORD * 8}\n" for number in range(300)), encoding="utf-8")
    before = file.read_bytes()
    agent = await read_then(house, replies(uses("write", path="notes.md", content=NEW)), file, window=8_000)
    events = await talk(agent, "tidy up")
    assert result(events).is_error
    assert file.read_bytes() == before


async def test_a_flush_sees_for_itself_and_replaces_nothing(house: House) -> None:
    file = prepared(house)
    house.daily.parent.mkdir(exist_ok=True)
    house.daily.write_text("- by hand\n", encoding="utf-8")
    daily = house.daily.relative_to(house.workspace).as_posix()
    model = replies(says("one"))
    model.replies["flush"] = [
        uses("read", path="notes.md"),
        uses("read", path=daily),
        uses("write", path="notes.md", content=NEW),
        uses("write", path=daily, content="- from the flush\n"),
        says("NO_REPLY"),
    ]
    agent = house.open(model, window=60_000)
    await fill(agent, 12, 900)
    await talk(agent, "/compact")
    [offer] = offers(agent)
    assert isinstance(offer, Offer)
    assert offer.result == "written"
    assert file.read_text(encoding="utf-8") == OLD
    assert house.daily.read_text(encoding="utf-8").startswith("- by hand\n")
    for path, kept in ((file, OLD), (house.daily, "- by hand\n")):
        name = path.relative_to(house.workspace).as_posix()
        model.replies["chat"] = [uses("write", path=name, content=NEW), says("done")]
        assert result(await talk(agent, "tidy up")).is_error
        assert path.read_text(encoding="utf-8").startswith(kept)
