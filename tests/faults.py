"""Kills a process at any of its steps on the disk, so that tests can look at what each of them leaves behind, and waits
for the end of one that is nobody's child."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
_COUNTED = re.compile(r"<<(\d+) steps>>\s*\Z")

# Runs before the code, in its process. A new file is two moments: before it is there, and while it is still empty.
_PRELUDE = """
import builtins as _builtins, io as _io, os as _os, signal as _signal, sys as _sys, threading as _threading

class _Steps:
    def __init__(self, fatal):
        self.fatal, self.count, self.armed, self.lock = fatal, 0, False, _threading.Lock()

    def take(self):
        with self.lock:
            self.count += self.armed
            if self.armed and self.count == self.fatal:
                _os.kill(_os.getpid(), _signal.SIGKILL)

_steps = _Steps(int(_sys.argv.pop(1)))

def arm():
    _steps.armed = True

def _counted(call):
    def counted(*args, **kwargs):
        _steps.take()
        return call(*args, **kwargs)
    return counted

def _opening(call):
    def opening(path, flags, *args, **kwargs):
        if not flags & (_os.O_WRONLY | _os.O_RDWR):
            return call(path, flags, *args, **kwargs)
        _steps.take()
        there = _os.path.lexists(path)
        opened = call(path, flags, *args, **kwargs)
        if not there:
            _steps.take()
        return opened
    return opening

def _file_opening(call):
    def opening(file, mode="r", *args, **kwargs):
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return call(file, mode, *args, **kwargs)
        _steps.take()
        opened = call(file, mode, *args, **kwargs)
        _steps.take()
        return opened
    return opening

for _name in ("write", "pwrite", "fsync", "fdatasync", "rename", "replace", "link", "symlink", "unlink", "remove",
              "mkdir", "rmdir", "truncate", "ftruncate"):
    if hasattr(_os, _name):
        setattr(_os, _name, _counted(getattr(_os, _name)))
_os.open = _opening(_os.open)
_builtins.open = _io.open = _file_opening(_io.open)
"""
_EPILOGUE = """
assert _steps.armed, "the code never called arm()"
_sys.stdout.write(f"<<{_steps.count} steps>>")
"""

# Runs after the prelude, in one process: forks for each step, so that what the code imports is imported once.
_EVERYWHERE = """
def _each_step(code, place, into, every):
    import itertools, pathlib, shutil, traceback
    story = compile(code, "<code>", "exec")
    for step in itertools.count(1, every):
        home = shutil.copytree(place, pathlib.Path(into, f"step-{step:03}"), symlinks=True)
        child = _os.fork()
        if not child:
            try:
                _os.chdir(home)
                _os.environ["HOME"] = str(home)
                _steps.fatal = step
                exec(story, {"arm": arm})
                _os._exit(0 if _steps.armed else 3)
            except BaseException:
                traceback.print_exc()
                _sys.stderr.flush()
                _os._exit(1)
        status = _os.waitpid(child, 0)[1]
        if _os.WIFSIGNALED(status) and _os.WTERMSIG(status) == _signal.SIGKILL:
            continue
        _sys.stderr.write(f"step {step} ended with {status}")
        _sys.exit(_os.waitstatus_to_exitcode(status))
"""


def kill_at_each(imports: str, code: str, *, place: Path, into: Path, every: int = 1) -> list[Path]:
    """Run `code` in a copy of the folder `place`, killed at its first step, in the next copy at the second, and so on
    until it comes to its end; returns the copies, folders in `into`, the last one of them undisturbed. `every`: only at
    each so manieth step.

    Steps are those of `run_killed`. `imports` runs once and before: it starts no thread. Code that fails fails the
    test, with what it wrote to stderr.
    """
    into.mkdir()
    call = f"_each_step({textwrap.dedent(code)!r}, {str(place)!r}, {str(into)!r}, {every})"
    ended = _execute(f"{_PRELUDE}{_EVERYWHERE}{textwrap.dedent(imports)}\n{call}", 0, into, None)
    assert ended.returncode == 0, ended.stderr
    return sorted(into.iterdir())


def run_killed(code: str, step: int, *, cwd: Path, env: Mapping[str, str] | None = None) -> bool:
    """Run `code` in a Python process in `cwd`, and kill that (SIGKILL) at the step with this number, from 1.

    A step is a call that changes something on the disk, after the code called `arm()`; the process dies before the call
    is made. `env` is put over the environment, in which `cwd` is the home. Returns False when the code ended before it
    took so many steps. Code that fails fails the test, with what it wrote to stderr.
    """
    ended = _run(code, step, cwd, env)
    if ended.returncode == -signal.SIGKILL:
        return True
    assert ended.returncode == 0, ended.stderr
    return False


def count_steps(code: str, *, cwd: Path, env: Mapping[str, str] | None = None) -> int:
    """How many steps `code` takes when nobody kills it: `run_killed` is worth calling with 1 to this number."""
    ended = _run(code, 0, cwd, env)
    counted = _COUNTED.search(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert counted is not None, ended.stdout
    return int(counted[1])


def _run(code: str, step: int, cwd: Path, env: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    return _execute(_PRELUDE + textwrap.dedent(code) + _EPILOGUE, step, cwd, env)


def _execute(text: str, step: int, cwd: Path, env: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    own = {"HOME": str(cwd), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", text, str(step)],
        cwd=cwd,
        env={**os.environ, **own, **(env or {})},
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )


@asynccontextmanager
async def seen_to_end(pid: int) -> AsyncIterator[None]:
    """Leave the context only when the process `pid` has ended, whoever its parent is by then."""
    ended = asyncio.Event()
    watched = os.pidfd_open(pid)
    asyncio.get_running_loop().add_reader(watched, ended.set)
    try:
        yield
        await asyncio.wait_for(ended.wait(), 100)
    finally:
        asyncio.get_running_loop().remove_reader(watched)
        os.close(watched)
