"""The parts of messages that are not the words of user or model: wrappings of programs, and repeated output."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock
from clawbot.sessions.envelopes import BEHIND, JOB_FORMS, WRAPPINGS, users_words, without_echo
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import last_spoken, read_summary, read_title
from clawbot.sessions.text import last_texts, spoken_part
from tests.clocks import StillClock

from .helpers import HEADER, answer, cases, entry, opened, result, said, user, write

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
        assert last_texts(transcript, 5, "user")[0] == []
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
        assert [one.text for one in last_texts(transcript, 5, "user")[0]] == [words]
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


LISTING = "Makefile\nREADME.md\nsrc\ntests"
FOUND = {
    "results": [{"path": "memory/2026-11-20.md", "startLine": 4, "snippet": "- 港口 opens at six\n- the ferry at ten"}]
}


def turn(tool: str, printed: str, **arguments: str) -> list[Message]:
    calling = AssistantMessage([TextBlock("Let me look."), ToolCallBlock("1", tool, dict(arguments))])
    return [calling, result("1", printed)]


def heard(text: str, messages: list[Message], *, quotes_only: bool = False) -> str:
    answer = said(text)
    return without_echo(answer, [*messages, answer], quotes_only=quotes_only)


def test_what_a_tool_printed_is_told_in_a_word() -> None:
    text = f"There are four:\n\n```text\n{LISTING}\n```\n\nThe tests are new."
    messages = turn("shell", LISTING, command="ls")
    assert heard(text, messages) == "There are four: [output of shell: 4 lines]\n\nThe tests are new."
    listing = turn("list", LISTING, path=".")
    assert heard(f"`.` holds：\n\n```text\n{LISTING}\n```", listing) == "`.` holds： [output of list: 4 lines]"


def test_a_file_that_was_read_is_told_by_its_name() -> None:
    messages = turn("read", "# Plan\n\nshell the nuts\n", path="notes/计划.md")
    text = "It says:\n\n~~~md\n# Plan\n\nshell the nuts\n~~~"
    assert heard(text, messages) == "It says: [quoted: notes/计划.md]"


def test_code_that_the_model_made_itself_stays() -> None:
    text = "Try this:\n\n```python\nprint('港口')\n```"
    assert heard(text, turn("shell", LISTING)) == text
    assert heard(text, []) == text


def test_code_that_it_wrote_into_a_file_is_told_by_the_file() -> None:
    messages = turn("write", "Created src/x.py (+2 lines).", path="src/x.py", content="import os\nprint(os.name)\n")
    assert heard("Done:\n```python\nimport os\nprint(os.name)\n```", messages) == "Done: [quoted: src/x.py]"


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("> the ferry at ten", "memory/2026-11-20.md:5"),
        ("> - 港口 opens at six\n> - the ferry at ten", "memory/2026-11-20.md:4"),
        ("> > **港口 opens at six**\n>\n> — `memory/2026-11-19.md:7`", "memory/2026-11-19.md:7"),
        ("> whatever\n> — memory/a.md#L3-L5", "memory/a.md#L3-L5"),
    ],
)
def test_a_quote_of_a_note_is_its_place(quote: str, place: str) -> None:
    messages = turn("memory_search", json.dumps(FOUND, ensure_ascii=False), query="harbour")
    assert heard(f"You noted:\n\n{quote}\n\nSo at six.", messages) == f"You noted: [quoted: {place}]\n\nSo at six."


def test_lines_that_were_searched_for_have_their_places() -> None:
    messages = turn("grep", "./notes.md:12:- tulips need water\nsrc/a.py:3:import os", pattern="tulips")
    assert heard("> tulips need water", messages) == "[quoted: ./notes.md:12]"


def test_a_quote_of_somebody_else_stays() -> None:
    text = "As Kant has it:\n\n> Sapere aude!\n> 要敢于认识"
    assert heard(text, turn("memory_search", json.dumps(FOUND))) == text


@pytest.mark.parametrize("empty", [">", "> \n>", "> >\n> > >"])
def test_empty_quotes_go(empty: str) -> None:
    assert heard(f"one\n\n{empty}\n\ntwo", []) == "one\n\ntwo"


def test_who_says_nothing_of_its_own_in_quotes_only_quotes() -> None:
    text = "The note of our last conversation, `memory/2026-11-20-a.md`, ends with:\n\n> user: hi\n> assistant: ho"
    told = "The note of our last conversation, `memory/2026-11-20-a.md`, ends with: [quoted: memory/2026-11-20-a.md]"
    assert heard(text, [], quotes_only=True) == told
    assert heard(text, []) == text
    assert heard("You said at 14:02:\n\n> tea", [], quotes_only=True) == "You said at 14:02: [quoted: the conversation]"


def test_an_answer_of_many_quotes_takes_no_long_time() -> None:
    """A pattern that looks at all ways to share out the lines would not end."""
    text = "\n".join("> " * (number % 40 + 1) + "```" for number in range(3_000)) + "\n```" * 3_000
    assert heard(text, turn("shell", text))
