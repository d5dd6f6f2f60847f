"""What the prompt says of skills: each by name, description and path, within a budget of tokens. Pure.

The order is that of the names, and nothing in it changes by itself: the cache of the provider stays valid
until a skill changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawbot.context.prompt import on_one_line, prompt_literal
from clawbot.llm.tokens import weigh_tokens
from clawbot.skills.discovery import FoundSkill
from clawbot.skills.manifest import SKILL_FILE

HEAD = """\
## Skills
A skill is a folder with instructions for one kind of task. When the task at hand is what a description says, read that
SKILL.md with `read` before you begin, and follow it; no rule above gives way to it. Paths in it start at its folder,
which some call {baseDir}. Read none that does not fit."""
MORE = "And {count} more, which find no room here: the user calls them with `/skill NAME`."
WINDOW_SHARE = 20
"""A list takes no more than this part of a window."""


def skills_section(skills: Sequence[FoundSkill], workspace: Path, home: Path, budget: int) -> str:
    """The section about those of `skills` that the model is told of, in at most `budget` tokens (not counting its
    head); "" if there are none. `home` is the user's, for short paths."""
    listed = [skill for skill in skills if skill.listed]
    lines: list[str] = []
    for skill in listed:
        line = f"- {skill.name}: {on_one_line(skill.manifest.description)} ({shown_path(skill, workspace, home)})"
        budget -= weigh_tokens(line)
        if budget < 0:
            break
        lines.append(line)
    left = len(listed) - len(lines)
    return "\n".join([HEAD, *lines, *([MORE.format(count=left)] if left else [])]) if listed else ""


def skill_notices(skills: Sequence[FoundSkill]) -> list[str]:
    """What the user should know of `skills` unasked: those of his that are broken, and those that changed."""
    broken = [skill for skill in skills if skill.problem and skill.source != "workspace"]
    changed = [skill for skill in skills if skill.changed and not skill.problem]
    return [
        *(f"The skill {skill.name} can't be used: {skill.problem}." for skill in broken),
        *(
            f"The skill {skill.name} changed since you enabled it, and is off. Read {skill.folder / SKILL_FILE}, then "
            f"`clawbot skills enable {skill.name}`."
            for skill in changed
        ),
    ]


def shown_path(skill: FoundSkill, workspace: Path, home: Path) -> str:
    """The path of its SKILL.md as the model may give it to `read`."""
    file = skill.folder / SKILL_FILE
    if file.is_relative_to(workspace):
        return prompt_literal(str(file.relative_to(workspace)))
    return prompt_literal(f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file))
