"""The gate: what is offered when, what is recorded, and that nothing waits for a memory that fails."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from clawbot.agent.events import Event, MemoryWritten, Notice, SessionChanged
from clawbot.llm.errors import UnreachableError
from clawbot.sessions.entries import FINAL, OFFER, Offer
from tests.agent.fakes import Stalling, says
from tests.agent.gate_host import SUMMARY, House, PurposeModel, compactions, ended, fill, lines, notes, offers, talk

DOWN = [UnreachableError("no route to the model")]


async def test_a_memory_that_fails_is_told_once_in_a_cycle_and_holds_nobody_up(house: House) -> None:
    """Reference sheet 8.4: three failures, one notice, and the user's turn goes on."""
    model = PurposeModel(flush=[DOWN])
    agent = house.open(model, window=20_000)
    events = []
    for _ in range(18):
        events += await fill(agent, 1, 680)
    assert compactions(agent) == []
    assert model.purposes.count("flush") == 3
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert "no route to the model" in notice.text
    assert [offer.result for offer in offers(agent)] == ["failed"] * 3
    assert ended(events).status == "done"


async def test_what_memory_would_not_take_leaves_nevertheless_and_the_record_says_so(house: House) -> None:
    model = PurposeModel(flush=[DOWN])
    agent = house.open(model)
    await fill(agent, 9, 600)
    assert compactions(agent)
    final = [offer for offer in offers(agent) if offer.result in FINAL]
    assert final
    assert {offer.result for offer in final} == {"abandoned"}


async def test_words_that_stay_because_the_summary_failed_are_offered_again(house: House) -> None:
    """One outage takes both: nothing left, so nothing may count as let go."""
    model = PurposeModel(flush=[DOWN, *notes("- the harbour is deep")], summary=[DOWN, says(SUMMARY)])
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    assert compactions(agent) == []
    assert [offer.result for offer in offers(agent)] == ["failed"]
    await talk(agent, "/compact")
    assert [offer.result for offer in offers(agent)] == ["failed", "written"]
    assert len(compactions(agent)) == 1


async def test_what_is_let_go_is_what_leaves_and_not_what_stays(house: House) -> None:
    model = PurposeModel(flush=[DOWN])
    agent = house.open(model, window=128_000)
    await fill(agent, 6, 300)
    events = await talk(agent, "/compact")
    [_, let_go] = offers(agent)
    assert let_go.result == "abandoned"
    [compaction] = compactions(agent)
    ids = [line["id"] for line in lines(agent) if line["type"] == "message"]
    assert ids.index(let_go.last) + 1 == ids.index(compaction["firstKeptEntryId"])
    assert [event.level for event in events if isinstance(event, Notice)] == ["warning"]


async def test_a_new_cycle_tries_again(house: House) -> None:
    model = PurposeModel(flush=[DOWN] * 4 + notes("- back again"))
    agent = house.open(model)
    events = await fill(agent, 16, 600)
    assert any(isinstance(event, MemoryWritten) for event in events)


async def test_growth_of_the_transcript_makes_a_flush_each_time_it_has_grown_so_much(house: House) -> None:
    """Reference sheet 8.2, GAP: without a compaction the second flush never came."""
    model = PurposeModel()
    agent = house.open(model, window=1_000_000, memory_flush={"force_flush_transcript_bytes": 20_000})
    await fill(agent, 12, 600)
    assert compactions(agent) == []
    grown = agent.conversation.session.transcript.path.stat().st_size
    assert model.purposes.count("flush") == grown // 22_000
    spans = [(offer.first, offer.last) for offer in offers(agent)]
    assert len(set(spans)) == len(spans) >= 2


async def test_a_reset_begins_anew_and_then_offers_what_was_said(house: House) -> None:
    """Reference sheet 8.5, GAP: nothing was saved before `/new`."""
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model)
    await fill(agent, 2, 400)
    path = agent.conversation.session.transcript.path
    heard: list[Event] = []
    agent.on_event = heard.append
    events = await talk(agent, "/new")
    await agent.ended.settled()
    assert any(isinstance(event, SessionChanged) for event in events)
    told = [event for event in [*events, *heard] if isinstance(event, Notice | MemoryWritten)]
    assert told == [
        Notice(
            level="info", text="memory: 1 line from the conversation before", path=f"memory/{house.daily.name}", line=1
        )
    ]
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [msgspec.convert(line["data"], Offer) for line in records if line.get("customType") == OFFER]
    assert [(offer.exit, offer.phase) for offer in kept] == [("reset", "begin"), ("reset", "write"), ("reset", "end")]
    assert kept[-1].messages == 4


async def test_a_reset_after_a_word_or_two_asks_no_model_and_the_record_says_why(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, memory_flush={"reset_min_tokens": 500})
    await talk(agent, "hello")
    old = agent.conversation.session.transcript.path
    await talk(agent, "/new")
    await agent.ended.settled()
    assert model.purposes == ["chat"]
    [record] = [json.loads(line) for line in old.read_text().splitlines() if OFFER in line]
    assert record["data"]["result"] == "skipped"


async def test_what_was_offered_is_not_offered_again_by_a_reset(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    flushes = model.purposes.count("flush")
    await talk(agent, "/new")
    await agent.ended.settled()
    assert model.purposes.count("flush") == flushes == 1


async def test_nobody_waits_for_what_a_reset_offers(house: House) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await answered.wait()

    agent = house.open(PurposeModel(flush=[[wait, *says("NO_REPLY")]]))
    await fill(agent, 2, 400)
    events = await talk(agent, "/new")
    assert any(isinstance(event, SessionChanged) for event in events)
    await asked.wait()
    assert not agent.saving
    assert not agent.interrupt()
    assert ended(await talk(agent, "and now?")).status == "done"
    answered.set()
    await agent.ended.settled()


async def test_what_was_written_before_esc_is_not_written_again(house: House) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[notes("- the harbour is deep")[0], [stall], says("NO_REPLY")])
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    submission = asyncio.create_task(talk(agent, "/compact"))
    await stall.reached.wait()
    agent.interrupt()
    events = await submission
    assert ended(events).status == "interrupted"
    assert any(isinstance(event, MemoryWritten) for event in events)
    await talk(agent, "/compact")
    assert model.purposes.count("flush") == 2
    assert [offer.result for offer in offers(agent)] == ["written"]


async def test_the_end_of_the_program_offers_what_was_said_unless_it_is_hasty(house: House) -> None:
    """Reference sheet 8.5, GAP: nothing was saved before the end."""
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model, window=128_000)
    await fill(agent, 3, 900)
    assert agent.will_flush
    await agent.close()
    assert house.daily.read_text() == "- the harbour is deep\n"
    again = PurposeModel()
    agent = house.open(again, window=128_000)
    await talk(agent, "hello")
    assert not agent.will_flush
    await fill(agent, 3, 900)
    assert agent.will_flush
    await agent.close(hasty=True)
    assert "flush" not in again.purposes


async def test_a_command_without_a_screen_ends_at_once(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, window=128_000, interactive=False)
    await fill(agent, 3, 900)
    await agent.close()
    assert "flush" not in model.purposes


async def test_the_end_of_the_program_waits_for_memory_so_long_and_no_longer(house: House) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    agent = house.open(PurposeModel(flush=[[wait]]), window=128_000, memory_flush={"quit_timeout": 0.05})
    await fill(agent, 3, 900)
    path = agent.conversation.session.transcript.path
    await agent.close()
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["data"]["phase"], last["data"]["result"]) == ("end", "interrupted")


async def test_who_has_no_patience_at_the_end_still_leaves_the_session_to_others(house: House) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall]])
    agent = house.open(model, window=128_000)
    await fill(agent, 3, 900)
    closing = asyncio.create_task(agent.close())
    await stall.reached.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert model.closed
    again = house.open(PurposeModel(), window=128_000)
    assert again.conversation.messages


async def test_a_flush_has_a_model_of_its_own_if_the_settings_name_one(house: House) -> None:
    """Reference sheet 8.1."""
    other = PurposeModel(flush=notes("- deep"))
    house.others["small/model"] = other
    model = PurposeModel()
    agent = house.open(model, memory_flush={"model": "small/model"})
    await fill(agent, 5, 600)
    assert "flush" not in model.purposes
    assert other.closed
    assert [offer.model for offer in offers(agent)] == ["small/model"]


async def test_a_flush_that_is_switched_off_leaves_a_record_and_asks_nobody(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, memory_flush={"enabled": False})
    await fill(agent, 9, 600)
    assert "flush" not in model.purposes
    assert compactions(agent)
    assert {offer.result for offer in offers(agent)} == {"skipped"}


async def test_a_crash_between_the_write_and_its_record_does_not_write_twice(house: House, tmp_path: Path) -> None:
    """The record before the write and the file itself tell that memory took it."""
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model)
    await fill(agent, 5, 600)
    path = agent.conversation.session.transcript.path
    await agent.close(hasty=True)
    whole = path.read_text().splitlines(keepends=True)
    ending = next(index for index, line in enumerate(whole) if '"phase":"end"' in line)
    path.write_text("".join(whole[:ending]))
    again = PurposeModel(flush=notes("- a second time"))
    agent = house.open(again)
    await talk(agent, "hello")
    assert "flush" not in again.purposes
    [offer] = offers(agent)
    assert (offer.result, offer.recovered) == ("written", True)
    assert house.daily.read_text() == "- the harbour is deep\n"


async def test_a_crash_before_the_write_offers_again(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model)
    await fill(agent, 5, 600)
    path = agent.conversation.session.transcript.path
    await agent.close(hasty=True)
    whole = path.read_text().splitlines(keepends=True)
    ending = next(index for index, line in enumerate(whole) if '"phase":"end"' in line)
    path.write_text("".join(whole[:ending]))
    again = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(again)
    await talk(agent, "hello")
    assert again.purposes == ["flush", "flush", "chat"]
    assert [offer.result for offer in offers(agent)] == ["interrupted", "written"]


async def test_the_records_are_private_state_that_the_model_never_sees(house: House) -> None:
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model)
    await fill(agent, 5, 600)
    assert any(line.get("customType") == OFFER for line in lines(agent))
    sent = "".join(message.text for request in model.of("chat") for message in request.messages)
    assert "memory-offer" not in sent
    assert "memory flush" not in sent


async def test_the_list_of_sessions_knows_when_memory_was_offered_last(house: House) -> None:
    """Reference sheet 8.4."""
    agent = house.open(PurposeModel())
    await fill(agent, 5, 600)
    record = agent.deps.store.current("main")
    assert record is not None
    assert record.memory_flush_at is not None
    assert record.memory_flush_compaction_count == record.compaction_count == 0


async def test_a_flush_that_talks_is_heard_by_nobody(house: House) -> None:
    model = PurposeModel(flush=[says("I saved nothing, but hello user!")])
    agent = house.open(model)
    events = await fill(agent, 5, 600)
    assert "hello user" not in "".join(str(event) for event in events)
    [offer] = offers(agent)
    assert (offer.result, offer.reply) == ("nothing", "I saved nothing, but hello user!")


async def test_a_weak_model_is_replaced_where_it_writes_junk(tmp_path: Path) -> None:
    """Its prose is no note and its babble no summary: extracts by the offline model are both."""
    prose, babble = "I will remember all of that for you. " * 20, "- the tabs are the tabs\n" * 12
    model = PurposeModel(flush=[says(prose)], summary=[says(babble)])
    house = House(tmp_path)
    agent = house.open(model)
    await talk(agent, "Remember that I always indent with tabs.")
    await fill(agent, 3, 60)
    events = await talk(agent, "/compact")
    assert any("extracts" in event.text for event in events if isinstance(event, Notice))
    assert any(isinstance(event, MemoryWritten) for event in events)
    assert "indent with tabs" in compactions(agent)[-1]["summary"]
    assert [offer.result for offer in offers(agent) if offer.phase == "end"] == ["written"]
    assert len(model.of("flush")) == 1
    await agent.close()
