"""The format on disk, the context that a transcript stands for, and its history."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Cost,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from clawbot.sessions.conversation import SUMMARY_PREAMBLE
from clawbot.sessions.entries import CompactionEntry, CustomEntry, CustomMessageEntry, ModelChangeEntry
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.transcript import RESULT_CHARS, Transcript

from .helpers import CLOCK, HEADER, entry, line, opened, result, said, texts, user, write


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)


def lines(transcript: Transcript) -> list[dict[str, object]]:
    return [json.loads(raw) for raw in transcript.path.read_text().splitlines()]


def test_the_format_is_version_3(transcript: Transcript) -> None:
    transcript.append_message(user("hi"))
    transcript.append_message(said("hello", "c1", stop="toolUse"))
    transcript.append_message(result("c1"))
    header, first, second, third = lines(transcript)
    assert header == {
        "type": "session",
        "version": 3,
        "id": transcript.session_id,
        "timestamp": "2026-11-21T02:16:00.000Z",
        "cwd": "/w",
    }
    assert list(first) == ["type", "id", "parentId", "timestamp", "message"]
    assert first["parentId"] is None
    assert (second["parentId"], third["parentId"]) == (first["id"], second["id"])
    assert all(len(str(item["id"])) == 8 and int(str(item["id"]), 16) >= 0 for item in (first, second, third))
    assert first["message"] == {"role": "user", "content": "hi", "timestamp": 1}
    zero = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0.0)
    assert second["message"] == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "hello"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "x"}},
        ],
        "api": "",
        "provider": "",
        "model": "",
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": zero},
        "stopReason": "toolUse",
        "timestamp": 1795227360000,
    }
    assert stat.S_IMODE(transcript.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "message",
    [
        user("用 tabs\nplease \U0001f600"),
        UserMessage([TextBlock("look"), ImageBlock("aGk=", "image/png")], timestamp=5),
        AssistantMessage([ThinkingBlock("hm", "sig"), TextBlock("a")], "api", "p", "m", timestamp=5),
        AssistantMessage([TextBlock("a")], usage=Usage(1, 2, 3, 4, 10, Cost(0.1, 0.2, 0.0, 0.0, 0.3)), timestamp=5),
        AssistantMessage([TextBlock("a")], usage=Usage(input=1, output=2), timestamp=5),
        AssistantMessage([], stop_reason="error", error_message="gone", timestamp=5),
        AssistantMessage([ToolCallBlock("1", "x", {}, malformed="{")], timestamp=5),
        ToolResultMessage("1", "x", [TextBlock("out")], is_error=True, details={"n": [1, None]}, timestamp=5),
        BashExecutionMessage("ls", "a\nb", 0, timestamp=5),
    ],
)
def test_every_message_comes_back_as_it_was(transcript: Transcript, message: Message) -> None:
    transcript.append_message(message)
    transcript.close()
    assert [item.message for item in opened(transcript.path).context()] == [message]


def test_ids_are_unique_in_the_file(transcript: Transcript) -> None:
    for number in range(300):
        transcript.append_message(user(str(number)))
    assert len({item["id"] for item in lines(transcript)[1:]}) == 300


def test_characters_that_no_utf8_holds_are_replaced(transcript: Transcript) -> None:
    stored = transcript.append_message(user("a\ud800b"))
    assert stored.message.text == "a\ufffdb"
    transcript.close()
    assert texts(opened(transcript.path)) == ["a\ufffdb"]


def test_a_huge_tool_result_is_cut_with_a_notice(transcript: Transcript) -> None:
    stored = transcript.append_message(result("1", "x" * (RESULT_CHARS + 5)))
    assert len(stored.message.text) <= RESULT_CHARS
    assert f"of {RESULT_CHARS + 5:,} characters were not stored" in stored.message.text
    whole = transcript.append_message(result("2", "x" * RESULT_CHARS))
    assert whole.message.text == "x" * RESULT_CHARS


def test_the_context_begins_at_the_last_compaction(transcript: Transcript) -> None:
    ids = [transcript.append_message(user(text)).id for text in "abcd"]
    transcript.append(CompactionEntry(summary="first", first_kept_entry_id=ids[1]))
    transcript.append_message(user("e"))
    transcript.append(CompactionEntry(summary="second", first_kept_entry_id=ids[3], tokens_before=7))
    transcript.append_message(user("f"))
    wanted = [f"{SUMMARY_PREAMBLE}\n\n<summary>\nsecond\n</summary>", "d", "e", "f"]
    assert texts(transcript) == wanted
    transcript.close()
    again = opened(transcript.path)
    assert texts(again) == wanted
    assert again.problems == []
    assert [item.message.text if item.message else item.note for item in again.history()] == [
        *"abcd", "compacted", "e", "compacted (7 tokens before)", "f",
    ]  # fmt: skip


@pytest.mark.parametrize("kept", ["", "ffffffff"])
def test_a_compaction_that_kept_nothing_or_something_lost(transcript: Transcript, kept: str) -> None:
    transcript.append_message(user("a"))
    transcript.append(CompactionEntry(summary="s", first_kept_entry_id=kept))
    transcript.append_message(user("b"))
    assert [text.splitlines()[-1] for text in texts(transcript)] == ["</summary>", "b"]
    transcript.close()
    again = opened(transcript.path)
    assert [text.splitlines()[-1] for text in texts(again)] == ["</summary>", "b"]
    assert len(again.problems) == (1 if kept else 0)


def test_entries_of_hooks_and_branches(transcript: Transcript) -> None:
    transcript.append(CustomEntry(custom_type="x", data={"n": 1}))
    transcript.append(CustomMessageEntry(custom_type="x", content="from a hook", display=False))
    transcript.append(CustomMessageEntry(custom_type="x", content="shown"))
    transcript.append(ModelChangeEntry(provider="p", model_id="m"))
    assert texts(transcript) == ["from a hook", "shown"]
    assert [item.note for item in transcript.history()] == ["shown", "model: p/m"]


def test_only_the_path_to_the_leaf_counts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s1.jsonl", HEADER, entry(1, "root"), entry(2, "left"), entry(3, "left 2"), entry(4, "right", 1)
    )
    assert texts(opened(path)) == ["root", "right"]


def test_files_of_the_family_with_fields_and_types_that_we_do_not_know(tmp_path: Path) -> None:
    assistant = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "t", "thinkingSignature": "s"},
            {"type": "redacted", "x": 1},
            {"type": "text", "text": "answer", "textSignature": "z"},
            {"type": "toolCall", "id": "c", "name": "n", "arguments": "{bad"},
        ],
        "usage": {"input": 1, "output": 1, "totalTokens": 2, "cost": "?"},
        "stopReason": "somethingNew",
        "timestamp": 7.0,
    }
    path = write(
        tmp_path / "s1.jsonl",
        {**HEADER, "new": True},
        entry(1, "q", extra={"deep": [1]}),
        entry(2, "", message=assistant),
        {"type": "future_thing", "id": "00000003", "parentId": "00000002", "timestamp": "x", "payload": 1},
        entry(4, "", message={"role": "custom", "customType": "h", "content": "hook says", "display": True}),
        entry(5, "", message={"role": "hookMessage", "customType": "h", "content": "old hook", "display": True}),
        entry(6, "", message={"role": "bashExecution", "command": "ls", "output": "", "excludeFromContext": True}),
        entry(7, "", message={"role": "unheardOf", "content": []}),
        entry(8, "last"),
    )
    before = path.read_bytes()
    transcript = opened(path)
    assert texts(transcript) == ["q", "answer", "hook says", "old hook", "last"]
    answer = transcript.context()[1].message
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls[0].malformed == "{bad"
    assert [(problem.line, "unknown format" in problem.text) for problem in transcript.problems] == [(8, True)]
    assert path.read_bytes() == before


def test_version_1_is_a_list_with_numbers_for_entries(tmp_path: Path) -> None:
    def bare(text: str) -> dict[str, object]:
        return {"type": "message", "timestamp": "2025-01-01T00:00:00Z", "message": {"role": "user", "content": text}}

    path = write(
        tmp_path / "old.jsonl",
        {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/"},
        bare("a"),
        bare("b"),
        bare("c"),
        {"type": "compaction", "timestamp": "2025-01-01T00:00:00Z", "summary": "s", "firstKeptEntryIndex": 3},
        bare("d"),
    )
    transcript = opened(path)
    assert [text.splitlines()[-1] for text in texts(transcript)] == ["</summary>", "c", "d"]
    page = transcript.history(limit=2)
    assert [item.message.text for item in transcript.history(before=page[0].entry_id) if item.message] == list("abc")
    transcript.append_message(user("e"))
    transcript.close()
    assert [text.splitlines()[-1] for text in texts(opened(path))] == ["</summary>", "c", "d", "e"]


def test_history_pages_backwards_beyond_what_is_loaded(transcript: Transcript) -> None:
    for number in range(25):
        transcript.append_message(user(str(number)))
    transcript.append(CompactionEntry(summary="s"))
    transcript.append_message(said("partly", stop="aborted"))
    seen: list[str] = []
    before = None
    while page := transcript.history(before=before, limit=10):
        seen = [item.note or (item.message.text if item.message else "") for item in page] + seen
        before = page[0].entry_id
    assert seen == [*(str(number) for number in range(25)), "compacted", "partly"]
    assert transcript.history(limit=1)[0].interrupted
    again = opened(transcript.path, writable=False)
    oldest = transcript.history(before=before or "", limit=3)
    assert oldest == []
    assert again.history(before=transcript.history(limit=4)[0].entry_id, limit=1)[0].message == user("22")
    assert transcript.history(before="no such id") == []
    assert transcript.history(limit=0) == []


def test_reading_changes_nothing_and_cannot_append(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), b'{"type":"mess')
    before = path.read_bytes()
    with opened(path, writable=False) as transcript:
        assert texts(transcript) == ["a"]
        assert [item.entry_id for item in transcript.history()] == ["00000001"]
        assert ["unfinished" in problem.text for problem in transcript.problems] == [True]
        with pytest.raises(SessionStoreError, match="read-only"):
            transcript.append_message(user("b"))
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["s1.jsonl"]


def test_a_newer_version_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", {**HEADER, "version": 9}, entry(1, "a"))
    transcript = opened(path)
    assert texts(transcript) == ["a"]
    assert "newer" in transcript.problems[0].text


def test_a_missing_transcript_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SessionStoreError, match="nothing"):
        opened(tmp_path / "nothing.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(SessionStoreError, match="folder"):
        opened(tmp_path / "folder.jsonl")


def test_a_hundred_megabytes_cost_what_follows_the_compaction(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    filler = "x" * 100_000
    with path.open("wb") as stream:
        stream.write(line(HEADER))
        for number in range(1, 1001):
            stream.write(line(entry(number, filler)))
        compaction = {"summary": "all of it", "firstKeptEntryId": f"{1000:08x}", "tokensBefore": 1}
        stream.write(line({**entry(1001, ""), "type": "compaction", **compaction}))
        for number in range(1002, 1010):
            stream.write(line(entry(number, "short")))
    assert path.stat().st_size > 100_000_000
    transcript = opened(path)
    assert len(transcript.context()) == 10
    assert transcript.bytes_read < 2_000_000
    assert len(transcript.history(limit=12)) == 12
    assert transcript.bytes_read < 4_000_000


def test_entries_in_memory_are_those_of_a_fresh_start(transcript: Transcript) -> None:
    kept = [transcript.append_message(user(text)).id for text in "abc"][1]
    transcript.append(CompactionEntry(summary="s", first_kept_entry_id=kept))
    transcript.close()
    again = opened(transcript.path)
    assert again.entries == [structs.replace(item) for item in transcript.entries]
    assert again.leaf_id == transcript.leaf_id


def test_a_closed_one_still_has_its_size_and_its_history(transcript: Transcript) -> None:
    transcript.append_message(user("asked"))
    size, shown = transcript.size, transcript.history()
    transcript.close()
    transcript.close()
    assert (transcript.size, transcript.history()) == (size, shown)
    with pytest.raises(SessionStoreError, match="is closed"):
        transcript.append_message(user("again"))
