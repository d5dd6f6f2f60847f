"""Hooks in real processes: whatever they do, what the user asked for happens, and nothing is left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Machine

pytestmark = pytest.mark.e2e

TOPICS = ("command:new", "message:received", "tool:before", "runtime:stop")
SECONDS = 30  # how long a test waits for the end of what it started
QUIET = "agents: {defaults: {model: offline}}\nhooks: {timeout: 500ms, quit_timeout: 20s}\n"

FAILURES = {
    "raises": ("raise ValueError('broken 坏了')", "ValueError: broken 坏了"),
    "hangs": ("while True: time.sleep(0.01)", "took longer than 0.5 s"),
    "waits for ever": ("await asyncio.Event().wait()", "took longer than 0.5 s"),
    "keeps its end to itself": (
        "while True:\n    try: await asyncio.Event().wait()\n    except BaseException: pass",
        "took longer than 0.5 s",
    ),
    "os._exit": ("os._exit(3)", "ended with status 3"),
    "sys.exit": ("sys.exit('over')", "SystemExit: over"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
}
FLOOD = 'block = "x" * 99 + "\\n"\nfor _ in range(500): print(block * 1_000, end="", flush=True)'
HARMLESS = {
    "floods stdout": FLOOD,
    "floods stdout without a line's end": 'for _ in range(50): print("x" * 1_000_000, end="", flush=True)',
    "leaves a child behind": "subprocess.Popen(['sleep', '600'], pass_fds=[HELD])",
    "leaves a child that holds its pipes": "subprocess.Popen(['sleep', '600'], pass_fds=[HELD], stderr=2)",
}


class Watched:
    """A pipe that all processes of the bad hooks hold open: it ends with the last of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def begun(self) -> str:
        """What the handlers wrote until the last process that holds the pipe was gone; fails when that does not
        come."""
        parts: list[bytes] = []
        while select.select([self._end], [], [], SECONDS)[0]:
            if not (data := os.read(self._end, 65_536)):
                return b"".join(parts).decode()
            parts.append(data)
        raise AssertionError("a process of a hook was left behind")

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    pipe = Watched(tmp_path / "held")
    yield pipe
    pipe.close()


def write_hook(folder: Path, events: str, body: str, head: str = "", before: str = "") -> Path:
    """A hook in `folder` whose handler does `body`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "HOOK.md").write_text(f"---\nname: {folder.name}\nevents: [{events}]\n{head}---\n", "utf-8")
    code = "import asyncio, os, signal, subprocess, sys, time\nfrom pathlib import Path\n"
    body = textwrap.indent(body, "    ")
    (folder / "handler.py").write_text(f"{code}{before}\nasync def handle(event):\n{body}\n", "utf-8")
    return folder


def write_bad_hooks(machine: Machine, watched: Watched, body: str, head: str = "") -> None:
    """One for each topic, which says that it has begun."""
    before = f"HELD = os.open({str(watched.path)!r}, os.O_WRONLY)\n"
    for topic in TOPICS:
        said = f"os.write(HELD, (event.topic + chr(10)).encode())\n{body}"
        write_hook(machine.state / "hooks" / f"bad-{topic.replace(':', '-')}", topic, said, head, before)


def write_good_hook(machine: Machine) -> Path:
    """One behind the bad ones; returns the file in which it writes what it hears."""
    heard = machine.state / "heard"
    body = f"with open({str(heard)!r}, 'a') as out: print(event.topic, file=out)"
    write_hook(machine.state / "hooks" / "good", ", ".join(TOPICS), body, "order: 200\n")
    return heard


def notes(machine: Machine) -> list[str]:
    """The notes of sessions that ended."""
    texts = [path.read_text("utf-8") for path in (machine.workspace / "memory").glob("*.md")]
    return [text for text in texts if "Session Key" in text]


def log(machine: Machine) -> str:
    return (machine.state / "logs" / "clawbot.log").read_text("utf-8")


def talk(machine: Machine) -> None:
    """Something that is worth a note, said before the hooks are there."""
    machine.configure(QUIET)
    assert machine.run("chat", "-p", "the staging port is 8443, 测试端口").returncode == 0
    assert notes(machine) == []


@pytest.mark.parametrize("kind", FAILURES)
def test_a_hook_that_fails_keeps_nothing_back_and_is_told(machine: Machine, watched: Watched, kind: str) -> None:
    body, error = FAILURES[kind]
    talk(machine)
    write_bad_hooks(machine, watched, body)
    heard = write_good_hook(machine)

    done = machine.run("chat", "-p", "/new remember that tabs are better")

    assert done.returncode == 0, done.stderr
    assert set(watched.begun().split()) == set(TOPICS)
    assert set(heard.read_text().split()) == set(TOPICS)
    (note,) = notes(machine)
    assert "测试端口" in note
    written = "".join(path.read_text("utf-8") for path in (machine.workspace / "memory").glob("*.md"))
    assert "tabs are better" in written
    logged = log(machine)
    for topic in TOPICS:
        told = f"clawbot: The hook bad-{topic.replace(':', '-')} failed at {topic}: "
        lines = [line for line in done.stderr.splitlines() if line.startswith(told)]
        assert len(lines) == 1, done.stderr
        assert error in lines[0]
        assert f"the hook bad-{topic.replace(':', '-')}, {topic}: " in logged
    assert len(done.stderr.splitlines()) == len(TOPICS), done.stderr


@pytest.mark.parametrize("kind", HARMLESS)
def test_a_hook_that_makes_a_mess_leaves_nothing_behind(machine: Machine, watched: Watched, kind: str) -> None:
    talk(machine)
    write_bad_hooks(machine, watched, HARMLESS[kind], f"timeout: {SECONDS}\n")
    heard = write_good_hook(machine)

    done = machine.run("chat", "-p", "/new remember that tabs are better")

    assert (done.returncode, done.stderr) == (0, "")
    assert set(watched.begun().split()) == set(TOPICS)
    assert set(heard.read_text().split()) == set(TOPICS)
    assert len(notes(machine)) == 1
    assert len(log(machine)) < 1_000_000


def test_a_hook_refuses_a_call_and_the_model_is_told(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.configure(QUIET)
    write_hook(machine.state / "hooks" / "guard", "tool:before", "if event.tool == 'append': event.refuse('今天不行')")
    path = script("""
turns:
  - expect: {user: keep this}
    reply: {tool_calls: [{name: append, arguments: {path: memory/kept.md, content: "- kept"}}]}
  - expect: {tool_result: "refused by a hook: 今天不行"}
    reply: I was not allowed to.
""")
    done = machine.run("chat", "-p", "keep this", "--model", f"script:{path}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "I was not allowed to.\n", "")
    assert not (machine.workspace / "memory" / "kept.md").exists()
    (transcript,) = (machine.state / "agents/main/sessions").glob("*.jsonl")
    messages = [json.loads(line).get("message", {}) for line in transcript.read_text("utf-8").splitlines()]
    assert [message["isError"] for message in messages if message.get("role") == "toolResult"] == [True]


def test_a_chat_tells_of_failures_loads_changes_and_ends(machine: Machine, watched: Watched) -> None:
    machine.configure(QUIET)
    write_bad_hooks(machine, watched, "while True: time.sleep(0.01)")
    edited = machine.state / "hooks" / "edited"
    write_hook(edited, "message:received", "await event.hook.tell('heard first ' + event.text)", "order: 200\n")
    chat = machine.open(rows=50)
    chat.wait_for("offline")
    chat.send("one 你好", "enter")
    chat.wait_for("heard first one 你好")
    chat.wait_for("The hook bad-message-received failed at message:received: took longer")
    write_hook(edited, "message:received", "await event.hook.tell('heard changed ' + event.text)", "order: 200\n")
    chat.send("what is two?", "enter")
    chat.wait_for("heard changed what is two?")
    chat.send("/new", "enter")
    chat.wait_for("The hook bad-command-new failed at command:new: took longer")
    chat.wait_for("kept: memory/")
    assert "heard changed one" not in chat.text
    chat.send("ctrl+d")
    assert chat.wait_end() == 0
    assert len(notes(machine)) == 1
    assert set(watched.begun().split()) == set(TOPICS)


def test_hooks_end_with_a_program_that_is_killed(machine: Machine, watched: Watched) -> None:
    machine.configure(QUIET.replace("500ms", "300s"))
    child = "subprocess.Popen(['sleep', '600'], pass_fds=[HELD])\nawait event.hook.tell('the child runs')\n"
    write_bad_hooks(machine, watched, f"{child}while True: time.sleep(0.01)")
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("hello", "enter")
    chat.wait_for("the child runs")
    os.kill(chat.process.pid, signal.SIGKILL)
    chat.wait_end(-signal.SIGKILL)
    assert watched.begun().split() == ["message:received"]


def test_a_workspaces_hook_waits_for_the_user_and_is_then_out_of_the_models_reach(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.configure(QUIET)
    heard = machine.state / "heard"
    folder = machine.workspace / "hooks" / "spy"
    machine.workspace.mkdir(parents=True, mode=0o700)
    write_hook(folder, "message:received", f"with open({str(heard)!r}, 'a') as out: print(event.text, file=out)")
    code = (folder / "handler.py").read_text("utf-8")

    assert machine.run("chat", "-p", "before").returncode == 0
    assert not heard.exists()
    assert machine.run("hooks", "enable", "spy").returncode == 0
    assert machine.run("chat", "-p", "behind").returncode == 0
    assert heard.read_text("utf-8") == "behind\n"

    path = script("""
turns:
  - reply: {tool_calls: [{name: write, arguments: {path: hooks/spy/handler.py, content: "import os"}}]}
  - expect: {tool_result: part of an enabled hook}
    reply: {tool_calls: [{name: write, arguments: {path: hooks/spy/helper.py, content: "import os"}}]}
  - expect: {tool_result: part of an enabled hook}
    reply: I can't.
""")
    done = machine.run("chat", "-p", "change it", "--model", f"script:{path}")
    assert (done.returncode, done.stdout) == (0, "I can't.\n"), done.stderr
    assert (folder / "handler.py").read_text("utf-8") == code
    assert not (folder / "helper.py").exists()

    assert machine.run("hooks", "disable", "spy").returncode == 0
    assert machine.run("chat", "-p", "after").returncode == 0
    assert heard.read_text("utf-8") == "behind\nchange it\n"


def test_an_installed_package_brings_hooks(machine: Machine, tmp_path: Path) -> None:
    machine.configure(QUIET)
    site, heard = tmp_path / "site", machine.state / "heard"
    info = site / "acme_hooks-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-hooks\nVersion: 1.0\n")
    points = ("greeting = acme_hooks.greeting", "parting = acme_hooks:PARTING", "gone = acme_hooks.gone")
    (info / "entry_points.txt").write_text("[clawbot.hooks]\n" + "\n".join(points) + "\n")
    for name, topic in (("greeting", "message:received"), ("parting", "runtime:stop")):
        body = f"with open({str(heard)!r}, 'a') as out: print(event.hook.name, NAME, file=out)"
        write_hook(site / "acme_hooks" / name, topic, body, before="from acme_hooks import NAME\n")
    text = "from pathlib import Path\nNAME = '包'\nPARTING = Path(__file__).with_name('parting')\n"
    (site / "acme_hooks" / "__init__.py").write_text(text, "utf-8")
    python_path = f"{ROOT}{os.pathsep}{site}"

    listed = json.loads(machine.run("hooks", "list", "--json", PYTHONPATH=python_path).stdout)["hooks"]
    found = {hook["name"]: hook for hook in listed if hook["source"] == "package"}
    assert {name: hook["eligible"] for name, hook in found.items()} == {
        "greeting": True,
        "parting": True,
        "gone": False,
    }
    assert found["greeting"]["folder"] == str(site / "acme_hooks" / "greeting")
    assert "acme_hooks.gone" in found["gone"]["problem"]

    done = machine.run("chat", "-p", "hello", PYTHONPATH=python_path)
    [gone] = done.stderr.splitlines()
    assert (done.returncode, "acme_hooks.gone" in gone) == (0, True)
    assert sorted(heard.read_text("utf-8").splitlines()) == ["greeting 包", "parting 包"]
    assert all(
        hook["source"] != "package" for hook in json.loads(machine.run("hooks", "list", "--json").stdout)["hooks"]
    )
