"""What clawbot and its extras require, and commands that install it; none by our name, which others have on indexes."""

from __future__ import annotations

import shlex
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "clawbot-agent"


def requirements(extra: str = "") -> dict[str, str]:
    """Return the requirements of clawbot, or of `extra` and the extras that it refers to, each with its package's name.

    They apply to this interpreter and have no markers. Empty if clawbot is not installed. Blocks.
    """
    # Deferred, as in `version_of`: 20 and 15 ms that few commands need.
    from importlib.metadata import distributions

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = next((each.requires for each in distributions(name=DISTRIBUTION)), None) or []
    names, found = [extra], {}
    for name in names:
        for each in map(Requirement, lines):
            marker, each.marker = each.marker, None
            if ("extra" in str(marker)) != bool(extra) or (marker and not marker.evaluate({"extra": name})):
                continue
            if canonicalize_name(each.name) == DISTRIBUTION:
                names += sorted(each.extras.difference(names))
            else:
                found[str(each)] = each.name
    return found


def version_of(name: str) -> str:
    """Return the version of the installed package `name`; empty if there is none. Blocks."""
    from importlib.metadata import distributions

    return next((each.version for each in distributions(name=name)), "")


def pip_install(*arguments: str) -> str:
    """Return the command `pip install` with `arguments` for the running interpreter, quoted for a shell."""
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # as in environments that uv made
        pip = ["uv", "pip", "install", "--python", sys.executable]
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        pip.append("--break-system-packages")  # PEP 668: without it, pip and uv refuse
    return shlex.join([*pip, *arguments])


def install_command(extra: str = "") -> str:
    """Return the command that installs what `extra` (or clawbot) requires here, quoted for a shell. Blocks."""
    wanted = requirements(extra)
    if not wanted:  # a checkout that is not installed, or was installed before it had the extra
        return pip_install("-e", str(Path(__file__).parents[1]) + (extra and f"[{extra}]"))
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return shlex.join(["pipx", "inject", Path(sys.prefix).name, *wanted])
    return pip_install(*wanted)
