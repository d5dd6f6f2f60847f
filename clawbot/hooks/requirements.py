"""What a hook needs and this machine lacks, in words that a user can act on."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from clawbot.hooks.manifest import Manifest, Requires

_SYSTEMS = {"win32": "windows", "macos": "darwin", "mac": "darwin", "osx": "darwin"}


def missing(manifest: Manifest, given: Mapping[str, str], system: str = sys.platform) -> tuple[str, ...]:
    """What `manifest` requires and is not there, as phrases: `bin: gh`, `any bin: rg, grep`, `env: GITHUB_TOKEN`,
    `python: requests`, `os: darwin`. `given` are the variables that the hook's own entry sets, `system` is the name
    that `sys.platform` has. Looks at PATH and at the installed packages: blocks."""
    if manifest.always:
        return ()
    return tuple(_missing(manifest.requires, given, _system(system)))


def _missing(requires: Requires, given: Mapping[str, str], system: str) -> Iterator[str]:
    if requires.os and system not in {_system(name) for name in requires.os}:
        yield f"os: {' or '.join(requires.os)}"
    path = given.get("PATH")
    yield from (f"bin: {name}" for name in requires.bins if shutil.which(name, path=path) is None)
    if requires.any_bins and not any(shutil.which(name, path=path) for name in requires.any_bins):
        yield f"any bin: {', '.join(requires.any_bins)}"
    yield from (f"env: {name}" for name in requires.env if not (given.get(name) or os.environ.get(name)))
    yield from (f"python: {name}" for name in requires.python if not _installed(name))


def _system(name: str) -> str:
    return _SYSTEMS.get(name.lower(), name.lower())


def _installed(name: str) -> bool:
    """Whether `name` can be imported, or is a distribution: people write `yaml` and `pyyaml`."""
    try:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return True
    except (ImportError, ValueError):
        pass
    try:
        importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
    return True
