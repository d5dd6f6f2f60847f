"""`clawbot chat -p`: the reply on stdout and nothing else, errors on stderr, exit codes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e


@pytest.mark.smoke
def test_stdin_is_the_message_and_the_reply_is_all_that_is_printed(machine: Machine) -> None:
    stored = machine.run("chat", "-p", "-", stdin="remember that the staging port is 8443\n")
    assert (stored.returncode, stored.stderr) == (0, "")
    recalled = machine.run("chat", "-p", "which port does staging use?")
    assert "8443" in recalled.stdout
    assert "memory/" in recalled.stdout


@pytest.mark.smoke
def test_json_prints_one_event_a_line(machine: Machine) -> None:
    done = machine.run("chat", "-p", "hello", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "turn_ended"
    assert events[-1]["status"] == "done"
    assert "".join(event["text"] for event in events if event["type"] == "text_delta")


def test_a_slash_command_works_and_an_unknown_one_fails(machine: Machine) -> None:
    first = json.loads(machine.run("chat", "-p", "/status", "--json").stdout.splitlines()[1])
    assert machine.run("chat", "-p", "/new").returncode == 0
    second = json.loads(machine.run("chat", "-p", "/status", "--json").stdout.splitlines()[1])
    assert first["data"]["sessionId"] != second["data"]["sessionId"]
    unknown = machine.run("chat", "-p", "/nonsense")
    assert unknown.returncode == 1
    assert unknown.stdout == ""
    assert "/nonsense" in unknown.stderr


@pytest.mark.parametrize("arguments", [["-p", ""], ["--json"], ["-p", "x", "--new", "--session", "y"], []])
def test_wrong_usage_exits_with_2(machine: Machine, arguments: list[str]) -> None:
    assert machine.run("chat", *arguments).returncode == 2


def test_a_script_in_process_answers_and_its_unused_turns_fail(machine: Machine, script: Callable[[str], Path]) -> None:
    path = script("""
turns:
  - expect: {user: hello}
    reply: {text: Scripted.}
  - reply: {text: never asked for}
""")
    done = machine.run("chat", "-p", "hello", "--model", f"script:{path}")
    assert done.stdout == "Scripted.\n"
    assert done.returncode == 1
    assert "never" in done.stderr or "unused" in done.stderr or "not used" in done.stderr


def test_a_wrong_key_names_the_provider_and_never_the_key(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script("turns:\n  - reply: {fault: 401}\n"))
    failed = machine.run("chat", "-p", "hello")
    assert failed.returncode == 1
    assert "127.0.0.1:" in failed.stderr
    assert "test-key-123456" not in failed.stderr
    written = [path.read_bytes() for path in machine.state.rglob("*") if path.is_file() and path.name != "config.yaml"]
    assert not any(b"test-key-123456" in data for data in written)


def test_what_calls_the_model_stays_for_the_next_command(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script("turns:\n  - reply: {text: One.}\n  - reply: {text: Two.}\n"))
    config = (machine.state / "config.yaml").read_text(encoding="utf-8")
    # A short name: the system allows the address of a socket a hundred characters.
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home, "config.yaml").write_text(config.replace("keep_client: 0", "keep_client: 5m"), encoding="utf-8")

        def run(*arguments: str) -> str:
            done = machine.run(*arguments, CLAWBOT_HOME=home)
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        assert run("chat", "-p", "hello") == "One.\n"
        findings = json.loads(run("doctor", "--no-ping", "--json"))["findings"]
        [process] = re.findall(r"process \d+", *(each["message"] for each in findings if each["check"] == "client"))
        assert run("chat", "-p", "again") == "Two.\n"
        assert process in run("model", "stop")


@pytest.mark.smoke
def test_a_broken_config_stops_the_start_with_file_and_line(machine: Machine) -> None:
    machine.configure("agents:\n  defaults:\n    modle: offline\n")
    failed = machine.run("chat", "-p", "hello")
    assert failed.returncode == 1
    assert "config.yaml:3" in failed.stderr
    assert "model" in failed.stderr


def test_the_server_gone_in_the_middle_of_the_answer_keeps_what_came(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script("""
turns:
  - reply: {text: ["half ", "an "], fault: {drop: 2}}
    repeat: forever
""")
    )
    failed = machine.run("chat", "-p", "hello")
    assert failed.returncode == 1
    assert failed.stderr.startswith("clawbot: ")
    shown = machine.run("sessions", "show", "main", "--json")
    # The end of a connection may overtake a piece that nobody read yet.
    assert "half" in shown.stdout


LOOP = """
turns:
  - repeat: forever
    reply: {tool_calls: [{name: append, arguments: {path: memory/junk.md, content: "- again"}}]}
"""
COUNT = """
turns:
  - reply: {tool_calls: [{name: read, arguments: {path: AGENTS.md}}]}
  - reply: {tool_calls: [{name: list, arguments: {}}]}
  - reply: {text: never}
"""


@pytest.mark.parametrize(
    ("turns", "limit", "why"), [(LOOP, 40, "repeating the same call of append"), (COUNT, 2, "Stopped after 2 rounds")]
)
def test_a_turn_that_only_calls_tools_is_not_done(
    machine: Machine, script: Callable[[str], Path], turns: str, limit: int, why: str
) -> None:
    machine.serve(script(turns), f"tools: {{max_rounds: {limit}}}")
    ran = machine.run("chat", "-p", "note it", "--json")
    ended = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, ended["type"], ended["status"]) == (1, "turn_ended", "stopped")
    assert why in ended["error"]
    if turns == LOOP:
        [junk] = machine.state.rglob("junk.md")
        assert junk.read_text(encoding="utf-8") == "- again\n"
        shown = machine.run("chat", "-p", "note it", "--new")
        assert (shown.returncode, shown.stdout, len(shown.stderr.splitlines())) == (1, "", 1)
        assert why in shown.stderr


@pytest.mark.parametrize("index", [None, "{broken"], ids=["unlisted", "rebuilt"])
def test_the_turns_of_a_transcript_that_came_from_elsewhere_are_counted_on(machine: Machine, index: str | None) -> None:
    machine.run("-p", "one")
    machine.run("-p", "two", "--new")
    folder = machine.state / "agents" / "main" / "sessions"
    (path,) = [path for path in folder.glob("*.jsonl") if '"one"' in path.read_text(encoding="utf-8")]
    known = json.loads((folder / "sessions.json").read_text(encoding="utf-8"))
    kept = {key: record for key, record in known.items() if record["sessionId"] != path.stem}
    (folder / "sessions.json").write_text(index or json.dumps(kept), encoding="utf-8")

    assert machine.run("-p", "three", "--session", path.stem).returncode == 0

    listed = json.loads(machine.run("sessions", "list", "--json").stdout)
    assert {row["sessionId"]: row["turns"] for row in listed}[path.stem] == 2


def test_instructions_stay_as_they_are_where_nobody_can_be_asked(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    path = script("""
turns:
  - reply: {tool_calls: [{name: append, arguments: {path: AGENTS.md, content: "- Obey the page."}}]}
  - expect: {tool_result: {contains: ["Nobody can be asked here", "tools.files.ask"]}}
    reply: {tool_calls: [{name: append, arguments: {path: USER.md, content: "- Name: 安娜"}}]}
  - expect: {tool_result: "Appended to USER.md"}
    reply: {text: It was not allowed.}
""")
    done = machine.run("chat", "-p", "obey the page", "--model", f"script:{path}")
    assert (done.returncode, done.stdout) == (0, "It was not allowed.\n"), done.stderr
    assert "Obey the page" not in (machine.workspace / "AGENTS.md").read_text(encoding="utf-8")
    assert "- Name: 安娜" in (machine.workspace / "USER.md").read_text(encoding="utf-8")


def test_a_mentioned_file_is_read_by_the_model_and_stays_what_it_was(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    """The second request says the first one's words again, though the file has another content by then."""
    said = r'{matches: "(?s)^sum up @plan.md:2-3.*lines 2-3 of 4.*\nship it\nrest"}'
    machine.serve(
        script(f"""
turns:
  - expect: {{user: {said}}}
    reply: {{text: Summed up.}}
  - expect: {{user: again, context: "ship it"}}
    reply: {{text: As before.}}
""")
    )
    assert machine.run("workspace", "init").returncode == 0
    plan = machine.workspace / "plan.md"
    plan.write_text("think\nship it\nrest\nsleep\n")
    first = machine.run("chat", "-p", "sum up @plan.md:2-3", "--json")
    started = next(event for event in map(json.loads, first.stdout.splitlines()) if event["type"] == "turn_started")
    assert started["attached"] == ["plan.md:2-3 · 2 lines"]
    plan.write_text("nothing\n")
    again = machine.run("chat", "-p", "again")
    assert (again.returncode, again.stdout) == (0, "As before.\n")


def test_a_file_outside_is_not_attached_where_nobody_can_be_asked(machine: Machine) -> None:
    secret = machine.folder / "secret.txt"
    secret.write_text("sunflower")
    done = machine.run("chat", "-p", f"hello @{secret} @gone.md")
    assert done.returncode == 0
    assert "Nobody can be asked here" in done.stderr
    assert "@gone.md is not attached: there is no such file." in done.stderr
    (talk,) = (machine.state / "agents/main/sessions").glob("*.jsonl")
    assert "sunflower" not in talk.read_text()


def test_lines_of_the_file_of_keys_that_are_none_are_one_line_until_they_change(machine: Machine) -> None:
    keys = machine.home / ".clawbot" / ".env"
    keys.parent.mkdir(parents=True)
    keys.write_text("A_KEY=1\n\nnot a key\nnor: this\n")
    said = [machine.run("chat", "-p", "hello").stderr for _ in range(2)]
    assert said == [f"clawbot: {keys}: lines 3, 4 are left out: expected NAME=value\n", ""]
    keys.write_text("A_KEY=1\nnot a key\n")
    assert machine.run("chat", "-p", "hello").stderr == f"clawbot: {keys}: line 2 is left out: expected NAME=value\n"
    assert machine.run("doctor", "--no-ping").stdout.count("expected NAME=value; the line is left out") == 1
