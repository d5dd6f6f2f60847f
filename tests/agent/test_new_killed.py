"""`kill -9` at every step of `/new` through a whole agent with its hooks: one session, one whole note, and each word
offered to memory once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.agent.gate_host import PurposeModel, talk
from tests.agent.keeping_house import Note, hooks_of, notes_in, open_agent, store_in, taken
from tests.faults import kill_at_each

# Each step of the disk is an agent of its own, with a process for its hooks: minutes where others share the cores.
pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

SAID = (("user", "plan the api"), ("assistant", "fine"), ("user", "把端口表也写进去"), ("assistant", "fine"))
ARCHIVED = "main-20240311-0930"
IMPORTS = """
    import asyncio
    from pathlib import Path
    from tests.agent.fakes import says
    from tests.agent.gate_host import PurposeModel, talk
    from tests.agent.keeping_house import DAILY, open_agent
"""
STORY = (
    IMPORTS
    + """
    async def main():
        answered = asyncio.Event()
        model = PurposeModel(slug=[[{waits}, *says("api-plan")]])
        agent = await open_agent(Path.cwd(), model, {minutes}, policy=DAILY)
        arm()
        await {end}
        answered.set()
        await agent.deps.hooks.settled()
        await agent.close()

    asyncio.run(main())
"""
)
LATER, AT_ONCE = "answered.wait", "lambda: asyncio.sleep(0)"
NEW, BY_THE_CLOCK = 'talk(agent, "/new and now?")', "agent.check_clock()"
NEXT_DAY = 24 * 60


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A state in which things were said in the main session."""
    place = tmp_path / "home"
    place.mkdir()
    agent = await open_agent(place, PurposeModel(), 0)
    for role, text in SAID:
        if role == "user":
            await talk(agent, text)
    await agent.close()
    return place


def old_id(home: Path) -> str:
    """The session that is to be kept."""
    return store_in(home).find("main").session_id


def is_over(place: Path, old: str) -> bool:
    """Whether the old session is archived in `place`; all that must hold after a kill is checked."""
    store = store_in(place)
    listed = {each.name: (each.session_id == old, each.ended) for each in store.list()}
    ended = {ended for is_old, ended in listed.values() if is_old}
    over = listed.get("main", (True, ""))[0] is False
    if over:
        assert set(listed) == {"main", ARCHIVED}
        assert ended in ({"/new"}, {"daily"})
    else:
        assert listed == {"main": (True, "open")}
    kept = [note for note in notes_in(place / "workspace") if note.session_id == old]
    assert [note.said for note in kept] in ([SAID], [] if not over else [SAID])
    return over


async def look_after(place: Path, old: str, minutes: int) -> list[Note]:
    """End the session once more, undisturbed, and return the notes of `old`, which must be archived then."""
    agent = await open_agent(place, PurposeModel(slug=[[]]), minutes)
    if agent.conversation.session_id == old:
        assert [message.text for message in agent.conversation.messages] == [text for _, text in SAID]
    await talk(agent, "/new")
    await hooks_of(agent).settled()
    await agent.close()
    assert is_over_for_good(place, old)
    return [note for note in notes_in(place / "workspace") if note.session_id == old]


def is_over_for_good(place: Path, old: str) -> bool:
    """Whether `old` is listed, ended, and each of its messages was offered to memory once."""
    store = store_in(place)
    record = store.find(old)
    offered = taken(store.path_of(record))
    assert set(offered.values()) == {1}, offered
    assert len(offered) == len(SAID)
    return record.ended_reason is not None


@pytest.mark.parametrize(
    ("waits", "end", "minutes"), [(LATER, NEW, 5), (AT_ONCE, NEW, 5), (LATER, BY_THE_CLOCK, NEXT_DAY)]
)
async def test_a_kill_at_every_step(home: Path, tmp_path: Path, waits: str, end: str, minutes: int) -> None:
    old = old_id(home)
    story = STORY.format(waits=waits, end=end, minutes=minutes)
    *killed, whole = kill_at_each(IMPORTS, story, place=home, into=tmp_path / "steps")
    over = [is_over(place, old) for place in killed]
    if waits is LATER:
        first = over.index(True)
        assert over == [False] * first + [True] * (len(over) - first)
        assert first > 0
    assert is_over(whole, old)
    names = set()
    for place in [*killed, whole]:
        [note] = await look_after(place, old, minutes + 2)
        assert note.said == SAID
        names.add(note.name)
    assert len(names) >= 2


async def test_a_second_new_that_is_killed_as_well_leaves_one_note(home: Path, tmp_path: Path) -> None:
    old = old_id(home)
    first = STORY.format(waits=LATER, end=NEW, minutes=5)
    killed = kill_at_each(IMPORTS, first, place=home, into=tmp_path / "first", every=3)
    kept = [place for place in killed if not is_over(place, old) and notes_in(place / "workspace")]
    assert kept
    for number, place in enumerate(dict.fromkeys([kept[0], kept[-1]])):
        second = STORY.format(waits=LATER, end=NEW, minutes=6)
        for again in kill_at_each(IMPORTS, second, place=place, into=tmp_path / f"second-{number}", every=3):
            is_over(again, old)
            [note] = await look_after(again, old, 7)
            assert note.said == SAID
            shutil.rmtree(again)
