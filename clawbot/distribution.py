"""What clawbot requires, and commands for this installation; none has our name, which is another program on indexes."""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "clawbot-agent"


def requirements() -> dict[str, str]:
    """Return the requirements of clawbot that apply to this interpreter, each with its package's name.

    They have no markers. Empty if clawbot is not installed. Blocks.
    """
    # Deferred, as in `version_of`: 20 and 15 ms that few commands need.
    from importlib.metadata import distributions

    from packaging.requirements import Requirement

    lines = next((each.requires for each in distributions(name=DISTRIBUTION)), None) or []
    found = {}
    for each in map(Requirement, lines):
        marker, each.marker = each.marker, None
        if marker is None or marker.evaluate({"extra": ""}):
            found[str(each)] = each.name
    return found


def version_of(name: str) -> str:
    """Return the version of the installed package `name`; empty if there is none. Blocks."""
    from importlib.metadata import distributions

    return next((each.version for each in distributions(name=name)), "")


def is_managed() -> bool:
    """Return whether pip refuses to change this Python, which belongs to the system (PEP 668). Blocks."""
    return sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()


def pip_install(*arguments: str) -> str:
    """Return the command `pip install` with `arguments` for the running interpreter, quoted for a shell."""
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # as in environments that uv made
        pip = ["uv", "pip", "install", "--python", sys.executable]
    if is_managed():
        pip.append("--break-system-packages")
    return shlex.join([*pip, *arguments])


def program(*arguments: str) -> str:
    """Return the command that runs this clawbot with `arguments`, quoted for a shell. Blocks."""
    folder = Path(sys.executable).parent
    found, own = shutil.which("clawbot"), folder / "clawbot"
    if found and Path(found).resolve().parent == folder.resolve():
        return shlex.join(["clawbot", *arguments])
    return shlex.join([*([str(own)] if own.exists() else [sys.executable, "-m", "clawbot"]), *arguments])
