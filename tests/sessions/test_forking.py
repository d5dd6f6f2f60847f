"""A fork: what it copies, what it leaves to the other session, and a `kill -9` at every step of it."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clawbot.messages import UserMessage
from clawbot.sessions.conversation import context_items
from clawbot.sessions.entries import FORK, KEPT_NOTES, NOTE, CompactionEntry, CustomEntry, ModelChangeEntry
from clawbot.sessions.errors import ForgottenSessionError, SessionStoreError, UnknownSessionError
from clawbot.sessions.forgotten import finish, forget
from clawbot.sessions.forking import fork_title
from clawbot.sessions.names import END_MARK, stem_of
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock
from tests.faults import count_steps, run_killed
from tests.tables import load_table

from .helpers import result, said, texts, user

TALK = ["how do I renew my passport?", "At the town hall.", "and the visa? 签证呢？", "That takes longer."]


def store_in(folder: Path) -> SessionStore:
    return SessionStore(folder / "sessions", StillClock(), cwd=Path("/w"))


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """A store whose main session has two turns, a model of its own, and a record of a note."""
    store = store_in(tmp_path)
    with store.open() as opened:
        opened.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
        for number, text in enumerate(TALK):
            opened.transcript.append_message(said(text) if number % 2 else user(text))
        opened.transcript.append(CustomEntry(custom_type=NOTE, data={"digest": "d"}))
        store.update(opened.record)
    return store


def lines(store: SessionStore, session_id: str) -> list[dict[str, Any]]:
    path = store.folder / f"{session_id}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def entry_of(store: SessionStore, text: str) -> str:
    """The id of the message `text` in the main session."""
    main = lines(store, store.find("main").session_id)
    return str(next(line["id"] for line in main if text in json.dumps(line.get("message"), ensure_ascii=False)))


@pytest.mark.parametrize(
    ("key", "stem"),
    load_table(__file__, "a_fork_is_named_after_what_the_user_named"),
)
def test_a_fork_is_named_after_what_the_user_named(key: str, stem: str) -> None:
    assert stem_of(key) == stem


def test_a_fork_is_a_session_of_its_own_that_names_its_parent(store: SessionStore) -> None:
    parent = store.path_of(store.find("main"))
    before = parent.read_bytes()
    forked = store.fork("main").record
    header, *copied, mark, title = lines(store, forked.session_id)
    assert parent.read_bytes() == before
    assert (header["version"], header["id"], header["fork"]) == (3, forked.session_id, mark["id"])
    assert (header["parentSession"], header["sessionKey"]) == (str(parent), forked.key)
    assert copied == [line for line in lines(store, parent.stem)[1:] if line.get("customType") != NOTE]
    assert mark["customType"] == FORK
    assert mark["data"]["session"] == parent.stem
    assert mark["data"]["taken"] == [["", copied[-1]["id"]]]
    assert (title["name"], title["by"], title["parentId"]) == ("how do I renew my passport? (fork)", "fork", mark["id"])
    with store.open(forked.key) as opened:
        assert not opened.is_new
        assert opened.notices == []
        assert texts(opened.transcript) == TALK
        opened.transcript.append_message(user("on my own"))
    assert (forked.turns, store.summary(forked).title) == (2, "how do I renew my passport? (fork)")
    with store.open("main") as opened:
        assert texts(opened.transcript) == TALK


@pytest.mark.parametrize(
    ("at", "kept", "text"),
    [("and the visa", TALK[:2], "and the visa? 签证呢？"), ("At the town", TALK[:2], ""), ("how do I", [], TALK[0])],
)
def test_it_ends_before_a_message_of_the_user_or_after_an_answer(
    store: SessionStore, at: str, kept: list[str], text: str
) -> None:
    forked = store.fork("main", entry_of(store, at))
    assert forked.text == text
    with store.open(forked.record.session_id) as opened:
        assert texts(opened.transcript) == kept


def test_any_other_place_is_refused_and_leaves_nothing(store: SessionStore) -> None:
    with store.open() as opened:
        calling = opened.transcript.append_message(said("", "c1")).id
        opened.transcript.append_message(result("c1"))
    names = {path.name for path in store.folder.glob("*.jsonl")}
    for at in (calling, "00000000"):
        with pytest.raises(SessionStoreError):
            store.fork("main", at)
    with pytest.raises(UnknownSessionError):
        store.fork("nothing-of-that-name")
    assert {path.name for path in store.folder.glob("*.jsonl")} == names
    assert len(store.records()) == 1


def test_a_fork_of_a_session_that_ended_has_not_ended(store: SessionStore) -> None:
    store.rotate(store.open(), "/new").close()
    (ended,) = [each for each in store.list() if each.ended == "/new"]
    forked = store.fork(ended.session_id).record
    assert all(line.get("customType") != END_MARK for line in lines(store, forked.session_id))
    assert store.summary(forked).ended == "open"
    assert store.summary(store.find(ended.session_id)).ended == "/new"


def test_a_fork_follows_the_branch_and_what_a_compaction_kept(store: SessionStore) -> None:
    with store.open() as opened:
        transcript = opened.transcript
        first = transcript.append_message(user("third")).id
        transcript.append(CompactionEntry(summary="in short", first_kept_entry_id=first, details={KEPT_NOTES: [1]}))
        left = transcript.append_message(user("never mind")).id
        transcript.go_on_from(transcript.branch_before(left), CustomEntry(custom_type="test.branch"))
        transcript.append_message(user("fourth"))
        expected = [item.message for item in transcript.context()]
    forked = store.fork("main").record
    assert forked.compaction_count == 1
    assert not any("never mind" in json.dumps(line) for line in lines(store, forked.session_id))
    assert all(line.get("details") != {KEPT_NOTES: [1]} for line in lines(store, forked.session_id))
    with store.open(forked.session_id) as opened:
        assert [item.message for item in context_items(opened.transcript.entries)] == expected
        assert len(opened.transcript.history(limit=100)) > len(expected)


def test_a_transcript_of_version_1_is_forked_too(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.folder.mkdir(mode=0o700)
    head = {"type": "session", "id": "old", "timestamp": "2026-01-02T03:04:05Z", "cwd": "/w"}
    said_in_it = [{"type": "message", "timestamp": "", "message": {"role": "user", "content": text}} for text in "abc"]
    cut = {"type": "compaction", "timestamp": "", "summary": "s", "firstKeptEntryIndex": 3}
    rows = [head, *said_in_it, cut, {**said_in_it[0], "extra": 1}]
    (store.folder / "old.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with store.open("old") as opened:
        expected = [item.message for item in opened.transcript.context()]
    forked = store.fork("old").record
    with store.open(forked.session_id) as opened:
        assert [item.message for item in opened.transcript.context()] == expected
        assert opened.notices == []
    assert lines(store, forked.session_id)[5]["extra"] == 1


def test_what_was_forgotten_is_forgotten_in_the_fork(store: SessionStore) -> None:
    gone = entry_of(store, "and the visa")
    forget(store.folder, (), {store.find("main").session_id: [gone]})
    finish(store.folder)
    forked = store.fork("main").record
    with store.open(forked.session_id) as opened:
        assert opened.forgotten.holds(opened.transcript.path.name, gone)
        assert not opened.forgotten.unfinished
    main = store.find("main").session_id
    forget(store.folder, [main], {})
    with pytest.raises(ForgottenSessionError):
        store.fork(main)


def test_titles_of_forks_tell_them_apart(store: SessionStore) -> None:
    titles = [store.summary(store.fork("main").record).title for _ in range(3)]
    assert titles == [f"{TALK[0]} (fork)", f"{TALK[0]} (fork 2)", f"{TALK[0]} (fork 3)"]
    mine = store.fork("main", "", "My own").record
    assert (mine.label, mine.title) == ("My own", None)
    assert fork_title("My own (fork 2)", {"My own (fork)"}) == "My own (fork 2)"
    assert fork_title("", ()) == ""
    assert len(fork_title("x" * 500, ())) <= 120


def test_an_index_made_anew_keeps_forks_and_their_names_apart(store: SessionStore) -> None:
    store.rename("main", "Mine")
    forked = store.fork("main").record
    named = store.fork("main", "", "Theirs").record
    (store.folder / "sessions.json").unlink()
    found = {each.session_id: each for each in store.list()}
    assert found[forked.session_id].title == "Mine (fork)"
    assert found[named.session_id].title == "Theirs"
    assert (found[forked.session_id].key, found[forked.session_id].model) == (forked.key, "p/m")
    assert store.summary(store.find("main")).title == "Mine"


def test_a_fork_outlives_the_session_that_it_came_of(store: SessionStore) -> None:
    forked = store.fork("main").record
    store.delete("main")
    (store.folder / "sessions.json").unlink()
    (left,) = store.list()
    assert (left.session_id, left.key) == (forked.session_id, forked.key)
    with store.open(forked.key) as opened:
        assert texts(opened.transcript) == TALK
    with store.open() as main:
        assert main.is_new


FORK_IT = """
    from pathlib import Path
    from clawbot.sessions.store import SessionStore
    from tests.clocks import StillClock

    store = SessionStore(Path("sessions"), StillClock(), cwd=Path("/w"))
    arm()
    store.fork("main")
"""


@pytest.mark.long
def test_a_kill_at_every_step_leaves_no_fork_or_a_whole_one(store: SessionStore, tmp_path: Path) -> None:
    forget(store.folder, (), {store.find("main").session_id: [entry_of(store, "That takes longer")]})
    home = tmp_path / "home"
    home.mkdir()
    shutil.copytree(store.folder, home / "sessions")

    def kill(step: int) -> int:
        place = Path(shutil.copytree(home, tmp_path / f"step-{step}"))
        assert run_killed(FORK_IT, step, cwd=place)
        left = store_in(place)
        with left.open() as opened:  # completes what was left, and cleans up
            assert texts(opened.transcript) == TALK
        forks = [each for each in left.list() if each.session_id != store.find("main").session_id]
        for each in forks:
            with left.open(each.session_id) as opened:
                assert texts(opened.transcript) == TALK
                assert opened.forgotten.entries[each.session_id] == (entry_of(store, "That takes longer"),)
        assert not list(left.folder.glob(".*.jsonl.*.tmp"))
        return len(forks)

    whole = Path(shutil.copytree(home, tmp_path / "whole"))
    steps = range(1, count_steps(FORK_IT, cwd=whole) + 1)
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(kill, steps))
    assert sorted(seen) == seen
    assert set(seen) == {0, 1}


def test_the_talk_may_be_open_elsewhere(store: SessionStore) -> None:
    with store.open() as opened:
        opened.transcript.append_message(user("just said"))
        forked = store.fork("main").record
    with store.open(forked.session_id) as opened:
        assert texts(opened.transcript) == [*TALK, "just said"]
        last = opened.transcript.context()[-1].message
        assert isinstance(last, UserMessage)
