"""What the user said right before the program was killed counts as said, also for the pause that ends sessions."""

from __future__ import annotations

from pathlib import Path

from clawbot.sessions.reset import ResetPolicy
from tests.agent.gate_host import PurposeModel, talk
from tests.agent.keeping_house import open_agent, store_in

IDLE = ResetPolicy(daily_at=None, idle_minutes=60)


async def test_a_session_is_not_idle_since_the_words_before_those_that_a_kill_cut_off(tmp_path: Path) -> None:
    first = await open_agent(tmp_path, PurposeModel(), 0, IDLE)
    await talk(first, "plan the api")
    await first.close()
    cut = await open_agent(tmp_path, PurposeModel(), 50, IDLE)
    session = cut.conversation.session_id
    index = (tmp_path / "sessions" / "sessions.json").read_bytes()
    await talk(cut, "加上端口")
    await cut.close()
    (tmp_path / "sessions" / "sessions.json").write_bytes(index)  # as a kill in the middle of the turn leaves it
    again = await open_agent(tmp_path, PurposeModel(), 70, IDLE)
    await talk(again, "and now?")
    assert again.conversation.session_id == session
    await again.close()
    late = await open_agent(tmp_path, PurposeModel(), 70 + 61, IDLE)
    await talk(late, "und jetzt?")
    assert late.conversation.session_id != session
    await late.close()
    assert store_in(tmp_path, 140).find(session).ended_reason == "idle"
