"""The settings of skills: whether and where they are looked for, and how much room they take."""

from __future__ import annotations

from pydantic import Field

from clawbot.config.values import Positive, SettingsSection, StatePath, Switch


class SkillSettings(SettingsSection):
    """Folders with instructions (SKILL.md) for one kind of task, which the model reads when the task comes."""

    enabled: Switch = True
    """Whether any skill is used. Those of a workspace are off until `clawbot skills enable NAME`."""
    dirs: list[StatePath] = Field([])
    """Additional folders with skills, as `~/.claude/skills`. Relative ones start at the state folder."""
    prompt_tokens: Positive = 2_000
    """Room for the list of skills in the prompt, in tokens; those beyond it are counted there. In a small window a
    twentieth of it, if that is less."""
    max_chars: Positive = 40_000
    """Characters of a SKILL.md that /skill puts into a message; the model reads the rest from the file."""
