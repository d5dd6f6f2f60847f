"""One session after another under a key: what is inherited, what a kill at any step leaves, and the age."""

from __future__ import annotations

import errno
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from clawbot.sessions.entries import ModelChangeEntry, SessionInfoEntry
from clawbot.sessions.locks import SessionLock
from clawbot.sessions.repair import repair
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock
from tests.faults import count_steps, run_killed

from .helpers import HEADER, entry, failing, texts, user, write

KEY = "agent:main:main"
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def store(tmp_path: Path, clock: StillClock) -> SessionStore:
    return SessionStore(tmp_path, clock, cwd=Path("/w"))


def talk(store: SessionStore, *words: str) -> str:
    with store.open() as opened:
        for text in words:
            opened.transcript.append_message(user(text))
        return opened.record.session_id


def stray(folder: Path, name: str, parent: str, *entries: dict[str, Any], key: str = KEY) -> Path:
    """A transcript that says that it follows `parent`, unknown to the index."""
    header = {**HEADER, "id": name, "sessionKey": key, "parentSession": f"/moved/elsewhere/{parent}.jsonl"}
    return write(folder / f"{name}.jsonl", header, *entries)


def names(store: SessionStore) -> dict[str, str]:
    return {each.name: each.session_id for each in store.list()}


def now_ms(clock: StillClock) -> int:
    return int(clock.now().timestamp() * 1000)


# -- what goes along ---------------------------------------------------------------------------------------------------


def test_choices_go_along_and_counts_begin_anew(store: SessionStore, tmp_path: Path, clock: StillClock) -> None:
    opened = store.open()
    record = structs.replace(
        opened.record,
        model_override="p/m",
        label="我的",
        turns=3,
        input_tokens=1,
        output_tokens=2,
        total_tokens=3,
        total_tokens_fresh=True,
        context_tokens=4,
        cost=0.5,
        compaction_count=2,
        memory_flush_at=5,
        memory_flush_compaction_count=1,
        last_interaction_at=6,
        resumed_at=7,
    )
    opened.record = store.update(record)
    raw = json.loads((tmp_path / "sessions.json").read_text())
    raw[KEY]["thinkingLevel"] = "high"
    (tmp_path / "sessions.json").write_text(json.dumps(raw))
    clock.forward(hours=1)
    with store.rotate(opened, "daily") as fresh:
        begun = structs.replace(fresh.record, session_id="x", session_file=None)
    expected = {"key": KEY, "model_override": "p/m", "label": "我的"}
    assert {name: value for name, value in structs.asdict(begun).items() if value} == expected | {
        "session_id": "x",
        "session_started_at": now_ms(clock),
        "updated_at": now_ms(clock),
    }
    after = json.loads((tmp_path / "sessions.json").read_text())
    assert after[KEY]["thinkingLevel"] == "high"
    archived = after["agent:main:main-20261121-0216"]
    assert (archived["thinkingLevel"], archived["cost"], archived["turns"]) == ("high", 0.5, 3)
    assert (archived["endedReason"], archived["endedAt"]) == ("daily", now_ms(clock))


def test_a_choice_outlives_the_index_and_several_sessions(store: SessionStore, tmp_path: Path) -> None:
    opened = store.open()
    opened.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
    for reason in ("/new", "daily"):
        opened = store.rotate(opened, reason)
    opened.close()
    (tmp_path / "sessions.json").unlink()
    assert store.find("main").session_id == opened.record.session_id
    assert store.find("main").model_override == "p/m"


def test_a_transcript_that_is_gone_does_not_keep_a_session_from_ending(store: SessionStore, tmp_path: Path) -> None:
    opened = store.open()
    opened.transcript.path.unlink()
    with store.rotate(opened, "/new") as fresh:
        assert any("deleted or replaced" in notice.text for notice in fresh.notices)
        assert names(store)["main"] == fresh.record.session_id


# An empty file of another name may be anybody's.
EMPTY = "00000000-0000-4000-8000-000000000000"

# -- what a kill left --------------------------------------------------------------------------------------------------


def test_an_unused_transcript_is_no_session_and_goes(store: SessionStore, tmp_path: Path) -> None:
    first = talk(store, "a")
    left = [stray(tmp_path, "left", first), write(tmp_path / f"{EMPTY}.jsonl", b""), tmp_path / "torn.jsonl"]
    write(left[2], b'{"type":"session","version":3,"id":"to')
    assert names(store) == {"main": first}
    assert all(path.exists() for path in left)
    store.open().close()
    assert not any(path.exists() for path in left)


def test_what_holds_words_stays(store: SessionStore, tmp_path: Path) -> None:
    first = talk(store, "a")
    kept = [
        stray(tmp_path, "said", first, entry(1, "words")),
        stray(tmp_path, "orphaned", "nobody"),
        write(tmp_path / "headless.jsonl", entry(1, "words")),
        write(tmp_path / "unfinished.jsonl", b'{"type":"message","id":"00000001","parentId":null,"message":{"ro'),
        write(tmp_path / "noise.jsonl", {**HEADER, "parentSession": f"{first}.jsonl"}, b"what is this\n"),
    ]
    tail = stray(tmp_path, "tail", first)
    tail.write_bytes(tail.read_bytes() + b'{"type":"message","id":"000')
    content = {path: path.read_bytes() for path in [*kept, tail]}
    store.open().close()
    assert {path: path.read_bytes() for path in [*kept, tail]} == content
    assert names(store).keys() == {"main", *(path.stem for path in content)}


def test_what_another_process_holds_stays(store: SessionStore, tmp_path: Path, clock: StillClock) -> None:
    first = talk(store, "a")
    path = stray(tmp_path, "held", first)
    lock = SessionLock(path)
    lock.acquire("held", clock)
    store.open().close()
    assert path.exists()
    assert names(store) == {"main": first}
    lock.release()
    store.open().close()
    assert not path.exists()


def test_an_unused_one_that_cannot_be_removed_is_told_and_keeps_nobody(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = talk(store, "a")
    path = stray(tmp_path, "left", first)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", failing(errno.EACCES))
        with store.open() as opened:
            assert [(notice.path, "Permission" in notice.text) for notice in opened.notices] == [(str(path), True)]
            assert texts(opened.transcript) == ["a"]
    assert names(store) == {"main": first}


def test_a_rotation_that_has_its_mark_is_finished(store: SessionStore, tmp_path: Path, clock: StillClock) -> None:
    """As after a restored index, which knows the session before the last ones."""
    first = talk(store, "a")
    index = (tmp_path / "sessions.json").read_bytes()
    second = store.rotate(store.open(), "/new")
    clock.forward(hours=1)
    second.transcript.append_message(user("b"))
    clock.forward(hours=1)
    third = store.rotate(second, "daily")
    third.close()
    before = names(store)
    (tmp_path / "sessions.json").write_bytes(index)
    assert names(store) == before == {
        "main": third.record.session_id,
        "main-20261121-0216": first,
        "main-20261121-0216-2": second.record.session_id,
    }  # fmt: skip
    ended = {each.name: each.ended for each in store.list()}
    assert ended == {"main": "open", "main-20261121-0216": "/new", "main-20261121-0216-2": "daily"}
    store.update(store.find("main"))
    assert json.loads((tmp_path / "sessions.json").read_text()).keys() == {f"agent:main:{name}" for name in before}


def test_a_session_that_was_taken_up_again_keeps_its_key(store: SessionStore, tmp_path: Path) -> None:
    first = talk(store, "a")
    store.rotate(store.open(), "/new").close()
    with store.open(first) as opened:
        assert opened.record.key == "agent:main:main-20261121-0216"
        opened.transcript.append_message(user("again"))
    assert names(store)["main-20261121-0216"] == first
    stray(tmp_path, "other", first, key="agent:main:else")
    assert names(store)["main-20261121-0216"] == first


def test_repair_makes_no_session_of_what_a_kill_left(store: SessionStore, tmp_path: Path, clock: StillClock) -> None:
    first = talk(store, "a")
    write(tmp_path / f"{EMPTY}.jsonl", b"")
    write(tmp_path / "gone.jsonl.lock.json", b"")
    write(tmp_path / "gone.jsonl.lock", b"")
    report = repair(store, clock)
    assert [Path(found.path).stem for found in report.transcripts] == [first]
    assert report.index == []
    assert report.removed_locks == [str(tmp_path / "gone.jsonl.lock")]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((EMPTY, "gone."))] == []


# -- the age of a session ----------------------------------------------------------------------------------------------


def test_the_age_counts_from_the_beginning(store: SessionStore, clock: StillClock) -> None:
    talk(store, "a")
    clock.forward(hours=1)
    with store.open() as opened:
        assert opened.record.resumed_at is None
        assert opened.record.began_at == now_ms(clock) - 60 * MINUTE_MS


def test_an_ended_session_that_is_opened_again_is_as_young_as_a_new_one(
    store: SessionStore, tmp_path: Path, clock: StillClock
) -> None:
    first = talk(store, "a")
    store.rotate(store.open(), "daily").close()
    used = store.find(first).updated_at
    clock.forward(days=3)
    with store.open(first) as opened:
        assert opened.record.began_at == opened.record.resumed_at == now_ms(clock)
        assert opened.record.ended_reason is None
    record = json.loads((tmp_path / "sessions.json").read_text())["agent:main:main-20261121-0216"]
    assert (record["resumedAt"], record["updatedAt"]) == (now_ms(clock), used)


def test_a_live_session_that_the_user_picked_is_young_too(store: SessionStore, clock: StillClock) -> None:
    talk(store, "a")
    before = store.find("main")
    clock.forward(days=3)
    resumed = store.resumed(before)
    assert resumed == store.find("main") == structs.replace(before, resumed_at=now_ms(clock))
    assert resumed.began_at == now_ms(clock)


def test_an_empty_session_begins_again_without_a_new_transcript(
    store: SessionStore, tmp_path: Path, clock: StillClock
) -> None:
    with store.open() as opened:
        clock.forward(days=1)
        content = opened.transcript.path.read_bytes()
        restarted = store.restart(opened.record)
        assert restarted == store.find("main") == structs.replace(opened.record, session_started_at=now_ms(clock))
        assert restarted.began_at == now_ms(clock)
        assert opened.transcript.path.read_bytes() == content
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_the_beginning_of_a_session_from_elsewhere_is_in_its_header(
    store: SessionStore, tmp_path: Path, clock: StillClock
) -> None:
    write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"))
    (tmp_path / "sessions.json").write_text(json.dumps({KEY: {"sessionId": "s1", "updatedAt": 5}}))
    assert store.find("main").began_at is None
    with store.open() as opened:
        assert opened.record.began_at == now_ms(clock)  # the header says the time of the clock


def test_a_rebuilt_record_knows_when_the_user_spoke(store: SessionStore, tmp_path: Path, clock: StillClock) -> None:
    with store.open() as opened:
        opened.transcript.append_message(user("a"))
        spoke = now_ms(clock)
        clock.forward(hours=1)
        opened.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
    with store.open("silent") as silent:
        silent.transcript.append(ModelChangeEntry(provider="p", model_id="m"))
    (tmp_path / "sessions.json").unlink()
    assert store.find("main").last_interaction_at == spoke
    assert store.find("silent").last_interaction_at is None


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
