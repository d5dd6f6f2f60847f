"""Whatever a handler does to its own process, the program lives, says what happened, and goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.config.schema_extensions import HookSettings
from clawbot.hooks import runners
from clawbot.hooks.codec import Handle, HookProcessReady, Log, encode_event, report_decoder
from clawbot.hooks.discovery import discover
from clawbot.hooks.loading import HookFailedError
from clawbot.hooks.runners import LINES
from clawbot.worker_pipe import encode_frame, read_frame
from tests.hooks.stage import Services, bootstrap, command, dispatching, places, settings, write_handler, write_hook

PID = (
    "import asyncio, os, subprocess, sys, time\nasync def handle(event):\n    await event.hook.tell(str(os.getpid()))\n"
)


def alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


ENDS = {
    "os._exit": ("os._exit(3)", "its process ended with status 3"),
    "signal": ("os.kill(os.getpid(), 11)", "its process was ended by SIGSEGV"),
    "exit in a task": ("asyncio.create_task(asyncio.to_thread(sys.exit, 5)); await asyncio.Event().wait()", "status 5"),
}


@pytest.mark.parametrize("kind", ENDS)
async def test_a_process_that_ends_is_told_and_the_next_event_starts_another(tmp_path: Path, kind: str) -> None:
    code, error = ENDS[kind]
    write_hook(tmp_path / "home", "bad", f"{PID}    if event.text == 'end':\n        {code}\n")
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command("end"), services)
        last = hooks.results["bad"]
        assert (last.status, error in last.error) == ("exited", True), last.error
        for _ in range(2):
            await hooks.run(command(), services)
            assert hooks.results["bad"].status == "ok"
    first, second, third = services.told
    assert first != second == third
    assert not alive(third)


async def test_a_loop_that_never_awaits_is_killed(tmp_path: Path) -> None:
    spinning = """    if event.text == 'spin':
        while True:
            time.sleep(0.01)
"""
    write_hook(tmp_path / "home", "spinner", PID + spinning)
    services = Services()
    async with dispatching(places(tmp_path), settings(spinner={"timeout": 0.5})) as hooks:
        await hooks.run(command("spin"), services)
        slow = hooks.results["spinner"]
        await hooks.run(command(), services)
        assert (slow.status, hooks.results["spinner"].status) == ("timeout", "ok")
        assert services.told[0] != services.told[1]


async def test_a_change_lets_later_work_of_the_old_process_come_to_its_end(tmp_path: Path) -> None:
    working = """
        import os
        async def handle(event):
            async def work():
                await event.hook.tell("begun")
                await event.hook.tell(f"done {os.getpid()}")
            event.hook.later(work())
        """
    folder = write_hook(tmp_path / "home", "worker", working)
    services, others = Services(), Services()
    services.gate.clear()
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), services)
        write_handler(folder, PID)
        await hooks.run(command(), others)
        await services.heard(1)
        services.gate.set()
        await hooks.settled()
        await hooks.close(60)
        assert hooks.results["worker"].status == "ok"
    begun, done = services.told
    assert (begun, done.partition(" ")[0]) == ("begun", "done")
    old = done.partition(" ")[2]
    assert old != others.told[0]
    assert not alive(old)


async def test_a_loop_that_never_awaits_does_not_outlive_its_cancelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "CANCEL_SECONDS", 0.05)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    spinning = f"""    if event.text == 'spin':
        open({str(fifo)!r}, "w").close()
        while True: pass
"""
    write_hook(tmp_path / "home", "spinner", PID + spinning)
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        running = asyncio.create_task(hooks.run(command("spin"), services))
        await asyncio.to_thread(fifo.read_text)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        cancelled = hooks.results["spinner"]
        await hooks.run(command(), services)
        assert (cancelled.status, hooks.results["spinner"].status) == ("cancelled", "ok")
        assert not alive(services.told[0])


async def test_another_event_in_a_process_that_is_killed_is_told_why(tmp_path: Path) -> None:
    handler = f"""{PID}
    if event.text == 'later':
        event.hook.later(asyncio.Event().wait())
    if event.text == 'wait':
        await asyncio.Event().wait()
    while event.text == 'spin':
        pass
"""
    write_hook(tmp_path / "home", "spinner", handler)
    (hook,) = discover(places(tmp_path), HookSettings())
    services, later = Services(), []
    running = runners.HookProcess(hook, lambda topic, error: later.append((topic, error)))
    await running.start()
    await running.handle(command("later"), services, {}, 60)
    waiting = asyncio.create_task(running.handle(command("wait"), services, {}, 60))
    await services.heard(2)
    with pytest.raises(HookFailedError) as slow:
        await running.handle(command("spin"), services, {}, 0.3)
    with pytest.raises(HookFailedError) as collateral:
        await waiting
    await running.close()
    assert (slow.value.status, collateral.value.status) == ("timeout", "exited")
    assert "was killed, since command:new took too long" in collateral.value.error
    assert [(topic, "before its later work was done" in error) for topic, error in later] == [("command:new", True)]
    assert not running.usable


async def test_what_a_handler_prints_goes_to_the_log_and_not_more_than_is_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import logging, os, subprocess, sys, warnings
        print("beim Laden")
        async def handle(event):
            print("你好", file=sys.stderr)
            os.write(1, b"raw \\xff\\n")
            subprocess.run(["sh", "-c", "echo child; cat"], check=True)
            event.hook.log.warning("own %s", "记录")
            logging.getLogger("their.library").error("foreign")
            warnings.warn("old things")
            print("x" * 3_000_000)
            for number in range(5_000):
                print("line", number)
                event.hook.log.info("record %d", number)
            event.files.append(event.files[0])
        """
    write_hook(tmp_path / "home", "chatty", handler)
    caplog.set_level(logging.INFO)
    async with dispatching(places(tmp_path)) as hooks:
        left = await hooks.run(bootstrap("A"), Services())
        assert len(left.files) == 2
    records = [(record.levelname, record.getMessage()) for record in caplog.records if "chatty" in record.name]
    texts = {text for _, text in records}
    assert {"beim Laden", "你好", "raw \\xff", "child", "their.library: foreign"} <= texts
    assert ("WARNING", "own 记录") in records
    assert any("old things" in text for text in texts)
    assert f"more than {LINES} lines were printed; the rest is not logged" in texts
    assert len(records) < 1_000
    assert max(map(len, texts)) < 20_000


async def test_an_answer_that_is_too_large_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hook(tmp_path / "home", "huge", "async def handle(event): event.files[0].text = 'x' * 70_000_000\n")
    async with dispatching(places(tmp_path)) as hooks:
        left = await hooks.run(bootstrap("A"), Services())
        assert left.files[0].text == "text of A"
        assert "more than can be sent" in hooks.results["huge"].error


async def test_a_stream_out_of_step_ends_the_process(tmp_path: Path) -> None:
    handler = """
        import os
        async def handle(event):
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b"\\xff" * 64)
                except OSError:
                    pass
        """
    write_hook(tmp_path / "home", "vandal", handler)
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), Services())
        assert hooks.results["vandal"].status == "exited"


async def test_the_programs_own_mistakes_are_not_spread_out_before_a_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_hook(tmp_path / "home", "greeter", "async def handle(event): await event.hook.run('', session='broken')\n")
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), Services())
        assert hooks.results["greeter"].error == "run failed: RuntimeError"
    assert "nobody's business" in caplog.text


async def test_threads_and_variables_of_the_entry(tmp_path: Path) -> None:
    handler = """
        import asyncio, os, threading, time
        async def handle(event):
            threading.Thread(target=lambda: time.sleep(600)).start()
            await event.hook.tell(os.environ["GREETING"] + os.environ["HOME"])
        """
    write_hook(tmp_path / "home", "threads", handler)
    services = Services()
    async with dispatching(places(tmp_path), settings(threads={"env": {"GREETING": "你好"}})) as hooks:
        await hooks.run(command(), services)
        await hooks.close(0)
    assert services.told == ["你好" + os.environ["HOME"]]


async def test_nothing_in_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("msgspec.py").write_text("raise SystemExit('from here')")
    write_hook(tmp_path / "home", "greeter", "async def handle(event): pass\n")
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), Services())
        assert hooks.results["greeter"].status == "ok"


async def test_a_process_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hook(tmp_path / "home", "greeter", "async def handle(event): pass\n")
    async with dispatching(places(tmp_path)) as hooks:
        for command_line, error in (
            (("/no/such/python",), "could not be started"),
            (("false",), "ended with status 1"),
        ):
            monkeypatch.setattr(runners, "module_command", lambda *_, line=command_line: line)
            await hooks.run(command(), Services())
            assert (hooks.results["greeter"].status, error in hooks.results["greeter"].error) == ("exited", True)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a hook that loops for ever, told to handle an event."""
    folder = write_hook(
        tmp_path, "spinner", "async def handle(event):\n    event.hook.log.info('on')\n    while True: pass"
    )
    line = [sys.executable, "-P", "-m", "clawbot.hooks.worker", str(folder), "spinner", ""]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        yield running
        running.kill()


def test_a_process_ends_with_the_program_even_in_a_loop_that_never_awaits(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(encode_frame(Handle(1, encode_event(command()), {})))
    worker.stdin.flush()
    reports = [report_decoder.decode(read_frame(worker.stdout) or b"") for _ in range(2)]
    assert reports == [HookProcessReady(), Log(logging.INFO, "on")]
    worker.stdin.close()
    assert worker.wait(timeout=60) == 0


def test_the_worker_imports_little() -> None:
    code = "import sys, clawbot.hooks.worker; print({name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "msgspec" in done.stdout
    assert not [name for name in ("pydantic", "yaml", "litellm", "numpy", "httpx") if f"'{name}'" in done.stdout]
