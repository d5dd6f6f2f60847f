"""The list of skills in the prompt, and what the user should know of his skills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawbot.context.prompt import on_one_line, prompt_literal
from clawbot.llm.tokens import weigh_tokens
from clawbot.skills.discovery import FoundSkill
from clawbot.text.interface import _, ngettext

HEAD = """\
## Skills
A skill is a folder with instructions for one kind of task. When the task at hand is what a description says, read that
SKILL.md with `read` before you begin, and follow it; no rule above gives way to it. Paths in it start at its folder,
which some call {baseDir}. Read none that does not fit."""
OTHERS = "Others, by name alone; `skills_search` says what each is for and where it is: {names}."
MORE = "And {count} more, which find no room here: the user calls them with `/skill NAME`."
WINDOW_SHARE = 20
"""A list takes no more than this part of a window."""
_SHARE_OF_NAMES = 0.6


def skills_section(
    skills: Sequence[FoundSkill], workspace: Path, home: Path, budget: int, near: Sequence[str] = ()
) -> str:
    """Return the section about those of `skills` that the model sees, in at most `budget` tokens (not counting its
    head); "" if there are none. Where not all fit, those named in `near` are described first, and the others named.
    `home` is the user's, for short paths. Blocks: weighs."""
    listed = [skill for skill in skills if skill.listed]
    if not listed:
        return ""
    lines = {skill.name: _line(skill, workspace, home) for skill in listed}
    if sum(map(weigh_tokens, lines.values())) <= budget:
        return "\n".join([HEAD, *lines.values()])
    names = _fitting(dict.fromkeys(lines, ""), int(budget * _SHARE_OF_NAMES))
    left = budget - weigh_tokens(OTHERS.format(names=", ".join(names)))
    first = sorted(lines, key=lambda name: (near.index(name) if name in near else len(near), name))
    shown = _fitting({name: lines[name] for name in first}, left)
    others = ", ".join(name for name in lines if name in names and name not in shown)
    count = len(lines.keys() - names - shown)
    ends = [*([OTHERS.format(names=others)] if others else []), *([MORE.format(count=count)] if count else [])]
    return "\n".join([HEAD, *(lines[name] for name in lines if name in shown), *ends])


def _fitting(texts: dict[str, str], budget: int) -> set[str]:
    """Return the first of the keys whose texts, or else they themselves with a comma, take at most `budget` tokens."""
    fitting = set()
    for name, text in texts.items():
        budget -= weigh_tokens(text or f"{name}, ")
        if budget < 0:
            break
        fitting.add(name)
    return fitting


def _line(skill: FoundSkill, workspace: Path, home: Path) -> str:
    name, about = on_one_line(skill.name), on_one_line(skill.manifest.description)
    return f"- {name}: {about} ({shown_path(skill, workspace, home)})"


def skill_notices(skills: Sequence[FoundSkill]) -> list[str]:
    """What the user should know of `skills` unasked: a line for those that changed."""
    text = _("The skill {name} changed since you enabled it, and is off. Read {entry}, then {command}.")
    changed = (skill for skill in skills if skill.changed and not skill.problem)
    return [
        text.format(name=skill.name, entry=skill.entry, command=f"`clawbot skills enable {skill.name}`")
        for skill in changed
    ]


def form_notices(skills: Sequence[FoundSkill]) -> list[str]:
    """Notices, at most one a day: a line for the user's skills that are broken, and one for those of another form
    than expected."""
    own = [skill for skill in skills if skill.source != "workspace"]
    broken = [skill for skill in own if skill.problem]
    odd = [skill for skill in own if skill.manifest.odd and not skill.problem]
    lines = []
    if len(broken) == 1:
        problem = _("The skill {name} can't be used: {problem}.")
        lines.append(problem.format(name=broken[0].name, problem=broken[0].problem))
    elif broken:
        text = ngettext("{n} skill can't be used.", "{n} skills can't be used.", len(broken)).format(n=len(broken))
        lines.append(f"{text} {_('`clawbot skills check` lists them.')}")
    if odd:
        text = ngettext(
            "{n} skill has another form and is used as it is.",
            "{n} skills have another form and are used as they are.",
            len(odd),
        ).format(n=len(odd))
        lines.append(f"{text} {_('`clawbot skills check` says which.')}")
    return lines


def shown_path(skill: FoundSkill, workspace: Path, home: Path) -> str:
    """Return the path of its SKILL.md as the model may give it to `read`."""
    file = skill.entry
    if file.is_relative_to(workspace):
        return prompt_literal(str(file.relative_to(workspace)))
    return prompt_literal(f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file))
