"""Words go out of a transcript in place: its entries, their ids and its tree stay, and so does what is not meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clawbot.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry
from clawbot.sessions.redaction import holding, redacted, replace
from clawbot.sessions.transcript import Transcript
from tests.sessions.helpers import CLOCK

WORD = "xylophon"


def clean(text: str) -> str:
    return text.replace(WORD, "[x]")


def holds(text: str) -> bool:
    return WORD in text


def written(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    with Transcript.create(folder, cwd=folder, clock=CLOCK, session_id="s1", key=f"agent:main:{WORD}") as transcript:
        transcript.append_message(UserMessage([TextBlock(f"a {WORD}"), ImageBlock(WORD, "image/png")], timestamp=1))
        content: list[AssistantBlock] = [
            ThinkingBlock(f"the {WORD}", signature="signed"),
            TextBlock(f"fine, {WORD}"),
            ToolCallBlock("c1", "write", {"content": f"- {WORD}", "type": WORD, "deep": [{"id": WORD}]}),
            ThinkingBlock("", field="reasoning_details", data=[{"text": f"the {WORD}", "signature": "signed"}]),
        ]
        transcript.append_message(AssistantMessage(content, model=WORD, timestamp=1))
        details = {"diff": f"+ {WORD}", "path": f"{WORD}.md"}
        transcript.append_message(ToolResultMessage("c1", "write", [TextBlock(f"wrote {WORD}")], details=details))
        transcript.append(CompactionEntry(summary=f"- {WORD}", first_kept_entry_id="", details={"request": WORD}))
        transcript.append(CustomMessageEntry(custom_type="clawbot.notes", content=f"> {WORD}", details={"files": []}))
        transcript.append_message(UserMessage("nothing of it", timestamp=1))
        return transcript.path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_text_of_each_kind_of_entry_is_found_and_taken_out(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = lines(path)
    ids = [line["id"] for line in before]
    assert holding(path, holds) == ids[1:6]
    data, count = redacted(path, clean)
    assert count == 5
    replace(path, data)
    after = lines(path)
    assert [line["id"] for line in after] == ids
    assert [line.get("parentId") for line in after] == [line.get("parentId") for line in before]
    assert holding(path, holds) == []
    message = after[2]["message"]
    assert message["model"] == WORD
    assert message["content"][0] == {"type": "thinking", "thinking": "the [x]"}
    assert message["content"][2]["arguments"] == {"content": "- [x]", "type": "[x]", "deep": [{"id": "[x]"}]}
    assert message["content"][3] == {"type": "thinking", "thinking": "", "field": "reasoning_details"}
    assert after[1]["message"]["content"][1]["data"] == WORD
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_keeps_its_length_so_that_no_id_comes_twice(tmp_path: Path) -> None:
    path = written(tmp_path)
    size = path.stat().st_size
    data, _ = redacted(path, lambda text: "" if WORD in text else text)
    assert len(data) == size
    replace(path, data)
    known = {line["id"] for line in lines(path)}
    with Transcript.open(path, clock=CLOCK) as transcript:
        assert transcript.append_message(UserMessage("more", timestamp=1)).id not in known
        assert transcript.problems == []


def test_quotes_alone_go_where_the_words_were_said_as_well(tmp_path: Path) -> None:
    path = written(tmp_path)
    data, count = redacted(path, clean, quotes=True)
    replace(path, data)
    after = lines(path)
    assert count == 4
    assert after[1]["message"]["content"][0]["text"] == f"a {WORD}"
    assert after[2]["message"]["content"][1]["text"] == f"fine, {WORD}"
    assert after[2]["message"]["content"][2]["arguments"]["content"] == "- [x]"
    assert after[5]["content"] == "> [x]"


def test_of_a_whole_talk_the_pictures_go_too(tmp_path: Path) -> None:
    path = written(tmp_path)
    data, count = redacted(path, lambda _: "[gone]", images=True)
    replace(path, data)
    assert count == 6
    assert lines(path)[1]["message"]["content"] == [
        {"type": "text", "text": "[gone]"},
        {"type": "text", "text": "[forgotten]"},
    ]
    assert redacted(path, lambda _: "[gone]", images=True)[1] <= 1


def test_lines_that_cannot_be_read_and_entries_without_an_id_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    header = b'{"type":"session","id":"old","timestamp":"","cwd":"/"}\n'
    first = json.dumps({"type": "message", "message": {"role": "user", "content": f"a {WORD}"}}).encode()
    second = json.dumps({"type": "message", "message": {"role": "user", "content": f"b {WORD}"}}).encode()
    path.write_bytes(header + first + b"\n{torn\n" + second)
    ids = holding(path, holds)
    data, count = redacted(path, clean)
    replace(path, data)
    assert count == 2
    assert path.read_bytes().splitlines()[2] == b"{torn"
    assert [line["id"] for line in map(json.loads, path.read_bytes().splitlines()[1::2])] == ids
