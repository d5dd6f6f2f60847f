"""An index of sessions that can be read but lacks records takes them in from the transcripts."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.sessions import folder as folder_module
from clawbot.sessions import rotation
from clawbot.sessions.entries import SessionInfoEntry
from clawbot.sessions.folder import names_in
from clawbot.sessions.names import is_session_id
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock

from .helpers import HEADER, entry, texts, user, write

MAIN = "agent:main:main"
CURRENT = ["current words"]


class Sessions:
    """A main session that follows an ended one, and another session beside them."""

    def __init__(self, root: Path) -> None:
        clock = StillClock()
        self.folder = root / "sessions"
        self.store = SessionStore(self.folder, clock, cwd=Path("/w"))
        first = self._talk("main", "ended words")
        clock.forward(minutes=1)
        with self.store.open() as opened:
            current = self.store.rotate(opened, "/new")
        clock.forward(minutes=1)
        current.transcript.append_message(user(CURRENT[0]))
        current.close()
        self.ids = {"ended": first, "current": current.record.session_id, "work": self._talk("work", "at work")}

    def _talk(self, name: str, words: str) -> str:
        with self.store.open(name) as opened:
            opened.transcript.append_message(user(words))
            return opened.record.session_id

    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "sessions.json").read_text())
        return found

    def put(self, index: dict[str, Any]) -> None:
        (self.folder / "sessions.json").write_text(json.dumps(index))


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"version": 9, "sessions": [{"id": "x"}]},
        {"agent:other:elsewhere": {"sessionId": "abc", "updatedAt": 5}},
        {MAIN: "no record"},
        {MAIN: {"sessionId": 5}},
        {MAIN: {"sessionId": "../../etc/passwd"}},
        {MAIN: {"sessionId": "gone", "sessionFile": "gone.jsonl", "updatedAt": 9e12}},
        {MAIN: {"sessionId": "gone"}, "agent:main:work": {"sessionId": "gone"}},
    ],
    ids=str,
)
def test_without_its_record_the_newest_transcript_of_a_key_goes_on(sessions: Sessions, index: dict[str, Any]) -> None:
    sessions.put(index)
    assert {name: found for name, found in titles(sessions).items() if name in ("main", "work")} == {
        "main": ("current words", "open"),
        "work": ("at work", "open"),
    }
    with sessions.store.open() as opened:
        assert (opened.is_new, texts(opened.transcript)) == (False, CURRENT)
        assert any("they were restored from their transcripts" in notice.text for notice in opened.notices)
    after = sessions.index()
    assert after[MAIN]["sessionId"] == sessions.ids["current"]
    assert {key: value for key, value in index.items() if key not in (MAIN, "agent:main:work")}.items() <= after.items()
    assert [found[1] for name, found in titles(sessions).items() if name.startswith("main-")] == ["/new"]
    with sessions.store.open() as again:
        assert not any("taken in" in notice.text for notice in again.notices)


def titles(sessions: Sessions) -> dict[str, tuple[str, str]]:
    return {summary.name: (summary.title, summary.ended) for summary in sessions.store.list()}


def test_what_the_user_chose_stays_when_only_the_file_is_another(sessions: Sessions) -> None:
    index = sessions.index()
    index[MAIN] |= {"sessionId": "gone", "sessionFile": "gone.jsonl", "label": "Garden", "modelOverride": "offline"}
    sessions.put(index)
    with sessions.store.open() as opened:
        assert texts(opened.transcript) == CURRENT
        assert (opened.record.label, opened.record.model_override) == ("Garden", "offline")


def test_a_name_in_the_transcript_counts_before_that_of_a_lost_record(sessions: Sessions) -> None:
    with sessions.store.open() as opened:
        opened.transcript.append(SessionInfoEntry(name="Named"))
    sessions.put({MAIN: {"sessionId": "gone", "label": "Other"}})
    assert sessions.store.find("main").label == "Named"


def test_a_key_that_somebody_has_is_taken_from_nobody(sessions: Sessions) -> None:
    header = {**HEADER, "id": "stray", "sessionKey": MAIN}
    write(sessions.folder / "stray.jsonl", header, entry(1, "newer", timestamp="2027-01-01T00:00:00.000Z"))
    with sessions.store.open() as opened:
        assert (texts(opened.transcript), opened.notices) == (CURRENT, [])


def test_transcripts_of_other_programs_beside_an_empty_index(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    late = "2026-11-21T09:00:00.000Z"
    write(folder / "aaa.jsonl", {**HEADER, "id": "aaa"}, entry(1, "older"))
    write(folder / "bbb.jsonl", {**HEADER, "id": "bbb"}, entry(1, "newer", timestamp=late))
    (folder / "sessions.json").write_text("{}")
    with SessionStore(folder, StillClock()).open() as opened:
        assert texts(opened.transcript) == ["newer"]


KEYS = st.sampled_from([MAIN, "agent:main:work", "agent:other:main", "main", "version", "", "agent:main:" + "x" * 300])
IDS = st.sampled_from(["gone", "../x", "", "a" * 500, "ended", "current", "work"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["sessionId", "sessionFile", "updatedAt", "sessionStartedAt", "endedReason", "label", "turns"])
RECORDS = st.dictionaries(FIELDS, VALUES | IDS, max_size=5)
CHANGES = st.lists(
    st.tuples(st.just("drop"), KEYS)
    | st.tuples(st.just("put"), KEYS, VALUES | RECORDS)
    | st.tuples(st.just("set"), KEYS, FIELDS, VALUES | IDS)
    | st.tuples(st.just("empty"), KEYS),
    min_size=1,
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(CHANGES)
def test_main_never_begins_anew_while_its_transcript_belongs_to_nobody_else(changes: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as root:
        sessions = Sessions(Path(root))
        index = sessions.index()
        for change in changes:
            _change(index, change, sessions.ids)
        sessions.put(index)
        listed = titles(sessions)
        with sessions.store.open() as opened:
            assert not opened.is_new or _holder(index, sessions)
            assert opened.is_new or opened.transcript.path.exists()
            if not _holder(index, sessions) and not _named(index, sessions):
                assert texts(opened.transcript) == CURRENT
        assert "main" in listed or _holder(index, sessions)
        assert sorted(sessions.ids.values()) == sorted(
            path.stem for path in sessions.folder.glob("*.jsonl") if path.stem in sessions.ids.values()
        )


def _change(index: dict[str, Any], change: tuple[Any, ...], ids: dict[str, str]) -> None:
    match change:
        case ("drop", key):
            index.pop(key, None)
        case ("put", key, value):
            index[key] = _spelled(value, ids)
        case ("set", key, field, value) if isinstance(index.get(key), dict):
            index[key][field] = _spelled(value, ids)
        case ("empty", _):
            index.clear()


def _spelled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _spelled(inner, ids) for name, inner in value.items()}
    return ids.get(value, value) if isinstance(value, str) else value


def _transcript(sessions: Sessions, record: Any) -> Path | None:
    session_id = record.get("sessionId") if isinstance(record, dict) else None
    if not isinstance(session_id, str) or not is_session_id(session_id):
        return None
    file = record.get("sessionFile")
    name = Path(file).name if isinstance(file, str) and file.endswith(".jsonl") else f"{session_id}.jsonl"
    return sessions.folder / name


def _holder(index: dict[str, Any], sessions: Sessions) -> bool:
    """Whether another key of this agent names the transcript that main has."""
    current = sessions.folder / f"{sessions.ids['current']}.jsonl"
    return any(
        _transcript(sessions, record) == current
        for key, record in index.items()
        if key.startswith("agent:main:") and key != MAIN
    )


def _named(index: dict[str, Any], sessions: Sessions) -> bool:
    """Whether main names a transcript that there is."""
    path = _transcript(sessions, index.get(MAIN))
    return path is not None and path.exists()


def test_the_folder_is_searched_once_to_open_a_session_and_again_only_for_a_loss(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []

    def names_in_folder(folder: Path) -> frozenset[str]:
        listed.append(folder)
        return names_in(folder)

    for module in (folder_module, rotation):
        monkeypatch.setattr(module, "names_in", names_in_folder)
    with sessions.store.open("work") as opened:
        assert len(listed) == 1
        sessions.store.update(opened.record)
        assert len(listed) == 1
        sessions.put({})
        sessions.store.update(opened.record)
    # Once to see the loss, and once to rebuild.
    assert len(listed) == 3
    assert {MAIN, "agent:main:work"} <= sessions.index().keys()
