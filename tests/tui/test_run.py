"""The end of the screen: a crash says one line and names the log, an error of the start comes out whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clawbot.tui.run import FINISHING, SAVING

SCRIPT = """
import sys
import termios
from clawbot.errors import ClawbotError
from clawbot.tui.run import run_chat

async def open_runtime():
    raise {error}

try:
    sys.exit(run_chat(open_runtime))
except ClawbotError as error:
    print("told:", error, file=sys.stderr)
    sys.exit(1)
"""


SIGNALLED = """
import os
import signal
import sys
from pathlib import Path
from clawbot.tui.run import run_chat
from tests.tui.fake_runtime import FakeRuntime

class Runtime(FakeRuntime):
    async def gate(self, name):
        if name == "history":
            os.kill(os.getpid(), signal.{name})

    will_flush = True

    async def close(self, *, hasty=False):
        print("closed in haste" if hasty else "closed")

async def open_runtime():
    return Runtime(Path.cwd())

sys.exit(run_chat(open_runtime))
"""


SAVES = """
import asyncio
import os
import signal
import sys
from pathlib import Path
from clawbot.tui.run import run_chat
from tests.tui.fake_runtime import FakeRuntime

class Runtime(FakeRuntime):
    def __init__(self, home):
        super().__init__(home)
        self.will_flush = {will_flush}

    async def gate(self, name):
        if name == "history":
            app.exit()

    async def close(self, *, hasty=False):
        try:
            {saving}
            print("saved")
        finally:
            print("let go")

async def open_runtime():
    from textual._context import active_app
    global app
    app = active_app.get()
    return Runtime(Path.cwd())

sys.exit(run_chat(open_runtime))
"""


def run(error: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return run_script(SCRIPT.format(error=error), tmp_path)


def run_script(text: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver"}
    script = tmp_path / "start.py"
    script.write_text(text)
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, str(script)],
        env={**environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
        # A shell starts what runs in the background without Ctrl+C, and so would be the suite and its children.
        preexec_fn=_with_interrupts,
    )


def _with_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_crash_says_one_line_and_where_the_log_is(tmp_path: Path) -> None:
    done = run("RuntimeError('boom\\nsecond line')", tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("clawbot: the screen crashed (RuntimeError: boom). The log tells more: ")
    assert last.endswith("clawbot.log")


@pytest.mark.long
def test_an_error_of_the_start_reaches_the_caller(tmp_path: Path) -> None:
    done = run("ClawbotError('The session is open elsewhere.', hint='Use --new.')", tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip() == "told: The session is open elsewhere. Use --new."


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_an_end_from_outside_closes_the_session(number: signal.Signals, tmp_path: Path) -> None:
    done = run_script(SIGNALLED.format(name=number.name), tmp_path)
    assert (done.returncode, done.stdout) == (128 + number, "closed in haste\n"), done.stderr
    assert SAVING not in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(("will_flush", "told"), [(True, f"{SAVING}\n"), (False, "")])
def test_leaving_says_that_memory_is_saved(will_flush: bool, told: str, tmp_path: Path) -> None:
    done = run_script(SAVES.format(will_flush=will_flush, saving="await asyncio.sleep(0)"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "saved\nlet go\n", told)


@pytest.mark.long
def test_a_closing_that_takes_its_time_says_that_it_waits_for_the_hooks(tmp_path: Path) -> None:
    waits = "told = asyncio.Event(); sys.stderr.flush = told.set; await told.wait()"
    done = run_script(SAVES.format(will_flush=False, saving=waits), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "saved\nlet go\n", f"{FINISHING}\n")


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_ctrl_c_ends_the_wait_for_memory(number: signal.Signals, code: int, tmp_path: Path) -> None:
    saving = f"os.kill(os.getpid(), {number:d}); await asyncio.Event().wait()"
    done = run_script(SAVES.format(will_flush=True, saving=saving), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "let go\n", f"{SAVING}\n")


def failing(error: str, tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """A chat whose closing raises `error`, and its log."""
    log = tmp_path / "log"
    saving = f"import logging; logging.basicConfig(filename={str(log)!r}); raise {error}"
    done = run_script(SAVES.format(will_flush=False, saving=saving), tmp_path)
    return done, log.read_text()


def test_a_closing_that_fails_says_one_line_and_where_the_log_is(tmp_path: Path) -> None:
    done, log = failing("OSError('no room\\nsecond line')", tmp_path)
    assert (done.returncode, done.stdout) == (1, "let go\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "clawbot: the conversation could not be closed as usual (OSError: no room). The log tells more: "
    )
    assert line.endswith("clawbot.log")
    assert "The session could not be closed." in log
    assert "Traceback" in log


@pytest.mark.long
def test_an_error_of_the_closing_that_has_words_reaches_the_caller(tmp_path: Path) -> None:
    done, log = failing("__import__('clawbot.errors').errors.ClawbotError('The disk is full.')", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("ClawbotError: The disk is full.\n")
    assert "could not be closed as usual" not in done.stderr
    assert "The disk is full." in log


@pytest.mark.few(1)
@pytest.mark.parametrize("module", ["clawbot.tui.run", "clawbot.tui.app"])
def test_the_first_paint_imports_nothing_heavy(module: str) -> None:
    heavy: tuple[str, ...] = (
        "litellm",
        "pydantic",
        "apsw",
        "yaml",
        "pygments",
        "markdown_it",
        "rich.markdown",
        "clawbot.runtime",
    )
    heavy += ("clawbot.context", "clawbot.importing", "clawbot.text.copies", "textual.drivers.web_driver", "calendar")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_entry_does_not_import_the_screen_before_it_keeps_the_keys() -> None:
    code = "import sys, clawbot.tui.run; print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
