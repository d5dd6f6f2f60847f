"""What the user sees of skills, and a skill's text in a message that calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawbot.context.bootstrap import fence_for, fenced, tamed
from clawbot.context.prompt import prompt_literal
from clawbot.errors import ClawbotError
from clawbot.extensions.manifest import ManifestError
from clawbot.messages import TextBlock
from clawbot.skills.discovery import FoundSkill, SkillShelf
from clawbot.skills.manifest import SKILL_FILE, SkillText
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean_line

NO_SKILLS = N_(
    "No skills yet. Put a folder with a SKILL.md into `skills/` of the workspace, then type `/skills` again "
    "(docs/skills.md)."
)
ATTACHED_SHARE = 2  # characters of what is attached for a token of the window: half of it, in English
DESCRIPTION_CHARS = 200


def skills_text(skills: Sequence[FoundSkill]) -> str:
    """A line for each skill, as Markdown, and why it can't be used below it."""
    return "\n".join(line for skill in skills for line in _lines(skill)) or _(NO_SKILLS)


def _lines(skill: FoundSkill) -> list[str]:
    manifest = skill.manifest
    who = f" · {_('only you call it')}" if manifest.disable_model_invocation else ""
    lines = [f"- **{skill.name}** {_(skill.state)} · {skill.source}{who}"]
    enable = ""
    if not (skill.enabled or skill.problem):
        enable = _(". `clawbot skills enable {name}` after reading it").format(name=skill.name)
    about = (clean_line(manifest.description, DESCRIPTION_CHARS), clean_line(skill.reason(_)) + enable)
    return lines + [f"  - {text}" for text in about if text]


def called(shelf: SkillShelf, name: str, words: str, room: int) -> TextBlock:
    """The text of the skill `name` for a message that calls it with `words`, in `room` characters at most. Raises
    ClawbotError where it can't be used. Blocks."""
    skill = FoundSkill.named(shelf.look(), name)
    try:
        if reason := skill.reason(_):
            raise ManifestError(reason)
        text = shelf.text(skill)
    except ManifestError as error:
        problem = _("The skill {name} can't be used: {reason}.").format(name=name, reason=clean_line(str(error)))
        raise ClawbotError(problem, hint=_("`clawbot skills check` says what to do.")) from None
    return quoted(text, skill.folder, words, min(room, shelf.settings.max_chars))


def quoted(text: SkillText, folder: Path, words: str, room: int) -> TextBlock:
    """The instructions `text` of the skill in `folder` for the model: as many whole lines as have `room`."""
    body = text.body.replace("{baseDir}", str(folder)).replace("$ARGUMENTS", words)
    lines = body.split("\n")
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    more = len(lines) > len(kept)
    rest = f" It goes on in {SKILL_FILE} with line {text.first_line + len(kept)}: read that too." if more else ""
    name, place = text.manifest.name, prompt_literal(str(folder))
    shown = tamed("\n".join(kept).strip("\n"))
    told = f"The user calls the skill {name}: follow these instructions. Paths in them start at {place}.{rest}"
    count = f"{len(kept)} {'line' if len(kept) == 1 else 'lines'}{', cut at the limit' if more else ''}"
    return TextBlock(f"{told}\n{fenced(shown, fence_for([shown]))}", attached=f"{name}/{SKILL_FILE} · {count}")
