"""Imports of the six programs: what arrives, what a second run adds, what goes on here, and what an undo takes back."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from clawbot.agent.offers import offers_of, unoffered_spans
from clawbot.clock import moment_of
from clawbot.importing.ledger import Ledger
from clawbot.importing.runs import Importer, Outcome, Undone, undo_run
from clawbot.importing.source import ImportFailedError
from clawbot.messages import AssistantMessage, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import context_items
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.store import SessionStore
from clawbot.sessions.text import spoken_part
from clawbot.sessions.transcript import Transcript
from tests.clocks import StillClock
from tests.importing import homes
from tests.tables import load_table

COUNTS = {"openclaw": 3, "pi": 2, "claude-code": 2, "codex": 3, "chatgpt": 2, "claude-ai": 2}
LEFT = "taken back"


class Place(Struct):
    """A home with data of another program at `path`, and sessions and a workspace of ours."""

    home: Path
    path: Path
    clock: StillClock

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.home / "agents/main/sessions", self.clock, cwd=self.home)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home / "imports")

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"

    def run(self, **options: Any) -> Outcome:
        self.clock.forward(seconds=1)
        return Importer(self.store, self.workspace, self.ledger, self.clock, **options).run(self.path)

    def undo(self, run: str) -> Undone:
        return undo_run(self.store, self.ledger, *self.ledger.find(run), workspace=self.workspace)

    def files(self) -> dict[str, bytes]:
        """What the folder of sessions and the workspace hold, without locks and what a list remembers."""
        found = (path for path in self.home.rglob("*") if path.is_file() and "imports" not in path.parts)
        held = {str(path.relative_to(self.home)): path.read_bytes() for path in found if ".lock" not in path.name}
        return {name: re.sub(rb',\s*"seen": \[[^]]*\]', b"", data) for name, data in held.items()}


def place_of(program: str, folder: Path, words: homes.Words = homes.ENGLISH) -> Place:
    (folder / "theirs").mkdir()
    ours = folder / "ours"
    ours.mkdir()
    return Place(ours, homes.HOMES[program](folder / "theirs", words), StillClock())


@pytest.fixture(params=list(homes.HOMES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request.param, tmp_path)


def messages(path: Path) -> list[Any]:
    with Transcript.open(path, clock=StillClock(), writable=False) as transcript:
        assert not transcript.problems
        return [entry.message for entry in transcript.entries if isinstance(entry, MessageEntry)]


def said(path: Path) -> list[str]:
    """What user and model said on the branch that is continued."""
    found = (each for each in messages(path) if isinstance(each, UserMessage | AssistantMessage))
    return [each.text for each in found if each.text]


def paths(place: Place) -> list[Path]:
    return [summary.path for summary in place.store.list()]


@pytest.mark.parametrize("language", list(homes.WORDS))
@pytest.mark.parametrize("program", list(homes.HOMES))
def test_conversations_arrive_with_their_words_times_models_and_tools(
    program: str, language: str, tmp_path: Path
) -> None:
    words = homes.WORDS[language]
    place = place_of(program, tmp_path, words)
    outcome = place.run()
    assert outcome.new == len(place.store.list()) == COUNTS[program]
    spoken = [text for pair in words for text in pair]
    for summary in place.store.list():
        texts = [text.partition("]\n")[2] or text for text in said(summary.path)]
        assert [text for text in texts if text in spoken] == spoken
        assert not any(LEFT in text for text in texts)
        assert summary.ended == "imported"
        assert homes.BEGAN <= summary.created_at <= summary.updated_at < homes.BEGAN + timedelta(hours=2)
        assert summary.title
        found = "\n".join(line.text for line in spoken_part(summary.path).lines)
        assert spoken[0] in found
        assert spoken[-1] in found
        everything = messages(summary.path)
        calls = [call for each in everything if isinstance(each, AssistantMessage) for call in each.tool_calls]
        results = [each for each in everything if isinstance(each, ToolResultMessage)]
        assert {call.id for call in calls} == {result.tool_call_id for result in results}
        assert all(result.tool_name == call.name for call, result in zip(calls, results, strict=True))
        assert all(moment_of(each.timestamp) >= homes.BEGAN for each in everything)
    assert any(summary.path.read_bytes().count(b'"toolCall"') for summary in place.store.list())


MODELS = {"claude-code": "claude-opus-4-5", "codex": "gpt-5-codex", "chatgpt": "gpt-5", "pi": "claude-opus-4"}


@pytest.mark.parametrize(("program", "model"), MODELS.items())
def test_answers_have_the_names_of_their_models(program: str, model: str, tmp_path: Path) -> None:
    place = place_of(program, tmp_path)
    place.run()
    newest = place.store.list()[0]
    named = {each.model for each in messages(newest.path) if isinstance(each, AssistantMessage) and each.text}
    assert named == {model}
    assert newest.model is None  # it goes on with the model of the settings


def test_a_dry_run_counts_the_same_and_writes_nothing(place: Place) -> None:
    counted = place.run(dry_run=True)
    assert place.files() == {}
    made = place.run()
    for name in ("new", "subagents", "messages", "copied", "skipped"):
        assert getattr(counted, name) == getattr(made, name)


def test_a_second_run_changes_nothing(place: Place) -> None:
    place.run()
    before = place.files()
    outcome = place.run()
    assert (outcome.new, outcome.grown, outcome.parts, outcome.copied) == (0, 0, 0, [])
    assert place.files() == before


def grow(program: str, path: Path) -> None:
    """Add one question and its answer to the newest conversations at `path`."""
    words = [*homes.ENGLISH, ("And now?", "Now it is bigger.")]
    if program == "openclaw":
        folder = path / "agents/main/sessions"
        homes.put_lines(folder / f"{homes.uid(1)}.jsonl", homes.pi_lines(1, words))
    elif program == "pi":
        (file,) = path.rglob(f"*{homes.uid(1)}.jsonl")
        homes.put_lines(file, homes.pi_lines(1, words))
    elif program == "claude-code":
        homes.put_lines(path / f"projects/-work/{homes.uid(1)}.jsonl", homes.claude_code_lines(1, words))
    elif program == "codex":
        (file,) = path.rglob(f"*{homes.uid(1)}.jsonl")
        homes.put_lines(file, homes.codex_lines(1, words))
    elif program == "chatgpt":
        path.unlink()
        homes.chatgpt(path.parent, words)
    else:
        items = [homes.claude_ai_item(1, words), homes.claude_ai_item(2, words, tree=True)]
        (path / "conversations.json").write_text(json.dumps(items))


GROWN = {"chatgpt": 2, "claude-ai": 2}


def test_a_conversation_that_grew_gets_its_new_messages_once(place: Place) -> None:
    first = place.run()
    before, program = place.files(), place.ledger.find(first.run)[0].program
    grow(program, place.path)
    second = place.run()
    assert (second.new, second.grown, second.parts) == (0, GROWN.get(program, 1), 0)
    grown = [path for path in paths(place) if "And now?" in said(path)]
    assert len(grown) == second.grown
    for path in grown:
        assert said(path)[-2:] == ["And now?", "Now it is bigger."]
        assert len(said(path)) == len(set(said(path)))
    assert place.run().grown == 0
    undone = place.undo(second.run)
    assert (undone.sessions, undone.shortened, undone.stays) == (0, second.grown, [])
    assert place.files() == before
    third = place.run()
    assert third.grown == second.grown
    undone = place.undo(first.run)
    assert all(line.endswith(f"it grew in the import {third.run}; undo that one first") for line in undone.stays)
    assert len(undone.stays) == second.grown
    place.undo(third.run)
    assert place.undo(first.run).sessions == second.grown
    assert place.store.list() == []


def continued(place: Place) -> tuple[Path, bytes]:
    """Go on in the conversation that grows; returns its transcript and content."""
    program = place.ledger.runs()[0][0].program
    wanted = {"openclaw": "Hens", "claude-code": "Hens and geese", "codex": "Hens and geese"}.get(program)
    path = next(summary.path for summary in place.store.list() if wanted in (None, summary.title))
    with place.store.open(path.stem) as opened:
        assert not opened.is_new
        opened.transcript.append_message(UserMessage("said here", timestamp=1))
        place.store.update(opened.record)
    return path, path.read_bytes()


@pytest.mark.parametrize("program", [each for each in homes.HOMES if each != "pi"])
def test_what_was_continued_here_is_not_touched_and_new_messages_come_beside_it(program: str, tmp_path: Path) -> None:
    place = place_of(program, tmp_path)
    first = place.run()
    path, content = continued(place)
    grow(program, place.path)
    second = place.run()
    assert (second.new, second.parts) == (0, 1)
    assert path.read_bytes() == content
    part = next(each for each in paths(place) if said(each)[:1] == ["And now?"])
    assert said(part) == ["And now?", "Now it is bigger."]
    assert place.run().parts == 0
    undone = place.undo(second.run)
    assert not part.exists()
    assert not undone.stays
    undone = place.undo(first.run)
    assert [line.partition(":")[0] for line in undone.stays] == [path.stem]
    assert path.read_bytes() == content
    assert [run.id for run, _ in place.ledger.runs()] == [first.run]


def test_an_undo_leaves_what_was_there_before(place: Place) -> None:
    with place.store.open() as opened:
        opened.transcript.append_message(UserMessage("mine", timestamp=1))
    before = place.files()
    run = place.run().run
    undone = place.undo(run)
    assert undone.stays == []
    assert place.files() == before
    assert [summary.title for summary in place.store.list()] == ["mine"]
    assert place.ledger.runs() == []
    assert place.run().new == len(place.store.list()) - 1


def test_a_conversation_that_was_deleted_or_forgotten_here_does_not_come_back(place: Place) -> None:
    place.run()
    gone = place.store.list()[0]
    place.store.delete(gone.session_id)
    grow(place.ledger.runs()[0][0].program, place.path)
    for path in place.path.rglob("*.jsonl") if place.path.is_dir() else ():
        os.utime(path, (1, 1))
    place.run()
    assert gone.session_id not in {each.session_id for each in place.store.list()}


def test_notes_are_copied_beside_what_is_there(tmp_path: Path) -> None:
    place = place_of("openclaw", tmp_path)
    homes.put_lines(place.workspace / "USER.md", [b"# Mine\n"])
    homes.put_lines(place.workspace / "MEMORY.md", [b"- The coop is blue.\n"])
    (place.workspace / "memory").symlink_to(tmp_path)
    outcome = place.run()
    assert outcome.copied == []
    assert outcome.beside == ["imported/openclaw/USER.md", "imported/openclaw/memory/2026-03-05.md"]
    assert (place.workspace / "USER.md").read_text() == "# Mine\n"
    (place.workspace / "imported/openclaw/USER.md").write_text("# Changed\n")
    undone = place.undo(outcome.run)
    assert undone.files == 1
    assert [line.rpartition("/")[2] for line in undone.stays] == ["USER.md: it was changed since"]


WORKSPACES = load_table(__file__, "WORKSPACES")


@pytest.mark.parametrize(("settings", "name"), WORKSPACES.items())
def test_the_notes_are_those_of_the_workspace_that_the_settings_name(
    settings: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of("openclaw", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "theirs"))
    for folder in ("clawd", "coder", "other"):
        homes.put_lines(tmp_path / "theirs" / folder / "memory/2026-03-06.md", [folder.encode()])
    (place.path / "openclaw.json").write_text(settings)
    outcome = place.run()
    note = place.workspace / "memory/2026-03-06.md"
    assert (note.read_text() if note.exists() else "workspace") == name
    named = {each for each in ("coder", "other", "gone") if f"~/{each}" in settings}
    assert {line.split("/")[-1].split(" ")[0] for line in outcome.remarks if line.startswith("notes of")} == named


def test_an_index_that_is_lost_is_made_anew(place: Place) -> None:
    place.run()
    before = place.store.list()
    (place.store.folder / "sessions.json").unlink()
    after = place.store.list()
    assert {each.session_id: (each.title, each.ended, each.updated_at) for each in after} == {
        each.session_id: (each.title, each.ended, each.updated_at) for each in before
    }
    with place.store.open() as opened:
        assert opened.is_new  # no imported conversation becomes the main one


def test_sub_agents_are_with_the_conversation_they_worked_for(tmp_path: Path) -> None:
    for program in ("claude-code", "codex"):
        folder = tmp_path / program
        folder.mkdir()
        place = place_of(program, folder)
        assert place.run().subagents == 1
        parent = next(each for each in place.store.list() if each.title == "Hens and geese")
        assert len(place.store.subagents(parent.session_id).list()) == 1


def test_a_job_of_openclaw_is_no_conversation_of_the_user(tmp_path: Path) -> None:
    place = place_of("openclaw", tmp_path)
    place.run()
    job = next(each for each in place.store.list() if ":cron:" in each.key)
    assert not any("Read the feeds" in line.text for line in spoken_part(job.path).lines)


def test_a_name_that_the_other_program_gave_last_stays_when_the_conversation_grows(tmp_path: Path) -> None:
    place = place_of("pi", tmp_path)
    (file,) = place.path.rglob(f"*{homes.uid(1)}.jsonl")
    lines = homes.pi_lines(1, homes.ENGLISH)
    name = {"type": "session_info", "id": "aaaa0001", "parentId": lines[-1]["id"], "timestamp": homes.at(20)}
    homes.put_lines(file, [*lines, {**name, "name": "Mine"}])
    place.run()
    later = homes.pi_lines(1, [*homes.ENGLISH, ("And now?", "Bigger.")])[len(lines) :]
    later[0]["parentId"] = name["id"]
    homes.put_lines(file, [*lines, {**name, "name": "Mine"}, *later])
    assert place.run().grown == 1
    (path,) = (path for path in paths(place) if "And now?" in said(path))
    assert path.read_bytes().count(b'"Mine"') == 1
    assert "Mine" in {each.title for each in place.store.list()}


def test_what_a_compaction_at_the_end_kept_counts_as_offered(tmp_path: Path) -> None:
    place = place_of("pi", tmp_path)
    (file,) = place.path.rglob(f"*{homes.uid(1)}.jsonl")
    lines = homes.pi_lines(1, homes.ENGLISH)
    kept = next(line["id"] for line in lines if "geese" in json.dumps(line))
    entry = {"type": "compaction", "id": "aaaa0001", "parentId": lines[-1]["id"], "timestamp": homes.at(20)}
    homes.put_lines(file, [*lines, {**entry, "summary": "Hens.", "firstKeptEntryId": kept, "tokensBefore": 9}])
    place.run()
    for path in paths(place):
        with Transcript.open(path, clock=StillClock(), writable=False) as transcript:
            items = context_items(transcript.entries)
            assert (
                unoffered_spans(offers_of(transcript.entries), items, 1 if "Hens." in items[0].message.text else 0)
                == []
            )


def test_a_conversation_that_is_open_gets_its_new_messages_later(tmp_path: Path) -> None:
    place = place_of("codex", tmp_path)
    place.run()
    session = next(each.session_id for each in place.store.list() if each.title == "Hens and geese")
    grow("codex", place.path)
    with place.store.open(session):
        assert place.run().skipped["conversations that are open now"] == 1
    assert place.run().grown == 1


ADDED = load_table(__file__, "ADDED")


@pytest.mark.parametrize(
    ("program", "typed", "stored"), [(name, *each) for name, cases in ADDED.items() for each in cases]
)
def test_what_editors_and_hooks_add_is_not_said_by_the_user(
    program: str, typed: str, stored: str, tmp_path: Path
) -> None:
    place = place_of(program, tmp_path, [(stored, "Yes.")])
    place.run()
    for path in paths(place):
        assert typed in [each.text.strip() for each in messages(path) if isinstance(each, UserMessage)]


def test_the_marks_of_pictures_are_left_out(tmp_path: Path) -> None:
    place = place_of("codex", tmp_path, [])
    parts = ["<image name=[Image #1]>", "</image>", "and in this picture?"]
    content = [{"type": "input_text", "text": text} for text in parts]
    line = {"type": "response_item", "payload": {"type": "message", "role": "user", "content": content}}
    homes.put_lines(place.path / f"sessions/rollout-2026-03-05T09-00-00-{homes.uid(9)}.jsonl", [line])
    place.run()
    assert [text for path in paths(place) for text in said(path)] == ["and in this picture?"]


@pytest.mark.parametrize("answer", ["", "<local-command-stdout>Bye!</local-command-stdout>", "No response requested."])
def test_commands_of_the_program_alone_are_no_conversation(answer: str, tmp_path: Path) -> None:
    place = place_of("claude-code", tmp_path)
    before = place.run().new
    texts = [
        "<command-name>/exit</command-name><command-message>exit</command-message><command-args></command-args>",
        answer,
    ]
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": f"c{number}", "message": {"role": "user", "content": text}, "timestamp": homes.at(0)}
        for number, text in enumerate(filter(None, texts))
    ]
    if answer.startswith("No"):
        lines[1] |= {"type": "assistant", "isApiErrorMessage": True}
    homes.put_lines(place.path / "projects/-work" / f"{homes.uid(70)}.jsonl", lines)
    assert place.run().new == 0
    assert before == len(place.store.list())


REFERENCES = load_table(__file__, "REFERENCES")


@pytest.mark.parametrize(("stored", "shown"), REFERENCES.items())
def test_references_of_chatgpt_that_stand_for_words_keep_them(stored: str, shown: str, tmp_path: Path) -> None:
    place = place_of("chatgpt", tmp_path, [("where?", stored)])
    place.run()
    assert all(shown in said(path) for path in paths(place))


@pytest.mark.parametrize("kind", ["token_budget", "flag", "redacted_thinking"])
def test_blocks_of_claude_that_say_nothing_are_left_out(kind: str, tmp_path: Path) -> None:
    place = place_of("claude-ai", tmp_path)
    item = homes.claude_ai_item(9, [])
    content = [{"type": kind}, {"type": "text", "text": "A whale."}]
    item["chat_messages"] = [{"uuid": "m", "sender": "assistant", "created_at": homes.at(1), "content": content}]
    (place.path / "conversations.json").write_text(json.dumps([item]))
    place.run()
    assert [said(path) for path in paths(place)] == [["A whale."]]


@pytest.mark.parametrize(
    ("program", "inside"),
    load_table(__file__, "a_folder_inside_of_a_home_is_read_and_the_whole_adds_only_the_rest"),
)
def test_a_folder_inside_of_a_home_is_read_and_the_whole_adds_only_the_rest(
    program: str, inside: str, tmp_path: Path
) -> None:
    place = place_of(program, tmp_path)
    whole, place.path = place.path, place.path / inside
    part = place.run().new
    assert part > 0
    place.path = whole
    assert part + place.run().new == len(place.store.list()) == COUNTS[program]


def test_the_folder_of_our_own_sessions_is_not_imported(tmp_path: Path) -> None:
    place = place_of("pi", tmp_path)
    place.run()
    place.path = place.store.folder
    with pytest.raises(ImportFailedError):
        place.run()
