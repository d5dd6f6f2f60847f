"""`kill -9` at every step on the disk of what is offered in the background: each word is offered and the fact written
once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel, notes, talk
from tests.agent.keeping_house import open_agent, store_in, taken
from tests.faults import kill_at_each

# Each step of the disk is an agent of its own, with a process for its hooks: minutes where others share the cores.
pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

FACT = "- the dog is Bruno\n"
DAILY = "workspace/memory/2024-03-11.md"
IMPORTS = """
    import asyncio
    from pathlib import Path
    from tests.agent.fakes import says
    from tests.agent.gate_host import PurposeModel, notes, talk
    from tests.agent.keeping_house import open_agent
"""
STORY = (
    IMPORTS
    + """
    async def main():
        model = PurposeModel(flush=notes("- the dog is Bruno\\n"), slug=[says("")])
        agent = await open_agent(Path.cwd(), model, {minutes})
        arm()
        {then}
        await agent.ended.settled()
        await agent.close()

    asyncio.run(main())
"""
)


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A state in which more was said in the main session than a note holds."""
    place = tmp_path / "home"
    (place / "workspace").mkdir(parents=True)
    agent = await open_agent(place, PurposeModel(), 0)
    for turn in range(9):
        await talk(agent, f"small talk {turn}")
    await agent.close()
    return place


def main_of(place: Path) -> str:
    return store_in(place).find("main").session_id


async def start_again(place: Path) -> None:
    """The next start goes on with what is pending."""
    agent = await open_agent(place, PurposeModel(flush=notes(FACT), slug=[says("")]), 5)
    if agent.conversation.session.others_pending:
        agent.ended.wake()
        await agent.ended.settled()
    await agent.close()


def is_kept_once(place: Path, session_id: str) -> bool:
    """Whether memory was offered each word of the session once, and has its fact once."""
    store = store_in(place)
    offered = taken(store.path_of(store.find(session_id)))
    return set(offered.values()) == {1} and (place / DAILY).read_text("utf-8") == FACT


async def test_a_kill_at_every_step_behind_a_reset_and_of_the_next_start(home: Path, tmp_path: Path) -> None:
    """From the end of `/new` on, and before: where the old session is still talked in, its own end sees to it. Where
    the first turn was killed before it began, the one of the next start may be as well."""
    old = main_of(home)
    first = STORY.format(minutes=1, then='await talk(agent, "/new")')
    *killed, whole = kill_at_each(IMPORTS, first, place=home, into=tmp_path / "first")
    begun = [place for place in killed if main_of(place) != old]
    second = STORY.format(minutes=2, then="agent.ended.wake()")
    *again, whole_again = kill_at_each(IMPORTS, second, place=begun[0], into=tmp_path / "second")
    assert is_kept_once(whole, old)
    assert is_kept_once(whole_again, old)
    assert len(begun) > 10
    assert len(again) > 10
    for place in (*begun, *again):
        await start_again(place)
        assert is_kept_once(place, old), place
        assert list(store_in(place).pending()) == [], place
