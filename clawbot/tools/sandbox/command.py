"""The sandbox of one agent: whether there is one, what it promises, and a command put into it, with limits that can't
be raised from inside."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from clawbot.config.schema_agent import LimitSettings, ShellSettings
from clawbot.text.interface import _
from clawbot.text.patterns import lazy_re
from clawbot.tools.paths import Fence
from clawbot.tools.process import CommandLine, Finished
from clawbot.tools.protocol import ToolError
from clawbot.tools.sandbox.bwrap import Backend, Missing, bubblewrap_arguments, hidden_files, probe, seatbelt_profile
from clawbot.tools.sandbox.mounts import SCRATCH, Contents, by_custom
from clawbot.tools.sandbox.policy import Reach, SandboxView, sandbox_view
from clawbot.tools.sandbox.recovery import PutRight, journal

_KILOBYTE = 1024
# What POSIX counts sizes of files in.
_BLOCK = 512


def limited(shell: str, command: str, limits: LimitSettings) -> list[str]:
    """The command line that runs `command` with `shell` under `limits`, as far as no lower ones hold already."""
    orders = [f"ulimit {order} 2>/dev/null" for order in _orders(Path(shell).name == "bash", limits)]
    return [shell, "-c", "; ".join([*orders, f'exec {shlex.quote(shell)} -c "$1"']), shell, command]


def _orders(is_bash: bool, limits: LimitSettings) -> list[str]:
    """No core dumps: a dump holds whatever the program knew. Memory is what a process fills itself (RLIMIT_DATA):
    programs reserve many times the addresses that they use."""
    orders = ["-c 0"]
    if limits.processes is not None:
        # Linux counts the processes of the sandbox alone, as it has users of its own.
        orders.append(f"{'-u' if is_bash else '-p'} {limits.processes}")
    if limits.memory is not None:
        orders.append(f"-d {limits.memory // _KILOBYTE}")
    if limits.file_size is not None:
        orders.append(f"-f {limits.file_size // (_KILOBYTE if is_bash else _BLOCK)}")
    return orders


# The error of bubblewrap for a path that is gone.
_GONE = lazy_re(
    r"bwrap: Can't (?:(?:mkdir parents for|create file at|find source path|mkdir) [^\n]*"
    r"|bind mount [^\n]*: No such file or directory)\n?"
)
# What bubblewrap and the limit for open files of most systems have room for.
MAX_MOUNTS = 2_000
MAX_HIDDEN_FILES = 500


class Enclosed(Struct, frozen=True):
    """A `command` that is ready to be started. `made` is filled when it has ended, with what it made where commands
    must not. `outer` are stores of the workspace's repository that it can't write to."""

    command: CommandLine
    made: list[PutRight]
    outer: tuple[str, ...] = ()


class Sandbox:
    """The sandbox of the agent with `workspace`, probed once; `state` is clawbot's own folder, which is hidden."""

    def __init__(self, workspace: Path, settings: ShellSettings, state: Path) -> None:
        self._workspace = workspace
        self._state = state
        self._settings = settings
        self._found: Backend | Missing | None = None
        self._notified = settings.sandbox == "off"
        self._known = Contents()

    async def backend(self) -> Backend | Missing:
        """What the system offers; `Missing` also where the settings want none."""
        if self._found is None:
            if self._settings.sandbox == "off":
                self._found = Missing("tools.shell.sandbox is off", "set it to auto")
            else:
                self._found = await probe()
        return self._found

    def notice(self, found: Backend | Missing) -> str:
        """The notice about a missing sandbox, once in the life of the program; else ""."""
        if isinstance(found, Backend) or self._notified:
            return ""
        self._notified = True
        return _(
            "Commands run without a sandbox: {reason}. To have one: {remedy} "
            "(`clawbot doctor` looks again; tools.shell.sandbox: off in the config ends this notice)."
        ).format(reason=found.reason, remedy=found.remedy)

    @asynccontextmanager
    async def enclose(
        self,
        shell: str,
        command: str,
        environment: Mapping[str, str],
        *,
        fence: Fence,
        network: bool,
        git: bool,
        patience: float,
    ) -> AsyncIterator[Enclosed]:
        """`command`, ready to be started with `shell`, in the sandbox if there is one. When the context is left,
        the command has ended. `fence` is that of the file tools; with `git` git may change its own settings. Raises
        ToolError where there is too much to be hidden, or another command runs in the workspace for longer than
        `patience` seconds, and OSError."""
        backend = await self.backend()
        if isinstance(backend, Missing):
            yield Enclosed(CommandLine([shell, "-c", command], environment), [])
            return
        async with journal(self._state, self._workspace, patience) as record:
            view = await asyncio.to_thread(self._view, fence, git)
            inner = limited(shell, command, self._settings.limits)
            kept = {name: value for name, value in environment.items() if name not in by_custom().socket_variables}
            kept["TMPDIR"] = SCRATCH
            made = [record.found] if record.found else []
            nested = backend.kind == "bubblewrap"
            empty = _nothing(hidden_files(view.mounts)) if nested else ()
            info = _memory_file("namespace") if nested else None
            descriptors = (*empty, *([] if info is None else [info]))
            try:
                argv = self._wrap(backend, view, empty, info, network)
                await asyncio.to_thread(record.record, view.watched)
                ready = CommandLine([*argv, *inner], kept, descriptors, info)
                yield Enclosed(ready, made, view.outer)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
                made.append(await asyncio.shield(asyncio.to_thread(record.put_right, view.watched)))

    def _view(self, fence: Fence, git: bool) -> SandboxView:
        reach = Reach(
            workspace=self._workspace,
            home=Path.home(),
            state=self._state,
            fence=fence,
            settings=self._settings,
            known=self._known,
            git=git,
        )
        view = sandbox_view(reach)
        # What was hidden once is hidden for good, whatever a command does to prevent that it is found.
        self._known = view.known
        if view.folder in view.known.shut:
            raise ToolError(f"Not run: the workspace can't be read. For the user: chmod u+rwx {view.folder}")
        if view.known.beyond:
            raise ToolError(
                f"Not run: {view.folder}, with the other writable folders, has more than "
                f"{self._settings.sandbox_folders:,} folders, and those from {view.known.beyond} on were not searched "
                "for what has to be hidden and guarded.",
                hint="For the user: raise tools.shell.sandbox_folders, move or remove folders, or set "
                "tools.shell.sandbox: off.",
            )
        if len(view.mounts) > MAX_MOUNTS or hidden_files(view.mounts) > MAX_HIDDEN_FILES:
            raise ToolError(
                f"Not run: in {view.folder} there are more than {MAX_HIDDEN_FILES} files with variables (.env) or "
                f"{MAX_MOUNTS:,} paths that commands must not change.",
                hint="The user has to remove some: they can't be hidden from commands all at once.",
            )
        return view

    def _wrap(
        self, backend: Backend, view: SandboxView, empty: tuple[int, ...], info: int | None, network: bool
    ) -> list[str]:
        if info is None:
            return [backend.program, "-p", seatbelt_profile(view.mounts, network=network)]
        return [
            backend.program,
            *bubblewrap_arguments(
                view.mounts,
                folder=view.folder,
                network=network,
                nesting_off=backend.nesting_off,
                scratch_bytes=self._settings.limits.scratch,
                empty=empty,
                info=info,
            ),
        ]


def _nothing(count: int) -> tuple[int, ...]:
    """So many descriptors with nothing to read. Raises OSError, with none left open."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(count))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return tuple(opened)


def reach_text(*, network: bool, git: bool) -> str:
    """What a command in the sandbox can touch, for the question to the user."""
    writes = _("in the workspace, there git's settings as well") if git else _("in the workspace")
    text = _("Sandboxed: it writes only {writes}, has no network, and sees none of your keys.")
    if network:
        text = _("Sandboxed: it writes only {writes}, has the network, and sees none of your keys.")
    return text.format(writes=writes)


def explained(output: str, failed: bool, *, network: bool, outer: Sequence[str] = ()) -> str:
    """The note for the model after the `output` of a command that failed possibly by the sandbox; else "". `outer` are
    stores of the workspace's repository that commands can't write to."""
    table = by_custom().explanations
    is_stopped = failed and re.search(table.stopped, output)
    if is_stopped and any(store in output for store in outer):
        return table.outer_store.format(store=outer[0])
    for cause in table.causes if failed else ():
        if re.search(cause.output, output, re.MULTILINE):
            return cause.text
    return table.usual.format(network="" if network else table.no_network) if is_stopped else ""


def was_never_started(finished: Finished) -> bool:
    """Whether bubblewrap failed, with one line, because a path to mount, such as a socket of a server, had gone."""
    return finished.code == 1 and _GONE.fullmatch(finished.head) is not None


def changes_text(made: list[PutRight]) -> str:
    """Message to the model about files created where commands must not; "" if there are none."""
    parts = []
    if moved := [path for one in made for path in one.moved]:
        parts.append(
            f"[Commands don't make or change these, so they were moved aside: {', '.join(moved)}. Change instruction "
            "files with the tool edit.]"
        )
    if stuck := [path for one in made for path in one.stuck]:
        parts.append(f"[Changed where commands must not, and not restored; ask the user to check: {', '.join(stuck)}]")
    return "\n".join(parts)


def _memory_file(name: str) -> int:
    """The descriptor of a file that is nowhere: only bubblewrap needs one, so only Linux."""
    if sys.platform != "linux":
        raise NotImplementedError("only Linux has files in memory")
    return os.memfd_create(name)
