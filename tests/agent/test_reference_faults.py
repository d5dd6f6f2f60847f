"""Faults of the reference system that take a whole conversation to show: each is done to the agent here, which must not
have it. The section of the reference sheet is in each docstring; its section Tests lists all."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from clawbot.agent.events import CommandOutput, MessageFinished, SessionChanged
from clawbot.agent.flush import flush_prompt, ordinal
from clawbot.agent.slash import parse_command
from clawbot.config.schema_agent import MemoryFlushSettings
from clawbot.llm.errors import BadResponseError, ContextOverflowError, ModelError, RefusedError, UnreachableError
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import ToolCallBlock, ToolResultMessage, read_compacted
from tests.agent.fakes import Answer, FakeTool, calls, says
from tests.agent.gate_host import WORD, House, PurposeModel, compactions, ended, fill, lines, reported, talk
from tests.agent.lossless import StepClock

# -- 4: resets, commands, failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", ("new", "")),
        ("  /NEW  ", ("new", "")),
        ("/Reset what now?", ("reset", "what now?")),
        ("/new 写一首诗", ("new", "写一首诗")),
        ("/new one\n\ntwo", ("new", "one\n\ntwo")),
        ("/newsletter", ("newsletter", "")),
        ("/new@bot", None),
        ("/new/file.txt is gone", None),
        ("please /new", None),
    ],
)
def test_what_a_reset_is(text: str, command: tuple[str, str] | None) -> None:
    """Sheet 4.1 and list B 17: any case, blanks around; no other word that begins like it."""
    parsed = parse_command(text)
    assert (parsed and (parsed.name, parsed.argument)) == command


async def test_a_word_that_begins_like_a_reset_ends_no_session(house: House) -> None:
    """Sheet, list B 17."""
    agent = house.open(PurposeModel())
    await talk(agent, "hello")
    session = agent.conversation.session_id
    for text in ("/newsletter", "/new@bot", "/newer things"):
        assert not any(isinstance(event, SessionChanged) for event in await talk(agent, text))
    assert agent.conversation.session_id == session


async def test_a_reset_keeps_the_model_that_was_chosen_and_the_old_transcript(house: House) -> None:
    """Sheet 4.2 and list B 16: an automatic reset lost both; the one way out of a session here keeps them."""
    house.others["small/model"] = PurposeModel()
    agent = house.open(PurposeModel())
    await talk(agent, "/model small/model")
    await talk(agent, "remember the harbour")
    old = agent.conversation.session.transcript.path
    before = old.read_bytes()
    await talk(agent, "/reset")
    assert agent.conversation.session.transcript.path != old
    assert agent.conversation.session.record.model_override == "small/model"
    assert old.read_bytes().startswith(before)


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("Please ensure that function call turn comes immediately after a user turn"),
        RefusedError('roles must alternate between "user" and "assistant"'),
        BadResponseError("The answer made no sense."),
        ContextOverflowError("prompt is too long"),
    ],
    ids=["function call order", "role order", "bad response", "overflow"],
)
async def test_no_failure_of_a_provider_costs_the_session(house: House, error: ModelError) -> None:
    """Sheet 4.8, BUG: the transcript was deleted with its line in the index, or the session reset."""
    tool = FakeTool("look", "seen")
    chat: list[Answer] = [says("fine"), calls(ToolCallBlock("1", "look")), says("seen it"), [error]]
    model = PurposeModel(chat=chat, summary=[[UnreachableError("no route")]])
    agent = house.open(model, tool, window=128_000)
    await talk(agent, "the harbour is deep")
    await talk(agent, "look")
    session, path = agent.conversation.session_id, agent.conversation.session.transcript.path
    before = path.read_bytes()
    events = await talk(agent, "and now?")
    assert ended(events).status == "failed"
    assert not any(isinstance(event, SessionChanged) for event in events)
    assert path.read_bytes().startswith(before)
    model.replies["chat"] = [says("there again")]
    events = await talk(agent, "hello")
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["there again"]
    sent = [message.text for message in model.of("chat")[-1].messages]
    assert {"the harbour is deep", "look", "seen", "seen it", "and now?", "hello"} <= set(sent)
    await agent.close()
    again = house.open(PurposeModel())
    assert again.conversation.session_id == session
    assert again.conversation.items[0].message.text == "the harbour is deep"


# -- 6: accounting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reserve", "floor"), [(6_000, 1_000), (5_000, 0), (1_000, 5_000)])
async def test_memory_is_saved_in_a_turn_before_the_one_that_compacts(house: House, reserve: int, floor: int) -> None:
    """Sheet 6.5, BUG: the mark of the flush came from the floor alone, and so behind that of compaction."""
    model = PurposeModel()
    limits: dict[str, Any] = {"reserve_tokens": reserve, "reserve_tokens_floor": floor}
    agent = house.open(model, window=24_000, memory_flush={"soft_threshold_tokens": 2_500}, **limits)
    await fill(agent, 20, 900)
    first = model.purposes.index("flush")
    assert model.purposes[first : first + 2] == ["flush", "chat"]
    assert first < model.purposes.index("summary")


async def test_messages_that_waited_are_checked_as_well(house: House) -> None:
    """Sheet 4.7: queued messages ran without the check for a flush."""
    model = PurposeModel()
    agent = house.open(model, window=20_000)
    await asyncio.gather(*(talk(agent, f"turn {turn}: " + WORD * 800) for turn in range(14)))
    assert compactions(agent) == []
    assert model.purposes.count("flush") == 1
    assert model.purposes[-1] == "chat"


# -- 7: compaction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
async def test_what_a_kept_answer_reported_calls_for_nothing(house: House, restart: bool) -> None:
    """Sheet 7.1, trap, and list B 3: there is much to cut, and only the old figure says that it must be."""
    model = PurposeModel(chat=[reported("fine", 3_000), reported("fine", 6_500), says("fine")])
    agent = house.open(model)
    await fill(agent, 2, 600)
    assert len(compactions(agent)) == 1
    record = agent.conversation.session.record
    assert (record.total_tokens, record.total_tokens_fresh) == (None, False)
    if restart:
        await agent.close()
        agent = house.open(model)
        assert not agent.status.exact
    await talk(agent, WORD * 900)
    assert len(compactions(agent)) == 1
    assert model.purposes.count("flush") <= 1


async def test_a_result_too_large_for_the_window_is_cut_in_the_view_and_whole_on_disk(house: House) -> None:
    """Sheet 7.3, BUG: entries were written again under new ids, and what a compaction had kept was not found any more.
    Nor is a giant result at the end a reason to give up."""
    giant = "".join(f"line {number} of the log\n" for number in range(8_000))

    def answer(request: ChatRequest) -> Answer:
        size = sum(len(message.text) for message in request.messages)
        if size > 16_000:
            return [ContextOverflowError("maximum context length is 8000 tokens", limit=8_000)]
        looked = any(isinstance(message, ToolResultMessage) for message in request.messages[-1:])
        wants = request.messages[-1].text == "look"
        return says("seen it") if looked else calls(ToolCallBlock("1", "look")) if wants else says("fine")

    model = PurposeModel(chat=[answer])
    agent = house.open(model, FakeTool("look", giant), window=128_000)
    await fill(agent, 3, 300)
    before = agent.conversation.session.transcript.path.read_bytes()
    events = await talk(agent, "look")
    assert ended(events).status == "done"
    assert compactions(agent)
    await fill(agent, 12, 400)
    assert len(compactions(agent)) > 1
    path = agent.conversation.session.transcript.path
    assert path.read_bytes().startswith(before)
    stored = [line["message"] for line in lines(agent) if line["type"] == "message"]
    assert [message["content"][0]["text"] for message in stored if message["role"] == "toolResult"] == [giant]
    ids = [line["id"] for line in lines(agent)]
    assert len(set(ids)) == len(ids)
    assert all(line["firstKeptEntryId"] in ids[: ids.index(line["id"])] for line in compactions(agent))
    seen = [item.entry_id for item in agent.conversation.items]
    await agent.close()
    again = house.open(PurposeModel())
    assert [item.entry_id for item in again.conversation.items] == seen


async def test_rules_come_from_the_workspace_wherever_the_program_was_started(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sheet 7.5, BUG: the rules that a summary repeated were read from the folder of the process."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.joinpath("AGENTS.md").write_text("## Rules\nSpeak like a pirate.\n")
    house.workspace.joinpath("AGENTS.md").write_text("## Rules\nSpeak plainly.\n")
    monkeypatch.chdir(elsewhere)
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    await talk(agent, "hello")
    assert [line["summary"].count("Speak") for line in compactions(agent)] == [0]
    assert "Speak plainly." in model.of("chat")[-1].system
    sent = [text for request in model.requests for text in (request.system, *(m.text for m in request.messages))]
    assert not any("pirate" in text for text in sent)


async def test_what_a_compaction_kept_is_summarised_by_the_next_one_and_once(house: House) -> None:
    """Sheet 7.3, BUG, and list B 1, over many compactions."""
    model = PurposeModel()
    agent = house.open(model)
    for turn in range(30):
        await talk(agent, f"turn {turn}: " + WORD * 500)
    assert len(compactions(agent)) > 2
    asked = [message.text for request in model.of("summary") for message in request.messages]
    summarised = "".join(text for text in asked if read_compacted(text) is None)
    counts = [summarised.count(f"turn {turn}: {WORD}") for turn in range(30)]
    kept = "".join(message.text for message in agent.conversation.messages[1:])
    left = next(turn for turn in range(30) if f"turn {turn}: {WORD}" in kept)
    assert counts == [1] * left + [0] * (30 - left)
    assert len([line for line in lines(agent) if line["type"] == "message"]) == 60


# -- 8: the flush -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "day"),
    [("Pacific/Kiritimati", "2026-11-21"), ("Europe/Berlin", "2026-11-20"), ("Etc/GMT+12", "2026-11-19")],
)
def test_every_day_in_a_prompt_is_the_one_of_the_users_clock(zone: str, day: str) -> None:
    """Sheet 8.3 and list B 8, where UTC and the user may have different days."""
    now = datetime(2026, 11, 20, 10, 30, tzinfo=UTC).astimezone(ZoneInfo(zone))
    own = "Today is YYYY-MM-DD. Append to memory/YYYY-MM-DD.md, never to another than memory/YYYY-MM-DD.md."
    text = flush_prompt(MemoryFlushSettings(prompt=own, system_prompt=own), now)
    assert text.count(day) == 6
    assert "YYYY" not in text
    assert f"Current time: {now:%A, %B} {ordinal(now.day)}, 2026" in text


async def test_figures_after_a_compaction_ask_for_no_flush(house: House) -> None:
    """Sheet, list B 3 and 5: the new cycle begins with what is counted, not with what was reported before."""
    model = PurposeModel(chat=[reported("fine", 3_000), reported("fine", 4_000), reported("fine", 5_800), says("fine")])
    agent = house.open(model, window=8_000)
    await fill(agent, 3, 300)
    await talk(agent, "/compact")
    assert len(compactions(agent)) == 1
    assert agent.conversation.messages[1:] != []
    done = len(model.requests)
    await talk(agent, "hello")
    await talk(agent, "hello again")
    assert model.purposes[done:] == ["chat", "chat"]
    status = next(event for event in await talk(agent, "/status") if isinstance(event, CommandOutput)).data
    assert status is not None
    assert status["tokens"] < 5_000


# -- 10: pruning ------------------------------------------------------------------------------------------------------


async def test_what_was_pruned_stays_so_from_call_to_call_and_over_a_restart(tmp_path: Path) -> None:
    """Sheet 10: else the provider's cache is lost with each call. The transcript has it all."""
    clock = StepClock()
    house = House(tmp_path, clock)
    giant = "".join(f"line {number} of the log\n" for number in range(1_200))
    answers: list[Answer] = [calls(ToolCallBlock("1", "look")), says("seen it")]
    model = PurposeModel(chat=[*answers, says("fine")])
    pruning = {"mode": "cache-ttl", "ttl": "5m", "soft_trim_ratio": 0.1}

    def seen() -> str:
        messages = model.of("chat")[-1].messages
        return next(message.text for message in messages if isinstance(message, ToolResultMessage))

    agent = house.open(model, FakeTool("look", giant), window=24_000, pruning=pruning)
    await talk(agent, "look")
    await fill(agent, 3, 10)
    assert seen() == giant
    clock.moment += timedelta(minutes=6)
    await talk(agent, "later")
    trimmed = seen()
    assert len(trimmed) < 4_000
    await talk(agent, "at once")
    assert seen() == trimmed
    await agent.close()
    agent = house.open(model, FakeTool("look", giant), window=24_000, pruning=pruning)
    clock.moment += timedelta(minutes=1)
    await talk(agent, "after the restart")
    assert seen() == trimmed
    assert [line["message"]["content"][0]["text"] for line in lines(agent) if "toolResult" in str(line)] == [giant]
    await agent.close()
