"""Run one command to its end: in its own process group, with bounded output and an environment without secrets.

Removed from the environment are also the ways in which a workspace file, which the model may write, could become
configuration, a program or a library of the next command. The names are in `environment.toml`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Self

from dotenv import dotenv_values
from msgspec import Struct

from clawbot.deadline import deadline
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_names import is_secret_variable
from clawbot.text.tables import packaged_table
from clawbot.tools.protocol import OnOutput

OnBytes = Callable[[bytes], None]


class _Variables(Struct, frozen=True, forbid_unknown_fields=True):
    quiet: dict[str, str]
    git_settings: dict[str, str]
    git_kept: str
    startup: str
    loaded: tuple[str, ...]


@cache
def _variables() -> _Variables:
    return packaged_table("clawbot.tools", "environment.toml", _Variables)


_GIT_NUMBERED = lazy_re(r"GIT_CONFIG_(COUNT|KEY_|VALUE_)")


class SecretNames:
    """The variables declared as keys by the user: those in `env_file`, and `key_variable` of the settings."""

    def __init__(self, env_file: Path, key_variable: str | None = None) -> None:
        self._env_file = env_file
        self._key_variable = key_variable

    def read(self) -> set[str]:
        """The current names: keys can be added while the program runs. Blocks; raises OSError."""
        named = dotenv_values(self._env_file, interpolate=False) if self._env_file.is_file() else {}
        return {*named, *([self._key_variable] if self._key_variable else [])}


def command_environment(environment: Mapping[str, str], secret: Collection[str], workspace: Path) -> dict[str, str]:
    """The environment of a command in `workspace`. Blocks.

    Removed are the variables in `secret`, those that are a secret by name or value, those that make a program start
    something, and git settings located in the workspace; nothing waits for a terminal.
    """
    root, variables = Path(os.path.realpath(workspace)), _variables()
    secret = {*secret, *(name for name, value in environment.items() if is_secret_variable(name, value))}
    if any(_GIT_NUMBERED.match(name) for name in secret):
        # Without one of them git refuses to start.
        secret |= {name for name in environment if _GIT_NUMBERED.match(name)}
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret
        and not re.fullmatch(variables.startup, name)
        and (not name.startswith("GIT_") or re.match(variables.git_kept, name))
    }
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])
    for name in variables.loaded:
        outside = [item for item in re.split("[: ]", kept.get(name, "")) if item and not is_below(root, item)]
        kept.pop(name, None)
        kept |= {name: ":".join(outside)} if outside else {}
    return kept | variables.quiet | _git_settings(kept) | _git_files(environment, root)


def search_path(value: str) -> str:
    """The PATH `value` without relative folders, which would be resolved in the workspace."""
    return os.pathsep.join(folder for folder in value.split(os.pathsep) if Path(folder).is_absolute())


def is_below(root: Path, path: str) -> bool:
    """Whether `path`, relative to the real folder `root` or absolute, is in that folder or equal to it. Blocks."""
    return Path(os.path.realpath(root / path)).is_relative_to(root)


def _git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the table appended to the git settings in the environment."""
    settings = _variables().git_settings
    first = whole_number(environment.get("GIT_CONFIG_COUNT", "")) or 0
    named = {
        f"GIT_CONFIG_{part}_{first + index}": text
        for index, setting in enumerate(settings.items())
        for part, text in zip(("KEY", "VALUE"), setting, strict=True)
    }
    return named | {"GIT_CONFIG_COUNT": str(first + len(settings))}


def _git_files(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """The machine's and user's git config files, if not the usual ones.

    Files in the workspace are ignored: with a home or dotfiles there, the model could configure programs.
    """
    home = environment.get("HOME", "")
    own = environment.get("GIT_CONFIG_GLOBAL")
    folder = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    usual = [f"{folder}/git/config", *([f"{home}/.gitconfig"] if home else [])]
    files = {}
    if any(is_below(root, path) for path in ([own] if own else usual)):
        files["GIT_CONFIG_GLOBAL"] = os.devnull
    elif own is not None:
        files["GIT_CONFIG_GLOBAL"] = own
    system = environment.get("GIT_CONFIG_SYSTEM")
    if system is not None and not is_below(root, system):
        files["GIT_CONFIG_SYSTEM"] = system
    return files


GRACE = 2.0  # seconds between SIGTERM and SIGKILL: enough for git to remove its lock file
# After the end: how long output is read from a process that left the group and holds the pipe.
DRAIN = 0.5
CHUNK = 65536
LIVE_EVERY = 0.1  # seconds between two calls of `on_output`
LIVE_CHARS = 4000  # at most of each, the last ones
_POLL = 0.002  # seconds; the end of a namespace takes some milliseconds
_MAX_INFO = 4096
_CHILD = re.compile(rb'"child-pid":\s*(\d{1,9})\b')
# The last of at least two numbers is that of a process in its own namespace.
_LEADER = re.compile(r"^State:\s+(?P<state>\w).*?^NSpid:(?:\s+\d+)+\s+1$", re.MULTILINE | re.DOTALL)


class Finished(Struct, frozen=True):
    """The end of a command: `code` as in subprocess (negative: the signal), `output` with `dropped` bytes omitted in
    the middle, and `timed_out`."""

    code: int
    head: str
    tail: str
    dropped: int
    timed_out: bool


class BoundedOutput:
    """Keeps the first and the last bytes of a stream, half of `limit` each."""

    def __init__(self, limit: int) -> None:
        self._room = max(limit // 2, 1)
        self._limit = self._room
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        taken = data[: self._room]
        self._head += taken
        self._room -= len(taken)
        rest = data[len(taken) :]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._limit:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self.dropped += len(gone)

    def parts(self) -> tuple[str, str]:
        """Start and end as text; the end is empty if nothing was dropped."""
        tail = b"".join(self._tail)
        self.dropped += max(len(tail) - self._limit, 0)
        tail = tail[-self._limit :]
        if not self.dropped:
            return (self._head + tail).decode(errors="replace"), ""
        while tail and 0x80 <= tail[0] < 0xC0:  # the rest of a character whose beginning was dropped
            tail = tail[1:]
            self.dropped += 1
        return self._head.decode(errors="replace").rstrip("\ufffd"), tail.decode(errors="replace")


class CommandLine(Struct, frozen=True):
    """A command to start: `argv` with `environment` and additional file `descriptors`. `info`: `argv` starts the parent
    of a process namespace (bwrap), which writes the number of its first process to this descriptor."""

    argv: list[str]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    info: int | None = None


class LiveOutput:
    """Reports output while a command runs: at most ten times a second, of too much only the end, and nothing after the
    end of this context."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def receive(self, data: bytes) -> None:
        self._text = (self._text + self._decoder.decode(data))[-LIVE_CHARS:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_EVERY, self._due)

    def _due(self) -> None:
        self._timer = None
        text, self._text = self._text, ""
        if text:
            self._on_output(text)


def _ignore(_data: bytes) -> None:
    """Nobody listens to a command."""


async def run_command(
    command: CommandLine,
    *,
    folder: Path,
    seconds: float,
    max_bytes: int,
    on_output: OnBytes = _ignore,
) -> Finished:
    """Run `command` in `folder`, without input, for at most `seconds`; `on_output` receives its output as it comes.

    stdout and stderr are combined. However it ends (by itself, timeout, cancellation), its process group is gone
    when this returns, and with a namespace all its processes. Raises OSError if it cannot be started.
    """
    output = BoundedOutput(max_bytes)
    # A pipe of our own: waiting for asyncio's would wait for every grandchild that holds it.
    reader, transport, write_end = await _open_pipe()
    try:
        try:
            process = await _start(command, folder, write_end)
        finally:
            os.close(write_end)
        reading = asyncio.create_task(_collect(reader, output, on_output))
        try:
            timed_out = await _wait(process, seconds, info=command.info)
            with contextlib.suppress(TimeoutError):
                async with deadline(DRAIN):
                    await asyncio.shield(reading)
        finally:
            reading.cancel()
    finally:
        transport.close()
    head, tail = output.parts()
    return Finished(process.returncode or 0, head, tail, output.dropped, timed_out)


async def _start(command: CommandLine, folder: Path, output: int) -> Process:
    """Start the command in a session of its own, without a terminal. A cancellation leaks no process."""
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command.argv,
            cwd=folder,
            env=dict(command.environment),
            pass_fds=command.descriptors,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _terminate(await starting, info=command.info)
        raise


async def _open_pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """A pipe: its reading end as a stream, the transport to close, and the writing end for the process."""
    read_end, write_end = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(read_end, "rb", 0)
        )
    except BaseException:
        os.close(write_end)
        raise
    return reader, transport, write_end


async def _collect(reader: asyncio.StreamReader, output: BoundedOutput, on_output: OnBytes) -> None:
    while data := await reader.read(CHUNK):
        output.add(data)
        on_output(data)


async def _wait(process: Process, seconds: float, *, info: int | None) -> bool:
    """Wait for the end of `process` and its group; returns whether the time limit stopped it."""
    try:
        # Not `wait_for`: that of Python 3.11 loses a cancellation that comes together with the end.
        async with deadline(seconds):
            await process.wait()
        return False
    except TimeoutError:
        await _terminate(process, info=info)
        return True
    except asyncio.CancelledError:
        await _terminate(process, info=info)
        raise
    finally:
        # Also after a normal end: kill its background processes.
        signal_group(process.pid, signal.SIGKILL)
        if info is not None:
            await asyncio.to_thread(_end_namespace, info)


async def _terminate(process: Process, *, info: int | None) -> None:
    """SIGTERM to the group, then SIGKILL to the rest.

    In a namespace the group gets SIGTERM, since the first process ignores it; killing the first one kills all others,
    including those that left the group. bwrap ends with it.
    """
    group = process.pid if info is None else _first_inside(info)
    signal_group(group or process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with deadline(GRACE):
            await process.wait()
    if group is not None and process.returncode is None:
        signal_group(group, signal.SIGKILL)
    else:
        signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def _end_namespace(info: int) -> None:
    """Kill the first process of a namespace and wait for its end, with which all others are gone. Blocks."""
    first = _first_inside(info)
    if first is not None and _leads_namespace(first):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(first, signal.SIGKILL)
        while _leads_namespace(first):
            time.sleep(_POLL)


def _first_inside(info: int) -> int | None:
    """The first process of a namespace, as reported by bwrap; None before there is one."""
    found = _CHILD.search(os.pread(info, _MAX_INFO, 0))
    return int(found[1]) if found else None


def _leads_namespace(pid: int) -> bool:
    """Whether `pid` is the living first process of a nested namespace. Its number may have been reused since."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    found = _LEADER.search(status)
    return found is not None and found["state"] not in "ZX"


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a process group, unless it is gone or belongs to another user now (sudo)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
