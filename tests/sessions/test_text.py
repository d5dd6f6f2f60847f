"""The text of user and agent in a transcript, for hooks (list B 10 and 18) and for the memory index."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    BashExecutionMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserMessage,
)
from clawbot.sessions.conversation import NOTES
from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry, ModelChangeEntry
from clawbot.sessions.folder import TranscriptFile, list_transcripts
from clawbot.sessions.text import Asked, UserWords, last_texts
from clawbot.sessions.transcript import Transcript
from clawbot.text.secrets import MARK
from tests.said_secrets import LOOK_ALIKES, SECRETS, SaidSecret

from .helpers import CLOCK, HEADER, answer, entry, line, result, said, spoken_lines, user, write


def heard(folder: Path, *messages: Message, limit: int = 15) -> list[tuple[str, str]]:
    """What is told of a conversation of `messages`."""
    with Transcript.create(folder, cwd=folder, clock=CLOCK) as transcript:
        for message in messages:
            transcript.append_message(message)
        return [(text.role, text.text) for text in last_texts(transcript, limit)[0]]


def offline(text: str) -> AssistantMessage:
    return AssistantMessage([TextBlock(text)], provider=OFFLINE)


def test_all_text_of_a_message_counts(tmp_path: Path) -> None:
    """There only the first block of a message was kept."""
    question = UserMessage([TextBlock("the harbour"), TextBlock("几点开门？")], timestamp=1)
    answer = AssistantMessage([ThinkingBlock("hm"), TextBlock("At six."), TextBlock("六点。")])
    [(_, asked), (_, answered)] = heard(tmp_path, question, answer)
    assert "the harbour" in asked
    assert "几点开门？" in asked
    assert "At six." in answered
    assert "六点。" in answered
    assert "hm" not in answered


def test_tools_and_commands_are_no_conversation(tmp_path: Path) -> None:
    working = AssistantMessage([TextBlock("Let me look."), ToolCallBlock("1", "read", {"path": "x"})])
    messages: list[Message] = [
        user("look"),
        working,
        result("1", "what the tool printed"),
        said("Done."),
        user("/status"),
        user("/NEW"),
    ]
    assert heard(tmp_path, *messages) == [("user", "look"), ("assistant", "Let me look."), ("assistant", "Done.")]


@pytest.mark.parametrize("silence", ["NO_REPLY", "no_reply.", "**NO_REPLY**", "HEARTBEAT_OK"])
def test_a_silent_turn_was_never_said(tmp_path: Path, silence: str) -> None:
    job = user("Look around. If nothing needs attention, reply with NO_REPLY.")
    assert heard(tmp_path, user("hello"), said("hi"), job, said(silence)) == [("user", "hello"), ("assistant", "hi")]
    assert len(heard(tmp_path, job, said("Water the plants!"))) == 2


def test_the_last_ones_are_told_oldest_first_however_long_the_conversation_is(tmp_path: Path) -> None:
    messages = [message for turn in range(100) for message in (user(f"问 {turn}"), said(f"答 {turn}"))]
    assert heard(tmp_path, *messages, limit=3) == [("assistant", "答 98"), ("user", "问 99"), ("assistant", "答 99")]
    assert len(heard(tmp_path, *messages, limit=1_000)) == 200


def test_what_was_compacted_was_said_and_what_the_program_added_was_not(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append(CustomMessageEntry(custom_type=NOTES, content="quoted notes", display=True))
        transcript.append_message(user("one"))
        kept = transcript.append_message(said("two"))
        transcript.append(CompactionEntry(summary="a summary", first_kept_entry_id=kept.id))
        transcript.append_message(user("three"))
        assert [text.text for text in last_texts(transcript, 15)[0]] == ["one", "two", "three"]


def test_echoes_are_references_and_refusals_are_left_out(tmp_path: Path) -> None:
    looking = AssistantMessage([ToolCallBlock("1", "shell", {"command": "ls"})])
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        for message in (
            user("the dog is called Bella"),
            offline("I found nothing in your notes."),
            user("list the files"),
            looking,
            result("1", "Makefile\n源码\n"),
            offline("`ls` answered:\n\n```text\nMakefile\n源码\n```"),
            user("what is the dog called?"),
            offline("Your notes say:\n\n> Bella\n>\n> — `memory/2026-11-20.md:4`"),
            user("write a poem"),
            offline("I can't do that offline."),
        ):
            transcript.append_message(message)
        told = [text.text for text in last_texts(transcript, 5)[0]]
    assert told == [
        "list the files",
        "`ls` answered: [output of shell: 2 lines]",
        "what is the dog called?",
        "Your notes say: [quoted: memory/2026-11-20.md:4]",
        "write a poem",
    ]


def test_an_answer_that_is_printed_in_a_later_turn_is_no_echo(tmp_path: Path) -> None:
    code = "```text\nMakefile\n```"
    looking = AssistantMessage([ToolCallBlock("1", "shell", {"command": "ls"})])
    turns: list[Message] = [user("one"), said(code), user("two"), looking, result("1", "Makefile"), said("Yes.")]
    assert ("assistant", code) in heard(tmp_path, *turns)


def test_what_a_job_said_was_not_the_user(tmp_path: Path) -> None:
    asked = UserMessage("Is anything due?", scheduled=True)
    told: list[Message] = [user("六点开门"), said("好的"), asked, said("The harbour opens.")]
    assert heard(tmp_path, *told) == [("user", "六点开门"), ("assistant", "好的"), ("assistant", "The harbour opens.")]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.secret[:24])
def test_secrets_are_left_out(tmp_path: Path, secret: SaidSecret) -> None:
    [(_, text), _] = heard(tmp_path, UserMessage(secret.text, timestamp=1), said("I did not write it down."))
    assert secret.secret not in text
    assert MARK in text


def test_a_secret_that_is_said_again_without_a_word_about_it_is_left_out_too(tmp_path: Path) -> None:
    talk: list[Message] = [
        said("So Winter-2026 it is?"),
        UserMessage("yes: the password is Winter-2026!", timestamp=1),
        said("Good."),
    ]
    assert heard(tmp_path, *talk)[0] == ("assistant", f"So {MARK} it is?")


def test_what_only_looks_like_a_secret_is_told(tmp_path: Path) -> None:
    talk = [UserMessage(text, timestamp=1) for text in LOOK_ALIKES]
    assert [text for _, text in heard(tmp_path, *talk, limit=len(talk))] == list(LOOK_ALIKES)


def texts_of(asked: Asked) -> list[str]:
    return [text.text for text in asked.texts]


def talk_of(transcript: Transcript, turns: range) -> None:
    for turn in turns:
        transcript.append_message(user(f"问 {turn}"))
        transcript.append_message(said(f"答 {turn}"))


def read_in(words: UserWords, transcript: Transcript) -> tuple[Asked, int]:
    """What the user said, and how many bytes were read for it."""
    with Transcript.open_history(transcript.path, clock=CLOCK) as reader:
        before = reader.bytes_read
        return words.read(reader), reader.bytes_read - before


@pytest.mark.parametrize("steps", [[1], [2, 3], [700], [1, 2, 130, 131, 500, 700], list(range(0, 701, 7))])
def test_what_the_user_said_is_the_same_however_often_it_was_read(tmp_path: Path, steps: list[int]) -> None:
    words, done = UserWords(), 0
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        for step in steps:
            talk_of(transcript, range(done, step))
            done = step
            heard, _ = read_in(words, transcript)
        assert heard == read_in(UserWords(), transcript)[0]
    numbers = [int(text.removeprefix("问 ")) for text in texts_of(heard)]
    assert numbers[0] == 0
    assert numbers[-1] == done - 1
    assert min(done, 64) <= len(numbers) <= 129
    gaps = {second - first for first, second in itertools.pairwise(numbers[:-1])}
    assert len(gaps) <= 1


def test_the_end_of_a_long_talk_reads_its_end_alone(tmp_path: Path) -> None:
    words = UserWords()
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        talk_of(transcript, range(3_000))
        _, whole = read_in(words, transcript)
        talk_of(transcript, range(3_000, 3_002))
        heard, rest = read_in(words, transcript)
    assert texts_of(heard)[-1] == "问 3001"
    assert rest < whole / 5


def test_a_password_of_long_ago_is_left_out_of_what_was_said_before_and_behind_it(tmp_path: Path) -> None:
    words = UserWords()
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append_message(user("sunflower42 is a fine word"))
        transcript.append_message(said("It is."))
        talk_of(transcript, range(5))
        assert "sunflower42" in texts_of(read_in(words, transcript)[0])[0]
        transcript.append_message(user("the wifi password is sunflower42"))
        transcript.append_message(said("I see."))
        talk_of(transcript, range(300))
        heard, _ = read_in(words, transcript)
        transcript.append_message(user("type sunflower42 here"))
        after, _ = read_in(words, transcript)
    assert heard.secrets == after.secrets == {"sunflower42"}
    assert not any("sunflower42" in text for text in (*texts_of(heard), *texts_of(after)))
    assert texts_of(heard)[0] == f"{MARK} is a fine word"
    assert texts_of(after)[-1] == f"type {MARK} here"


def test_a_prompt_that_may_be_silent_counts_when_it_is_answered_and_another_session_begins_anew(tmp_path: Path) -> None:
    words, job = UserWords(), user("Look around, or reply with NO_REPLY.")
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append_message(user("one"))
        transcript.append_message(job)
        assert texts_of(read_in(words, transcript)[0]) == ["one"]
        transcript.append_message(said("Water the plants!"))
        assert texts_of(read_in(words, transcript)[0]) == ["one", job.text]
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as other:
        assert texts_of(read_in(words, other)[0]) == []
        other.append_message(user("two"))
        assert texts_of(read_in(words, other)[0]) == ["two"]


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
