"""hooks.json and skills.json in the state folder: what the user switched by name, and what of workspaces he trusts.

A hook or skill of a workspace is trusted by its folder and its content: the agent writes there, and so does whoever is
pulled from. The files override the user's settings file, which is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from clawbot.config.errors import config_error
from clawbot.files import ensure_private_dir, locked, read_plain, write_atomic

V = TypeVar("V")
_MAX_BYTES = 1024**2
_HINT = "Repair it, or delete it and enable again what you want."


class Switches(Struct, frozen=True, omit_defaults=True):
    """`enabled`: by their names, those that the user switched. `trusted`: the real folders of those in workspaces, each
    with the digest of the content that the user saw; None in a file of the time when names alone decided."""

    enabled: dict[str, bool] = {}
    trusted: dict[str, str] | None = None


NOTHING = Switches()


def read_switches(file: Path) -> Switches:
    """Raises ConfigError if `file` can't be used. Blocks."""
    try:
        return msgspec.json.decode(read_plain(file, limit=_MAX_BYTES), type=Switches)
    except FileNotFoundError:
        return Switches(trusted={})
    except OSError as error:
        raise config_error(str(file), f"cannot be read: {error.strerror or error}", hint=_HINT) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise config_error(str(file), f"is damaged: {error}", hint=_HINT) from error


def switch(file: Path, name: str, *, on: bool | None) -> None:
    """Enable or disable what is called `name`, None: leave it to the settings; concurrent callers wait. Raises
    ConfigError. Blocks."""
    _change(file, lambda old: Switches(_with(old.enabled, name, on), old.trusted))


def trust(file: Path, folder: str, digest: str | None) -> None:
    """Trust what is in the real `folder` of a workspace as long as its content has `digest`; None for no longer.
    Raises ConfigError. Blocks."""
    _change(file, lambda old: Switches(old.enabled, _with(old.trusted or {}, folder, digest)))


def _with(known: Mapping[str, V], key: str, value: V | None) -> dict[str, V]:
    others = {other: each for other, each in known.items() if other != key}
    return others if value is None else {**others, key: value}


def adopt(file: Path, trusted: Mapping[str, str]) -> Switches:
    """Let a file in which names alone decided go on with `trusted`; any other is unchanged. Returns what it holds
    now. Raises ConfigError. Blocks."""
    return _change(file, lambda old: old if old.trusted is not None else Switches(old.enabled, dict(trusted)))


def _change(file: Path, change: Callable[[Switches], Switches]) -> Switches:
    try:
        with locked(ensure_private_dir(file.parent)):
            changed = change(read_switches(file))
            write_atomic(file, msgspec.json.format(msgspec.json.encode(changed)) + b"\n")
            return changed
    except OSError as error:
        raise config_error(str(file), f"cannot be written: {error.strerror or error}") from error
