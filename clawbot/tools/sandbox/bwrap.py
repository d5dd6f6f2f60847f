"""The sandbox programs: whether one works here, tried with a command that does nothing, and their arguments.

Bubblewrap takes a command line, macOS's Seatbelt a profile, both pure functions of the mounts. The profile is written
from Apple's own and what other agents do with them; it is held as text by tests and was never tried on a Mac.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.tools.process import CommandLine, run_command
from clawbot.tools.sandbox.mounts import SHARED_MEMORY, Mount, by_custom

# Own processes, messages, names and users; no privileges, and no way to new ones.
NAMESPACES = [
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent",
    "--new-session", "--cap-drop", "ALL",
]  # fmt: skip
# Since 0.8: a namespace of one's own exposes parts of the kernel that are seldom reviewed.
NO_NESTING = "--disable-userns"
# A folder that can be passed through, to what is open below it, but neither listed nor read.
_CLOSED = "0111"


def bubblewrap_arguments(
    mounts: Sequence[Mount],
    *,
    folder: str,
    network: bool,
    nesting_off: bool,
    scratch_bytes: int,
    empty: Iterable[int],
    info: int | None = None,
) -> list[str]:
    """The arguments of bwrap up to the command, which starts in `folder`.

    `mounts` are arranged. `scratch_bytes` is how much /tmp and /dev/shm hold each. `empty` yields a file descriptor
    with nothing to read for each hidden file; bwrap writes the number of the first process inside to `info`. Everything
    else of the disk can be read.

    /proc is mounted read-only: for root, the kernel's settings belong to whoever has the user id 0, capabilities or
    not, and a core pattern is a program that runs outside.
    """
    descriptors = iter(empty)
    size = str(scratch_bytes)
    result = [*NAMESPACES]
    result += [] if info is None else ["--info-fd", str(info)]
    result += [NO_NESTING] if nesting_off else []
    result += [] if network else ["--unshare-net"]
    result += ["--ro-bind", "/", "/"]
    if mounts and mounts[0].path == "/":
        result += _mount(mounts[0], size, descriptors)
        mounts = mounts[1:]
    result += ["--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", SHARED_MEMORY, "--proc", "/proc"]
    for mount in mounts:
        result += _mount(mount, size, descriptors)
    # Writable only until the mounts below it exist.
    closed = [mount.path for mount in mounts if mount.access == "empty" or (mount.access == "hidden" and mount.folder)]
    for path in ("/proc", "/dev", *closed):
        result += ["--remount-ro", path]
    return [*result, "--chdir", folder, "--"]


def hidden_files(mounts: Iterable[Mount]) -> int:
    """For how many of `mounts` a file descriptor is needed."""
    return sum(mount.access == "hidden" and not mount.folder for mount in mounts)


def _mount(mount: Mount, size: str, empty: Iterator[int]) -> list[str]:
    match mount.access:
        case "write" | "owned":
            return ["--bind", mount.path, mount.path]
        case "read":
            return ["--ro-bind", mount.path, mount.path]
        case "scratch":
            return ["--size", size, "--perms", "1777", "--tmpfs", mount.path]
        case "empty":
            return ["--perms", "0755", "--tmpfs", mount.path]
        case "hidden":
            if mount.folder:
                return ["--perms", _CLOSED, "--tmpfs", mount.path]
            return ["--ro-bind-data", str(next(empty)), mount.path]


SEATBELT = "/usr/bin/sandbox-exec"


def seatbelt_profile(mounts: Sequence[Mount], *, network: bool) -> str:
    """The profile for `mounts`, which are arranged: of rules that fit the last one counts, so the innermost does."""
    lines = [by_custom().seatbelt.strip()]
    for mount in mounts:
        lines += _rules(mount)
    if not network:
        # Unix sockets too: an agent or a server would do what the command can't.
        lines.append("(deny network*)")
    return "\n".join(lines) + "\n"


def _rules(mount: Mount) -> list[str]:
    where = f"({'subpath' if mount.folder else 'literal'} {_quoted(mount.path)})"
    match mount.access:
        case "write" | "owned" | "scratch":
            return [f"(allow file-read* file-write* {where})"]
        case "read":
            # Renamed away, another file could replace it.
            return [f"(allow file-read* {where})", f"(deny file-write* {where})"]
        case "hidden":
            return [f"(deny file-read* file-write* {where})", f"(allow file-read-metadata {where})"]
        case "empty":
            return []


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Not $PATH: a folder in it may be one that a command can write to.
PROGRAM_FOLDERS = "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/opt/homebrew/bin"
PATIENCE = 10.0  # seconds; it takes some milliseconds
MAX_BYTES = 1000  # bytes of the output of a failing one
_OS_RELEASE = Path("/etc/os-release")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")

# Why a command line fails, on one line; "" when it does not.
Failure = Callable[[list[str]], Awaitable[str]]


class Backend(Struct, frozen=True):
    """The sandbox `program` of the system. `nesting_off`: it can forbid namespaces inside."""

    kind: Literal["bubblewrap", "seatbelt"]
    program: str
    nesting_off: bool = False


class Missing(Struct, frozen=True):
    """Why there is no sandbox, and the command or step that changes that."""

    reason: str
    remedy: str


async def probe(platform: str = sys.platform) -> Backend | Missing:
    """What this system offers."""
    await asyncio.to_thread(by_custom)  # read once, and not on the event loop
    if platform == "darwin":
        return await probe_seatbelt(failure_of)
    if platform.startswith("linux"):
        program = await asyncio.to_thread(shutil.which, "bwrap", path=PROGRAM_FOLDERS)
        return await probe_bubblewrap(program, failure_of)
    return Missing(f"there is none for {platform}", "run clawbot on Linux, in WSL, or on macOS")


async def probe_bubblewrap(program: str | None, failure: Failure) -> Backend | Missing:
    """What the bwrap at `program` offers, where `failure` tries it."""
    if program is None:
        return Missing("bubblewrap is not installed", install_command(await _read(_OS_RELEASE)))
    problem = ""
    for nesting_off in (True, False):
        arguments = bubblewrap_arguments(
            (), folder="/", network=False, nesting_off=nesting_off, scratch_bytes=2**20, empty=()
        )
        problem = await failure([program, *arguments, "/bin/sh", "-c", ":"])
        if not problem:
            return Backend("bubblewrap", program, nesting_off)
        if NO_NESTING not in problem:
            break
    return Missing(f"bubblewrap can't work here: {problem}", remedy(problem, (await _read(_APPARMOR)).strip() == "1"))


async def probe_seatbelt(failure: Failure) -> Backend | Missing:
    """What Seatbelt offers, where `failure` tries it."""
    problem = await failure([SEATBELT, "-p", seatbelt_profile((), network=False), "/bin/sh", "-c", ":"])
    if problem:
        return Missing(f"Seatbelt can't work here: {problem}", "start clawbot outside of another sandbox")
    return Backend("seatbelt", SEATBELT)


def install_command(os_release: str) -> str:
    """The command that installs bubblewrap on the system that the text of /etc/os-release names."""
    named = re.findall(r"^ID(?:_LIKE)?=(.*)$", os_release, re.MULTILINE)
    for name in re.findall(r"[a-z]+", " ".join(named).lower()):
        if name in by_custom().install:
            return by_custom().install[name]
    return "install the package bubblewrap"


def remedy(problem: str, apparmor: bool) -> str:
    """What to do about `problem`, the words of bwrap; `apparmor`: it forbids users namespaces."""
    if apparmor:
        return (
            "allow bwrap in AppArmor: sudo apt-get install apparmor-profiles && sudo ln -s "
            "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/bwrap && "
            "sudo systemctl reload apparmor"
        )
    if "namespace" in problem or "Permission denied" in problem or "Operation not permitted" in problem:
        return (
            "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1; in a container start it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let the container be the wall"
        )
    return "mend that, or set tools.shell.sandbox: off in the config to do without"


async def failure_of(argv: list[str]) -> str:
    """Why `argv` fails, on one line; "" when it does not."""
    try:
        done = await run_command(
            CommandLine(argv, {"PATH": os.defpath}), folder=Path("/"), seconds=PATIENCE, max_bytes=MAX_BYTES
        )
    except OSError as error:
        return f"{error.strerror}"
    if done.timed_out:
        return f"no answer in {PATIENCE:g} s"
    return "" if done.code == 0 else " ".join(done.head.split()) or f"exit {done.code}"


async def _read(path: Path) -> str:
    try:
        return await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
    except OSError:
        return ""
