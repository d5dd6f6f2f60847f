"""Which hooks of workspaces the user trusts: by their folder, and by the content of what is run.

The agent writes in a workspace, and so does whoever is pulled from: a name alone would let other code run under it.
Only who writes the name into the settings file wants just that.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from clawbot.config.switches import adopt, read_switches
from clawbot.extensions.manifest import UNUSABLE
from clawbot.hooks.loading import code_digest
from clawbot.text.interface import N_

BY_NAME = N_("it is switched on by name, and one of a workspace counts for its folder and content")


class Trust(Struct, frozen=True):
    """`folders`: the real folders of the trusted hooks, each with its digest. `switched`: the names that hooks.json
    switches; that they are on trusts nothing in a workspace."""

    folders: Mapping[str, str] = {}
    switched: Collection[str] = ()


NOTHING = Trust()


def trusted_hooks(file: Path, workspaces: Iterable[Path]) -> Trust:
    """What hooks.json trusts.

    Where that is of the time when names alone decided, the hooks that it enables in `workspaces` are trusted as they
    are now, and no other from then on. Raises ConfigError. Blocks.
    """
    known = read_switches(file)
    if known.trusted is None:
        adopt(file, dict(_enabled_by_name(known.enabled, workspaces)))
        known = read_switches(file)
    return Trust(known.trusted or {}, known.enabled)


def _enabled_by_name(enabled: Mapping[str, bool], workspaces: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for workspace in workspaces:
        for name in (name for name, on in enabled.items() if on and Path(name).name == name):
            folder = workspace / "hooks" / name
            try:
                if folder.is_dir():
                    yield os.path.realpath(folder), code_digest(folder)
            except UNUSABLE:
                continue
