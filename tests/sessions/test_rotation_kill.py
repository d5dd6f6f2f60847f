"""`kill -9` at every step of a rotation: there is the old session or the new one, and never a trace of the other."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.sessions.entries import ModelChangeEntry, SessionInfoEntry
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock
from tests.faults import count_steps, run_killed

from .helpers import texts, user

WORDS = ["what was said", "说过的话"]
ROTATE = """
    from pathlib import Path
    from clawbot.sessions.store import SessionStore
    from tests.clocks import StillClock

    clock = StillClock()
    clock.forward(hours=1)
    opened = SessionStore(Path("sessions"), clock, cwd=Path("/w")).open()
    arm()
    SessionStore.rotate(SessionStore(Path("sessions"), clock, cwd=Path("/w")), opened, "/new").close()
"""
OLD = {"main": ("old", "open")}
NEW = {"main": ("new", "open"), "main-20261121-0216": ("old", "/new")}

Picture = dict[str, tuple[str, str]]


def store_in(home: Path) -> SessionStore:
    clock = StillClock()
    clock.forward(hours=2)
    return SessionStore(home / "sessions", clock, cwd=Path("/w"))


def picture(store: SessionStore, old: str) -> Picture:
    """The sessions as a list shows them: by name, which one it is, and whether it is open."""
    return {each.name: ("old" if each.session_id == old else "new", each.ended) for each in store.list()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state in which the main session has words, a model and a name that the user chose."""
    store = SessionStore(tmp_path / "state" / "sessions", StillClock(), cwd=Path("/w"))
    with store.open() as opened:
        for words in WORDS:
            opened.transcript.append_message(user(words))
        opened.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
        opened.transcript.append(SessionInfoEntry(name="Mine"))
        store.update(structs.replace(opened.record, model_override="p/m", label="Mine"))
    return tmp_path / "state"


def look(home: Path, old: str, *, index: bool) -> Picture:
    """What `home` shows after the kill, with its index or made again; all that must hold for it is checked."""
    home = Path(shutil.copytree(home, home.with_name(f"{home.name}-{'index' if index else 'rebuilt'}")))
    folder = home / "sessions"
    if not index:
        (folder / "sessions.json").unlink()
    store = store_in(home)
    before = picture(store, old)
    assert before in (OLD, NEW)
    record = store.current()
    assert record is not None
    assert (record.model_override, record.label, record.ended_reason) == ("p/m", "Mine", None)
    with store.open() as opened:
        assert opened.record.session_id == record.session_id
        assert not opened.is_new
        assert texts(opened.transcript) == ([] if before == NEW else WORDS)
        assert bool(opened.notices) is not index
    assert picture(store, old) == before
    ids = {each.session_id for each in store.list()}
    assert {path.name.partition(".")[0] for path in folder.iterdir()} == {"sessions", *ids}
    assert not list(folder.glob(".*"))
    with store.open(old) as archived:
        assert texts(archived.transcript) == WORDS
    return before


@pytest.mark.long
def test_a_kill_at_every_step_leaves_the_old_session_or_the_new_one(home: Path, tmp_path: Path) -> None:
    old = store_in(home).find("main").session_id

    def kill(step: int) -> tuple[Picture, Picture]:
        place = Path(shutil.copytree(home, tmp_path / f"step-{step}"))
        assert run_killed(ROTATE, step, cwd=place)
        return look(place, old, index=True), look(place, old, index=False)

    whole = Path(shutil.copytree(home, tmp_path / "whole"))
    steps = range(1, count_steps(ROTATE, cwd=whole) + 1)
    assert picture(store_in(whole), old) == NEW
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(kill, steps))
    assert all(with_index == rebuilt for with_index, rebuilt in seen)
    first_new = [with_index for with_index, _ in seen].index(NEW)
    assert [with_index for with_index, _ in seen] == [OLD] * first_new + [NEW] * (len(seen) - first_new)
    assert first_new > 0
