"""skills.json in the state folder: which skills the user switched, and which of workspaces he trusts.

A skill of a workspace is trusted by its folder and by the content of its SKILL.md: the agent writes there, and so does
whoever is pulled from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.config.errors import config_error
from clawbot.files import ensure_private_dir, locked, read_plain, write_atomic

_MOST_BYTES = 1024**2
_HINT = "Repair it, or delete it and switch the skills again."


class Switches(Struct, frozen=True):
    """`enabled`: those of the user by their names, where he switched one. `trusted`: the real folders of those in
    workspaces, each with the SHA-256 of the SKILL.md that the user saw."""

    enabled: dict[str, bool] = {}
    trusted: dict[str, str] = {}


def read_switches(file: Path) -> Switches:
    """Raises ConfigError if `file` can't be used. Blocks."""
    try:
        return msgspec.json.decode(read_plain(file, limit=_MOST_BYTES), type=Switches)
    except FileNotFoundError:
        return Switches()
    except OSError as error:
        raise config_error(str(file), f"cannot be read: {error.strerror or error}", hint=_HINT) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise config_error(str(file), f"is damaged: {error}", hint=_HINT) from error


def switch_skill(file: Path, name: str, *, on: bool) -> None:
    """Enable or disable the user's skill `name`; concurrent callers wait. Raises ConfigError. Blocks."""
    _change(file, lambda old: Switches({**old.enabled, name: on}, old.trusted))


def trust_skill(file: Path, folder: str, digest: str | None) -> None:
    """Trust the skill in the real `folder` of a workspace as long as its SKILL.md has `digest`; None for no longer.
    Raises ConfigError. Blocks."""
    added = {folder: digest} if digest is not None else {}
    _change(
        file,
        lambda old: Switches(old.enabled, {key: value for key, value in old.trusted.items() if key != folder} | added),
    )


def _change(file: Path, change: Callable[[Switches], Switches]) -> None:
    try:
        with locked(ensure_private_dir(file.parent)):
            changed = change(read_switches(file))
            write_atomic(file, msgspec.json.format(msgspec.json.encode(changed)) + b"\n")
    except OSError as error:
        raise config_error(str(file), f"cannot be written: {error.strerror or error}") from error
