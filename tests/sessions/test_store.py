"""Which transcript belongs to which key, what survives a lost index, how a session ends and another begins."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from msgspec import structs

from clawbot.messages import TextBlock, UserMessage
from clawbot.sessions.entries import CompactionEntry, ModelChangeEntry, SessionInfoEntry
from clawbot.sessions.errors import AmbiguousSessionError, SessionLockedError, SessionStoreError, UnknownSessionError
from clawbot.sessions.forgotten import forget
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import SessionSummary
from tests.clocks import StillClock

from .helpers import HEADER, entry, failing, said, texts, user, write


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "main" / "sessions"


@pytest.fixture
def store(folder: Path, clock: StillClock) -> SessionStore:
    return SessionStore(folder, clock, cwd=Path("/w"))


def index(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "sessions.json").read_text())
    return found


def summaries(store: SessionStore) -> dict[str, SessionSummary]:
    return {summary.name: summary for summary in store.list()}


def talk(store: SessionStore, name: str, *words: str) -> str:
    with store.open(name) as opened:
        for text in words:
            opened.transcript.append_message(user(text))
        return opened.record.session_id


def test_a_session_is_made_and_found_again(store: SessionStore, folder: Path) -> None:
    assert store.current() is None
    assert store.list() == []
    assert not folder.exists()
    first = talk(store, "main", "hello")
    with store.open() as again:
        assert (again.record.session_id, again.is_new, again.notices) == (first, False, [])
        assert texts(again.transcript) == ["hello"]
        assert again.transcript.header is not None
        assert again.transcript.header.session_key == "agent:main:main"
    record = index(folder)["agent:main:main"]
    assert record["sessionId"] == first
    assert record["sessionFile"] == f"{first}.jsonl"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "sessions.json").stat().st_mode & 0o777 == 0o600


def test_names_keys_and_ids_mean_the_same_session(store: SessionStore) -> None:
    session_id = talk(store, "Work", "hello")
    for name in ("work", "WORK", "agent:main:work", session_id, session_id[:8], session_id.upper()):
        assert store.find(name).session_id == session_id
        with store.open(name) as opened:
            assert opened.record.session_id == session_id


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "a b", ".hidden", "x" * 101, "a\nb", "agent:main:../x y"])
def test_names_that_could_lead_elsewhere_are_refused(store: SessionStore, folder: Path, name: str) -> None:
    with pytest.raises(SessionStoreError, match="no session name"):
        store.open(name)
    assert not folder.exists() or sorted(path.name for path in folder.iterdir()) == ["sessions.json.lock"]


def test_a_key_of_another_agent_is_refused(store: SessionStore) -> None:
    with pytest.raises(SessionStoreError, match="agent other"):
        store.open("agent:other:main")


def test_an_unknown_name_gets_the_nearest(store: SessionStore) -> None:
    talk(store, "garden")
    with pytest.raises(UnknownSessionError, match="Did you mean garden"):
        store.find("gardn")


def test_an_id_that_two_begin_with(store: SessionStore, folder: Path) -> None:
    talk(store, "main")
    for tail in "ab":
        write(folder / f"abcdef0{tail}.jsonl", {**HEADER, "id": f"abcdef0{tail}"}, entry(1, tail))
    with pytest.raises(AmbiguousSessionError, match=r"abcdef0a.*abcdef0b|abcdef0b.*abcdef0a"):
        store.find("abcdef")
    with pytest.raises(AmbiguousSessionError):
        store.open("abcdef")
    assert store.find("abcdef0a").session_id == "abcdef0a"


def test_a_short_new_name_is_not_taken_for_an_id(store: SessionStore) -> None:
    first = talk(store, "main", "x")
    with store.open(first[0]) as opened:
        assert opened.is_new
        assert opened.record.key == f"agent:main:{first[0]}"


def test_fresh_sessions_get_readable_keys_of_their_own(store: SessionStore) -> None:
    keys = []
    for _ in range(3):
        with store.open(fresh=True) as opened:
            keys.append(opened.record.key)
    assert keys == [f"agent:main:20261121-0216{end}" for end in ("", "-2", "-3")]
    with store.open("work", fresh=True) as opened:
        assert opened.record.key == "agent:main:work-20261121-0216"


def test_rotation_keeps_the_old_session_and_the_users_choices(
    store: SessionStore, folder: Path, clock: StillClock
) -> None:
    opened = store.open()
    opened.transcript.append_message(user("old words"))
    choices = structs.replace(opened.record, model_override="p/m", label="Mine", total_tokens=9, compaction_count=2)
    opened.record = store.update(choices)
    clock.forward(hours=1)
    fresh = store.rotate(opened, "/new")
    assert fresh.is_new
    assert texts(fresh.transcript) == []
    record = store.current()
    assert record is not None
    assert record.session_id == fresh.record.session_id != choices.session_id
    assert (record.model_override, record.label, record.total_tokens, record.compaction_count) == (
        "p/m",
        "Mine",
        None,
        0,
    )
    old = store.find(choices.session_id)
    assert (old.key, old.ended_reason, old.previous_key) == ("agent:main:main-20261121-0216", "/new", "agent:main:main")
    assert old.total_tokens == 9
    with store.open(old.key) as reopened:
        assert texts(reopened.transcript) == ["old words"]
    assert fresh.transcript.header is not None
    assert fresh.transcript.header.parent_session == str(folder / f"{old.session_id}.jsonl")
    assert index(folder)["agent:main:main"]["providerOverride"] == "p"


def test_an_ended_session_that_is_opened_again_is_open(store: SessionStore) -> None:
    first = talk(store, "main", "a")
    store.rotate(store.open(), "daily").close()
    assert {name: summary.ended for name, summary in summaries(store).items()} == {
        "main": "open",
        "main-20261121-0216": "daily",
    }
    with store.open(first) as opened:
        assert opened.record.ended_reason is None
    assert summaries(store)["main-20261121-0216"].ended == "open"


def test_a_rotation_that_fails_leaves_the_session_open(
    store: SessionStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = store.open()
    files = sorted(folder.glob("*.jsonl"))

    with monkeypatch.context() as patch:
        patch.setattr("clawbot.sessions.index.write_atomic", failing(errno.ENOSPC))
        with pytest.raises(SessionStoreError, match="No space left"):
            store.rotate(opened, "/new")
    assert sorted(folder.glob("*.jsonl")) == files
    opened.transcript.append_message(user("still here"))
    assert opened.lock.held
    current = store.current()
    assert current is not None
    assert current.session_id == opened.record.session_id
    store.rotate(opened, "/new").close()


def test_a_session_that_cannot_be_made_leaves_nothing(
    store: SessionStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("clawbot.sessions.index.write_atomic", failing(errno.ENOSPC))
        with pytest.raises(SessionStoreError):
            store.open()
    assert list(folder.glob("*.jsonl")) == []
    with store.open() as opened:
        assert opened.is_new


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"a":\xff}', b"\0\0\0", None])
def test_a_lost_index_is_made_again_from_the_transcripts(
    store: SessionStore, folder: Path, clock: StillClock, content: bytes | None
) -> None:
    talk(store, "main", "ended words")
    clock.forward(minutes=1)
    ended = store.open()
    current = store.rotate(ended, "/new")
    clock.forward(minutes=1)
    current.transcript.append_message(user("current words"))
    current.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
    current.close()
    work = talk(store, "work", "at work")
    if content is None:
        (folder / "sessions.json").unlink()
    else:
        (folder / "sessions.json").write_bytes(content)
    listed = summaries(store)
    assert {name: (summary.title, summary.ended) for name, summary in listed.items()} == {
        "main": ("current words", "open"),
        "work": ("at work", "open"),
        "main-20261121-0216": ("ended words", "/new"),
    }
    with store.open() as opened:
        assert texts(opened.transcript) == ["current words"]
        assert opened.record.model_override == "p/m"
        assert any("rebuilt from the transcripts (3 sessions)" in str(notice) for notice in opened.notices)
    assert index(folder)["agent:main:work"]["sessionId"] == work
    asides = list(folder.glob("sessions.json.bad-*"))
    assert [path.read_bytes() for path in asides] == ([] if content is None else [content])
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in asides)
    assert store.open().notices == []


def test_transcripts_of_other_programs_without_an_index(store: SessionStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    late = "2026-11-21T09:00:00.000Z"
    write(folder / "aaa.jsonl", {**HEADER, "id": "aaa"}, entry(1, "older"))
    write(folder / "bbb.jsonl", {**HEADER, "id": "bbb"}, entry(1, "newer", timestamp=late))
    with store.open() as opened:
        assert texts(opened.transcript) == ["newer"]
    assert store.find("aaa").key == "agent:main:20261121-0216"


@pytest.mark.parametrize("known", [True, False], ids=["counted", "not counted"])
def test_a_transcript_that_can_not_be_read_hides_no_other(
    store: SessionStore, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, known: bool
) -> None:
    for name in ("one", "two"):
        talk(store, name, "hello")
    closed = store.path_of(store.find("one"))
    store.update(structs.replace(store.find("one"), turns=1 if known else None))
    opened = os.open

    def open_others(path: str | Path, *args: Any, **kwargs: Any) -> int:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_others)
    assert sorted((each.name, each.turns) for each in store.list()) == [("one", int(known)), ("two", 1)]
    assert f"Could not read {closed}: Permission denied." in caplog.text


def test_a_transcript_that_the_index_does_not_know_is_listed_and_opens(store: SessionStore, folder: Path) -> None:
    talk(store, "main", "a")
    write(folder / "stray.jsonl", {**HEADER, "id": "stray"}, entry(1, "stray words"))
    assert summaries(store)["stray"].title == "stray words"
    with store.open("stray") as opened:
        assert texts(opened.transcript) == ["stray words"]
    assert index(folder)["agent:main:stray"]["sessionFile"] == "stray.jsonl"


def test_a_transcript_that_is_gone_makes_room_for_a_new_one(store: SessionStore, folder: Path) -> None:
    first = talk(store, "main", "a")
    store.update(structs.replace(store.find("main"), model_override="p/m"))
    (folder / f"{first}.jsonl").unlink()
    with store.open() as opened:
        assert opened.is_new
        assert opened.record.model_override == "p/m"
        assert any("is gone" in notice.text for notice in opened.notices)


def test_what_other_programs_put_into_the_index_stays(store: SessionStore, folder: Path) -> None:
    session_id = talk(store, "main", "a")
    raw = index(folder)
    raw["agent:main:main"] |= {"skillsSnapshot": {"x": [1]}, "thinkingLevel": "high"}
    raw["agent:main:odd"] = "no record"
    raw["agent:main:Telegram:Group:7"] = {"sessionId": session_id, "updatedAt": 5.5, "totalTokens": "many"}
    raw["agent:main:escape"] = {"sessionId": "../../etc/passwd"}
    raw["agent:main:abs"] = {"sessionId": "abc", "sessionFile": "/elsewhere/sessions/../../etc/passwd", "updatedAt": 1}
    (folder / "sessions.json").write_text(json.dumps(raw))
    store.update(structs.replace(store.find("main"), total_tokens=3))
    after = index(folder)
    assert after["agent:main:main"]["skillsSnapshot"] == {"x": [1]}
    assert after["agent:main:main"]["thinkingLevel"] == "high"
    assert after["agent:main:main"]["totalTokens"] == 3
    assert after["agent:main:odd"] == "no record"
    assert after["agent:main:escape"] == {"sessionId": "../../etc/passwd"}
    assert store.find("telegram:group:7").updated_at == 5
    assert store.path_of(store.find("abs")).parent == folder
    cleared = store.update(structs.replace(store.find("main"), total_tokens=None))
    assert cleared.total_tokens is None
    assert "totalTokens" not in index(folder)["agent:main:main"]


def test_keys_that_differ_in_case_only_are_one(store: SessionStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    records = {
        "agent:main:Main": {"sessionId": "newer", "updatedAt": 9},
        "agent:main:main": {"sessionId": "older", "updatedAt": 5},
    }
    (folder / "sessions.json").write_text(json.dumps(records))
    current = store.current()
    assert current is not None
    assert current.session_id == "newer"


@pytest.mark.parametrize("ref", ["offline", "anthropic/claude", "openrouter/a/b", "script:/a/x.yaml", "auto"])
def test_a_chosen_model_comes_back(store: SessionStore, ref: str) -> None:
    with store.open() as opened:
        store.update(structs.replace(opened.record, model_override=ref))
    assert store.find("main").model_override == ref


def test_summaries(store: SessionStore, clock: StillClock) -> None:
    with store.open() as opened:
        words = "你好 " * 40
        opened.transcript.append_message(user("/status"))
        opened.transcript.append_message(UserMessage([TextBlock(words)]))
        opened.transcript.append_message(said("x"))
        opened.transcript.append(CompactionEntry(summary="s"))
        inside = summaries(store)["main"]
        assert inside.locked
    outside = summaries(store)["main"]
    assert not outside.locked
    assert outside.title.startswith("你好 你好")
    assert len(outside.title) <= 60
    assert outside.turns == 2
    assert outside.created_at == clock.now()
    store.update(structs.replace(store.find("main"), label="My name", turns=7, total_tokens=11))
    named = summaries(store)["main"]
    assert (named.title, named.turns, named.tokens) == ("My name", 7, 11)


def test_a_rebuilt_record_has_the_name_from_the_transcript(store: SessionStore, folder: Path) -> None:
    with store.open() as opened:
        opened.transcript.append(SessionInfoEntry(name="Named"))
    (folder / "sessions.json").unlink()
    assert store.find("main").label == "Named"


def test_many_threads_update_the_index(store: SessionStore, folder: Path) -> None:
    ids = [talk(store, f"s{number}") for number in range(6)]

    def work(number: int) -> None:
        own = SessionStore(folder, StillClock())
        for turn in range(5):
            own.update(structs.replace(own.find(f"s{number}"), turns=turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.find(f"s{number}").session_id for number in range(6)] == ids
    assert {store.find(f"s{number}").turns for number in range(6)} == {4}


def test_a_folder_that_cannot_be_used(tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    blocked = SessionStore(tmp_path / "file", clock)
    for call in (blocked.open, blocked.list, blocked.current):
        with pytest.raises(SessionStoreError) as caught:
            call()
        assert str(tmp_path / "file") in caught.value.message
        assert "folder" in caught.value.hint

    store = SessionStore(tmp_path / "folder", clock)
    talk(store, "main", "a")
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    with pytest.raises(SessionStoreError, match="Read-only") as caught:
        store.open()
    assert "CLAWBOT_HOME" in caught.value.hint


def test_an_index_lock_that_hangs(store: SessionStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(store, "main")
    monkeypatch.setattr("clawbot.sessions.index.LOCK_TIMEOUT", 0.05)
    with FileLock(folder / "sessions.json.lock"), pytest.raises(SessionStoreError, match="locked for"):
        store.update(store.find("main"))


def test_one_session_is_open_once(store: SessionStore) -> None:
    with store.open():
        with pytest.raises(SessionLockedError) as caught:
            store.open()
        assert caught.value.pid == os.getpid()
        assert f"process {os.getpid()}" in str(caught.value)
        assert "since 2026-11-21 02:16 UTC" in str(caught.value)
        assert "--session NAME" in str(caught.value)
        assert "--new" in str(caught.value)
        with store.open("other"), store.open(fresh=True):
            pass
    with store.open() as opened:
        assert opened.notices == []


def test_a_list_reads_only_transcripts_that_have_changed(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("main", "work"):
        talk(store, name, f"{name} words")
    assert {name: found.title for name, found in summaries(store).items()} == {
        "main": "main words",
        "work": "work words",
    }
    read: list[str] = []

    def new_words(path: Path) -> str:
        read.append(path.name)
        return "new words"

    monkeypatch.setattr("clawbot.sessions.summary.read_title", new_words)
    assert {name: found.title for name, found in summaries(store).items()} == {
        "main": "main words",
        "work": "work words",
    }
    assert read == []
    with store.open("work") as opened:
        opened.transcript.append_message(user("more"))
    assert summaries(store)["work"].title == "new words"
    assert set(read) == {opened.transcript.path.name}


def test_what_is_forgotten_is_not_kept_as_first_words(store: SessionStore, folder: Path) -> None:
    session = talk(store, "main", "the swordfish sleeps")
    with store.open() as opened:
        first = opened.transcript.entries[0].id
    assert summaries(store)["main"].title == "the swordfish sleeps"
    assert "swordfish" in (folder / "sessions.json").read_text()
    forget(folder, [], {session: [first]})
    store.bury(lambda _name: False)
    assert "swordfish" not in (folder / "sessions.json").read_text()
    assert summaries(store)["main"].title == ""
