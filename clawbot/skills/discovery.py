"""Finds skills (folders with SKILL.md) in three sources, and decides whether each may be used.

Sources: the folders of `skills.dirs`, the user's own, a workspace. A user's own replaces one of the same name in
`skills.dirs`. Skills in a workspace, where the agent itself can write, replace nothing and are off until the user
trusts them; a changed SKILL.md asks again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths
from clawbot.config.schema_skills import SkillSettings
from clawbot.config.switches import Switches, read_switches
from clawbot.extensions.manifest import (
    UNUSABLE,
    ManifestError,
    check_folder,
    manifest_folders,
    manifest_text,
    read_manifest,
    unmet,
)
from clawbot.files import digest_of
from clawbot.skills.manifest import SKILL_FILE, SkillManifest, SkillText, parse_skill
from clawbot.text.interface import N_, _

FOLDER = "skills"
"""The name of the folder with skills in a workspace."""
CHANGED = N_("its SKILL.md changed since you enabled it")

Source = Literal["dir", "home", "workspace"]


class FoundSkill(Struct, frozen=True):
    """A skill and whether it may be used. `missing` are unmet requirements, `problem` says why it can't be used at all;
    with one, `manifest` may contain only the name. `digest` is the SHA-256 of its SKILL.md, and `changed` that it is
    another one than the user trusted."""

    name: str
    folder: Path
    source: Source
    manifest: SkillManifest
    enabled: bool = False
    missing: tuple[str, ...] = ()
    problem: str = ""
    digest: str = ""
    changed: bool = False

    @property
    def ready(self) -> bool:
        """Whether it can be used."""
        return self.enabled and not self.missing and not self.problem

    @property
    def state(self) -> str:
        """One word: `ready`, `off`, `missing` (an unmet requirement) or `broken`."""
        if self.problem:
            return "broken"
        if not self.enabled:
            return "off"
        return "missing" if self.missing else "ready"

    @property
    def why(self) -> str:
        """Why it can't be used; "" if it can."""
        parts = (
            []
            if self.enabled or self.problem
            else [_("off: {reason}").format(reason=_(CHANGED)) if self.changed else _("off")]
        )
        parts += [self.problem] if self.problem else []
        parts += [_("missing {names}").format(names=", ".join(self.missing))] if self.missing else []
        return "; ".join(parts)

    @property
    def listed(self) -> bool:
        """Whether the model is told of it."""
        return self.ready and not self.manifest.disable_model_invocation

    @property
    def offered(self) -> bool:
        """Whether the user is offered it."""
        return self.ready and self.manifest.user_invocable


class _Read(Struct, frozen=True):
    """What a SKILL.md said when its file had the state `stat`."""

    stat: tuple[int, ...]
    manifest: SkillManifest | None
    problem: str = ""
    digest: str = ""


class SkillShelf:
    """The skills of one agent. Looking again reads only what changed, and nothing where no folder has skills."""

    def __init__(self, paths: Paths, settings: SkillSettings, workspace: Path) -> None:
        self.settings = settings
        self.home = paths.skills
        self.workspace = workspace
        self.switches_file = paths.skills_file
        self.skills: tuple[FoundSkill, ...] = ()
        """Those that the last look found, by their names."""
        self._read: dict[Path, _Read] = {}

    def look(self) -> tuple[FoundSkill, ...]:
        """All skills, sorted by name, including unusable ones with their `problem`; none if they are switched off.
        Blocks."""
        self.skills = tuple(sorted(self._chosen(), key=lambda skill: (skill.name, bool(skill.problem), skill.folder)))
        return self.skills

    def folders(self) -> list[Path]:
        """The folders of the skills that the last look found enabled."""
        return [skill.folder for skill in self.skills if skill.enabled]

    def text(self, skill: FoundSkill) -> SkillText:
        """The SKILL.md of `skill` as it is now. Raises ManifestError where it can't be used, or is another one than was
        found. Blocks."""
        file = skill.folder / SKILL_FILE
        try:
            check_folder(skill.folder, (SKILL_FILE,), in_workspace=skill.source == "workspace")
            data = read_manifest(file)
        except UNUSABLE as error:
            raise ManifestError(f"{file}: {error}") from None
        if skill.source == "workspace" and digest_of(data) != skill.digest:
            raise ManifestError(f"{file}: {CHANGED}")
        return parse_skill(manifest_text(data, str(file)), skill.folder.name, str(file))

    def _chosen(self) -> Iterator[FoundSkill]:
        """Every skill; of several with one name the first can be used."""
        if not self.settings.enabled:
            return
        # A later folder in the settings takes precedence.
        places: tuple[tuple[Source, list[Path]], ...] = (
            ("home", [self.home]),
            ("dir", [*reversed(self.settings.dirs)]),
            ("workspace", [self.workspace / FOLDER]),
        )
        found = [(source, folder) for source, tops in places for folder in manifest_folders(tops, (SKILL_FILE,))]
        kept = {folder for _, folder in found}
        switches, problem = self._switches() if found else (Switches(), "")
        self._read = {file: read for file, read in self._read.items() if file.parent in kept}
        first: dict[str, FoundSkill] = {}
        for source, folder in found:
            skill = self._found(folder, source, switches)
            other = first.setdefault(skill.name, skill)
            if problem or other is not skill:
                why = problem or f"there is already a skill {skill.name}: {other.folder}"
                skill = msgspec.structs.replace(skill, enabled=False, problem=skill.problem or why)
            yield skill

    def _switches(self) -> tuple[Switches, str]:
        """What the user switched, and why that is not known."""
        try:
            return read_switches(self.switches_file), ""
        except ConfigError as error:
            return Switches(), str(error)

    def _found(self, folder: Path, source: Source, switches: Switches) -> FoundSkill:
        name, problem, read = folder.name, "", None
        lacking: tuple[str, ...] = ()
        try:
            check_folder(folder, (SKILL_FILE,), in_workspace=source == "workspace")
            read = self._manifest(folder / SKILL_FILE)
            problem = read.problem
            if read.manifest is not None and not read.manifest.always:
                lacking = unmet(read.manifest.requires, {})
        except (ManifestError, *UNUSABLE) as error:
            problem = f"{folder / SKILL_FILE}: {error}"
        digest = read.digest if read is not None else ""
        trusted = (switches.trusted or {}).get(os.path.realpath(folder)) if source == "workspace" else None
        return FoundSkill(
            name=name,
            folder=folder,
            source=source,
            manifest=read.manifest if read is not None and read.manifest is not None else SkillManifest(name),
            enabled=trusted == digest if source == "workspace" else switches.enabled.get(name, True),
            missing=lacking,
            problem=problem,
            digest=digest,
            changed=trusted not in (None, digest),
        )

    def _manifest(self, file: Path) -> _Read:
        """What `file` says; one that did not change is not read again. Raises OSError, ManifestError."""
        found = file.stat()
        state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if (known := self._read.get(file)) is None or known.stat != state:
            data = read_manifest(file)
            known = self._read[file] = _parsed(data, file, state)
        return known


def _parsed(data: bytes, file: Path, state: tuple[int, ...]) -> _Read:
    try:
        manifest = parse_skill(manifest_text(data, str(file)), file.parent.name, str(file)).manifest
    except ManifestError as error:
        return _Read(state, None, str(error), digest_of(data))
    return _Read(state, manifest, "", digest_of(data))
