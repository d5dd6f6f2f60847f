"""Several agents: whether their workspaces keep out of each other's way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here
from clawbot.config.schema import Settings


def agents(here: Here) -> Findings:
    """Which agents there are, whose workspaces lie in each other, and which are one."""
    settings = here.all_settings
    ids = settings.agent_ids
    if len(ids) == 1 or here.config_error is not None:
        return []
    real = {agent_id: Path(os.path.realpath(settings.agent(agent_id).workspace)) for agent_id in ids}
    nested = list(_nested(settings, real))
    shared = list(_shared(real))
    if nested or shared:
        return [*nested, *shared]
    return [Finding("agents", "ok", f"{', '.join(ids)}: each has a workspace of its own")]


def _nested(settings: Settings, real: dict[str, Path]) -> Iterator[Finding]:
    for outer, inner in permutations(real, 2):
        if real[outer] in real[inner].parents and inner not in settings.allowed_agents(outer):
            message = (
                f"the workspace of {inner} ({real[inner]}) lies in that of {outer} ({real[outer]}), whose tools and "
                "index pass it by"
            )
            fix = f"move it and set agents.{inner}.workspace, or allow it: agents.{outer}.tools.agents: [{inner}]"
            yield Finding("agents", "warning", message, fix)


def _shared(real: dict[str, Path]) -> Iterator[Finding]:
    for folder in dict.fromkeys(real.values()):
        sharing = [agent_id for agent_id, own in real.items() if own == folder]
        if len(sharing) > 1:
            message = (
                f"{', '.join(sharing)} share the workspace {folder}: notes are common, sessions and indexes are not"
            )
            yield Finding("agents", "ok", message)
