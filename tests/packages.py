"""Packages of a test: one that is installed in a folder, as far as its metadata and one module go, and those that a
process is not to see."""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")


def install(site: Path, package: str, points: str, source: str = "", metadata: str = "") -> None:
    """Install `package`, a module with `source`, into `site`; `points` are its entry points, `metadata` more lines."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n{metadata}")
    info.joinpath("entry_points.txt").write_text(points)
    site.joinpath(f"{package}.py").write_text(source)


def hide_tools(site: Path) -> list[str]:
    """Write modules into `site` that stand before all that only the lock of the tools installs, and can't be imported:
    with `site` in PYTHONPATH a process sees what `pip install -r requirements.lock` gives. Returns their names."""
    locked = (set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text("utf-8"), re.MULTILINE)) for name in LOCKS)
    usual, tools = ({canonical(each) for each in names} for names in locked)
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if module.isidentifier() and {canonical(each) for each in packages} <= tools - usual
    ]
    site.mkdir(parents=True, exist_ok=True)
    for module in hidden:
        error = f"ModuleNotFoundError({f'No module named {module!r}'!r}, name={module!r})"
        site.joinpath(f"{module}.py").write_text(f"raise {error}\n")
    return hidden


def canonical(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
