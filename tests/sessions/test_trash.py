"""Sessions that are named, deleted and brought back."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clawbot.sessions.errors import SessionLockedError, UnknownSessionError
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import MAX_TITLE_CHARS, given_title
from tests.clocks import StillClock
from tests.faults import count_steps, run_killed

from .helpers import texts, user


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "main" / "sessions"


@pytest.fixture
def store(folder: Path) -> SessionStore:
    return SessionStore(folder, StillClock(), cwd=Path("/w"))


def talk(store: SessionStore, name: str, text: str) -> str:
    with store.open(name) as opened:
        opened.transcript.append_message(user(text))
        return opened.record.session_id


def titles(store: SessionStore) -> dict[str, str]:
    return {summary.name: summary.title for summary in store.list()}


def test_a_title_comes_before_the_first_words_and_outlives_the_index(store: SessionStore, folder: Path) -> None:
    talk(store, "work", "hi")
    store.rename("work", "The Falcon project")
    assert titles(store) == {"work": "The Falcon project"}
    (folder / "sessions.json").unlink()
    assert titles(store) == {"work": "The Falcon project"}


def test_a_title_makes_a_session_no_newer(store: SessionStore, folder: Path) -> None:
    session = talk(store, "work", "hi")
    path = folder / f"{session}.jsonl"
    os.utime(path, (1, 1))
    said = store.list()[0].updated_at
    store.rename("work", "Falcon")
    os.utime(path, (2e9, 2e9))
    assert store.list()[0].updated_at == said


def test_no_title_is_the_first_words_again(store: SessionStore) -> None:
    talk(store, "work", "hi there")
    store.rename("work", "Falcon")
    store.rename("work", "")
    assert titles(store) == {"work": "hi there"}


def test_a_session_that_is_open_elsewhere_is_neither_named_nor_deleted(store: SessionStore) -> None:
    with store.open("work") as opened:
        opened.transcript.append_message(user("hi"))
        for change in (lambda: store.rename("work", "x"), lambda: store.delete("work")):
            with pytest.raises(SessionLockedError):
                change()
    assert titles(store) == {"work": "hi"}


def test_a_deleted_session_lies_in_the_trash_which_only_the_user_can_read(store: SessionStore, folder: Path) -> None:
    session_id = talk(store, "work", "hi")
    before = (folder / f"{session_id}.jsonl").read_bytes()
    place = store.delete("work")
    assert titles(store) == {}
    assert place == folder.parent / "trash" / session_id
    assert (place / f"{session_id}.jsonl").read_bytes() == before
    assert [path.stat().st_mode & 0o777 for path in (place.parent, place, place / "record.json")] == [
        0o700,
        0o700,
        0o600,
    ]
    assert not list(folder.glob(f"{session_id}*"))


def test_a_deleted_session_comes_back_as_it_was(store: SessionStore) -> None:
    session_id = talk(store, "work", "hi")
    store.rename("work", "Falcon")
    before = store.find("work")
    store.delete("work")
    assert [record.session_id for record in store.trash.records()] == [session_id]
    assert store.restore(session_id) == before
    assert titles(store) == {"work": "Falcon"}
    assert store.trash.records() == []
    with store.open("work") as opened:
        assert texts(opened.transcript) == ["hi"]


def test_a_name_that_was_taken_meanwhile_is_not_taken_back(store: SessionStore) -> None:
    first = talk(store, "work", "old")
    store.delete("work")
    second = talk(store, "work", "new")
    assert second != first
    back = store.restore(first)
    assert back.key != "agent:main:work"
    assert sorted(titles(store).values()) == ["new", "old"]


@pytest.mark.parametrize("session_id", ["nothing", "../sessions", ""])
def test_what_is_not_in_the_trash_can_not_be_brought_back(store: SessionStore, session_id: str) -> None:
    talk(store, "work", "hi")
    with pytest.raises(UnknownSessionError):
        store.restore(session_id)


def test_a_rebuilt_index_does_not_bring_a_deleted_session_back(store: SessionStore, folder: Path) -> None:
    talk(store, "work", "hi")
    talk(store, "other", "there")
    store.delete("work")
    (folder / "sessions.json").unlink()
    assert titles(store) == {"other": "there"}


DELETE = """
    from pathlib import Path
    from clawbot.sessions.store import SessionStore
    from tests.clocks import StillClock

    store = SessionStore(Path("main/sessions"), StillClock(), cwd=Path("/w"))
    arm()
    store.delete("work")
"""
RESTORE = DELETE.replace('store.delete("work")', "store.restore(store.trash.records()[0].session_id)")


@pytest.mark.long
@pytest.mark.parametrize("change", [DELETE, RESTORE], ids=["delete", "restore"])
def test_a_kill_at_every_step_leaves_the_session_in_the_list_or_in_the_trash(tmp_path: Path, change: str) -> None:
    """Seen: between the move and the write of the index a record without a transcript stood in the list."""
    home = tmp_path / "home"
    store = store_in(home)
    session_id = talk(store, "work", "hi there")
    talk(store, "other", "hello")
    if change == RESTORE:
        store.delete("work")

    def kill(step: int) -> bool:
        place = Path(shutil.copytree(home, tmp_path / f"step-{step}"))
        assert run_killed(change, step, cwd=place)
        return is_listed(place, session_id, rebuilt=False)

    whole = Path(shutil.copytree(home, tmp_path / "whole"))
    steps = range(1, count_steps(change, cwd=whole) + 1)
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(kill, steps))
    seen.append(is_listed(whole, session_id, rebuilt=False))
    first = seen.index(change == RESTORE)
    assert seen == [change == DELETE] * first + [change == RESTORE] * (len(seen) - first)
    assert first > 0
    for step in steps:
        assert is_listed(tmp_path / f"step-{step}", session_id, rebuilt=True) is seen[step - 1]


def store_in(home: Path) -> SessionStore:
    return SessionStore(home / "main" / "sessions", StillClock(), cwd=Path("/w"))


def is_listed(home: Path, session_id: str, *, rebuilt: bool) -> bool:
    """Whether the session `work` is in the list rather than in the trash, after a kill in `home`: it is whole in one of
    them, and stands in no other."""
    folder = Path(shutil.copytree(home, home.with_name(f"{home.name}-{rebuilt}"))) / "main" / "sessions"
    store = SessionStore(folder, StillClock(), cwd=Path("/w"))
    if rebuilt:
        (folder / "sessions.json").unlink()
    listed = [summary.title for summary in store.list() if summary.session_id == session_id]
    deleted = [record.session_id for record in store.trash.records()]
    assert (listed, deleted) in ((["hi there"], []), ([], [session_id]))
    assert not [problem for problem in store.repair_index(dry_run=True) if "is gone" in problem.text]
    if deleted:
        with store.open("work") as anew:
            assert anew.is_new
        store.restore(session_id)
    with store.open(session_id) as opened:
        assert texts(opened.transcript) == ["hi there"]
    return bool(listed)


def test_a_title_is_one_short_line_without_secrets() -> None:
    assert given_title(" a\nb\x1b[2J  c ") == "a b [2J c"
    assert len(given_title("x" * 999)) == MAX_TITLE_CHARS
    assert "hunter2secret" not in given_title("password: hunter2secret")
