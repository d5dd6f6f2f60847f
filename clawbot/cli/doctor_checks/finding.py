"""What a check gets to know and what it gives back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import AgentSettings

State = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    """One thing that was looked at. `fix` is the command that mends it, or what to do where no command does."""

    check: str
    state: State
    message: str
    fix: str | None = None


class Here(Struct, frozen=True, kw_only=True):
    """Where the checks look.

    `config_file` is the file of the settings, `settings` are the agent's, `all_settings` those of the program.
    `config_error` is set when they can't be used; these are then the shipped ones. `environ` is the environment with
    what `.env` adds to it, `ping` says whether the model may be called.
    """

    paths: Paths
    config_file: Path
    agent: str
    settings: AgentSettings
    all_settings: Settings
    config_error: ConfigError | None
    config_notices: tuple[str, ...]
    environ: Mapping[str, str]
    clock: Clock
    ping: bool

    @property
    def sessions(self) -> Path:
        """The folder of the agent's transcripts."""
        return self.paths.sessions(self.agent)

    @property
    def for_agent(self) -> str:
        """What to add to a command so that it is about the same agent."""
        return "" if self.agent == "main" else f" --agent {self.agent}"


Findings = Sequence[Finding]


def quoted(path: Path) -> str:
    """`path` as a shell wants it."""
    return shlex.quote(str(path))


def nearest(path: Path) -> Path:
    """`path`, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def writable(path: Path) -> bool:
    """Whether `path` can be written, or made where it does not exist."""
    place = nearest(path)
    if place.is_dir():
        return os.access(place, os.W_OK | os.X_OK)
    return place == path and os.access(place, os.W_OK)
