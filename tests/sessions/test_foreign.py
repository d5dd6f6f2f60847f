"""What lies in a folder of sessions and is no transcript of this format: listed, indexed and written to by nobody."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from clawbot.cli import doctor_storage as storage
from clawbot.sessions.errors import SessionLockedError, SessionStoreError
from clawbot.sessions.folder import foreign_kind, list_transcripts, read_folder
from clawbot.sessions.offsets import EMPTY, ZEROED
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock
from tests.tables import load_table

from .helpers import HEADER, answer, entry, line, opened, texts, user, write

UUID = "aaaaaaaa-1111-4222-8333-444444444444"
BOM = b"\xef\xbb\xbf"
OWN = "bbbbbbbb-1111-4222-8333-444444444444"


def rows(*values: Any) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


CLAUDE = {
    "parentUuid": None,
    "isSidechain": False,
    "cwd": "/w",
    "sessionId": UUID,
    "version": "2.0.1",
    "type": "user",
    "message": {"role": "user", "content": "把登录页改成蓝色"},
    "uuid": "u1",
    "timestamp": "2026-03-01T10:00:00.000Z",
}
SNAPSHOT = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}}
META = {
    "id": UUID,
    "timestamp": "2026-03-01T10:00:00Z",
    "cwd": "/w",
    "originator": "codex_cli_rs",
    "cli_version": "0.44.0",
}
STAMP = {"timestamp": "2026-03-01T10:00:00Z"}
NODE: dict[str, Any] = {
    "id": "a",
    "message": {"author": {"role": "user"}, "content": {"parts": ["hi"]}},
    "parent": None,
    "children": [],
}
CHATGPT = [{"title": "你好", "create_time": 1.7e9, "mapping": {"a": NODE}, "current_node": "a"}]
COPILOT = {
    "type": "session.start",
    "data": {"sessionId": UUID},
    "id": UUID,
    "timestamp": "2026-03-01",
    "parentId": None,
}
CLAUDE_AI = [{"uuid": UUID, "name": "问", "chat_messages": [{"sender": "human", "text": "hi"}]}]
# Each kind in the forms in which programs write it.
FOREIGN: dict[str, list[bytes]] = {
    "Claude Code transcripts": [
        rows({"type": "summary", "summary": "Fix the login page", "leafUuid": "u2"}, CLAUDE),
        rows(CLAUDE),
        rows(SNAPSHOT, CLAUDE),
        rows({"type": "queue-operation", "operation": "enqueue", "sessionId": UUID}, CLAUDE),
        rows({**CLAUDE, "type": "assistant", "isSidechain": True}),
        rows(CLAUDE)[:-40],
        b"\xef\xbb\xbf" + rows(CLAUDE).replace(b"\n", b"\r\n"),
        rows({**CLAUDE, "message": {"role": "user", "content": "长" * 60_000}}),
        # What an earlier version appended.
        rows(CLAUDE, entry(1, "hello"), answer(2, "Hi.")),
    ],
    "Codex rollouts": [
        rows({**STAMP, "type": "session_meta", "payload": META}),
        rows({**STAMP, "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}}),
        rows({**STAMP, "type": "turn_context", "payload": {"cwd": "/w"}}),
        rows({**STAMP, "type": "event_msg", "payload": {"type": "user_message", "message": "你好"}}),
        rows({"id": UUID, **STAMP, "instructions": None, "git": {}}, {"record_type": "state"}),
    ],
    "ChatGPT exports": [
        rows(CHATGPT),
        rows(*CHATGPT),
        json.dumps(CHATGPT, indent=2).encode(),
        json.dumps(CHATGPT * 900).encode(),
        rows(CHATGPT)[:-30],
    ],
    "Claude.ai exports": [
        rows(CLAUDE_AI),
        rows(*CLAUDE_AI),
        json.dumps(CLAUDE_AI, indent=1, ensure_ascii=False).encode(),
        rows(CLAUDE_AI)[:-9],
        rows({"chat_messages": []}),
    ],
    "Copilot CLI events": [rows(COPILOT), rows(COPILOT, {"type": "user.message", "id": "x", "parentId": UUID})],
    "Gemini CLI sessions": [rows({"sessionId": UUID, "projectHash": "ab", "messages": []})],
    "OpenClaw trajectories": [rows({"traceSchema": "openclaw-trajectory", "type": "session.started"})],
    "OpenClaw job logs": [rows({"ts": 1, "jobId": UUID, "action": "finished", "status": "ok"})],
    "prompt histories": [
        rows({"display": "帮我看看", "pastedContents": {}, "timestamp": 1, "project": "/w"}),
        b'{"session_id":"a","ts":1,"text":"hi"}\n',
    ],
    "training data": [
        rows({"messages": [{"role": "user", "content": "hi"}]}),
        rows({"instruction": "翻译", "output": "translate"}),
    ],
    "other JSON": [
        rows({"level": "info", "msg": "started"}),
        rows({"type": "session", "id": "x", "version": "2.0.1"}, {"type": "message", "text": "hi"}),
        rows({"type": "session", "id": "x", "model": "gpt"}, {"role": "user", "content": "hi"}),
        rows({"type": "message", "role": "user", "content": "hi", "timestamp": "2026-03-01T10:00:00Z"}),
        rows({**HEADER, "version": "three"}, {"type": "user", "id": "x"}),
        b'{"a": ',
    ],
    "other files": [
        b"2026-03-01 10:00 INFO started\n",
        b"\x7fELF\x02\x01",
        "一些笔记\n".encode(),
        b"\0" * 9000 + b"x\n",
        b"garbage",
    ],
    EMPTY: [b"", b"\n\n", BOM, b" \n"],
    ZEROED: [
        b"\0" * 70,
        b"\0" * 200_000,
        b"\0\0\n\0\0\n",
        b"\xef\xbb\xbf\r\n" + b"\0" * 9,
        b'{"type":"session","ver' + b"\0" * 4096,
        b'{"type":"session","ver\0\0\n\0\0',
    ],
}
FILES = [(kind, content) for kind, contents in FOREIGN.items() for content in contents]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "agents" / "main" / "sessions"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def store(folder: Path, clock: StillClock) -> SessionStore:
    return SessionStore(folder, clock, cwd=Path("/w"))


@pytest.mark.parametrize(("kind", "content"), FILES)
@pytest.mark.parametrize("index", [None, "main", "named"])
def test_a_file_of_another_program_is_no_session(
    store: SessionStore, folder: Path, kind: str, content: bytes, index: str | None
) -> None:
    path = write(folder / ("x.jsonl" if kind == EMPTY and not content.startswith(BOM) else f"{UUID}.jsonl"), content)
    stem = path.name.removesuffix(".jsonl")
    if index is not None and kind not in (EMPTY, ZEROED):
        # As an earlier version wrote it: the newest file in the folder was the main session.
        record = {"sessionId": stem, "sessionFile": path.name, "updatedAt": 9_000_000_000_000, "turns": 0}
        keys = ["agent:main:main", "agent:main:other"] if index == "main" else ["agent:main:20260301-1000"]
        (folder / "sessions.json").write_text(json.dumps({**dict.fromkeys(keys, record), "agent:main:odd": "kept"}))
    assert store.list() == []
    assert [found.name for found in list_transcripts(folder)] == []
    assert read_folder(folder).foreign == {path.name: kind}
    with store.open() as begun:
        assert begun.is_new
        begun.transcript.append_message(user("hello"))
        assert begun.transcript.path != path
    assert path.read_bytes() == content
    assert [summary.name for summary in store.list()] == ["main"]
    store.repair_index()
    with pytest.raises(SessionStoreError):
        store.find(stem)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        line(HEADER),
        line(HEADER) + line(entry(1, "你好")),
        line({"type": "session", "id": "s1", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w", "provider": "x"})
        + rows({"type": "message", "timestamp": "2026-01-01T00:00:01Z", "message": {"role": "user", "content": "v1"}}),
        line({**HEADER, "version": 4}) + rows({"type": "later", "id": "x", "parentId": None}),
        b'{"type":"session","version":3,"id":"s1","times\n' + line(entry(1, "a")),
        b'{"type":"session"}\n' + line(entry(1, "a")),
        b"garbage\n[1]\n" + line(entry(1, "a")),
        line(entry(1, "no header")),
        b"\0" * 200_000 + b"\n" + json.dumps(entry(1, "end"), separators=(",", ":")).encode() + b"\n",
        b'{"type":"session","ver' + json.dumps(entry(1, "behind"), separators=(",", ":")).encode() + b"\n",
        line(HEADER) + b"what is this\n" + rows({"level": "info"}, entry(1, "a")),
        b"\xef\xbb\xbf" + (line(HEADER) + line(entry(1, "a"))).replace(b"\n", b"\r\n"),
        json.dumps(entry(1, "长" * 90_000), separators=(",", ":"), ensure_ascii=False).encode() + b"\n",
        b'{"type":"session","version":3,"id":"to',
    ],
)
def test_damage_makes_a_transcript_nobody_elses(folder: Path, content: bytes) -> None:
    assert foreign_kind(write(folder / "s1.jsonl", content)) == ""
    assert [found.name for found in list_transcripts(folder)] == ["s1.jsonl"]


def test_links_pipes_folders_and_huge_files_are_left_alone(store: SessionStore, folder: Path, tmp_path: Path) -> None:
    real = write(tmp_path / "elsewhere.jsonl", {**HEADER, "id": "elsewhere"}, entry(1, "a"))
    (folder / "link.jsonl").symlink_to(real)
    (folder / "dangling.jsonl").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    with (folder / "huge.jsonl").open("wb") as file:
        file.truncate(5 * 2**40)
    began = time.monotonic()
    assert store.list() == []
    kinds = read_folder(folder).foreign
    assert time.monotonic() - began < 5
    assert kinds == {
        "link.jsonl": "links",
        "dangling.jsonl": "links",
        "pipe.jsonl": "pipes and devices",
        "folder.jsonl": "folders",
        "huge.jsonl": ZEROED,
    }
    with store.open() as begun:
        assert begun.is_new


@pytest.mark.parametrize(
    "name",
    [
        f".syncthing.{UUID}.jsonl.tmp",
        f".{UUID}.jsonl.tmp",
        f".{UUID}.jsonl.4711.tmp",
        f".{UUID}.jsonl.{'x' * 32}.tmp",
        ".sessions.json.tmp",
    ],
)
def test_a_temporary_file_of_another_program_stays(store: SessionStore, folder: Path, name: str) -> None:
    write(folder / name, HEADER, line(HEADER)[:40])
    before = (folder / name).read_bytes()
    with store.open("main") as session:
        assert session.transcript.path.name != name
    assert (folder / name).read_bytes() == before
    assert name in read_folder(folder, every=True).copies | read_folder(folder, every=True).foreign


def test_a_pending_offer_writes_into_no_foreign_file(store: SessionStore, folder: Path) -> None:
    path = write(folder / f"{UUID}.jsonl", rows(CLAUDE))
    record = {"sessionId": UUID, "updatedAt": 5, "endedReason": "daily", "endedAt": 6, "memoryPending": True}
    (folder / "sessions.json").write_text(json.dumps({"agent:main:main-20260301-1000": record}))
    assert store.pending() == []
    assert path.read_bytes() == rows(CLAUDE)


# -- copies ------------------------------------------------------------------------------------------------------------

# How programs name copies of `X.jsonl`; the last group has names that no session has.
NAMES = load_table(__file__, "NAMES")
ASIDE = load_table(__file__, "ASIDE")
TALK = line({**HEADER, "id": OWN}) + line(entry(1, "one")) + line(answer(2, "two"))
MORE = line(entry(3, "三")) + line(answer(4, "four"))


def named(pattern: str) -> str:
    return pattern.replace("X", OWN)


@pytest.mark.parametrize("name", [*NAMES, *ASIDE])
def test_a_copy_is_no_session_of_its_own(store: SessionStore, folder: Path, name: str) -> None:
    write(folder / f"{OWN}.jsonl", TALK, MORE)
    copy = write(folder / named(name), TALK)
    with store.open() as begun:
        assert texts(begun.transcript) == ["one", "two", "三", "four"]
    assert [summary.session_id for summary in store.list()] == [OWN]
    assert [found.name for found in list_transcripts(folder)] == [f"{OWN}.jsonl"]
    assert read_folder(folder, every=True).copies == {copy.name: f"{OWN}.jsonl"}
    assert copy.read_bytes() == TALK


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("index", [False, True])
def test_the_longest_copy_that_holds_the_others_is_the_session(
    store: SessionStore, folder: Path, name: str, index: bool
) -> None:
    write(folder / f"{OWN}.jsonl", TALK)
    if index:
        store.open().close()
    write(folder / named(name), TALK, MORE)
    with store.open() as begun:
        assert texts(begun.transcript) == ["one", "two", "三", "four"]
    assert [(each.key, each.turns, each.path.name) for each in store.list()] == [("agent:main:main", 2, named(name))]
    assert [found.name for found in list_transcripts(folder)] == [named(name)]
    assert (folder / f"{OWN}.jsonl").read_bytes() == TALK


@pytest.mark.parametrize("longer", ["own", "copy"])
def test_copies_that_an_earlier_version_listed_are_one_session(store: SessionStore, folder: Path, longer: str) -> None:
    copy = f"{OWN}.sync-conflict-20260301-101010-ABCDEFG"
    write(folder / f"{OWN}.jsonl", TALK, *([MORE] if longer == "own" else []))
    write(folder / f"{copy}.jsonl", TALK, *([MORE] if longer == "copy" else []))
    records = {"agent:main:20260301-1000": {"sessionId": copy, "updatedAt": 9}, "agent:main:main": {"sessionId": OWN}}
    for index in (records, dict(reversed(records.items()))):
        (folder / "sessions.json").write_text(json.dumps(index))
        assert [(each.name, each.session_id) for each in store.list()] == [("main", OWN)]
        with store.open() as begun:
            assert texts(begun.transcript) == ["one", "two", "三", "four"]


def test_a_session_that_is_open_elsewhere_stays_in_its_file(folder: Path, clock: StillClock) -> None:
    store = SessionStore(folder, clock)
    with store.open() as begun:
        begun.transcript.append_message(user("one"))
        path = begun.transcript.path
        write(path.with_name(f"{path.stem} (1).jsonl"), path.read_bytes(), entry(7, "more"))
        with pytest.raises(SessionLockedError):
            SessionStore(folder, clock).open()
        assert [summary.path for summary in store.list()] == [path]
        begun.transcript.append_message(user("two"))
    with store.open() as again:
        assert texts(again.transcript) == ["one", "two"]


def test_a_copy_that_says_something_else_is_left_alone(store: SessionStore, folder: Path) -> None:
    write(folder / f"{OWN}.jsonl", TALK, entry(3, "here"))
    other = write(folder / named(NAMES[0]), TALK, entry(3, "there"), MORE)
    with store.open() as begun:
        assert texts(begun.transcript) == ["one", "two", "here"]
    assert read_folder(folder).copies == {other.name: f"{OWN}.jsonl"}


def test_a_copy_alone_is_the_session(store: SessionStore, folder: Path) -> None:
    copy = write(folder / named(NAMES[0]), TALK)
    with store.open() as begun:
        assert texts(begun.transcript) == ["one", "two"]
    assert [(each.session_id, each.path) for each in store.list()] == [(OWN, copy)]


def test_a_copy_replaces_a_file_that_was_emptied(store: SessionStore, folder: Path) -> None:
    with store.open() as begun:
        begun.transcript.append_message(user("words"))
        path = begun.transcript.path
    shutil.copy(path, path.with_name(f"{path.stem} (conflicted copy).jsonl"))
    path.write_bytes(b"")
    with store.open() as again:
        assert texts(again.transcript) == ["words"]


def test_a_transcript_of_any_name_is_a_session(store: SessionStore, folder: Path) -> None:
    odd = write(folder / "agent:main:main.jsonl", {**HEADER, "id": "agent:main:main"}, entry(1, "你好"))
    with store.open() as begun:
        assert (begun.record.session_id, begun.transcript.path) == ("agent-main-main", odd)
    assert [(each.name, each.path) for each in store.list()] == [("main", odd)]


def test_files_that_share_only_an_id_are_sessions(store: SessionStore, folder: Path) -> None:
    write(folder / f"{OWN}.jsonl", TALK)
    write(folder / f"{OWN}-topic-5.jsonl", {**HEADER, "id": OWN}, entry(9, "about something else"))
    assert {summary.title for summary in store.list()} == {"one", "about something else"}


def test_copies_go_into_the_trash_and_come_back(store: SessionStore, folder: Path) -> None:
    write(folder / f"{OWN}.jsonl", TALK, MORE)
    write(folder / named(NAMES[0]), TALK)
    store.open().close()
    store.delete("main")
    assert store.list() == []
    assert list_transcripts(folder) == []
    store.restore(OWN)
    assert [summary.session_id for summary in store.list()] == [OWN]
    assert (folder / named(NAMES[0])).read_bytes() == TALK


def test_nothing_forgotten_comes_back_by_a_copy(store: SessionStore, folder: Path) -> None:
    from clawbot.sessions.forgotten import forget

    write(folder / f"{OWN}.jsonl", TALK)
    store.open().close()
    forget(folder, (), {OWN: ("00000001",)})
    write(folder / named(NAMES[0]), TALK, MORE)
    assert [found.name for found in list_transcripts(folder)] == [f"{OWN}.jsonl"]
    forget(folder, (OWN,), {})
    (folder / f"{OWN}.jsonl").unlink()
    assert list_transcripts(folder) == []


# -- doctor ------------------------------------------------------------------------------------------------------------


class _Here:
    """What the check reads of its input."""

    def __init__(self, sessions: Path) -> None:
        self.sessions = sessions


def test_one_line_of_doctor_says_what_the_files_are(store: SessionStore, folder: Path) -> None:
    with store.open() as begun:
        begun.transcript.append_message(user("hello"))
    assert storage.strangers(_Here(folder)) == []  # type: ignore[arg-type]  # it reads the folder alone
    for name, content in {
        f"{UUID}.jsonl": rows(CLAUDE),
        "rollout-2026.jsonl": FOREIGN["Codex rollouts"][0],
        "a\x1b[31m.jsonl": b"x\n",
        "notes.txt": b"x\n",
        f"{OWN}.jsonl.deleted.2026-03-01T10-00-00.000Z": TALK,
    }.items():
        write(folder / name, content)
    shutil.copy(begun.transcript.path, folder / "copy.jsonl.bak")
    (finding,) = storage.strangers(_Here(folder))  # type: ignore[arg-type]  # it reads the folder alone
    for part in (
        f"Claude Code transcripts: {UUID}.jsonl",
        "Codex rollouts: rollout-2026.jsonl",
        "copies of a session: copy.jsonl.bak",
        "deleted sessions of OpenClaw",
        "notes.txt",
    ):
        assert part in finding.message
    assert "\x1b" not in finding.message


def test_a_folder_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(folder / f"s{number}.jsonl", {**HEADER, "id": f"s{number}"}, entry(1, "a"))
    assert len(read_folder(folder).headers) == 30
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("read again"))
    assert len(read_folder(folder).headers) == 30


def test_listing_reads_a_transcript_whole_only_once(
    store: SessionStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clawbot.sessions import store as module

    store.open().close()
    for number in range(5):
        write(folder / f"s{number}.jsonl", {**HEADER, "id": f"s{number}"}, entry(1, f"talk {number}"))
    first = store.list()
    monkeypatch.setattr(module, "read_summary", lambda _: pytest.fail("read again"))
    monkeypatch.setattr("clawbot.sessions.summary.read_summary", lambda _: pytest.fail("read again"))
    assert store.list() == first
    assert opened(folder / "s1.jsonl", writable=False).session_id == "s1"
