"""What was said in a transcript, for the memory index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.messages import AssistantMessage, BashExecutionMessage, TextBlock, ThinkingBlock, ToolCallBlock
from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry, ModelChangeEntry
from clawbot.sessions.folder import TranscriptFile, list_transcripts
from clawbot.sessions.transcript import Transcript
from tests.said_secrets import LOOK_ALIKES, SECRETS

from .helpers import CLOCK, HEADER, answer, entry, line, result, said, spoken_lines, user, write


def test_what_was_said_and_where(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append(ModelChangeEntry(provider="openai", model_id="x"))
        transcript.append_message(user("我喜欢乌龙茶\n\n  and   no coffee"))
        thinking = AssistantMessage(
            [ThinkingBlock("secret thought"), TextBlock("Noted."), ToolCallBlock("1", "append", {"text": "tea"})]
        )
        transcript.append_message(thinking)
        transcript.append_message(result("1", "tool output"))
        transcript.append_message(BashExecutionMessage("ls", "files"))
        transcript.append(CustomMessageEntry(custom_type="hook", content="from a hook"))
        transcript.append_message(said("Your tea\nis noted."))
    assert spoken_lines(transcript.path) == (
        ["User: 我喜欢乌龙茶 and no coffee", "Assistant: Noted.", "Assistant: Your tea is noted."],
        [3, 4, 8],
    )


def test_what_was_compacted_and_other_branches_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "first"), entry(2, "left behind"), entry(3, "taken", 1))
    with Transcript.open(path, clock=CLOCK) as transcript:
        transcript.append(CompactionEntry(summary="a summary", first_kept_entry_id=transcript.leaf_id or ""))
        transcript.append_message(user("after"))
    assert spoken_lines(path) == (["User: first", "User: left behind", "User: taken", "User: after"], [2, 3, 4, 6])


@pytest.mark.parametrize("text", ["/new", "/model openai/gpt-5", "  /STATUS  ", "/remember 用户不喝咖啡"])
def test_slash_commands_are_left_out(tmp_path: Path, text: str) -> None:
    assert spoken_lines(write(tmp_path / "s1.jsonl", HEADER, entry(1, text))) == ([], [])


@pytest.mark.parametrize("text", ["/usr/bin/x is broken", "/ what", "/new\nwas what I typed", "a /new one"])
def test_talk_with_slashes_stays(tmp_path: Path, text: str) -> None:
    assert len(spoken_lines(write(tmp_path / "s1.jsonl", HEADER, entry(1, text)))[0]) == 1


def test_silent_turns_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s1.jsonl",
        HEADER,
        entry(1, "Store memories. If there is nothing to store, reply with NO_REPLY."),
        answer(2, "NO_REPLY"),
        entry(3, "Read HEARTBEAT.md. If nothing needs attention, reply HEARTBEAT_OK."),
        answer(4, "**HEARTBEAT_OK**."),
        entry(5, "What does NO_REPLY mean?"),
        answer(6, "It is what I answer when I have nothing to say: NO_REPLY."),
        entry(7, "be quiet"),
        answer(8, "no_reply"),
        entry(9, "Store memories, or say NO_REPLY."),
        answer(10, '```json\n{"action": "NO_REPLY"}\n```'),
        answer(11, "The build is green.\n\nNO_REPLY"),
    )
    lines, numbers = spoken_lines(path)
    assert [text[:18] for text in lines[:3]] == ["User: What does NO", "Assistant: It is w", "User: be quiet"]
    assert lines[3:] == ["Assistant: The build is green."]
    assert numbers == [6, 7, 8, 12]


def test_secrets_are_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery")
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "key: correct-horse-battery,\npassword =\n hunter22, 好"))
    [text], _ = spoken_lines(path)
    assert "correct-horse" not in text
    assert "hunter22" not in text
    assert text.endswith("好")


def test_a_secret_is_in_no_line_also_where_it_is_said_again(tmp_path: Path) -> None:
    texts = [*(secret.text for secret in SECRETS), "so sunflower42 it is", *LOOK_ALIKES]
    path = write(tmp_path / "s1.jsonl", HEADER, *(entry(n, text) for n, text in enumerate(texts, start=1)))
    told = "\n".join(spoken_lines(path)[0])
    assert [secret.secret for secret in SECRETS if " ".join(secret.secret.split()) in told] == []
    kept = [text for text in LOOK_ALIKES if text[0] != "/"]
    assert [text for text in kept if " ".join(text.split()) not in told] == []


def test_damaged_lines_are_passed_over_and_their_neighbours_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s1.jsonl",
        HEADER,
        entry(1, "one"),
        b'{"type":"message","id":"000\n',
        b"\x00\x00\x00\n",
        b"\n",
        entry(2, "two"),
        b'{"type":"message","id":"00000009","parentId":null,"message":{"role":"user","content":"torn',
        line(entry(3, "glued")).replace(b'": ', b'":').replace(b', "', b',"'),
        b'{"type":"message","message":{"role":"user","content":[{"type":"text","text":"caf\xe9"}]}}\n',
        b'{"type":"message","id":"0000000a","parentId":null,"timestamp":"","mess',
    )
    assert spoken_lines(path) == (["User: one", "User: two", "User: glued", "User: caf\ufffd"], [2, 6, 7, 8])


def test_an_empty_transcript_says_nothing_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert spoken_lines(write(tmp_path / "s1.jsonl", b"")) == ([], [])
    with pytest.raises(FileNotFoundError):
        spoken_lines(tmp_path / "gone.jsonl")


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_survived(tmp_path: Path, raw: bytes) -> None:
    lines, numbers = spoken_lines(write(tmp_path / "s1.jsonl", HEADER, raw, b"\n", entry(1, "last")))
    assert lines[-1] == "User: last"
    assert len(lines) == len(numbers)
    assert numbers == sorted(numbers)


def test_transcripts_of_ended_and_reset_sessions_are_listed(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.jsonl.reset.2026-11-21T02-16-00.000Z"):
        write(tmp_path / name, {**HEADER, "id": name})
    for name in ("sessions.json", "a.jsonl.lock", "a.jsonl.lock.json", "a.jsonl.torn", "a.jsonl.deleted.2026", "x.md"):
        write(tmp_path / name, HEADER)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    found = (tmp_path / "a.jsonl").stat()
    listed = list_transcripts(tmp_path)
    assert [file.name for file in listed] == ["a.jsonl", "b.jsonl", "c.jsonl.reset.2026-11-21T02-16-00.000Z"]
    assert listed[0] == TranscriptFile("a.jsonl", found.st_size, found.st_mtime_ns, found.st_ino)


def test_no_folder_has_no_transcripts(tmp_path: Path) -> None:
    assert list_transcripts(tmp_path / "gone") == []


def test_a_transcript_that_vanishes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", HEADER)
    write(tmp_path / "b.jsonl", HEADER)
    real = os.scandir

    class Vanishing:
        """Lists a folder, then has one of its files deleted."""

        def __init__(self, folder: Path) -> None:
            with real(folder) as entries:
                self.entries = list(entries)
            (tmp_path / "a.jsonl").unlink()

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Vanishing)
    assert [file.name for file in list_transcripts(tmp_path)] == ["b.jsonl"]


def test_quotes_of_notes_are_no_words_of_the_model(tmp_path: Path) -> None:
    text = (
        "Your notes say:\n\n> The dog is called Bruno\n>\n> — `memory/2026-11-20.md:3`\n\n"
        "> Quoted from a book.\n\nIs that right?"
    )
    lines, _ = spoken_lines(write(tmp_path / "s1.jsonl", HEADER, answer(1, text)))
    assert lines == ["Assistant: Your notes say: > Quoted from a book. Is that right?"]


def test_what_is_long_is_told_in_lines_by_its_paragraphs(tmp_path: Path) -> None:
    paragraphs = [f"{number} " + "word " * 60 for number in range(4)]
    lines, numbers = spoken_lines(write(tmp_path / "s1.jsonl", HEADER, answer(1, "\n\n".join(paragraphs))))
    assert [text.split()[1] for text in lines] == ["0", "2"]
    assert numbers == [2, 2]
    assert " ".join(text.removeprefix("Assistant: ") for text in lines) == " ".join(" ".join(paragraphs).split())


def test_what_a_tool_printed_is_no_word_of_the_model(tmp_path: Path) -> None:
    printed = "\n".join(f"row {number} of 销售 table" for number in range(6))
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append_message(user("what does the table say?"))
        transcript.append_message(AssistantMessage([ToolCallBlock("1", "shell", {"command": "cat table"})]))
        transcript.append_message(result("1", printed))
        transcript.append_message(said(f"It has six rows:\n\n```\n{printed}\n```\n\nAll are 销售."))
    assert spoken_lines(transcript.path)[0] == [
        "User: what does the table say?",
        "Assistant: It has six rows: All are 销售.",
    ]
