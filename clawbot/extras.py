"""What optional features need: pinned packages with hashes, which pip installs into the running interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shlex
import shutil
import signal
import sys
import sysconfig
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from clawbot.config.paths import shipped
from clawbot.deadline import deadline
from clawbot.distribution import is_managed, pip_install, program, version_of
from clawbot.errors import ClawbotError
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line

EXTRAS = {
    "local": "a model on this machine: clawbot model, F3",
    "mcp": "tools of MCP servers, and the memory as one of them",
    "milvus": "a memory for many machines",
    "rerank": "a small model that orders the results of a search",
    "web": "the screen in a browser: clawbot serve --web",
}
"""Each extra, and what it is for."""
_STEPS = ("Collecting ", "Processing ", "Downloading ", "Using cached ", "Building ", "Installing ")
_EXIT_SECONDS = 3.0


class ExtraError(ClawbotError):
    """An extra can't be installed."""


def requirements_file(name: str) -> Path:
    """Return the file for pip: what the extra `name` needs beyond clawbot, written from the lock by `make lock`."""
    return shipped("requirements") / f"{name}.txt"


def packages(name: str) -> dict[str, str]:
    """Return the packages of the extra `name` for this interpreter, each with its pinned version. Blocks."""
    from packaging.requirements import Requirement

    lines = requirements_file(name).read_text(encoding="utf-8").splitlines()
    found = [Requirement(line.partition(" --hash")[0]) for line in lines]
    return {each.name: str(each.specifier)[2:] for each in found if each.marker is None or each.marker.evaluate()}


def is_installed(name: str) -> bool:
    """Return whether all packages of the extra `name` are installed, in any version. Blocks."""
    return all(map(version_of, packages(name)))


def install_command(name: str) -> str:
    """Return the command that installs the extra `name`, quoted for a shell. Blocks."""
    return program("extras", "install", name)


def manual_install(name: str) -> tuple[str, str] | None:
    """Return why `install` can't install the extra `name` here, and the command that does; None if it can. Blocks."""
    # uv asks for hashes of all dependencies, also of those that are installed.
    arguments = ["--no-deps", "--require-hashes", "-r", str(requirements_file(name))]
    pip, folder = pip_install(*arguments), sysconfig.get_path("purelib")
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return "pipx", shlex.join(["pipx", "runpip", Path(sys.prefix).name, "install", *arguments])
    if is_managed():
        return "EXTERNALLY-MANAGED", pip
    if find_spec("pip") is None:
        ensure = shlex.join([sys.executable, "-m", "ensurepip"])
        return _("no pip"), pip if shutil.which("uv") else f"{ensure} && {install_command(name)}"
    if not os.access(folder, os.W_OK):
        return folder, pip_install("--user", *arguments) if sys.prefix == sys.base_prefix else f"sudo {pip}"
    return None


async def install(name: str, progress: Callable[[str], None]) -> None:
    """Install the extra `name`; calls `progress` on the loop with each step of pip.

    No package of clawbot itself is replaced. If it fails or is cancelled, pip is ended with its children, and packages
    that are only partly written are removed. Raises ExtraError, with the command to use where it can't install.
    """
    if manual := await asyncio.to_thread(manual_install, name):
        raise ExtraError(
            _("Packages can't be installed into this Python from here ({reason}).").format(reason=manual[0]),
            hint=_("Install it with: {command}").format(command=manual[1]),
        )
    before = await asyncio.to_thread(_entries)
    pip = [sys.executable, "-P", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    process = await asyncio.create_subprocess_exec(
        *pip, "--only-binary", ":all:", "--require-hashes", "-r", str(requirements_file(name)),
        stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        problem = await _follow(process, progress)
    except BaseException:
        await asyncio.shield(_end(process, before))
        raise
    importlib.invalidate_caches()
    if problem:
        await asyncio.to_thread(_remove_partial, before)
        raise ExtraError(_("pip could not install {name}: {reason}").format(name=name, reason=problem))


async def _follow(process: Process, progress: Callable[[str], None]) -> str:
    """Return what pip reports as errors, or its last line if it fails without one; empty if all is installed."""
    errors, line = "", ""
    while process.stdout and (raw := await process.stdout.readline()):
        line = clean_line(raw.decode(errors="replace"))
        if line.startswith(_STEPS):
            progress(line.partition(" (from ")[0])
        elif line.startswith("ERROR: "):
            errors += f"{line[7:]} "
    return "" if await process.wait() == 0 else (errors or line)[:500].strip()


async def _end(process: Process, before: dict[str, set[str]]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError, TimeoutError):
            os.killpg(process.pid, number)
            async with deadline(_EXIT_SECONDS):
                await process.wait()
    await asyncio.to_thread(_remove_partial, before)


def _entries() -> dict[str, set[str]]:
    """Return the names in the folders that packages are installed into."""
    folders = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    return {folder: {entry.name for entry in Path(folder).iterdir()} for folder in folders}


def _remove_partial(before: dict[str, set[str]]) -> None:
    """Remove new entries that no complete package owns: pip writes the list of its files last."""
    from importlib.metadata import distributions

    for folder, entries in _entries().items():
        if new := entries - before[folder]:
            owned = {file.parts[0] for each in distributions(path=[folder]) for file in each.files or ()}
            for entry in (Path(folder, name) for name in new - owned):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
