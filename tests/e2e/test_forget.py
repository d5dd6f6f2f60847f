"""`memory forget` as a process of its own, beside a chat in a real terminal that goes on."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e


def test_what_was_said_in_a_talk_that_ended_is_forgotten_for_good(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("remember that the boat Xylophonia lies in Aachen", "enter")
    chat.wait_for("Noted in")
    chat.send("记住我太太最怕花生酱冰淇淋", "enter")
    chat.wait_for("已记到")
    chat.send("/new", "enter")
    chat.wait_for("kept: memory/")
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    machine.run("memory", "index")
    for words in ("xylophonia", "花生酱冰淇淋"):
        assert machine.run("memory", "search", words).stdout != "No matches.\n"
        dry = machine.run("memory", "forget", words, "--transcripts", "--dry-run")
        done = machine.run("memory", "forget", words, "--transcripts")
        assert (dry.returncode, done.returncode, done.stderr) == (0, 0, "")
        assert dry.stdout.replace("would be ", "").replace("would remain", "remain") == done.stdout
        assert "still there" not in done.stdout
        again = machine.run("memory", "forget", words)
        assert (again.returncode, "memory search" in again.stderr) == (1, True)
        machine.run("memory", "index", "--force")
        assert machine.run("memory", "search", words).stdout == "No matches.\n"
    assert machine.run("memory", "verify").returncode == 0
    left = [path for path in machine.state.rglob("*") if path.is_file()]
    for form in (b"ylophoni", "花生酱".encode(), json.dumps("花生酱")[1:-1].encode()):
        assert [path for path in left if form in path.read_bytes()] == []


def test_a_chat_that_is_open_goes_on_and_forgets_with_the_command(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("my boat is called Xylophonia", "enter")
    chat.wait_for("Shall I note that?")
    refused = machine.run("memory", "forget", "--session", "main")
    assert refused.returncode == 1
    assert "is open in process" in refused.stderr
    assert not (machine.state / "agents/main/sessions/forgotten.json").exists()
    told = json.loads(machine.run("memory", "forget", "Xylophonia", "--transcripts", "--json").stdout)
    assert not told["complete"]
    assert [left["failed"] for left in told["stillThere"]] == [True]
    chat.send("my standup is at half past nine", "enter")
    chat.wait_for(lambda screen: screen.count("Shall I note that?") >= 2)
    chat.send("/new", "enter")
    chat.wait_for("kept: memory/")
    [note] = machine.workspace.glob("memory/*.md")
    text = note.read_text("utf-8")
    assert "half past nine" in text
    assert "Xylophonia" not in text
    assert "xylophonia" not in note.name
    chat.send("/memory Xylophonia", "enter")
    chat.wait_for("Nothing is remembered about")
    chat.send("esc")
    chat.wait_for(lambda screen: "│  ❯" not in screen)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert machine.run("sessions", "search", "Xylophonia").stdout == "No matches.\n"
    assert machine.run("memory", "forget", "Xylophonia", "--transcripts").returncode == 0
    assert [path for path in machine.state.rglob("*") if path.is_file() and b"Xylophonia" in path.read_bytes()] == []
