"""Finds skills (folders with SKILL.md) in three sources, and decides whether each may be used.

Sources: the folders of `skills.dirs`, the user's own, a workspace. A user's own replaces one of the same name in
`skills.dirs`. Skills in a workspace, where the agent itself can write, replace nothing and are off until the user
trusts them; a change of any of their files asks again.

The form of SKILL.md is that of the Agent Skills specification (https://agentskills.io/specification), with
`disable-model-invocation` and `user-invocable` of Claude Code and the `requires` of OpenClaw. Other keys are left
alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths
from clawbot.config.schema_extensions import SkillSettings
from clawbot.config.switches import NOTHING, Switches, read_switches
from clawbot.extensions.discovery import Found, trusted
from clawbot.extensions.manifest import (
    MAX_FOLDERS,
    UNUSABLE,
    BaseManifest,
    Head,
    ManifestError,
    Source,
    as_list,
    check_folder,
    manifest_folders,
    manifest_text,
    parse_head,
    read_manifest,
    readable,
)
from clawbot.files import digest_of
from clawbot.guarded import GuardedFolder
from clawbot.text.interface import N_
from clawbot.trees import TreeWalk

SKILL_FILE = "SKILL.md"

_NAME = re.compile(r"[\w.+-]{1,64}")
_MAX_DESCRIPTION = 1024  # characters, by the specification
_MAX_COMPATIBILITY = 500


class SkillManifest(BaseManifest, frozen=True):
    """The head of a SKILL.md. `compatibility` describes for people what it needs, `requires` for the program.
    `allowed_tools` are those it was written for: they are shown, and allow nothing. With `disable_model_invocation`
    only the user calls it; without `user_invocable` it is not offered to the user. `odd`: what of its form was put
    right."""

    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    disable_model_invocation: bool = False
    user_invocable: bool = True
    odd: tuple[str, ...] = ()


class SkillText(Struct, frozen=True):
    """A SKILL.md as it was read: its `body`, and the number of the line of the file on which that begins."""

    manifest: SkillManifest
    body: str
    first_line: int


def parse_skill(text: str, folder: str, file: str) -> SkillText:
    """The skill `text` in a folder of the name `folder`; `file` is what errors call it. Its name is the folder's: the
    agent can make folders in a workspace, and none may pass for one that the user has enabled. What is only of another
    form is put right. Raises ManifestError where there is no head, or no description."""
    head = parse_head(text, file, by_line=True)
    values = dict(head.values)
    odd = [why] if (why := values.pop("", "")) else []
    if not _NAME.fullmatch(folder):
        raise ManifestError(f"{file}: {folder[:80]!r} is no name for a skill: letters, digits and . _ + -, 64 at most")
    values.pop("odd", None)
    if (name := values.pop("name", folder)) != folder:
        odd.append(_remark(head, "name", f"{str(name)[:80]!r} is called {folder}, as its folder"))
    values["allowed_tools"] = as_list(values.get("allowed_tools", ()))
    manifest = _converted({**values, "name": folder}, head, odd)
    description = " ".join(manifest.description.split())
    if not description:
        what = _remark(head, "description", "expected what the skill does and when to use it")
        raise ManifestError(f"{file} {what}")
    if len(description) > _MAX_DESCRIPTION:
        odd.append(_remark(head, "description", f"{len(description):,} characters, cut to {_MAX_DESCRIPTION:,}"))
        description = f"{description[: _MAX_DESCRIPTION - 1].rstrip()}…"
    compatibility = manifest.compatibility[:_MAX_COMPATIBILITY]
    shown = msgspec.structs.replace(manifest, description=description, compatibility=compatibility, odd=tuple(odd))
    return SkillText(shown, head.body, head.body_line)


def _converted(values: dict[str, Any], head: Head, odd: list[str]) -> SkillManifest:
    """The manifest of `values`, without those of another type; remarks on them go to `odd`. A skill that only the
    user may call remains one."""
    while True:
        try:
            return msgspec.convert(values, SkillManifest, strict=False)
        except msgspec.ValidationError as error:
            key, _, what = readable(error).partition(": ")
            key = re.split(r"[.\[]", key)[0]
            odd.append(_remark(head, key, what))
            if values.pop(key, None) is None:
                values = {"name": values["name"], "description": str(values.get("description", ""))}
            if key == "disable_model_invocation":
                values[key] = True


def _remark(head: Head, key: str, what: str) -> str:
    """Return `what` as a remark on the value of `key`, with its line, or the first one where it is missing."""
    return f"line {head.lines.get(key, 1)}: {key.replace('_', '-')}: {what}"


FOLDER = "skills"
"""The name of the folder with skills in a workspace."""
CHANGED = N_("its files changed since you enabled it")
MAX_BYTES = 32 * 1024**2
"""Of all files of a skill in a workspace, which can't be trusted with more."""


class FoundSkill(Found[SkillManifest], frozen=True):
    """A skill and whether it may be used. `digest` is the SHA-256 of its SKILL.md, or in a workspace of
    all its files if there are more."""

    kind = "skill"
    unknown = N_("There is no skill {name!r}.")
    listing = N_("/skills and `clawbot skills list` show all.")
    changed_text = CHANGED

    @property
    def entry(self) -> Path:
        return self.folder / SKILL_FILE

    def data(self) -> dict[str, Any]:
        return {**super().data(), "state": self.state}

    @property
    def listed(self) -> bool:
        """Whether the model sees it."""
        return self.ready and not self.manifest.disable_model_invocation

    @property
    def offered(self) -> bool:
        """Whether the user is offered it."""
        return self.ready and self.manifest.user_invocable


class SkillCatalog:
    """The skills of one agent, those named in `only`, None for all. Scanning again reads only what changed, and nothing
    where no folder has skills."""

    def __init__(
        self, paths: Paths, settings: SkillSettings, workspace: Path, only: Collection[str] | None = None
    ) -> None:
        self.settings = settings
        self.only = only
        self.home = paths.skills
        self.workspace = workspace
        self.switches_file = paths.skills_file
        self.notified_file = paths.home / "skills.told"
        """What is reported once a day was reported."""
        self.skills: tuple[FoundSkill, ...] = ()
        """Those that the last scan found, by their names."""

    def scan(self) -> tuple[FoundSkill, ...]:
        """All skills, sorted by name, including unusable ones with their `problem`; none if they are switched off.
        Blocks."""
        self.skills = tuple(sorted(self._chosen(), key=lambda skill: (skill.name, bool(skill.problem), skill.folder)))
        return self.skills

    def folders(self) -> list[Path]:
        """The folders of the skills that the last scan found enabled; a broken one of a workspace may lead out."""
        enabled = (skill for skill in self.skills if skill.enabled)
        return [skill.folder for skill in enabled if not skill.problem or skill.source != "workspace"]

    def text(self, skill: FoundSkill) -> SkillText:
        """The SKILL.md of `skill` as it is now. Raises ManifestError where it can't be used, or is another one than was
        found. Blocks."""
        file = skill.folder / SKILL_FILE
        try:
            check_folder(skill.folder, (SKILL_FILE,), in_workspace=skill.source == "workspace")
            data = read_manifest(file)
            changed = skill.source == "workspace" and _digest(skill.folder, data) != skill.digest
        except UNUSABLE as error:
            raise ManifestError(f"{file}: {error}") from None
        if changed:
            raise ManifestError(f"{file}: {CHANGED}")
        return parse_skill(manifest_text(data, str(file)), skill.folder.name, str(file))

    def _chosen(self) -> Iterator[FoundSkill]:
        """Yield every skill; of several with one name the first can be used."""
        if not self.settings.enabled:
            return
        # A later folder in the settings takes precedence.
        dirs: list[tuple[Source, Path]] = [("dir", folder) for folder in reversed(self.settings.dirs)]
        folders: list[tuple[Source, Path]] = [("home", self.home), *dirs, ("workspace", self.workspace / FOLDER)]
        everything = manifest_folders(folders, (SKILL_FILE,))
        found = [each for each in everything if self.only is None or each[1].name in self.only]
        switches, problem = NOTHING, ""
        try:
            switches = read_switches(self.switches_file) if found else NOTHING
        except ConfigError as error:
            problem = str(error)
        chosen: dict[str, FoundSkill] = {}
        for source, folder in found:
            skill = _found(folder, source, switches)
            first = chosen.setdefault(skill.name, skill)
            why = problem or (first.taken if first is not skill else "")
            yield msgspec.structs.replace(skill, enabled=False, problem=skill.problem or why) if why else skill


def _found(folder: Path, source: Source, switches: Switches) -> FoundSkill:
    file, manifest, problem, digest = folder / SKILL_FILE, SkillManifest(folder.name), "", ""
    missing: tuple[str, ...] = ()
    try:
        check_folder(folder, (SKILL_FILE,), in_workspace=source == "workspace")
        state = file.stat()
        version = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        manifest, problem, data = _read(file, version)
        digest = _digest(folder, data) if source == "workspace" else digest_of(data)
        missing = manifest.unmet({})
    except (ManifestError, *UNUSABLE) as error:
        problem = f"{file}: {error}"
    enabled = switches.enabled.get(folder.name, True)
    skill = FoundSkill(folder.name, folder, source, manifest, enabled, missing, problem, digest)
    return trusted(skill, switches) if source == "workspace" else skill


@lru_cache(maxsize=MAX_FOLDERS)
def _read(file: Path, _version: tuple[int, ...]) -> tuple[SkillManifest, str, bytes]:
    """The manifest in `file`, its problem and its content; one that did not change is not read again. Raises OSError,
    ManifestError."""
    data, name = read_manifest(file), file.parent.name
    try:
        return parse_skill(manifest_text(data, str(file)), name, str(file)).manifest, "", data
    except ManifestError as error:
        return SkillManifest(name), str(error), data


def _digest(folder: Path, data: bytes) -> str:
    """The digest of a skill whose SKILL.md is `data`, with all that is in `folder`: files by their content, links by
    where they lead, all by their rights. Raises OSError, and ManifestError for more than can be scanned."""
    parts: list[tuple[str, int, str]] = []
    left, top = MAX_BYTES, os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        walk = TreeWalk(top, most=MAX_FOLDERS)
        for entry in walk:
            found = os.lstat(entry.name, dir_fd=entry.parent)
            if stat.S_ISLNK(found.st_mode):
                parts.append((entry.path, found.st_mode, os.readlink(entry.name, dir_fd=entry.parent)))
            elif not entry.is_folder:
                left -= found.st_size
                if left < 0:
                    raise ManifestError(f"its files are larger than {MAX_BYTES // 1024**2} MiB")
                version = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                parts.append((entry.path, found.st_mode, _content(folder, entry.path, version)))
    finally:
        os.close(top)
    if not walk.is_complete:
        raise ManifestError("; ".join(walk.problems))
    return digest_of(data if [path for path, *_ in parts] == [SKILL_FILE] else repr(parts).encode(errors="replace"))


@lru_cache(maxsize=10 * MAX_FOLDERS)
def _content(folder: Path, path: str, _version: tuple[int, ...]) -> str:
    """Return the digest of a file, which is not read again if it did not change. Raises OSError."""
    return digest_of(GuardedFolder(folder).read(path, MAX_BYTES))
