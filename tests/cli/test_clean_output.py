"""No command sends the terminal an escape that is not ours, whatever stands in the home.

The commands are those of the click tree: a new one is run here by itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from clawbot.cli.main import root
from clawbot.cli.output import dependable_streams, print_json
from clawbot.clock import SystemClock
from clawbot.sessions.store import SessionStore
from tests.sessions.helpers import user

# Clipboard, title, link, reset, clearing, a colour, the eight-bit forms, right-to-left, and what goes back in the line.
EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;owned\x07\x1b]8;;http:e\x1b\\link\x1b]8;;\x1b\\\x1bc\x1b[2J\x1b[35;5m"
    "\u009b31m\u009d0;owned\u009c\u0090q\u009c\u202e\u2066\u200f\u2028\r\x08\x7f\x07"
)
OURS = re.compile("\x1b\\[3[1-7]m|\x1b\\[0m|\r\x1b\\[2K")
"""The colours of click and the line that redraws itself."""
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands of `clawbot --help` and below, by the words that call them."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


LEAVES = dict(leaves(root))

GIVEN: dict[tuple[str, ...], list[tuple[str, ...]]] = {
    ("chat",): [("-p", f"hello {EVIL}"), ("-p", "/status"), ("-p", "/context"), ("-p", f"/{EVIL}")],
    ("sessions", "show"): [("main",), (EVIL,)],
    ("sessions", "export"): [("main",), ("main", "--format", "json")],
    ("memory", "search"): [("heron",), (EVIL,)],
    ("memory", "index"): [(), ("--force",)],
    ("hooks", "info"): [("evil",), ("boot-md",), (EVIL,)],
    ("hooks", "enable"): [("boot-md",), ("evil",)],
    ("hooks", "disable"): [("boot-md",), (EVIL,)],
    ("schedule", "run"): [("heartbeat",), (EVIL,), ()],
    ("config", "check"): [(), (EVIL,), ("bad.yaml",)],
    ("script", "serve"): [(EVIL,), ("bad.yaml",)],
    ("doctor",): [("--no-ping",)],
    ("completion",): [("bash",), (EVIL,)],
}
"""What to call a command with; one that is not named here is called as it is, and with a hostile word."""

SHOWN = {
    ("workspace", "diff"): "+heron",
    ("sessions", "list"): "title",
    ("sessions", "show"): "heron",
    ("sessions", "export"): "heron",
    ("memory", "search"): "nests",
    ("hooks", "list"): "evil",
    ("chat",): "fine",
    ("schedule", "run"): "heartbeat",
    ("config", "show"): "word",
}
"""What proves that the hostile words were at the door."""


def calls(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    options = {name for parameter in command.params for name in parameter.opts}
    for given in GIVEN.get(path, [(), (EVIL,)]):
        yield (*path, *given)
        if "--json" in options:
            yield (*path, *given, "--json")
    yield (*path, f"--{EVIL}")
    yield (*path, "--help")


def safe(text: str) -> str:
    return text.replace("/", "")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which everything that can be named or written is hostile."""
    home = Path(os.environ["CLAWBOT_HOME"])
    work = home / "workspace"
    CliRunner().invoke(root, ["workspace", "init"])
    for name in ("AGENTS.md", "SOUL.md", "TOOLS.md"):
        (work / name).write_text(f"# Rules {EVIL}\n\nheron {EVIL}\n", encoding="utf-8")
    (work / "memory").mkdir(exist_ok=True)
    (work / "memory" / "note.md").write_text(f"# Heron {EVIL}\n\n- the heron {EVIL} nests\n", encoding="utf-8")
    (work / "memory" / f"heron{safe(EVIL)}.md").write_text(f"heron {EVIL}\n", encoding="utf-8")
    (work / "memory" / "binary.md").write_bytes(b"heron \xff\xfe\0" + EVIL.encode())
    for folder, name in ((home / "hooks" / "evil", "evil"), (home / "hooks" / f"x{safe(EVIL)}", f"x{EVIL}")):
        folder.mkdir(parents=True)
        metadata = {"clawbot": {"emoji": EVIL, "events": ["session:end"], "requires": {"bins": [EVIL]}}}
        head = {
            "name": name,
            "description": f"d {EVIL}",
            "homepage": f"http://{EVIL}",
            "metadata": metadata,
        }
        (folder / "HOOK.md").write_text(f"---\n{json.dumps(head)}\n---\n# {EVIL}\n", encoding="utf-8")
        (folder / "handler.py").write_text(f"raise ValueError({EVIL!r})\n", encoding="utf-8")
    settings = {
        "agent": {"model": f"script:{tmp_path / 'script.yaml'}", "timezone": "UTC"},
        "hooks": {"dirs": [f"/nowhere/{EVIL}"], "entries": {"evil": {"enabled": True, "word": EVIL}}},
        "schedule": {"jobs": [{"name": "job", "cron": "0 9 * * *", "prompt": EVIL}]},
        "models": {"extra": {EVIL: EVIL}},
    }
    (home / "config.yaml").write_text(yaml.safe_dump(_valid(home, settings)), encoding="utf-8")
    (home / ".env").write_text(f"GOOD=1\nBAD{EVIL}={EVIL}\n", encoding="utf-8")
    turn = {"reply": f"fine {EVIL}"}
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"turns": [turn] * 60}), encoding="utf-8")
    (Path.cwd() / "bad.yaml").write_text(yaml.safe_dump({EVIL: EVIL, "agent": {"model": {EVIL: 1}}}), encoding="utf-8")
    _sessions(home)
    return home


def _valid(home: Path, settings: dict[str, object]) -> dict[str, object]:
    """Those of `settings` that the program takes together: an unknown one would be the only thing that is said."""
    kept: dict[str, object] = {}
    for key, value in settings.items():
        (home / "config.yaml").write_text(yaml.safe_dump({**kept, key: value}), encoding="utf-8")
        if CliRunner().invoke(root, ["config", "check"]).exit_code == 0:
            kept[key] = value
    assert "hooks" in kept
    assert "agent" in kept
    return kept


def _sessions(home: Path) -> None:
    folder = home / "agents" / "main" / "sessions"
    with SessionStore(folder, SystemClock()).open() as opened:
        opened.transcript.append_message(user(f"heron {EVIL}"))
        session_id = opened.record.session_id
    index = json.loads((folder / "sessions.json").read_text(encoding="utf-8"))
    index["agent:main:main"]["label"] = f"title {EVIL}"
    index[f"agent:main:k{EVIL}"] = {"sessionId": session_id, "label": EVIL, "updatedAt": 5, "endedReason": EVIL}
    index[EVIL] = {"sessionId": EVIL}
    (folder / "sessions.json").write_text(json.dumps(index), encoding="utf-8")
    with (folder / f"{session_id}.jsonl").open("a", encoding="utf-8") as transcript:
        transcript.write(json.dumps({"type": EVIL, "id": EVIL}) + "\nno json " + EVIL + "\n")


@contextlib.contextmanager
def terminal() -> Iterator[list[bytes]]:
    """A pseudo-terminal in the place of stdout and stderr; what came out of it, when it is over."""
    master, slave = pty.openpty()
    out: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(master, 65536):
                out.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    before = sys.stdout, sys.stderr
    streams = [io.TextIOWrapper(io.FileIO(os.dup(slave), "w"), "utf-8", write_through=True) for _ in before]
    os.close(slave)
    sys.stdout, sys.stderr = streams
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        reader.join(100)
        os.close(master)


def run(*arguments: str) -> str:
    """What the terminal gets of `clawbot ARGUMENTS`, a traceback included."""
    with terminal() as out:
        try:
            with dependable_streams():
                root.main(list(arguments), prog_name="clawbot")
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
            raise
    return b"".join(out).decode()


def steering(shown: str) -> list[str]:
    return FORBIDDEN.findall(OURS.sub("", shown))


@pytest.mark.long
@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_no_command_steers_the_terminal(home: Path, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    said = ""
    for arguments in calls(path, LEAVES[path]):
        shown = run(*arguments)
        assert not steering(shown), (arguments, shown)
        said += shown
    assert SHOWN.get(path, "clawbot") in said


def test_a_traceback_and_a_warning_steer_nothing() -> None:
    with terminal() as out, dependable_streams():
        try:
            raise ValueError(EVIL)
        except ValueError:
            traceback.print_exc()
        click.echo(EVIL, err=True)
    shown = b"".join(out).decode()
    assert "ValueError" in shown
    assert not steering(shown), shown


def test_the_sieve_itself_finds_each_of_the_escapes() -> None:
    with terminal() as out:
        sys.stdout.write(EVIL)
    assert len(steering(b"".join(out).decode())) >= len([one for one in EVIL if FORBIDDEN.match(one)]) - 1


def test_json_escapes_what_steers_and_parses_to_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {EVIL: [EVIL, "备份 – “ok” ✓ עברית"]}
    print_json(value)
    shown = capsys.readouterr().out
    assert not FORBIDDEN.search(shown)
    assert "备份 – “ok” ✓ עברית" in shown
    assert json.loads(shown) == value


def test_a_diff_into_a_pipe_is_the_files_own(home: Path) -> None:
    shown = CliRunner().invoke(root, ["workspace", "diff", "SOUL.md"]).stdout
    assert "+heron \x1b]52;c;ZXZpbA==\x07" in shown


def test_what_a_closed_window_did_not_take_changes_no_exit_code() -> None:
    """/dev/full refuses as it does; Python ends with 120 where its last flush fails."""
    ends = "import sys; from clawbot.cli.output import write_nowhere; print('left'); {}sys.exit(129)"
    with Path("/dev/full").open("wb") as full:
        codes = [
            subprocess.run([sys.executable, "-c", ends.format(first)], stdout=full, stderr=full, check=False).returncode
            for first in ("", "write_nowhere(); ")
        ]
    assert codes == [120, 129]
