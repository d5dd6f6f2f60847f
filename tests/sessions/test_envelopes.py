"""What programs of the same family send in the user's place, or put around the user's words."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from clawbot.sessions.envelopes import BEHIND, JOB_FORMS, WRAPPINGS, users_words
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import last_spoken, read_summary, read_title
from clawbot.sessions.text import last_said, spoken_part
from tests.clocks import StillClock

from .helpers import HEADER, answer, cases, entry, opened, said, user, write

STAMP = "[2026-02-04 10:11:12 GMT+8]"
INFO = "Conversation info (untrusted metadata):\n```json\n{\n"
HEARTBEAT = (
    "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer or repeat old tasks from "
    "prior chats. If nothing needs attention, reply HEARTBEAT_OK."
)
JOBS: list[str] = cases("envelopes")["jobs"]
SAID: list[tuple[str, str]] = [(text, words) for text, words in cases("envelopes")["users"]]


def talk(folder: Path, *texts: str, name: str = "a") -> Path:
    rows: list[dict[str, Any]] = []
    for at, text in enumerate(texts):
        moment = f"2026-03-{at + 1:02}T10:00:00.000Z"
        rows += [entry(2 * at + 1, text, timestamp=moment), {**answer(2 * at + 2, f"done {at}"), "timestamp": moment}]
    return write(folder / f"{name}.jsonl", {**HEADER, "id": name}, *rows)


@pytest.mark.parametrize("text", JOBS)
def test_a_jobs_turn_is_not_the_users(tmp_path: Path, text: str) -> None:
    assert users_words(text) is None
    path = talk(tmp_path, text)
    assert read_title(path) == ""
    assert [one.text for one in spoken_part(path).lines if one.who == "user"] == []
    assert (read_summary(path).spoke, last_spoken(path)) == (0, 0)
    with opened(path, writable=False) as transcript:
        assert last_said(transcript, 5, "user")[0] == []
    again = talk(tmp_path, "the user's words", text)
    assert (read_title(again), read_summary(again).title) == ("the user's words", "the user's words")
    assert read_summary(again).spoke == last_spoken(again) == 1_772_359_200_000


@pytest.mark.parametrize(("text", "words"), SAID)
def test_the_users_words_are_without_what_is_around_them(tmp_path: Path, text: str, words: str) -> None:
    assert users_words(text) == words
    path = talk(tmp_path, text)
    assert read_title(path) == " ".join(words.split())
    assert [one.text for one in spoken_part(path).lines if one.who == "user"] == [" ".join(words.split())]
    with opened(path, writable=False) as transcript:
        assert [one.text for one in last_said(transcript, 5, "user")[0]] == [words]
    assert last_spoken(path) == 1_772_359_200_000


def test_each_form_names_a_program() -> None:
    assert all(program and form for program, form in (*JOB_FORMS, *WRAPPINGS, *BEHIND))


LONG = ("[" * 50_000, "System: [" * 9_000, "A " + "\n" * 90_000, f"{INFO}{'x' * 300_000}", "[a]\n" * 40_000)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_no_text_takes_long(text: str) -> None:
    began = os.times().user
    users_words(text)
    assert os.times().user - began < 1


def test_the_main_session_is_the_one_in_which_the_user_spoke_last(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, StillClock())
    talk(tmp_path, "first words", name="old")
    talk(tmp_path, "a", "later words", HEARTBEAT, name="used")
    talk(tmp_path, *["[cron:x Daily] go"] * 9, name="job")
    with store.open() as begun:
        assert begun.record.session_id == "used"
        assert begun.record.last_interaction_at == 1_772_445_600_000
    assert store.find("job").key == "agent:main:cron:20261121-0216"


# -- the time of a conversation ----------------------------------------------------------------------------------------


def shown(store: SessionStore, name: str) -> dt.datetime:
    return next(each.updated_at for each in store.list() if each.session_id == name)


SPOKE = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize("index", ["none", "empty", "old", "later"])
@pytest.mark.parametrize("mtime", [0, 1_700_000_000, 4_000_000_000])
def test_the_time_is_that_of_the_last_message(tmp_path: Path, index: str, mtime: int) -> None:
    store = SessionStore(tmp_path, StillClock())
    path = talk(tmp_path, "one", "two", name="a")
    # Another file, so that the index is complete without this one.
    records: dict[str, Any] = {"agent:main:other": {"sessionId": "gone", "updatedAt": 1}}
    if index in ("old", "later"):
        updated = 1_772_359_200_000 if index == "old" else 1_795_227_360_000
        records["agent:main:main"] = {"sessionId": "a", "updatedAt": updated}
    if index != "none":
        (tmp_path / "sessions.json").write_text(json.dumps(records))
    os.utime(path, (mtime, mtime))
    assert shown(store, "a") == SPOKE
    assert shown(store, "a") == SPOKE
    with store.open("a") as begun:
        assert begun.record.last_interaction_at == SPOKE.timestamp() * 1000
    assert shown(store, "a") == SPOKE


def test_an_end_by_the_clock_is_not_the_time(tmp_path: Path) -> None:
    clock = StillClock()
    store = SessionStore(tmp_path, clock)
    with store.open() as begun:
        begun.transcript.append_message(user("last words"))
        began = begun.record.session_id
        spoke = clock.now()
        clock.forward(days=3)
        store.rotate(begun, "daily").close()
    assert shown(store, began) == spoke
    (tmp_path / "sessions.json").unlink()
    assert shown(store, began) == spoke


def test_a_jobs_turn_makes_nothing_newer(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, StillClock())
    path = talk(tmp_path, "one", "two", HEARTBEAT, f"System: {STAMP} Node up", name="a")
    assert shown(store, "a") == SPOKE
    with store.open("a") as begun:
        begun.transcript.append_message(said("an answer"))
    assert shown(store, "a") == SPOKE
    assert last_spoken(path) == SPOKE.timestamp() * 1000


def test_a_fork_has_the_time_of_what_was_said(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, StillClock())
    talk(tmp_path, "one", "two", name="a")
    forked = store.fork("a").record
    assert shown(store, forked.session_id) == SPOKE
