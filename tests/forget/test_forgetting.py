"""What was forgotten stands nowhere below the home but where the user was told, also when all is made again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from clawbot.errors import ClawbotError
from clawbot.forget import ForgetOutcome, NothingFoundError, forgetting
from clawbot.memory.store.locks import WriterLock
from clawbot.sessions.errors import ForgottenSessionError, SessionLockedError
from clawbot.sessions.forgotten import read_forgotten
from tests.agent.fakes import says
from tests.agent.gate_host import PurposeModel
from tests.forget.world import OTHER, TOLD, WORDS, World, go_on, live, taking, world
from tests.program import say

__all__ = ["world"]

LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])
TRANSCRIPTS = pytest.mark.parametrize("transcripts", [False, True])


def told(world: World, outcome: ForgetOutcome) -> set[Path]:
    """The files that the user was told of."""
    named = {world.workspace / left.path for left in outcome.left}
    return named.union(*(path.rglob("*") for path in named if path.is_dir()))


@pytest.mark.few(1)
@TRANSCRIPTS
@LANGUAGES
async def test_words_are_nowhere_but_where_it_was_told(world: World, language: str, transcripts: bool) -> None:
    await live(world, language)
    words = WORDS[language]
    assert {path.suffix for path in world.holding(words)} >= {".md", ".jsonl", ".sqlite", ".unsent"}
    for name in ("main.sqlite.set-aside-20261120T000000000000Z", "main.sqlite.building"):
        (world.folder / "memory" / name).write_bytes(words.encode())
    outcome = await world.forget(words, transcripts=transcripts)
    assert outcome.complete
    assert world.holding(words) == told(world, outcome)
    exported = world.workspace / "exports" / "talk.md"
    assert told(world, outcome) == {exported} | (set() if transcripts else set(world.sessions.glob("*.jsonl")))
    assert await world.search(words) == []

    world.forget_the_derived()
    assert await world.search(words) == []
    assert await world.search("standup") != []
    before = world.holding(words)
    requests = await go_on(world)
    assert requests
    assert [request.purpose for request in requests if words in str(msgspec.to_builtins(request, enc_hook=str))] == []
    assert world.holding(words) <= before
    assert await world.search(words) == []
    assert [one.title for one in world.store().list() if words in one.title] == []
    assert OTHER in world.paths.history_file.read_text("utf-8")
    assert OTHER in (world.memory / "trip.md").read_text("utf-8")


@pytest.mark.few(1)
@TRANSCRIPTS
@LANGUAGES
async def test_a_session_is_nowhere_but_where_it_was_told(world: World, language: str, transcripts: bool) -> None:
    first = await live(world, language)
    words = WORDS[language]
    [note] = [path for path in world.memory.glob("*.md") if first in path.read_text("utf-8")]
    outcome = await world.forget(session=first[:8], transcripts=transcripts)
    assert outcome.complete
    assert not note.exists()
    assert world.holding(words) <= told(world, outcome)
    own = world.sessions / f"{first}.jsonl"
    assert (own in told(world, outcome)) != transcripts
    assert (words.encode() in own.read_bytes()) != transcripts

    world.forget_the_derived()
    assert not [path for path in await world.search(words) if first in path or path == f"memory/{note.name}"]
    store = world.store()
    assert first not in [record.session_id for record in store.pending()]
    assert store.find(first).ended_reason
    with pytest.raises(ForgottenSessionError):
        store.open(first)
    await go_on(world)
    assert not [path for path in world.memory.glob("*.md") if first in path.read_text("utf-8")]


@pytest.mark.few(1)
@TRANSCRIPTS
@LANGUAGES
async def test_a_note_goes_with_its_quotes(world: World, language: str, transcripts: bool) -> None:
    await live(world, language)
    quoting = world.memory / "2026-11-21.md"
    quoting.write_text(f"# 2026-11-21\n\nFrom the trip:\n\n> {TOLD[language]}\n>\n> — `memory/trip.md:3`\n", "utf-8")
    outcome = await world.forget("memory/trip.md", transcripts=transcripts)
    assert outcome.complete
    assert not (world.memory / "trip.md").exists()
    assert TOLD[language] not in quoting.read_text("utf-8")
    assert "trip.md" not in quoting.read_text("utf-8")
    assert world.holding(WORDS[language]) <= told(world, outcome)
    world.forget_the_derived()
    assert "memory/trip.md" not in await world.search(WORDS[language])


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["words", "session", "note"])
@TRANSCRIPTS
async def test_a_dry_run_tells_the_same_and_changes_no_byte(world: World, how: str, transcripts: bool) -> None:
    first = await live(world, "en")
    wanted = {"words": {"text": WORDS["en"]}, "session": {"session": first}, "note": {"text": "memory/trip.md"}}[how]
    before = {path: path.read_bytes() for path in world.files()}
    dry = await world.forget(**wanted, transcripts=transcripts, dry_run=True)
    assert {path: path.read_bytes() for path in world.files()} == before
    assert await world.forget(**wanted, transcripts=transcripts) == replace(dry, dry_run=False)
    assert dry.done
    assert all(": would be " in line or line.startswith("would remain: ") for line in dry.lines())


async def test_done_again_it_says_what_is_still_there_and_changes_nothing(world: World) -> None:
    await live(world, "en")
    first = await world.forget(WORDS["en"])
    before = {path: path.read_bytes() for path in world.files()}
    again = await world.forget(WORDS["en"])
    assert (again.done, again.left, again.complete) == ((), first.left, True)
    assert {path: path.read_bytes() for path in world.files()} == before
    assert not read_forgotten(world.sessions).unfinished


@pytest.mark.parametrize("text", ["nobody said this", "花生酱", "memory/nope.md"])
async def test_what_nothing_holds_is_an_error_that_says_what_to_try(world: World, text: str) -> None:
    await live(world, "en")
    with pytest.raises(NothingFoundError, match="memory search"):
        await world.forget(text)
    assert not (world.sessions / "forgotten.json").exists()


async def test_a_path_is_never_taken_for_words(world: World) -> None:
    (world.memory / "a.md").write_text("- see memory/nope.md for it\n", "utf-8")
    with pytest.raises(NothingFoundError, match="no note"):
        await world.forget("memory/nope.md")
    assert (world.memory / "a.md").read_text("utf-8") == "- see memory/nope.md for it\n"


@pytest.mark.few(3)
@pytest.mark.parametrize("text", [" ", "x", "\u200b", "../../secret.md", "/etc/notes.md"])
async def test_what_says_too_little_or_is_no_note_is_refused(world: World, text: str) -> None:
    await live(world, "en")
    before = {path: path.read_bytes() for path in world.files()}
    with pytest.raises(ClawbotError):
        await world.forget(text)
    assert {path: path.read_bytes() for path in world.files()} == before


async def test_a_session_that_is_open_elsewhere_is_named_and_not_touched(world: World) -> None:
    first = await live(world, "en")
    del first
    store = world.store()
    with store.open("work") as opened:
        path = opened.transcript.path
        before = path.read_bytes()
        with pytest.raises(SessionLockedError):
            await world.forget(session="work")
        outcome = await world.forget(WORDS["en"], transcripts=True)
        assert not outcome.complete
        assert path.read_bytes() == before
        why = {left.path: left.why for left in outcome.left}
        assert "open in process" in why[str(path)]
        assert (world.sessions / "work.unsent").exists()
        assert str(world.sessions / "work.unsent") in why
        assert world.holding(WORDS["en"]) == told(world, outcome)
    assert (await world.forget(WORDS["en"], transcripts=True)).complete
    assert world.holding(WORDS["en"]) == {world.workspace / "exports" / "talk.md"}


async def test_the_main_session_that_is_forgotten_leaves_its_name_to_a_new_one(world: World) -> None:
    await live(world, "en")
    store = world.store()
    main = store.find("main").session_id
    await world.forget(session="main")
    assert store.find(main).ended_reason == "forgotten"
    with store.open("main") as opened:
        assert opened.is_new
    world.forget_the_derived()
    assert world.store().find(main).ended_reason is not None
    assert world.store().find("main").session_id != main


@pytest.mark.parametrize(
    ("encoding", "line_break", "mode"), [("utf-8-sig", "\r\n", 0o640), ("utf-16", "\n", 0o600), ("utf-8", "\n", 0o644)]
)
async def test_a_file_keeps_its_form(world: World, encoding: str, line_break: str, mode: int) -> None:
    path = world.memory / "form.md"
    data = line_break.join(["# Form", "", "- a Xylophonia", "- 留下", ""]).encode(encoding)
    path.write_bytes(data)
    path.chmod(mode)
    await world.forget("xylophonia")
    assert path.read_bytes() == line_break.join(["# Form", "", "- 留下", ""]).encode(encoding)
    assert path.stat().st_mode & 0o777 == mode


async def test_what_must_not_be_changed_is_told(world: World) -> None:
    path = world.memory / "twin.md"
    path.write_text("- Xylophonia\n", "utf-8")
    (world.folder / "twin.md").hardlink_to(path)
    (world.folder / "logs").mkdir()
    (world.folder / "logs" / "old.log").write_text("fine\nsaw Xylophonia\n", "utf-8")
    outcome = await world.forget("xylophonia")
    assert not outcome.complete
    assert world.holding("Xylophonia") <= told(world, outcome)
    assert {left.lines for left in outcome.left if left.path.endswith("old.log")} == {(2,)}


async def test_an_index_that_somebody_else_writes_is_told_and_done_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live(world, "en")
    monkeypatch.setattr(forgetting, "_BUSY_SECONDS", 0)
    monkeypatch.setattr(forgetting, "_BUSY_TRIES", 1)
    db = world.paths.memory_db("main")
    lock = WriterLock(db)
    lock.acquire()
    outcome = await world.forget(WORDS["en"])
    lock.release()
    assert not outcome.complete
    why = "another process writes it; run the command again"
    assert [left.why for left in outcome.left if left.path == str(db)] == [why]
    assert read_forgotten(world.sessions).unfinished
    assert (await world.forget(WORDS["en"])).complete
    assert db not in world.holding(WORDS["en"])


async def test_without_an_index_the_notes_and_conversations_are_forgotten_all_the_same(world: World) -> None:
    await live(world, "en")
    world.paths.config_file.write_text("agents: {defaults: {memory_search: {enabled: false}}}\n", "utf-8")
    outcome = await world.forget(WORDS["en"], transcripts=True)
    assert world.holding(WORDS["en"]) == told(world, outcome)
    assert str(world.paths.memory_db("main")) in [left.path for left in outcome.left]


async def test_a_chat_that_is_open_keeps_no_note_of_it(world: World) -> None:
    world.model = PurposeModel(flush=[taking, says("NO_REPLY")], slug=[says("boat-xylophonia")])
    runtime = await world.open()
    await say(runtime, TOLD["en"])
    await say(runtime, OTHER)
    assert (await world.forget(WORDS["en"])).complete
    world.model.replies["slug"] = [says("standup")]
    await say(runtime, "/new")
    await runtime.agent.ended.settled()
    await runtime.close()
    notes = "".join(path.read_text("utf-8") for path in world.memory.glob("*.md"))
    assert OTHER in notes
    assert WORDS["en"] not in notes
    assert WORDS["en"] not in str([request.messages for request in world.model.of("slug")])


@pytest.mark.parametrize("way", ["quit", "/new"])
async def test_a_silent_turn_of_an_open_chat_sees_nothing_of_it(world: World, way: str) -> None:
    settings = {"hooks": {"entries": {"session-memory": {"enabled": False}}}}
    world.paths.config_file.write_text(json.dumps(settings), "utf-8")
    world.model = PurposeModel(flush=[taking, says("NO_REPLY")])
    runtime = await world.open()
    for text in (TOLD["en"], *(f"{OTHER}, {number}, {OTHER * 20}" for number in range(20))):
        await say(runtime, text)
    await world.forget(WORDS["en"])
    if way == "/new":
        await say(runtime, "/new")
        await runtime.agent.ended.settled()
    await runtime.close()
    flushes = world.model.of("flush")
    assert OTHER in str([request.messages for request in flushes])
    assert WORDS["en"] not in str([request.messages for request in flushes])
    assert WORDS["en"] not in "".join(path.read_text("utf-8") for path in world.memory.glob("*.md"))
