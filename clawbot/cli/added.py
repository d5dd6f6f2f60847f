"""The commands that installed packages add to `clawbot` and to its groups, imported when they are used."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import click

from clawbot.errors import ClawbotError

if TYPE_CHECKING:
    from clawbot.entry_points import Extension


def added(group: str, own: Container[str]) -> dict[str, Extension]:
    """Return what entry points add to the commands of `group` besides its `own`, by name. Imports none of it."""
    # Deferred import: the own ones need no metadata of packages.
    from clawbot.entry_points import installed

    return {each.name: each for each in reversed(installed(group)) if each.name not in own}


def load_added(group: str, name: str) -> click.Command | None:
    """Import what an entry point of `group` calls `name`; None if there is none. Raises ClawbotError for a command of a
    package that can't be used, TypeError for what is no command."""
    extension = added(group, ()).get(name)
    if extension is None:
        return None
    found = extension.load()
    if problem := getattr(found, "problem", ""):
        words = " ".join([*group.split(".")[2:], name])
        raise ClawbotError(f"`clawbot {words}` can't be used: {problem}.")
    if not isinstance(found, click.Command):
        raise TypeError(f"{extension.point.value} is no click command")
    return found


class ExtensibleGroup(click.Group):
    """A group whose commands are its own and those of the entry point group `clawbot.cli.NAME`."""

    @property
    def _points(self) -> str:
        return f"clawbot.cli.{self.name}"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return its own commands and the added ones, sorted."""
        return sorted([*self.commands, *added(self._points, self.commands)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return `cmd_name`, imported if it is an added one. Raises as `load_added`."""
        return super().get_command(ctx, cmd_name) or load_added(self._points, cmd_name)
