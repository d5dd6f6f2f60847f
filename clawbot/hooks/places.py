"""Where hooks lie, by the state folder, the settings and the workspace of the agent that they are for."""

from __future__ import annotations

from pathlib import Path

from clawbot.config.paths import Paths, shipped
from clawbot.config.schema_hooks import HookSettings
from clawbot.hooks.discovery import Places

SHIPPED = "hooks"
IN_WORKSPACE = "hooks"


def places_of(paths: Paths, settings: HookSettings, workspace: Path) -> Places:
    """The places of the hooks for an agent with the folder `workspace`. Raises ConfigError when the installation lacks
    the shipped ones."""
    return Places(
        shipped=shipped(SHIPPED), home=paths.hooks, dirs=tuple(settings.dirs), workspace=workspace / IN_WORKSPACE
    )
