"""`clawbot hooks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clawbot.cli.config import masked
from clawbot.cli.extensions import Extensions, by_kind, group
from clawbot.config.load import load_settings
from clawbot.config.source import scalar
from clawbot.config.switches import switch
from clawbot.config.values import format_duration
from clawbot.hooks.discovery import FoundHook, find_hooks, trusted_hooks


class Hooks(Extensions[FoundHook]):
    """The hooks of an agent."""

    found_type, noun, can, nature, own = FoundHook, "hooks", "run", "code", "events"
    order = "in the order in which they run"
    applies = "It takes effect when clawbot starts next."

    def find(self) -> Sequence[FoundHook]:
        hooks = self.settings.hooks.model_copy(update={"enabled": True})
        trusted = trusted_hooks(self.switches_file, self.settings.workspaces)
        return find_hooks(self.paths, hooks, self.agent.workspace, trusted)

    def details(self, each: FoundHook) -> dict[str, Any]:
        manifest = each.manifest
        return {
            "emoji": manifest.emoji,
            "homepage": manifest.homepage,
            "order": manifest.order,
            "timeoutSeconds": manifest.timeout or self.settings.hooks.timeout,
            "always": manifest.always,
            "requires": by_kind(manifest.needs({})),
            "env": sorted(each.env),
            "settings": masked(dict(each.settings)),
        }

    def title(self, each: FoundHook) -> str:
        return f"{each.manifest.emoji} {each.name}"

    def facts(self, each: FoundHook) -> Iterable[tuple[str, str]]:
        details = self.details(each)
        return [
            ("homepage", each.manifest.homepage),
            ("events", ", ".join(each.manifest.events)),
            ("order", str(each.manifest.order)),
            ("timeout", format_duration(details["timeoutSeconds"])),
            ("required", "for tool calls" if each.required else ""),
            *(("settings", f"{key}: {scalar(value)}") for key, value in details["settings"].items()),
            *(("env", name) for name in details["env"]),
        ]

    def save(self, each: FoundHook, *, on: bool) -> None:
        """Also change the switch of the name, as far as it decides about one of a workspace."""
        super().save(each, on=on)
        by_name = self.settings.hooks.entry(each.name).enabled
        if each.source != "workspace":
            return
        if on and by_name is False:
            switch(self.switches_file, each.name, on=True)
        elif by_name and not on:
            switch(self.switches_file, each.name, on=None)
            if self.config_file.is_file():
                settings = load_settings(self.paths, config_file=self.config_file).settings
                if settings.hooks.entry(each.name).enabled:
                    switch(self.switches_file, each.name, on=False)


command = group(Hooks)
