"""`clawbot sessions` as scripts and people use it."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from clawbot.cli.main import root
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.sessions.entries import OFFER, CompactionEntry, CustomEntry, MemoryWrite, Offer
from clawbot.sessions.store import SessionStore
from clawbot.sessions.unsent import Unsent, UnsentFile
from clawbot.text.secrets import MARK
from tests.hostile import device


def folder(agent: str = "main") -> Path:
    return Paths(find_home()).sessions(agent)


@pytest.fixture
def store() -> SessionStore:
    return SessionStore(folder(), SystemClock())


@pytest.fixture
def talk(store: SessionStore) -> str:
    """A session with a tool call, an interrupted answer and a terminal escape; its id."""
    with store.open() as opened:
        write = opened.transcript.append_message
        write(UserMessage("Remember tabs \x1b[31mred\x1b]0;title\x07"))
        write(
            AssistantMessage(
                [TextBlock("Done."), ToolCallBlock("1", "append", {"path": "M.md"})], stop_reason="toolUse"
            )
        )
        write(ToolResultMessage("1", "append", [TextBlock("\n".join(f"line {n}" for n in range(40)))]))
        write(AssistantMessage([TextBlock("And the")], stop_reason="aborted"))
        return opened.record.session_id


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(root, ["sessions", *arguments])
    assert result.exit_code == code, result.output
    return result


def as_json(*arguments: str) -> Any:
    return json.loads(run(*arguments).stdout)


def test_without_sessions_nothing_is_made() -> None:
    assert "clawbot chat" in run("list").stdout
    assert as_json("list", "--json") == []
    assert as_json("list", "--json", "--all") == []
    assert run("repair").stdout == "Nothing to repair.\n"
    assert not find_home().exists()


def test_list(talk: str, store: SessionStore) -> None:
    (line,) = run("list").stdout.splitlines()
    assert "main" in line
    assert talk[:8] in line
    assert "1 turn)" in line
    assert "\x1b" not in line
    (found,) = as_json("list", "--json")
    assert set(found) == {
        "agent", "cost", "createdAt", "ended", "key", "locked", "model", "name", "path", "sessionId", "title", "tokens",
        "turns", "updatedAt",
    }  # fmt: skip
    assert (found["key"], found["sessionId"], found["turns"], found["ended"]) == ("agent:main:main", talk, 1, "open")
    store.rotate(store.open(), "/new").close()
    assert "ended: /new" in run("list").stdout
    with store.open():
        assert "in use" in run("list").stdout


def test_the_sessions_of_other_agents(talk: str) -> None:
    SessionStore(folder("work"), SystemClock(), agent_id="work").open("garden").close()
    assert [found["name"] for found in as_json("list", "--json", "--agent", "work")] == ["garden"]
    assert {found["agent"] for found in as_json("list", "--json", "--all")} == {"main", "work"}
    assert run("list", "--all").stdout.count("\n") == 2
    assert "no agent id" in run("list", "--agent", "../x", code=1).stderr
    assert "Did you mean main?" in run("list", "--agent", "mian", code=1).stderr
    assert "there is no agent" in run("show", "garden", "--agent", "nobody", code=1).stderr


def test_show(talk: str) -> None:
    text = run("show", talk[:6]).stdout
    assert "\x1b" not in text
    assert "Remember tabs red" in text
    assert '-> append {"path":"M.md"}' in text
    assert "… 28 more lines" in text
    assert "And the\n(interrupted)" in text
    shown = as_json("show", "main", "--json", "--limit", "2")
    assert shown["session"]["sessionId"] == talk
    assert shown["problems"] == []
    assert [item["message"]["role"] for item in shown["items"]] == ["toolResult", "assistant"]
    assert shown["items"][1]["interrupted"] is True
    assert set(shown["items"][0]) == {"entryId", "timestamp", "message", "interrupted", "note", "summary", "writes"}


def test_show_tells_what_was_not_sent(talk: str, store: SessionStore) -> None:
    file = UnsentFile(store.folder, "agent:main:main")
    file.keep([Unsent("a", "and then\x1b[2J the docs", at=1), Unsent("b", "再见", at=2)])
    text = run("show", talk[:6]).stdout
    assert text.endswith("\n2 messages were not sent:\n  and then the docs\n  再见\n")
    assert as_json("show", "main", "--json")["unsent"][1] == {"id": "b", "text": "再见", "at": 2}
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("再见", unsent_id="b"))
    assert run("show", talk[:6]).stdout.endswith("\n1 message was not sent:\n  and then the docs\n")


def test_silent_replies_are_not_shown_and_summaries_and_writes_to_memory_are(store: SessionStore) -> None:
    """Sheet 9: history, previews and exports leave silent replies out; the transcript's own lines have them."""
    write = MemoryWrite(path="memory/2026-11-20.md", offset=0, size=30, line=3, end_line=5, digest="x")
    end = Offer(
        offer="o", phase="end", exit="threshold", by="flush", result="written", writes=(write,), reply="NO_REPLY"
    )
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("Tidy up, quietly."))
        opened.transcript.append_message(AssistantMessage([TextBlock("**NO_REPLY**")]))
        opened.transcript.append_message(AssistantMessage([TextBlock("Green.\n\nNO_REPLY")]))
        opened.transcript.append(CustomEntry(custom_type=OFFER, data=msgspec.to_builtins(end)))
        opened.transcript.append(CompactionEntry(summary="Port 8443", tokens_before=1234))
    text = run("show", "main").stdout
    assert "NO_REPLY" not in text
    assert "Green." in text
    assert "--- memory: 3 lines to memory/2026-11-20.md" in text
    assert "--- compacted (1,234 tokens before)" in text
    assert "Port 8443" not in text
    items = as_json("show", "main", "--json")["items"]
    assert "NO_REPLY" not in json.dumps(items)
    assert [item["summary"] for item in items] == ["", "", "", "Port 8443"]
    assert items[2]["writes"] == [
        {"path": "memory/2026-11-20.md", "offset": 0, "size": 30, "line": 3, "endLine": 5, "digest": "x"}
    ]
    exported = run("export", "main").stdout
    assert "NO_REPLY" not in exported
    assert "*memory: 3 lines to memory/2026-11-20.md*" in exported
    assert "Port 8443" in exported
    assert "NO_REPLY" in run("export", "main", "--json").stdout


def test_show_reports_bad_lines_on_stderr_and_changes_nothing(talk: str) -> None:
    path = folder() / f"{talk}.jsonl"
    with path.open("ab") as stream:
        stream.write(b"bad\n" + b'{"torn')
    before = sorted((item.name, item.read_bytes()) for item in folder().iterdir())
    result = run("show", "main")
    assert ":6: a line that can't be read" in result.stderr
    assert "unfinished" in result.stderr
    assert len(as_json("show", "main", "--json")["problems"]) == 2
    assert sorted((item.name, item.read_bytes()) for item in folder().iterdir()) == before


def test_export(talk: str, tmp_path: Path) -> None:
    text = run("export", "main").stdout
    assert text.startswith("# Remember tabs")
    assert "<details><summary>Tool call: append</summary>" in text
    raw = run("export", "main", "--json").stdout
    assert json.loads(raw)[0]["id"] == talk
    assert "\\u001b[31m" in raw
    assert run("export", "main", "--format", "json").stdout == raw
    assert run("export", "main", "--format", "json", "--output", str(tmp_path / "out.json")).stdout == ""
    assert (tmp_path / "out.json").read_text() == raw
    assert "out.json" in run("export", "main", "--output", str(tmp_path / "none" / "out.json"), code=1).stderr


@pytest.mark.parametrize("form", ["md", "json"])
def test_an_export_leaves_secrets_out_says_so_and_keeps_them_when_asked(store: SessionStore, form: str) -> None:
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("my PIN is 4711, and the port is 8443"))
    exported = run("export", "main", "--format", form)
    assert "4711" not in exported.stdout
    assert f"my PIN is {MARK}, and the port is 8443" in exported.stdout
    assert "secrets left out; --with-secrets keeps them" in exported.stderr.replace("1 secret ", "1 secrets ")
    whole = run("export", "main", "--format", form, "--with-secrets")
    assert "my PIN is 4711" in whole.stdout
    assert whole.stderr == ""


def test_a_long_session_is_exported_whole(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.cli.sessions.PAGE", 3)
    with store.open() as opened:
        for number in range(10):
            opened.transcript.append_message(UserMessage(f"message {number}"))
    quoted = [line for line in run("export", "main").stdout.splitlines() if line.startswith("> ")]
    assert quoted == [f"> message {number}" for number in range(10)]


@pytest.mark.parametrize("noun", ["show", "export", "repair"])
def test_a_name_that_nobody_has(talk: str, noun: str) -> None:
    result = run(noun, "mian", code=1)
    assert result.stdout == ""
    assert result.stderr == (
        "clawbot: There is no session 'mian'. Did you mean main? `clawbot sessions list` shows them all.\n"
    )
    assert run(noun, "main", "--bogus", code=2).stdout == ""


def test_a_transcript_that_is_gone(talk: str) -> None:
    (folder() / f"{talk}.jsonl").unlink()
    assert "is gone" in run("show", "main", code=1).stderr
    assert "is gone" in run("repair").stdout
    assert as_json("list", "--json")[0]["turns"] == 0


def test_repair(talk: str) -> None:
    path = folder() / f"{talk}.jsonl"
    with path.open("ab") as stream:
        stream.write(b'{"torn')
    told = as_json("repair", "--dry-run", "--json")
    assert told["dryRun"] is True
    assert path.read_bytes().endswith(b'{"torn')
    done = as_json("repair", "main", "--json")
    assert set(done) == {"dryRun", "index", "transcripts", "removedLocks"}
    assert done["transcripts"][0]["tornTo"] == f"{path}.torn"
    assert path.read_bytes().endswith(b"}\n")
    assert run("repair").stdout == "Nothing to repair.\n"


def test_titles_stand_whole_with_the_age_of_the_session(store: SessionStore) -> None:
    title = "which port did the staging proxy use, and why did we change it?"
    with store.open() as opened:
        store.update(structs.replace(opened.record, label=title))
    (line,) = run("list").stdout.splitlines()
    assert "(now, 0 turns" in line
    assert line.endswith(f")  {title}")


def test_a_session_is_renamed_deleted_and_brought_back(talk: str, store: SessionStore) -> None:
    run("rename", "main", "The", "Falcon", "project")
    assert run("list").stdout.endswith("  The Falcon project\n")
    done = run("delete", "main")
    assert done.stdout == f"Moved to {store.folder.parent / 'trash' / talk}\n"
    assert f"clawbot sessions restore {talk}" in done.stderr
    assert run("list").stdout.startswith("No sessions yet.")
    assert run("restore").stdout == f"{talk}  main  The Falcon project\n"
    assert run("restore", talk).stdout == "main is back.\n"
    assert run("restore").stdout == "No deleted sessions.\n"
    assert "The Falcon project" in run("list").stdout


def test_a_session_is_forked(talk: str, store: SessionStore) -> None:
    assert "(fork)" in run("fork", "main").stdout
    items = json.loads(run("show", "main", "--json").stdout)["items"]
    asked = next(item for item in items if item["message"]["role"] == "user")
    done = json.loads(run("fork", "main", "Another", "way", "--at", asked["entryId"], "--json").stdout)
    assert done["text"] == asked["message"]["content"]
    assert (done["session"]["title"], done["session"]["turns"], done["session"]["agent"]) == ("Another way", 0, "main")
    assert {each["sessionId"] for each in json.loads(run("list", "--json").stdout)} > {
        talk,
        done["session"]["sessionId"],
    }
    failed = run("fork", "main", "--at", "nothing", code=1)
    assert "no part of this conversation" in failed.stderr


def test_a_title_that_would_break_the_line(store: SessionStore) -> None:
    with store.open() as opened:
        store.update(structs.replace(opened.record, label="a\nb\x1b[2Jc" + "x" * 500))
    (line,) = run("list").stdout.splitlines()
    assert "a bc" in line
    assert "\x1b" not in line


def test_a_folder_that_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setitem(os.environ, "CLAWBOT_HOME", str(tmp_path / "home"))
    result = run("list", code=1)
    assert result.stderr.startswith("clawbot: Could not read ")
    assert result.stderr.count("\n") == 1


def test_times_are_in_the_zone_of_the_user_whatever_the_machine_says(store: SessionStore) -> None:
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("几点了"))
    (find_home() / "config.yaml").write_text("agents: {main: {timezone: Pacific/Kiritimati}}")
    (found,) = as_json("list", "--json")
    there = datetime.fromisoformat(found["updatedAt"])
    assert there.utcoffset() == timedelta(hours=14)
    assert run("list").stdout.startswith(f"{there:%Y-%m-%d %H:%M}  ")
    assert f"You {there:%Y-%m-%d}" in run("show", "main").stdout


def test_broken_settings_keep_nobody_from_the_conversations(talk: str) -> None:
    (find_home() / "config.yaml").write_text("agents: [oops")
    assert talk[:8] in run("list").stdout


def test_the_columns_of_the_list_stand_below_each_other(store: SessionStore) -> None:
    store.open("a-name-of-some-length").close()
    store.open().close()
    ids = [summary.session_id[:8] for summary in store.list()]
    lines = run("list").stdout.splitlines()
    assert len({line.index(each) for line, each in zip(lines, ids, strict=True)}) == 1
    assert all(line.endswith(f"{each}  (now, 0 turns)") for line, each in zip(lines, ids, strict=True))


def test_a_key_in_what_was_said_first_is_not_in_the_list(store: SessionStore) -> None:
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("my key is sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"))
    (line,) = run("list").stdout.splitlines()
    assert "my key is" in line
    assert "sk-ant" not in line


def test_an_export_to_a_device_leaves_the_device(talk: str, tmp_path: Path) -> None:
    full, null = device(tmp_path, "full"), device(tmp_path, "null")
    result = CliRunner().invoke(root, ["sessions", "export", talk, "--output", str(full)])
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert CliRunner().invoke(root, ["sessions", "export", talk, "--output", str(null)]).exit_code == 0
    assert full.is_char_device()
    assert null.is_char_device()


def test_what_was_said_is_searched_also_in_sessions_that_ended(store: SessionStore) -> None:
    with store.open() as opened:
        opened.transcript.append_message(UserMessage("my dog is called Bruno"))
        opened.transcript.append_message(AssistantMessage([TextBlock("好的,布鲁诺。")]))
        path = opened.transcript.path
        with store.rotate(opened, "/new") as following:
            following.transcript.append_message(UserMessage("git diff of the parser"))
    first, text, *_ = run("search", "Bruno").stdout.splitlines()
    assert f"sessions/{path.name}#" in first
    assert "(You, " in first
    assert text.startswith("User: my dog is called Bruno")
    [hit, *_] = as_json("search", "--json", "--max-results", "1", "布鲁诺")["results"]
    assert hit["source"] == "sessions"
    assert hit["said"]["entry"] in path.read_text()
    assert as_json("search", "--json", "--before", "2020", "Bruno")["results"] == []


def test_sessions_that_are_not_indexed_can_t_be_searched() -> None:
    Paths(find_home()).home.mkdir(parents=True, exist_ok=True)
    (Paths(find_home()).home / "config.yaml").write_text("agents: {defaults: {memory_search: {sources: [memory]}}}\n")
    assert "memory_search.sources" in run("search", "x", code=1).stderr
