"""`clawbot schedule list | run` as users, cron and scripts see it. The turn of a job is played by a fake."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from clawbot.agent.events import Event, Notice
from clawbot.cli import schedule
from clawbot.cli.completion import job_names
from clawbot.cli.main import root
from clawbot.clock import SystemClock, epoch_ms
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.runtime import RuntimeOptions
from clawbot.scheduling.jobs import Job
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import JobSkippedError
from clawbot.sessions.errors import SessionLockedError
from clawbot.sessions.store import SessionStore
from tests.scheduling.jobs import at

SETTINGS = """
schedule:
  ask: {every: 1m, prompt: 今天怎么样？}
  tell: {cron: "0 8 * * *", event: plants, enabled: false}
"""


class FakeRuntime:
    """Answers with what the test says; notes what it was opened with."""

    def __init__(self, says: str | Exception = "很好\nand more") -> None:
        self.says = says
        self.opened: list[RuntimeOptions] = []
        self.closed = 0
        self.on_event: Callable[[Event], None] | None = None
        self.tells: list[Event] = []
        self.agent = self

    async def open(self, options: RuntimeOptions) -> FakeRuntime:
        self.opened.append(options)
        if isinstance(self.says, SessionLockedError):
            raise self.says
        return self

    def listen(self, tell: Callable[[Event], None] | None) -> None:
        self.on_event = tell

    async def run_job(self, job: Job) -> str:
        for event in self.tells:
            assert self.on_event is not None
            self.on_event(event)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def home() -> Path:
    home = Path(os.environ["CLAWBOT_HOME"])
    home.mkdir()
    home.joinpath("config.yaml").write_text(SETTINGS, encoding="utf-8")
    return home


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = FakeRuntime()
    monkeypatch.setattr("clawbot.cli.schedule.Runtime.open", fake.open)
    return fake


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["schedule", *arguments])


def make_due(home: Path) -> None:
    """Let the job `ask` have been armed long ago, as if nothing had run since."""
    assert invoke("run").exit_code == 0
    file = home / "schedule.json"
    raw = json.loads(file.read_bytes())
    raw["main/ask"]["since"] = "2026-11-21T08:00:00Z"
    file.write_text(json.dumps(raw))


def test_list_shows_each_job_in_a_row(home: Path) -> None:
    rows = [row.split("  ") for row in invoke("list").stdout.splitlines()]
    found = [[cell.strip() for cell in row if cell] for row in rows]
    assert [row[:3] for row in found] == [
        ["reset", "main", "0 4 * * *"],
        ["memory.dream", "main", "30 4 * * *"],
        ["heartbeat", "main", "every 30m"],
        ["ask", "main", "every 1m"],
        ["tell", "main", "0 8 * * *"],
    ]
    assert found[2][3:] == ["off", "not run yet"]
    assert found[3][3].startswith("next 20")
    assert [path.name for path in home.iterdir()] == ["config.yaml"]


def test_a_look_at_a_session_that_is_not_over_says_and_writes_nothing(home: Path, runtime: FakeRuntime) -> None:
    home.joinpath("config.yaml").write_text("session: {reset: {mode: idle}}\n", encoding="utf-8")
    store = SessionStore(Paths(home).sessions("main"), SystemClock())
    session = store.open()
    session.close()

    def spoke(minutes: int) -> None:
        moment = epoch_ms(SystemClock().now()) - minutes * 60_000
        store.update(structs.replace(session.record, last_interaction_at=moment, session_started_at=moment))

    spoke(59)
    assert invoke("run").stdout == ""
    before = home.joinpath("schedule.json").read_bytes()
    assert invoke("run").stdout == ""
    assert home.joinpath("schedule.json").read_bytes() == before
    assert runtime.opened == []
    rows = [[cell.strip() for cell in row.split("  ") if cell] for row in invoke("list").stdout.splitlines()]
    assert rows[0] == ["reset", "main", "after 1h of silence", "when its time has come", "not run yet"]
    spoke(61)
    assert invoke("run").stdout.startswith("main/reset  done  ")
    (options,) = runtime.opened
    assert options.session == "agent:main:main"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no HEARTBEAT.md"),
        ("", "HEARTBEAT.md holds no tasks"),
        ("# Heartbeat\n\n- [ ]\n", "HEARTBEAT.md holds no tasks"),
        ("<!-- add tasks -->\n", "HEARTBEAT.md holds no tasks"),
        ("- water the plants\n", ""),
    ],
)
def test_a_heartbeat_without_tasks_opens_no_session(
    home: Path, runtime: FakeRuntime, text: str | None, reason: str
) -> None:
    workspace = Paths(home).workspace("main")
    workspace.mkdir()
    if text is not None:
        (workspace / "HEARTBEAT.md").write_text(text)
    done = invoke("run", "heartbeat")
    assert (reason in done.stderr, bool(runtime.opened)) == (True, not reason)


def test_a_new_home_has_nothing_to_reset(home: Path, runtime: FakeRuntime) -> None:
    rows = [row.split("  ") for row in invoke("list").stdout.splitlines()]
    due = next(cell for cell in rows[0] if "next " in cell).strip().removeprefix("next ")
    assert due > f"{SystemClock().now().astimezone():%Y-%m-%d %H:%M}"
    assert "main/reset  skipped" in invoke("run").stdout
    assert [options.session for options in runtime.opened] == []


def test_what_is_overdue_is_not_next(home: Path, runtime: FakeRuntime) -> None:
    make_due(home)
    row = next(row for row in invoke("list").stdout.splitlines() if row.startswith("ask"))
    assert "  due since 20" in row


def test_list_as_json_in_the_users_zone(home: Path, runtime: FakeRuntime) -> None:
    with home.joinpath("config.yaml").open("a") as file:
        file.write("agents: {defaults: {timezone: Asia/Shanghai}}\n")
    invoke("run", "tell")
    _, _, _, ask, tell = json.loads(invoke("list", "--json").stdout)
    assert ask["nextDue"].endswith("+08:00")
    assert (ask["zone"], ask["session"], ask["last"]) == ("Asia/Shanghai", "agent:main:cron:ask", None)
    assert (tell["kind"], tell["enabled"], tell["nextDue"]) == ("event", False, None)
    assert (tell["last"]["due"], tell["last"]["status"]) == (None, "done")
    assert tell["last"]["started"].endswith("+08:00")


def test_a_job_by_name_runs_now_though_it_is_off(home: Path, runtime: FakeRuntime) -> None:
    done = invoke("run", "tell")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "很好\nand more\n", "")
    (options,) = runtime.opened
    assert (options.agent, options.session, options.approvals) == ("main", "agent:main:cron:tell", False)
    assert runtime.closed == 1
    assert "done" in invoke("list").stdout.splitlines()[4]


def test_a_job_by_name_as_json(home: Path, runtime: FakeRuntime) -> None:
    ran = json.loads(invoke("run", "ask", "--json").stdout)
    assert {name: ran[name] for name in ("name", "agent", "due", "status", "reply", "error")} == {
        "name": "ask", "agent": "main", "due": None, "status": "done", "reply": "很好\nand more", "error": "",
    }  # fmt: skip


def test_without_a_name_what_is_due_runs_once_with_a_line_for_each(home: Path, runtime: FakeRuntime) -> None:
    make_due(home)
    done = invoke("run")
    assert done.exit_code == 0
    (line,) = done.stdout.splitlines()
    assert line.startswith("main/ask  done  ")
    assert line.endswith("  很好")
    record = Ledger(home / "schedule.json").read()["main/ask"]
    assert record.due is not None
    assert record.due > at("2026-11-21T08:00")


def test_a_failure_is_exit_code_one(home: Path, runtime: FakeRuntime) -> None:
    make_due(home)
    runtime.says = ClawbotError("没有网络.", hint="Mend it.")
    done = invoke("run", "--json")
    assert done.exit_code == 1
    (ran,) = json.loads(done.stdout)
    assert (ran["status"], ran["error"]) == ("failed", "没有网络. Mend it.")
    assert ran["due"] is not None
    by_name = invoke("run", "ask")
    assert (by_name.exit_code, by_name.stdout) == (1, "")
    assert by_name.stderr == "clawbot: ask: failed: 没有网络. Mend it.\n"
    assert "failed: 没有网络. Mend it." in invoke("list").stdout


def test_nothing_to_do_is_no_failure(home: Path, runtime: FakeRuntime) -> None:
    runtime.says = JobSkippedError("HEARTBEAT.md holds no tasks")
    done = invoke("run", "heartbeat")
    assert (done.exit_code, done.stderr) == (0, "clawbot: heartbeat: skipped: HEARTBEAT.md holds no tasks\n")


def test_a_session_in_use_puts_off_what_is_due(home: Path, runtime: FakeRuntime) -> None:
    make_due(home)
    runtime.says = SessionLockedError("cron:ask", pid=1)
    done = invoke("run")
    assert done.exit_code == 0
    assert "main/ask  skipped" in done.stdout
    runtime.says = "now"
    assert "main/ask  done" in invoke("run").stdout
    runtime.says = SessionLockedError("cron:ask", pid=1)
    assert invoke("run", "ask").exit_code == 1


def test_a_ledger_that_can_not_be_read_is_told(home: Path, runtime: FakeRuntime) -> None:
    home.joinpath("schedule.json").write_text("torn")
    done = invoke("run")
    assert (done.exit_code, [line.partition("  ")[0] for line in done.stdout.splitlines()]) == (0, ["main/reset"])
    assert done.stderr.startswith("clawbot: The schedule's ledger could not be read and is schedule.json.bad now.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "aks"], "There is no job 'aks' (there are: reset, memory.dream, heartbeat, ask, tell)."),
        (["list", "--agent", "nobody"], "there is no agent 'nobody'"),
        (["list", "--config", "missing.yaml"], "missing.yaml: does not exist"),
    ],
)
def test_errors_are_one_line_and_exit_code_one(home: Path, arguments: list[str], said: str) -> None:
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reset_by_name_is_that_of_the_agent(home: Path, runtime: FakeRuntime) -> None:
    with home.joinpath("config.yaml").open("a") as file:
        file.write("agents: {work: {}}\n")
    invoke("run", "reset")
    invoke("run", "reset", "--agent", "work")
    assert [options.session for options in runtime.opened] == ["agent:main:main", "agent:work:main"]


def test_names_are_completed(home: Path) -> None:
    context = schedule.run.make_context("run", [], resilient_parsing=True)
    assert [item.value for item in job_names(context, schedule.run.params[0], "")] == [
        "reset",
        "memory.dream",
        "heartbeat",
        "ask",
        "tell",
    ]
    assert [item.value for item in job_names(context, schedule.run.params[0], "t")] == ["tell"]
    home.joinpath("config.yaml").write_text("schedule: 5\n")
    assert job_names(context, schedule.run.params[0], "") == []


def test_a_hook_that_fails_in_a_job_is_told_beside_the_reply(home: Path, runtime: FakeRuntime) -> None:
    runtime.says = ""
    runtime.tells = [
        Notice(level="warning", text="The hook plants failed at schedule:plants: no water"),
        Notice(level="info", text="watered"),
    ]
    result = invoke("run", "tell")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "clawbot: The hook plants failed at schedule:plants: no water\n"
