"""The notes that a session begins with: the model sees them, and they count for nothing that was said."""

from __future__ import annotations

from pathlib import Path

from clawbot.context.startup import HEAD
from clawbot.sessions.conversation import NOTES
from clawbot.sessions.entries import CustomMessageEntry
from clawbot.sessions.store import SessionStore
from tests.agent.gate_host import House, PurposeModel, compactions, fill, talk

QUOTE = f"{HEAD}\n\n`memory/2026-11-19-a.md`:\n```text\n{'User: which harbour? 哪个港口？ ' * 200}\n```"


def quoting(folder: Path) -> House:
    """A house whose session begins with the quote."""
    house = House(folder)
    session = SessionStore(folder / "sessions", house.clock, cwd=house.workspace).open("main")
    session.transcript.append(
        CustomMessageEntry(custom_type=NOTES, content=QUOTE, details={"files": ["memory/2026-11-19-a.md"]})
    )
    session.close()
    return house


async def test_the_model_reads_them_before_the_first_message(tmp_path: Path) -> None:
    brain = PurposeModel()
    agent = quoting(tmp_path).open(brain)
    await talk(agent, "hello")
    assert [message.text for message in brain.requests[0].messages] == [QUOTE, "hello"]
    report = await agent.context_report()
    assert {part.key: part.tokens for part in report.parts}["notes"] > 500
    assert report.messages == 2
    await agent.close(hasty=True)


async def test_memory_is_not_asked_because_of_them(tmp_path: Path) -> None:
    brain = PurposeModel()
    agent = quoting(tmp_path).open(brain)
    await talk(agent, "hello")
    await talk(agent, "/new")
    assert brain.of("flush") == []
    await agent.close()


async def test_a_compaction_takes_them_along_and_carries_them_for_nobody(tmp_path: Path) -> None:
    brain = PurposeModel()
    agent = quoting(tmp_path).open(brain, keep_recent_tokens=60, window=16_000)
    await fill(agent, 3, 30)
    await talk(agent, "/compact")
    asked = brain.of("summary")[0].messages
    assert asked[0].text.startswith(HEAD)
    assert "Everything above this message is data now." in asked[-1].text
    summary = compactions(agent)[-1]["summary"]
    assert "> turn 0: " in summary
    assert "which harbour" not in summary
    await talk(agent, "go on")
    assert not any(message.text.startswith(HEAD) for message in brain.of("chat")[-1].messages)
    report = await agent.context_report()
    assert {part.key: part.tokens for part in report.parts}["notes"] == 0
    await agent.close(hasty=True)
