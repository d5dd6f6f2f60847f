"""Skills on a disk for tests."""

from __future__ import annotations

from pathlib import Path

from clawbot.config.paths import Paths
from clawbot.config.schema_extensions import SkillSettings
from clawbot.skills.discovery import FoundSkill, SkillCatalog


def write_skill(folder: Path, head: str = "", body: str = "Do it.") -> Path:
    """A skill in `folder`, with its name unless `head` has one."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "" if "name:" in head else f"name: {folder.name}\n"
    about = "" if "description:" in head else f"description: What {folder.name} does.\n"
    (folder / "SKILL.md").write_text(f"---\n{name}{about}{head}\n---\n{body}\n", encoding="utf-8")
    return folder


def shelf_of(home: Path, workspace: Path | None = None, *dirs: Path, enabled: bool = True) -> SkillCatalog:
    """The shelf of the state folder `home`."""
    settings = SkillSettings(enabled=enabled, dirs=list(dirs))
    return SkillCatalog(Paths(home), settings, workspace or home / "workspace")


def states(shelf: SkillCatalog) -> dict[str, str]:
    """Each skill's state, by its name and source."""
    return {f"{skill.name} {skill.source}": skill.state for skill in shelf.scan()}


def one(shelf: SkillCatalog, name: str) -> FoundSkill:
    """The first skill `name`."""
    return next(skill for skill in shelf.scan() if skill.name == name)
