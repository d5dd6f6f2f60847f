"""Conversations as Markdown and JSON, and titles."""

from __future__ import annotations

import json
import os
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from markdown_it import MarkdownIt

from clawbot.clock import SystemClock
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, BashExecutionMessage, Message, TextBlock, ThinkingBlock, ToolCallBlock
from clawbot.sessions.conversation import NOTES, HistoryItem
from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.export import to_json, to_markdown, write_export
from clawbot.sessions.summary import TITLE_CHARS, title_of
from clawbot.sessions.transcript import Transcript
from clawbot.text.secrets import Redactor
from tests.hostile import device
from tests.said_secrets import LOOK_ALIKES, SECRETS, SaidSecret
from tests.tables import load_table

from .helpers import HEADER, entry, line, result, said, user, write


def markdown(*messages: Message, interrupted: bool = False) -> str:
    items = [HistoryItem(f"{number}", 1795227360000, message) for number, message in enumerate(messages)]
    return "".join(to_markdown(items, "A title", UTC))


def test_the_notes_that_a_session_began_with_are_folded() -> None:
    quote = CustomMessageEntry(custom_type=NOTES, content="</details># 引用")
    item = HistoryItem("1", 0, note="notes: 1 file, 15 characters", quote=quote)
    text = "".join(to_markdown([item], "A title", UTC))
    assert "*notes: 1 file, 15 characters*" in text
    assert "<summary>Notes quoted at the start</summary>" in text
    assert text.count("</details>") == 2
    assert text.index("```") < text.index("</details># 引用")


def test_markdown_is_readable() -> None:
    answer = AssistantMessage(
        [
            ThinkingBlock("Let me look."),
            TextBlock("<think>A file.</think>\n\nI *will*."),
            ToolCallBlock("1", "read", {"path": "a.md"}),
        ]
    )
    items = [
        HistoryItem("1", 1795227360000, user("Read a.md\n\nplease")),
        HistoryItem("2", 1795227361000, answer),
        HistoryItem("3", 1795227362000, result("1", "content")),
        HistoryItem("4", 1795227363000, None, note="compacted (7 tokens before)"),
        HistoryItem("5", 1795227364000, said("It sa", stop="aborted"), interrupted=True),
    ]
    assert "".join(to_markdown(items, "A title", UTC)) == snapshot("""\
# A title

## You · 2026-11-21 02:16

> Read a.md
>
> please

## Clawbot · 2026-11-21 02:16

I *will*.

<details><summary>Tool call: read</summary>

```
{
  "path": "a.md"
}
```

</details>


<details><summary>read answered</summary>

```
content
```

</details>

---

*compacted (7 tokens before)* · 2026-11-21 02:16

## Clawbot · 2026-11-21 02:16

It sa

*(interrupted)*
""")


def test_a_compaction_unfolds_and_what_it_holds_cannot_break_out() -> None:
    entry = CompactionEntry(summary="## Decisions\n- 用 8443\n```\nopen")
    item = HistoryItem("1", 0, note="compacted", compaction=entry)
    whole = "".join(to_markdown([item], "A title", UTC))
    [fence] = [token for token in MarkdownIt("commonmark").parse(whole) if token.type == "fence"]
    assert fence.content == "## Decisions\n- 用 8443\n```\nopen\n"
    assert "*compacted*\n\n<details><summary>Summary of the earlier conversation</summary>" in whole


FORGERIES = load_table(__file__, "FORGERIES")


@pytest.mark.parametrize("text", FORGERIES)
def test_nothing_swallows_what_comes_after_it(text: str) -> None:
    whole = markdown(user(text), said(text), result("1", text), said("after"))
    tokens = MarkdownIt("commonmark").parse(whole)
    headings = [
        tokens[index + 1].content
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and not token.level
    ]
    assert headings[0] == "A title"
    assert headings[-1].startswith("Clawbot ·")
    assert tokens[-2].content == "after"
    assert tokens[-2].level == 1


def test_a_fence_in_a_tools_output_cannot_break_out() -> None:
    whole = markdown(result("1", "```\n````\n# forged"), BashExecutionMessage("ls <b>", "`````"))
    tokens = MarkdownIt("commonmark").parse(whole)
    assert [token.content for token in tokens if token.type == "fence"] == ["```\n````\n# forged\n", "`````\n"]
    assert "&lt;b&gt;" in whole


def test_control_characters_are_left_out() -> None:
    whole = markdown(user("a\x1b[31mb\x07\r\nc"), said("x\x00y"), result("1", "\x1b]0;t\x07"))
    assert not any(ord(char) < 32 and char not in "\n\t" for char in whole)
    assert "> c" in whole


def test_json_is_the_lines_as_they_are(tmp_path: Path) -> None:
    odd = {"type": "future", "id": "00000009", "x": {"y": [1, "\x1b[31m"]}}
    path = write(tmp_path / "s1.jsonl", HEADER, b"bad\n", entry(1, "a", extra=1), line(odd).replace(b"\n", b"\r\n"))
    with path.open("ab") as stream:
        stream.write(b'{"type":"x","t":"\xff"}\n{"torn')
    assert json.loads(b"".join(to_json(path))) == [HEADER, entry(1, "a", extra=1), odd, {"type": "x", "t": "\ufffd"}]
    assert json.loads(b"".join(to_json(write(tmp_path / "empty.jsonl")))) == []
    with pytest.raises(SessionStoreError):
        list(to_json(tmp_path / "none.jsonl"))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello there", "hello there"),
        ("  two\n lines\t", "two lines"),
        ("# A heading", "A heading"),
        ("/new", ""),
        ("  /status please", ""),
        ("Pre-compaction memory flush. Store durable memories now.", ""),
        ("Read HEARTBEAT.md if it exists. Otherwise reply HEARTBEAT_OK.", ""),
        ("What does NO_REPLY mean?", "What does NO_REPLY mean?"),
        ("", ""),
        ("a\x1b[31mb\x00", "a [31mb"),
        ("word " * 40, ("word " * 11).strip() + "…"),
        ("字" * 100, "字" * (TITLE_CHARS - 1) + "…"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title) <= TITLE_CHARS


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.secret[:24])
def test_no_title_holds_a_secret(secret: SaidSecret) -> None:
    assert secret.secret[:12] not in title_of(secret.text)


@pytest.mark.parametrize("text", [text for text in LOOK_ALIKES if len(text) <= TITLE_CHARS and text[0] != "/"])
def test_what_only_looks_like_a_secret_is_a_title(text: str) -> None:
    assert title_of(text) == text


def test_an_export_holds_no_secret_unless_that_is_wanted(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [HEADER]
    lines += [entry(number, secret.text) for number, secret in enumerate(SECRETS, start=1)]
    path = write(tmp_path / "a.jsonl", *lines, entry(len(lines), "was it 4711 or sunflower42 ?"))
    items = [HistoryItem(f"{number}", 1, user(secret.text)) for number, secret in enumerate(SECRETS)]
    redactor = Redactor()
    told = [b"".join(to_json(path, redactor)).decode(), "".join(to_markdown(items, SECRETS[0].text, UTC))]
    left = [secret.secret for secret in SECRETS for text in told if secret.secret in text]
    assert left == []
    assert redactor.count >= len(SECRETS) + 2
    whole = b"".join(to_json(path, Redactor(keep=True)))
    assert json.loads(whole) == [*map(json.loads, path.read_text("utf-8").splitlines())]
    shown = "".join(to_markdown(items, "", UTC, Redactor(keep=True)))
    assert [secret.secret for secret in SECRETS if secret.secret.split()[0] not in shown] == []


def test_what_only_looks_like_a_secret_is_exported_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", HEADER, *(entry(n, text) for n, text in enumerate(LOOK_ALIKES)))
    redactor = Redactor()
    assert json.loads(b"".join(to_json(path, redactor))) == json.loads(b"".join(to_json(path, Redactor(keep=True))))
    assert redactor.count == 0


@pytest.mark.parametrize(
    ("kind", "why"),
    load_table(__file__, "an_export_goes_into_a_new_file_and_nowhere_else"),
)
def test_an_export_goes_into_a_new_file_and_nowhere_else(tmp_path: Path, kind: str, why: str) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=SystemClock()) as made:
        transcript = made.path
    target = tmp_path / "target"
    match kind:
        case "file" | "below a file":
            target.touch()
        case "folder":
            target.mkdir()
        case "pipe":
            os.mkfifo(target)
        case _:
            target = device(tmp_path, "full")
    path = target / "x.md" if kind == "below a file" else target
    for form in ("md", "json"):
        with pytest.raises(ClawbotError, match=why):
            write_export(transcript, path, form, SystemClock(), tmp_path / "workspace")
