"""SKILL.md: the name of a skill, what it is for, and who may call it. Pure: text in, `SkillManifest` out.

The form is that of the Agent Skills specification (https://agentskills.io/specification), with
`disable-model-invocation` and `user-invocable` of Claude Code and the `requires` of OpenClaw. Other keys are left
alone.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.extensions.manifest import BaseManifest, Head, ManifestError, as_list, parse_head, readable

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
