"""`clawbot skills`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clawbot.cli.extensions import Extensions, group
from clawbot.skills.discovery import FoundSkill, SkillShelf


class Skills(Extensions[FoundSkill]):
    """The skills of an agent."""

    found_type, noun, can, nature, own = FoundSkill, "skills", "be used", "text", "state"
    order, applies = "by name", "It takes effect with the next message."

    def find(self) -> Sequence[FoundSkill]:
        settings = self.settings.skills.model_copy(update={"enabled": True})
        return SkillShelf(self.paths, settings, self.agent.workspace, self.agent.skills).look()

    def odd(self, each: FoundSkill) -> list[str]:
        return list(each.manifest.odd)

    def details(self, each: FoundSkill) -> dict[str, Any]:
        manifest = each.manifest
        return {
            "license": manifest.license,
            "compatibility": manifest.compatibility,
            "allowedTools": list(manifest.allowed_tools),
            "modelInvocable": not manifest.disable_model_invocation,
            "userInvocable": manifest.user_invocable,
        }

    def facts(self, each: FoundSkill) -> Iterable[tuple[str, str]]:
        manifest = each.manifest
        callers = [] if manifest.disable_model_invocation else ["the model"]
        callers += ["you (/skill)"] if manifest.user_invocable else []
        return [
            ("called by", " and ".join(callers)),
            ("license", manifest.license),
            ("needs", manifest.compatibility),
            *(("tools", f"{tool} (it says so; that allows nothing)") for tool in manifest.allowed_tools),
        ]


command = group(Skills)
