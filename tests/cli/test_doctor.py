"""What the doctor finds, and that nothing keeps it from looking."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clawbot import distribution
from clawbot.cli import doctor_setup as setup
from clawbot.cli import doctor_storage as storage
from clawbot.cli.doctor import VERSION, examine, inspect_setup
from clawbot.cli.doctor_setup import check_terminal
from clawbot.cli.doctor_storage import Finding, Findings, Here
from clawbot.cli.main import root
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, shipped
from clawbot.context.workspace import seed_workspace
from clawbot.distribution import pip_install
from clawbot.extras import install_command
from clawbot.llm.errors import AuthenticationError, UnreachableError
from clawbot.llm.protocol import ChatRequest, LoadingPart, ModelInfo, RetryPart, StreamPart, TextPart
from clawbot.messages import UserMessage
from clawbot.sessions.store import SessionStore
from tests.hostile import make_deep, removed
from tests.packages import install

SECRET = "sk-abcdef-1234567890"
RAW_SERVER = Path(__file__).parents[1] / "mcp" / "raw_server.py"


@pytest.fixture
def home() -> Path:
    folder = Path(os.environ["CLAWBOT_HOME"])
    folder.mkdir(mode=0o700)
    return folder


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["doctor", "--no-ping", *arguments])


def here(*, agent: str = "main", ping: bool = False) -> Here:
    return inspect_setup(agent, ping=ping)


def states(findings: Findings) -> list[tuple[str, str]]:
    return [(finding.check, finding.state) for finding in findings]


def with_settings(home: Path, text: str, **values: Any) -> Here:
    (home / "config.yaml").write_text(text)
    return here(**values)


def test_a_fresh_machine_has_no_problem() -> None:
    result = doctor("--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["version"] == VERSION
    assert all(set(finding) == {"check", "state", "message", "fix"} for finding in told["findings"])
    assert {finding["state"] for finding in told["findings"]} <= {"ok", "warning"}
    workspace = next(finding for finding in told["findings"] if finding["check"] == "workspace")
    assert (workspace["state"], workspace["fix"]) == ("warning", "clawbot workspace init")
    assert not Path(os.environ["CLAWBOT_HOME"]).exists()


def test_a_broken_configuration_is_found_and_the_rest_is_looked_at(home: Path) -> None:
    (home / "config.yaml").write_text("agents:\n  defaults:\n    modell: offline\n")
    result = doctor("--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["findings"]
    config = next(finding for finding in found if finding["check"] == "config")
    assert config["state"] == "problem"
    assert f"{home / 'config.yaml'}:3" in config["message"]
    assert config["fix"] == "clawbot config check"
    assert {"python", "sqlite", "workspace", "disk", "sessions", "terminal"} <= {each["check"] for each in found}


@pytest.mark.parametrize("text", ["a: [unclosed", "\x00", "- a list", "\xff"])
def test_a_configuration_that_is_no_yaml_is_a_finding(home: Path, text: str) -> None:
    (home / "config.yaml").write_bytes(text.encode("latin-1"))
    assert ("config", "problem") in states(setup.configuration(here()))


def test_more_problems_than_anybody_reads_are_counted(home: Path) -> None:
    checked = with_settings(home, "".join(f"wrong_{number}: 1\n" for number in range(8)))
    assert setup.configuration(checked)[-1].message == "3 more problems"


def test_an_unknown_agent_is_a_finding_and_an_impossible_one_an_error() -> None:
    assert doctor("--agent", "nobody").exit_code == 1
    result = doctor("--agent", "../x")
    assert result.exit_code == 1
    assert "no agent id" in result.stderr


def test_keys_are_named_and_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".env").write_text(f"OPENAI_API_KEY={SECRET}\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{SECRET}-too")
    monkeypatch.setenv("GEMINI_API_KEY", " ")
    for result in (doctor(), doctor("--json")):
        assert "OPENAI_API_KEY is set (OpenAI)" in result.output
        assert "ANTHROPIC_API_KEY is set" in result.output
        assert "GEMINI_API_KEY is set but empty" in result.output
        assert SECRET not in result.output
    os.environ.pop("OPENAI_API_KEY", None)


def test_a_fallback_without_its_key_is_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    text = "agents: {defaults: {fallbacks: [anthropic/x, ollama_chat/y, gemini/z]}}"
    found = setup.keys(with_settings(home, text))
    [skipped] = [finding for finding in found if finding.state == "warning"]
    assert skipped.message == "The fallback anthropic/x is skipped: ANTHROPIC_API_KEY is not set."


def test_files_that_others_can_read_are_warned_about(home: Path) -> None:
    (home / ".env").write_text("A=b\n")
    (home / ".env").chmod(0o644)
    home.chmod(0o755)
    found = storage.permissions(here())
    assert {finding.fix for finding in found} == {f"chmod 700 {home}", f"chmod 600 {home / '.env'}"}
    (home / ".env").chmod(0o600)
    home.chmod(0o700)
    assert states(storage.permissions(here())) == [("permissions", "ok")]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def session(home: Path) -> Path:
    store = SessionStore(home / "agents" / "main" / "sessions", SystemClock())
    with store.open() as opened:
        opened.transcript.append_message(UserMessage(content="hello"), sync=True)
        return opened.transcript.path


def test_a_torn_tail_is_a_warning_and_stays_as_it_is(home: Path) -> None:
    path = session(home)
    append(path, b'{"type":"message","id":"x')
    before = path.read_bytes()
    found = storage.sessions(here())
    assert [(finding.state, finding.fix) for finding in found] == [("warning", "clawbot sessions repair")]
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir() if "torn" in file.name] == []


def test_an_index_that_is_broken_is_a_warning(home: Path) -> None:
    path = session(home)
    index = path.parent / "sessions.json"
    index.write_text("{")
    assert {finding.state for finding in storage.sessions(here())} == {"warning"}
    assert index.read_text() == "{"


def test_who_holds_a_conversation_is_told_and_its_half_line_is_no_fault(home: Path) -> None:
    store = SessionStore(home / "agents" / "main" / "sessions", SystemClock())
    with store.open() as opened:
        opened.transcript.append_message(UserMessage(content="hello"))
        append(opened.transcript.path, b'{"half')
        assert f"process {os.getpid()}" in storage.locks(here())[0].message
        assert not [finding for finding in storage.sessions(here()) if "unfinished" in finding.message]
    assert storage.locks(here())[0].message == "no conversation is open"


def seeded(home: Path) -> Path:
    folder = home / "workspace"
    seed_workspace(folder, shipped("workspace_template"), SystemClock(), Paths(home).workspace_record(folder))
    return folder


OK, WARNING, PROBLEM = "ok", "warning", "problem"
# What is done to a home, the check, the states of its findings, and parts of the last one's message and command.
CASES: dict[str, tuple[Callable[[Path], object], Any, list[str], str, str]] = {
    "a key that nobody set": (
        lambda home: (home / "config.yaml").write_text("agents: {defaults: {api_key_env: MY_KEY}}"),
        *(setup.keys, [PROBLEM], "MY_KEY", ""),
    ),
    "a key in the configuration": (
        lambda home: (home / "config.yaml").write_text(f"agents: {{defaults: {{api_key: {SECRET}}}}}"),
        *(setup.keys, [WARNING], "", ""),
    ),
    "no env file": (lambda home: (home / ".env").write_text("no name\n"), setup.env_file, [OK, WARNING], ".env:1", ""),
    "a transcript": (session, storage.sessions, [OK], "1 transcript in ", ""),
    "no entry": (lambda home: append(session(home), b"garbage\n"), storage.sessions, [WARNING], ".jsonl:", ""),
    "a seeded workspace": (seeded, storage.workspace, [OK], "", ""),
    "a missing template": (
        lambda home: (seeded(home) / "SOUL.md").unlink(),
        *(storage.workspace, [OK, WARNING], "missing: SOUL.md", "clawbot workspace init"),
    ),
    "not UTF-8": (
        lambda home: (seeded(home) / "USER.md").write_bytes(b"caf\xe9"),
        *(storage.workspace, [OK, WARNING], "USER.md is not UTF-8", ""),
    ),
    "a file as workspace": (
        lambda home: (home / "workspace").write_text(""),
        *(storage.workspace, [PROBLEM], "", "mv {home}/workspace {home}/workspace.old"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_in_a_home_is_found(home: Path, name: str) -> None:
    arrange, check, states, message, fix = CASES[name]
    arrange(home)
    found = check(here())
    assert [finding.state for finding in found] == states
    assert message in found[-1].message
    assert fix.format(home=home) in (found[-1].fix or "")
    assert SECRET not in f"{found}"


@pytest.mark.parametrize(
    ("gone", "expected"), [("", ["ok", "ok"]), ("sqlite_vec", ["ok", "problem"]), ("apsw", ["problem"])]
)
def test_sqlite_and_its_extension(monkeypatch: pytest.MonkeyPatch, gone: str, expected: list[str]) -> None:
    if gone == "apsw":
        monkeypatch.setitem(sys.modules, "apsw", None)
    elif gone:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert [finding.state for finding in setup.sqlite(here())] == expected


def test_a_file_of_windows_is_fine_by_its_mark_and_told_without(home: Path) -> None:
    file = seeded(home) / "AGENTS.md"
    text = "# 会议 AGENTS\n\nPlain words of an ordinary file.\n"
    file.write_bytes(f"\ufeff{text}".encode("utf-16-le"))
    assert {finding.state for finding in storage.workspace(here())} == {"ok"}
    for name in ("utf-16-le", "utf-16-be"):
        file.write_bytes(text.encode(name))
        found = storage.workspace(here())[-1]
        assert "UTF-16 without its byte order mark" in found.message
        # As the remedy says.
        assert (found.fix or "").startswith(f"iconv -f {name.replace('16-', '16')} -t utf-8 ")
    file.write_bytes(f"\ufeff{text}".encode("utf-16-le") + b"x")
    assert "broken UTF-16" in storage.workspace(here())[-1].message


def test_a_state_folder_that_is_a_file_is_a_problem() -> None:
    Path(os.environ["CLAWBOT_HOME"]).write_text("")
    result = doctor()
    assert result.exit_code == 1
    assert "is a file, not a folder" in result.output


@pytest.mark.parametrize(
    "check", [storage.state_folder, storage.workspace, storage.log_file], ids=["home", "workspace", "log"]
)
def test_what_cannot_be_written_is_a_problem(home: Path, monkeypatch: pytest.MonkeyPatch, check: Any) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = check(here())
    assert found[0].state == "problem"
    assert "can't be" in found[0].message
    assert found[0].fix.startswith("chmod")


@pytest.mark.parametrize(("free", "state"), [(10**6, "problem"), (500 * 2**20, "warning"), (2**31, "ok")])
def test_a_full_disk_is_told_before_it_hurts(monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert {finding.state for finding in storage.disk(here())} == {state}


def test_the_version_of_python_is_one_that_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = ", ".join(setup.tested_versions())
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in tested
    (found,) = setup.python(here())
    assert found.message.endswith(f"), tested on {tested}")
    monkeypatch.setattr("sys.version_info", (3, 99, 0, "final", 0))
    (found,) = setup.python(here())
    assert found.state == "ok"
    assert found.message.endswith(f"), which it is not tested on: that is {tested}")


def test_a_missing_library_is_a_problem_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["click>=8", "no-such-thing (>=1,<2)", "dev-only>=1 ; extra == 'dev'", "gone ; python_version < '3'"]
    install(tmp_path, "clawbot_agent", "", metadata="".join(f"Requires-Dist: {line}\n" for line in wanted))
    monkeypatch.syspath_prepend(tmp_path)
    found = setup.packages(here())
    assert found[0].state == "problem"
    assert found[0].fix is not None
    assert found[0].fix == pip_install("no-such-thing<2,>=1")


def test_a_checkout_that_is_not_installed_is_a_warning_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "DISTRIBUTION", "no-such-thing")
    [found] = setup.packages(here())
    assert (found.state, found.fix) == ("warning", pip_install("-e", str(shipped("config.yaml").parent)))


async def test_a_check_that_breaks_is_a_finding_and_the_others_go_on() -> None:
    def broken(_: Here) -> Findings:
        raise RuntimeError(f"api_key={SECRET}")

    async def broken_later(_: Here) -> Findings:
        raise ValueError("late")

    found = await examine(here(), [broken, setup.python, broken_later])
    assert states(found) == [("broken", "problem"), ("python", "ok"), ("broken_later", "problem")]
    assert "RuntimeError" in found[0].message
    assert SECRET not in found[0].message


async def test_checks_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=100)

    def meets(_: Here) -> Findings:
        meeting.wait()
        return [Finding("meets", "ok", "")]

    assert states(await examine(here(), [meets, meets])) == [("meets", "ok")] * 2


class OneModel:
    """A model that answers, fails or never comes to it."""

    def __init__(
        self,
        ref: str = "openai/gpt-5",
        error: Exception | None = None,
        *,
        silent: bool = False,
        first: StreamPart | None = None,
    ) -> None:
        self.info = ModelInfo(ref=ref, reason="OPENAI_API_KEY is set")
        self.error = error
        self.silent = silent
        self.first = first or TextPart("pong")
        self.calls: list[ChatRequest] = []
        self.closed = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        self.calls.append(request)
        if self.info.ref.startswith("local/"):
            yield LoadingPart("tiny")
        if self.silent:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        yield self.first

    async def warm(self) -> None:
        return None

    async def aclose(self) -> None:
        self.closed += 1


async def ping(one: OneModel, checked: Here) -> Finding:
    async def opened(*_: object, **__: object) -> OneModel:
        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "open_model", opened)
        (found,) = await setup.model(checked)
    assert one.closed == 1
    return found


async def test_a_model_that_answers_is_fine() -> None:
    one = OneModel()
    found = await ping(one, here(ping=True))
    assert found.state == "ok"
    assert found.message.startswith("openai/gpt-5 (OPENAI_API_KEY is set) answers after")
    assert len(one.calls) == 1


@pytest.mark.parametrize("able", [True, False])
async def test_a_model_is_called_as_in_a_chat(able: bool) -> None:
    """With tools, if it can call any: litellm calls some models by another protocol then."""
    one = OneModel()
    one.info = ModelInfo("openai/gpt-5", supports_tools=able)
    await ping(one, here(ping=True))
    assert [bool(request.tools) for request in one.calls] == [able]


async def test_a_model_that_refuses_is_a_problem_with_its_next_step() -> None:
    error = AuthenticationError("The key was refused.", provider="OpenAI", hint="Set OPENAI_API_KEY anew.")
    found = await ping(OneModel(error=error), here(ping=True))
    assert (found.state, found.message, found.fix) == (
        "problem",
        "openai/gpt-5: OpenAI: The key was refused.",
        "Set OPENAI_API_KEY anew.",
    )


async def test_a_model_of_this_machine_has_not_answered_while_it_loads() -> None:
    found = await ping(OneModel("local/tiny", error=UnreachableError("it died.")), here(ping=True))
    assert (found.state, found.message) == ("problem", "local/tiny: it died.")


async def test_a_server_that_loads_its_model_has_not_answered() -> None:
    found = await ping(OneModel(first=RetryPart(2, 2.0, "the server loads its model.")), here(ping=True))
    assert (found.state, found.message.rpartition(": ")[2]) == ("warning", "the server loads its model.")


async def test_a_model_that_never_answers_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "DEADLINE", 0.01)
    found = await ping(OneModel(silent=True), here(ping=True))
    assert found.state == "problem"
    assert "has not answered" in found.message


@pytest.mark.parametrize(("ref", "may_ping"), [("offline", True), ("openai/gpt-5", False)])
async def test_no_call_where_none_is_wanted(ref: str, may_ping: bool) -> None:
    one = OneModel(ref)
    assert (await ping(one, here(ping=may_ping))).state == "ok"
    assert one.calls == []


async def test_a_model_that_cannot_be_opened_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> OneModel:
        raise AuthenticationError("No key.", provider="OpenAI", hint="Set one.")

    monkeypatch.setattr(setup, "open_model", refuse)
    assert states(await setup.model(here())) == [("model", "problem")]


async def test_with_a_broken_configuration_no_model_is_tried(home: Path) -> None:
    assert states(await setup.model(with_settings(home, "x: 1", ping=True))) == [("model", "warning")]


async def test_local_servers_that_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object) -> list[ModelInfo]:
        own = ModelInfo(ref="local/tiny", reason="clawbot's own server runs")
        return [ModelInfo(ref="ollama_chat/qwen3", reason="Ollama answers"), own, ModelInfo(ref="offline")]

    async def find_none(_: object) -> list[ModelInfo]:
        return [ModelInfo(ref="offline")]

    monkeypatch.setattr(setup, "find_models", find)
    told = [finding.message for finding in await setup.local_servers(here())]
    assert told == ["ollama_chat/qwen3: Ollama answers", "local/tiny: clawbot's own server runs"]
    monkeypatch.setattr(setup, "find_models", find_none)
    assert "no local model server" in (await setup.local_servers(here()))[0].message


@pytest.mark.parametrize(
    ("environ", "encoding", "expected"),
    [
        ({"TERM": "xterm-256color"}, "UTF-8", [("terminal", "ok"), ("locale", "ok")]),
        ({"TERM": "dumb"}, "UTF-8", [("terminal", "warning"), ("locale", "ok")]),
        ({}, "ANSI_X3.4-1968", [("terminal", "warning"), ("locale", "warning")]),
        ({"TERM": "tmux", "TMUX": "x"}, "utf8", [("terminal", "ok"), ("locale", "ok"), ("clipboard", "ok")]),
        ({"TERM": "xterm", "SSH_TTY": "x"}, "UTF-8", [("terminal", "ok"), ("locale", "ok"), ("clipboard", "ok")]),
    ],
)
def test_terminals(environ: dict[str, str], encoding: str, expected: list[tuple[str, str]]) -> None:
    assert states(check_terminal(environ, encoding)) == expected


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "xterm-256color"}, "256 colours"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "16 million colours"),
        ({"TERM": "linux"}, "16 colours"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "no colours (NO_COLOR is set)"),
    ],
)
def test_colours(environ: dict[str, str], colours: str) -> None:
    assert check_terminal(environ, "UTF-8")[0].message.endswith(colours)


def test_people_read_each_finding_with_the_command_that_mends_it(home: Path) -> None:
    (home / "workspace").write_text("")
    result = CliRunner(charset="latin-1").invoke(root, ["doctor", "--no-ping"])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("problem  workspace"))
    assert lines[at + 1].strip() == f"fix: mv {home / 'workspace'} {home / 'workspace'}.old"
    assert lines[-1].endswith("1 to mend")


def test_an_agent_that_is_not_there_is_an_error_and_no_finding(home: Path) -> None:
    result = doctor("--agent", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no agent 'nobody'" in result.stderr


def test_notes_that_can_not_be_written_are_a_problem(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = seeded(home) / "memory"
    notes.mkdir(exist_ok=True)
    assert storage.workspace(here())[0].state == "ok"
    monkeypatch.setattr(storage, "writable", lambda path: path != notes)
    found = storage.workspace(here())[0]
    assert (found.state, found.fix) == ("problem", f"chmod u+rwx {notes}")
    notes.rmdir()
    notes.touch()
    assert "is a link or a file, not a folder" in storage.workspace(here())[0].message


def test_notes_that_lie_too_deep_to_be_found_are_told(home: Path) -> None:
    with removed(home / "workspace" / "memory") as memory:
        make_deep(memory, 1500)
        told = [finding.message for finding in storage.workspace(here()) if finding.check == "workspace"]
        assert any("it is more than 64 folders deep" in message for message in told)


def test_extensions_are_loaded_and_a_broken_one_is_one_line(tmp_path: Path) -> None:
    assert setup.extensions(here()) == []
    install(tmp_path, "acme_doctor", "[clawbot.tools]\ndial = acme_doctor:DIAL\n", "DIAL = 7\n")
    install(tmp_path, "bolt_doctor", "[clawbot.commands]\nbolt = bolt_doctor:BOLT\n")
    install(tmp_path, "hook_doctor", "[clawbot.hooks]\ntidy = hook_doctor\n")
    run = [sys.executable, "-m", "clawbot", "doctor", "--no-ping", "--json"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(run, env=environ, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    found = [each for each in json.loads(result.stdout)["findings"] if each["check"] == "extensions"]
    assert [(each["state"], each["message"].partition(": Attr")[0]) for each in found] == [
        ("problem", "bolt: bolt_doctor:BOLT of the package bolt_doctor can't be used"),
        ("ok", "loaded from packages: dial (acme_doctor)"),
    ]
    [hook] = [each for each in json.loads(result.stdout)["findings"] if each["check"] == "hooks"]
    assert hook["message"].startswith("tidy does not run: there is no HOOK.md in ")


def test_the_programs_of_mcp_servers_are_looked_for_and_none_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert setup.mcp_servers(here()) == []
    servers = "mcp: {servers: {there: {command: sh}, off: {enabled: false}, far: {url: 'https://example.org'}%s}}"
    assert states(setup.mcp_servers(with_settings(home, servers % ""))) == [("mcp", "ok")]
    [absent] = setup.mcp_servers(with_settings(home, servers % ", gone: {command: /no/such/program}"))
    assert (absent.state, absent.fix) == ("warning", "clawbot mcp test gone")
    monkeypatch.setattr(setup, "find_spec", lambda _: None)
    [missing] = setup.mcp_servers(with_settings(home, servers % ""))
    assert (missing.state, missing.fix) == ("problem", install_command("mcp"))


def test_tools_of_mcp_servers_that_were_left_out_are_named(home: Path) -> None:
    answers = {"tools/list": {"tools": [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "bad"}]}}
    server = {"command": sys.executable, "args": [str(RAW_SERVER), json.dumps(answers)]}
    checked = with_settings(home, json.dumps({"mcp": {"servers": {"odd": server}}}))
    assert states(setup.mcp_servers(checked)) == [("mcp", "ok")]
    assert CliRunner().invoke(root, ["mcp", "test"]).exit_code == 0
    [found] = setup.mcp_servers(checked)
    assert (found.state, found.fix) == ("warning", "clawbot mcp test odd")
    assert found.message == "odd: left out: bad, whose parameters are no JSON schema"


HOOK = "---\nevents: [tool:before]\n---\n"


@pytest.mark.parametrize(
    ("settings", "handler", "state", "message", "fix"),
    [
        ("", "async def handle(event): pass", "ok", "ready: session-memory", None),
        ("", "import no_such_module", "problem", "guard does not run: ModuleNotFoundError", "check "),
        ("hooks: {entries: {guard: {enabled: false}}}", "import no_such_module", "ok", "ready: ", None),
        ("hooks: {enabled: false}", "async def handle(event): pass", "ok", "ready: none", None),
        (
            "hooks: {entries: {guard: {enabled: false, required: true}}}",
            "async def handle(event): pass",
            "problem",
            "guard does not run: off",
            "clawbot hooks enable guard",
        ),
        (
            "hooks: {entries: {other: {required: true}}}",
            "async def handle(event): pass",
            "problem",
            "other does not run: hooks.entries requires it",
            "put it into ",
        ),
    ],
)
async def test_hooks_that_can_t_run_are_problems(
    home: Path, settings: str, handler: str, state: str, message: str, fix: str | None
) -> None:
    folder = home / "hooks" / "guard"
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(HOOK)
    (folder / "handler.py").write_text(handler)
    [found] = await setup.hooks(with_settings(home, settings))
    assert (found.check, found.state) == ("hooks", state)
    assert found.message.startswith(message)
    assert (found.fix or "").startswith(fix or "")
    assert (fix is None) is (found.fix is None)
