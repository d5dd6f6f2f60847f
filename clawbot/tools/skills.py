"""The tool `skills_search`: what the skills are for whose descriptions find no room in the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

from msgspec import Meta

from clawbot.skills.discovery import FoundSkill
from clawbot.skills.nearest import nearest_skills
from clawbot.text.sanitize import clean_line
from clawbot.tools.arguments import Arguments, TypedTool
from clawbot.tools.protocol import Need, ToolOutcome

SKILLS_SEARCH = "skills_search"
FEW_SKILLS = 8
"""So many skills find room in any prompt."""
_MOST = 8


class SkillsSearchArguments(Arguments, frozen=True):
    """Arguments of `skills_search`."""

    query: Annotated[str, Meta(description="The task in a few words, or the name of a skill.")]


class SkillsSearchTool(TypedTool[SkillsSearchArguments]):
    """`skills_search`: the skills nearest to a task, with their descriptions and files. `look` finds all; `shown` is
    the path of one for `read`."""

    name = SKILLS_SEARCH
    needs: ClassVar[frozenset[Need]] = frozenset()
    read_only = True
    description = "Find skills for a task among those that the prompt names without a description."
    subject = "query"
    arguments = SkillsSearchArguments

    def __init__(self, look: Callable[[], Sequence[FoundSkill]], shown: Callable[[FoundSkill], str]) -> None:
        self._look = look
        self._shown = shown

    def act(self, arguments: SkillsSearchArguments) -> ToolOutcome:
        """Search the skills that the model may use. Blocks."""
        found = nearest_skills([skill for skill in self._look() if skill.listed], arguments.query)[:_MOST]
        lines = [f"- {skill.name}: {clean_line(skill.manifest.description)} ({self._shown(skill)})" for skill in found]
        return ToolOutcome("\n".join(lines) or "No skill has these words.", summary=", ".join(s.name for s in found))
