"""SKILL.md: the name of a skill, what it is for, and who may call it. Pure: text in, `SkillManifest` out.

The form is that of the Agent Skills specification (https://agentskills.io/specification), with
`disable-model-invocation` and `user-invocable` of Claude Code and the `requires` of OpenClaw. Other keys are left
alone.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from clawbot.extensions.manifest import BaseManifest, Head, ManifestError, as_list, parse_head, readable

SKILL_FILE = "SKILL.md"
NAME_RULE = "a name is made of a-z and 0-9, in words with one - between them, 64 characters at most"

_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_DESCRIPTION = 1024  # characters, by the specification
_MOST_COMPATIBILITY = 500


class SkillManifest(BaseManifest, frozen=True):
    """The head of a SKILL.md. `compatibility` says for people what it needs, `requires` for the program.
    `allowed_tools` are those it was written for: they are shown, and allow nothing. With `disable_model_invocation`
    only the user calls it; without `user_invocable` it is not offered to the user."""

    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    disable_model_invocation: bool = False
    user_invocable: bool = True


class SkillText(Struct, frozen=True):
    """A SKILL.md as it was read: its `body`, and the number of the line of the file on which that begins."""

    manifest: SkillManifest
    body: str
    first_line: int


def parse_skill(text: str, folder: str, file: str) -> SkillText:
    """The skill `text` in a folder of the name `folder`; `file` is what errors call it. Raises ManifestError."""
    head = parse_head(text, file)
    values = {"name": folder, **head.values}
    values["allowed_tools"] = as_list(values.get("allowed_tools", ()))
    try:
        manifest = msgspec.convert(values, SkillManifest)
    except msgspec.ValidationError as error:
        key, _, what = readable(error).partition(": ")
        raise _wrong(head, file, re.split(r"[.\[]", key)[0], what) from None
    manifest = msgspec.structs.replace(manifest, description=" ".join(manifest.description.split()))
    _check(manifest, head, folder, file)
    return SkillText(manifest, head.body, head.body_line)


def _check(manifest: SkillManifest, head: Head, folder: str, file: str) -> None:
    name, description = manifest.name, manifest.description
    if not _NAME.fullmatch(name):
        raise _wrong(head, file, "name", f"{NAME_RULE}; {name[:80]!r} is none")
    if name != folder:
        # The agent can make folders in a workspace: none may pass for one that the user has enabled.
        raise _wrong(head, file, "name", f"a skill has the name of its folder, {folder!r}, not {name!r}")
    if not description:
        raise _wrong(head, file, "description", "expected what the skill does and when to use it")
    if len(description) > _MOST_DESCRIPTION:
        raise _wrong(head, file, "description", f"{len(description):,} characters; {_MOST_DESCRIPTION:,} are the most")
    if len(manifest.compatibility) > _MOST_COMPATIBILITY:
        raise _wrong(head, file, "compatibility", f"more than {_MOST_COMPATIBILITY} characters")


def _wrong(head: Head, file: str, key: str, what: str) -> ManifestError:
    """The error about the value of `key`, with its line, or the first one where it is missing."""
    return ManifestError(f"{file} line {head.lines.get(key, 1)}: {key.replace('_', '-')}: {what}")
