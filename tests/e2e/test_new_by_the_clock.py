"""Sessions that end by the clock in real processes: on the days when clocks change, after a pause, and never in the
middle of a turn."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.agent.keeping_house import Note, notes_in
from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

DRIVER = str(Path(__file__).with_name("clock_driver.py"))
PATIENCE = 45  # seconds


@dataclass
class Clock:
    """The clock of a machine, and the programs that go by it."""

    machine: Machine
    file: Path

    def set(self, moment: str) -> None:
        """Let it be `moment` (ISO 8601) from now on, for all programs."""
        part = self.file.with_suffix(".part-of-test")
        part.write_text(moment, "ascii")
        part.replace(self.file)

    def set_and_look(self, moment: str) -> None:
        """The same; wait until the open chat looked at the schedule since."""
        self.set(moment)
        told = self.file.with_suffix(".looked")
        deadline = time.monotonic() + PATIENCE
        while not told.exists() or told.read_text("ascii") != moment:
            assert time.monotonic() < deadline, f"nobody looked at {moment}"
            time.sleep(0.02)

    def open(self, *arguments: str) -> Terminal:
        """Open the chat in a terminal."""
        log = self.machine.state / "logs" / "clawbot.log"
        argv = [sys.executable, DRIVER, str(self.file), *arguments]
        return self.machine.stack.enter_context(Terminal(argv, env=self.machine.env, cwd=self.machine.folder, log=log))

    def say(self, text: str) -> str:
        """What one turn without a screen answers."""
        argv = [sys.executable, DRIVER, str(self.file), "chat", "-p", text]
        done = subprocess.run(
            argv,
            env=self.machine.env,
            cwd=self.machine.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def clock(machine: Machine, tmp_path: Path) -> Clock:
    return Clock(machine, tmp_path / "clock")


def configure(machine: Machine, reset: str, model: str = "model: offline") -> None:
    machine.configure(f"agents: {{defaults: {{{model}, timezone: Europe/Berlin}}}}\nsession: {{reset: {{{reset}}}}}\n")


def sessions(machine: Machine) -> int:
    return len(list((machine.state / "agents/main/sessions").glob("*.jsonl")))


def only_note(machine: Machine) -> tuple[Note, str]:
    """The one note, and its text."""
    [note] = notes_in(machine.workspace)
    return note, (machine.workspace / "memory" / note.name).read_text("utf-8")


SPRING, AUTUMN = "2026-03-29", "2026-10-25"
BOUNDARIES = [
    # Berlin goes from 02:00 to 03:00: 04:00 is 02:00 UTC; 02:30 is never shown, and counts as soon as it is passed.
    (SPRING, "04:00", "01:59:59", "02:00:00"),
    (SPRING, "02:30", "00:59:59", "01:00:00"),
    # Berlin goes from 03:00 back to 02:00: 04:00 is 03:00 UTC; 02:30 is shown twice, and the first time counts.
    (AUTUMN, "04:00", "02:59:59", "03:00:00"),
    (AUTUMN, "02:30", "00:29:59", "00:30:00"),
]


@pytest.mark.parametrize(("day", "at", "before", "boundary"), BOUNDARIES)
def test_an_open_chat_turns_over_once_on_a_day_when_clocks_change(
    day: str, at: str, before: str, boundary: str, machine: Machine, clock: Clock
) -> None:
    configure(machine, f'mode: daily, at: "{at}"')
    eve = datetime.fromisoformat(f"{day}T19:00:00+00:00") - timedelta(days=1)
    clock.set(eve.isoformat())
    chat = clock.open()
    chat.wait_for("offline")
    chat.send("remember that the harbour 在七点 opens", "enter")
    chat.wait_for(lambda text: "memory/" in text and "esc stops" not in text)
    clock.set_and_look(f"{day}T{before}+00:00")
    assert sessions(machine) == 1
    assert notes_in(machine.workspace) == []
    clock.set(f"{day}T{boundary}+00:00")
    chat.wait_for(lambda text: "new day, new conversation" in text and "kept: memory/" in text)
    for moment in (
        f"{day}T{before}+00:00",
        f"{day}T{boundary}+00:00",
        f"{day}T01:30:00+00:00",
        f"{day}T05:00:00+00:00",
    ):
        clock.set_and_look(moment)
    assert sessions(machine) == 2
    note, text = only_note(machine)
    assert note.name.startswith(f"{eve:%Y-%m-%d}-")
    assert f"# Session: {eve:%Y-%m-%d} 2" in text
    assert note.said[0] == ("user", "remember that the harbour 在七点 opens")
    assert "- **Reason**: daily\n" in text
    assert chat.text.count("new day") == 1
    chat.send("ctrl+d")
    chat.wait_end()


def test_a_program_that_was_not_there_at_the_boundary_turns_over_with_the_next_message(
    machine: Machine, clock: Clock
) -> None:
    configure(machine, "mode: daily")
    clock.set(f"{SPRING}T01:30:00+00:00")
    clock.say("remember that the harbour 在七点 opens")
    clock.set(f"{SPRING}T01:59:59+00:00")
    clock.say("what opens?")
    assert sessions(machine) == 1
    clock.set(f"{SPRING}T02:00:01+00:00")
    clock.say("good morning")
    clock.say("and now?")
    assert sessions(machine) == 2
    note, text = only_note(machine)
    assert [said for role, said in note.said if role == "user"] == [
        "remember that the harbour 在七点 opens",
        "what opens?",
    ]
    assert f"# Session: {SPRING} 03:30–03:59 (Europe/Berlin)" in text


def test_an_idle_session_turns_over_and_figures_keep_none_alive(machine: Machine, clock: Clock) -> None:
    configure(machine, "mode: idle, idle_minutes: 30")
    clock.set(f"{SPRING}T10:00:00+00:00")
    chat = clock.open()
    chat.wait_for("offline")
    chat.send("remember that the harbour 在七点 opens", "enter")
    chat.wait_for(lambda text: "memory/" in text and "esc stops" not in text)
    clock.set_and_look(f"{SPRING}T10:29:00+00:00")
    chat.send("/status", "enter")
    chat.wait_for("memory file")
    clock.set_and_look(f"{SPRING}T10:30:00+00:00")
    assert sessions(machine) == 1
    clock.set(f"{SPRING}T10:30:01+00:00")
    chat.wait_for(lambda text: "new conversation after 30 quiet minutes" in text and "kept: memory/" in text)
    clock.set_and_look(f"{SPRING}T23:00:00+00:00")
    assert sessions(machine) == 2
    assert "- **Reason**: idle\n" in only_note(machine)[1]
    chat.send("ctrl+d")
    chat.wait_end()


SLOW = """
turns:
  - expect: {model: other}
    reply: {tool_calls: [{name: shell, arguments: {command: "true"}}]}
  - expect: {tool_result: {matches: ".*"}}
    reply: The harbour is open.
  - expect: {user: "<conversation>"}
    reply: harbour
  - expect: {model: other, user: good morning}
    reply: Morning.
  - expect: {model: other, user: and later}
    reply: Still me.
"""


def test_a_turn_that_runs_ends_first_and_the_model_that_was_chosen_stays(
    machine: Machine, clock: Clock, script: Callable[[str], Path]
) -> None:
    url = machine.serve(script(SLOW))
    configure(machine, "mode: daily", f"model: openai/scripted, api_base: '{url}', api_key: test-key-123456")
    clock.set(f"{SPRING}T01:00:00+00:00")
    chat = clock.open()
    chat.wait_for("openai/scripted")
    chat.send("/model openai/other", "enter")
    chat.wait_for("openai/other answers")
    chat.send("is the harbour open?", "enter")
    chat.wait_for("once")
    clock.set_and_look(f"{SPRING}T02:30:00+00:00")
    assert sessions(machine) == 1
    chat.press_until("y", "The harbour is open.")
    shown = chat.wait_for(lambda text: "memory/2026-03-29-harbour.md" in text and "new day, new conv" in text)
    assert shown.index("The harbour is open.") < shown.index("new day")
    note, _ = only_note(machine)
    assert note.said == (("user", "is the harbour open?"), ("assistant", "The harbour is open."))
    chat.send("good morning", "enter")
    chat.wait_for(lambda text: "Morning." in text and "esc stops" not in text)
    assert "openai/other" in chat.text.splitlines()[0]
    chat.send("ctrl+d")
    chat.wait_end()
    assert clock.say("and later?") == "Still me.\n"
