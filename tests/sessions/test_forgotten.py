"""What is forgotten is in nothing that is made of a transcript: it is known by ids, whatever is made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.messages import AssistantMessage, Message
from clawbot.sessions.conversation import context_items, without_forgotten
from clawbot.sessions.errors import ForgottenSessionError, SessionStoreError
from clawbot.sessions.folder import list_transcripts
from clawbot.sessions.forgotten import FILE_NAME, MARK, Forgotten, finish, forget, read_forgotten, session_of
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import read_summary, read_title
from clawbot.sessions.text import UserWords, last_texts, spoken_around, spoken_part
from clawbot.sessions.transcript import Transcript
from tests.sessions.helpers import CLOCK, result, said, user

SECOND = "the second thing"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions", CLOCK)


def talk(store: SessionStore, name: str = "main") -> tuple[Path, list[str]]:
    """A talk of two questions and answers; the ids of its entries."""
    with store.open(name) as opened:
        messages: list[Message] = [
            user("the first thing"),
            said("fine", "c1"),
            result("c1"),
            user(SECOND),
            said(f"I see: {SECOND}"),
        ]
        entries = [opened.transcript.append_message(message) for message in messages]
        return opened.transcript.path, [entry.id for entry in entries]


def test_ids_are_added_to_what_is_forgotten_and_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_forgotten(tmp_path / "nowhere") == Forgotten()
    forget(tmp_path, ["s1"], {"s2": ["b", "a"]})
    forget(tmp_path, ["s0"], {"s2": ["c"], "s3": []})
    known = read_forgotten(tmp_path)
    assert known == Forgotten(("s0", "s1"), {"s2": ("a", "b", "c"), "s3": ()}, unfinished=True)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    finish(tmp_path)
    assert not read_forgotten(tmp_path).unfinished
    assert known.holds("s2.jsonl", "a")
    assert known.holds("s1.jsonl.reset.20261120", "any")
    assert not known.holds("s2.jsonl", "d")
    assert known.mark("s2.jsonl") != 0 == known.mark("s9.jsonl")
    assert session_of("s2.jsonl.reset.2026") == "s2"


def test_a_damaged_file_brings_nothing_back(store: SessionStore) -> None:
    path, _ = talk(store)
    (path.parent / FILE_NAME).write_text("{", "utf-8")
    for read in (lambda: spoken_part(path), lambda: list_transcripts(path.parent), lambda: read_title(path)):
        with pytest.raises(OSError, match="damaged"):
            read()
    with pytest.raises(SessionStoreError, match="forgotten"):
        store.pending()
    with Transcript.open(path, clock=CLOCK, writable=False) as transcript, pytest.raises(SessionStoreError):
        last_texts(transcript, 5)


def test_entries_are_in_no_list_of_what_was_said(store: SessionStore) -> None:
    path, ids = talk(store)
    words = UserWords()
    with Transcript.open(path, clock=CLOCK, writable=False) as transcript:
        assert [text.text for text in words.read(transcript).texts] == ["the first thing", SECOND]
        forget(path.parent, [], {session_of(path.name): [ids[3], ids[4]]})
        assert [text.text for text in last_texts(transcript, 9)[0]] == ["the first thing", "fine"]
        assert [text.text for text in words.read(transcript).texts] == ["the first thing"]
    assert [one.text for one in spoken_part(path).lines] == ["the first thing", "fine"]
    assert spoken_around(path, ids[3], 3) == []
    assert [one.name for one in list_transcripts(path.parent)] == [path.name]


def test_what_is_forgotten_gives_no_title(store: SessionStore) -> None:
    path, ids = talk(store)
    assert read_title(path) == "the first thing"
    forget(path.parent, [], {session_of(path.name): ids[:1]})
    assert read_title(path) == read_summary(path).title == SECOND
    assert store.list()[0].title == SECOND


def test_the_context_has_a_mark_in_their_place_and_keeps_the_calls_with_their_results(store: SessionStore) -> None:
    path, ids = talk(store)
    forget(path.parent, [], {session_of(path.name): ids[1:4]})
    with store.open("main") as opened:
        items = without_forgotten(context_items(opened.transcript.entries), opened.forgotten, path.name)
    assert [item.message.text for item in items] == ["the first thing", MARK, MARK, MARK, f"I see: {SECOND}"]
    call = items[1].message
    assert isinstance(call, AssistantMessage)
    assert [(each.id, each.arguments) for each in call.tool_calls] == [("c1", {})]


def test_a_session_is_listed_ended_and_unnamed_and_nobody_goes_on_in_it(store: SessionStore) -> None:
    path, _ = talk(store)
    old = session_of(path.name)
    store.left_pending(store.find("main"))
    forget(path.parent, [old], {})
    assert store.pending() == []
    assert list_transcripts(path.parent) == []
    assert spoken_part(path).lines == ()
    [listed] = store.list()
    assert (listed.session_id, listed.ended, listed.title) == (old, "forgotten", "")
    with pytest.raises(ForgottenSessionError):
        store.open(old)
    with store.open("main") as opened:
        assert opened.record.session_id != old
        assert not opened.others_pending


def test_an_index_that_is_made_again_brings_no_forgotten_session_back(store: SessionStore) -> None:
    path, _ = talk(store)
    other, _ = talk(store, "work")
    old = session_of(path.name)
    with store.open("main") as opened:
        store.rotate(opened, "/new", pending=True).close()
    forget(path.parent, [old, session_of(other.name)], {})
    (path.parent / "sessions.json").unlink()
    assert store.pending() == []
    assert store.current("work") is None
    assert {one.session_id: one.ended for one in store.list() if one.ended != "open"} == {
        old: "/new",
        session_of(other.name): "forgotten",
    }


def test_names_that_the_user_gave_are_taken_away(store: SessionStore) -> None:
    from msgspec import structs

    path, _ = talk(store)
    store.update(structs.replace(store.find("main"), label="my secret plan"))
    store.list()
    planned = store.bury(lambda label: "secret" in label, dry_run=True)
    assert b"secret" not in planned
    assert store.list()[0].title != ""
    assert store.bury(lambda label: "secret" in label) == planned
    assert store.find("main").label is None
    assert b"secret" not in (path.parent / "sessions.json").read_bytes()
