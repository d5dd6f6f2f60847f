"""The input and output of a check."""

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
    """The result of one check. `fix` is the command that fixes it, or an instruction if there is none."""

    check: str
    state: State
    message: str
    fix: str | None = None


class Here(Struct, frozen=True, kw_only=True):
    """What the checks examine.

    `config_file` is the settings file, `settings` are the agent's, `all_settings` the program's. If they are invalid,
    `config_error` is set and the shipped ones are used. `environ` is the environment including `.env`; `ping`: the
    model may be called.
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
        """The option that makes a command apply to the same agent."""
        return "" if self.agent == "main" else f" --agent {self.agent}"


Findings = Sequence[Finding]


def quoted(path: Path) -> str:
    """`path` quoted for a shell."""
    return shlex.quote(str(path))


def nearest(path: Path) -> Path:
    """`path`, or its nearest existing parent."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def writable(path: Path) -> bool:
    """Whether `path` can be written, or created if missing."""
    place = nearest(path)
    if place.is_dir():
        return os.access(place, os.W_OK | os.X_OK)
    return place == path and os.access(place, os.W_OK)
