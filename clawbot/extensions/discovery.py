"""A hook or skill that was found in a folder: whether it may be used, and if not, why.

The agent writes in a workspace, and so does whoever is pulled from: what is there replaces nothing, and is off until
the user enables it in this folder with this content. Only who writes a name into the settings file wants just that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import msgspec
from msgspec import Struct

from clawbot.config.switches import Switches
from clawbot.errors import ClawbotError
from clawbot.extensions.manifest import BaseManifest, Source
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean_line

BY_NAME = N_("it is switched on by name, and one of a workspace counts for its folder and content")

State = Literal["ready", "off", "missing", "broken"]
M = TypeVar("M", bound=BaseManifest)


class Found(Struct, Generic[M], frozen=True):
    """A hook or skill. `missing` are unmet requirements; with a `problem` it can't be used at all, and `manifest` may
    contain only the name. `digest` is that of its content, and `off_because` is why one of a workspace is off
    although the user enabled it."""

    kind: ClassVar[str]
    unknown: ClassVar[str]
    """Error for a `name` that none has."""
    listing: ClassVar[str]
    """Where all are listed."""
    changed_text: ClassVar[str]

    name: str
    folder: Path
    source: Source
    manifest: M
    enabled: bool = False
    missing: tuple[str, ...] = ()
    problem: str = ""
    digest: str = ""
    off_because: str = ""

    @property
    def changed(self) -> bool:
        """Whether its content is not the one that the user enabled."""
        return self.off_because == self.changed_text

    @property
    def ready(self) -> bool:
        """Whether it can be used."""
        return self.state == "ready"

    @property
    def state(self) -> State:
        """`missing`: with an unmet requirement."""
        if self.problem:
            return "broken"
        if not self.enabled:
            return "off"
        return "missing" if self.missing else "ready"

    @property
    def entry(self) -> Path:
        """What the user reads before enabling it."""
        return self.folder

    @property
    def taken(self) -> str:
        """The problem of another one with the same name."""
        return f"there is already a {self.kind} {self.name}: {self.folder}"

    @classmethod
    def named(cls, found: Iterable[Self], name: str) -> Self:
        """Return the one called `name`: of several, one without a problem. Raises ClawbotError if there is none."""
        by_name = {each.name: each for each in sorted(found, key=lambda each: not each.problem)}
        if name in by_name:
            return by_name[name]
        near = get_close_matches(name, by_name, n=1)
        hint = _("Did you mean {name}?").format(name=near[0]) if near else _(cls.listing)
        raise ClawbotError(_(cls.unknown).format(name=clean_line(name)), hint=hint)

    def data(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "description": self.manifest.description,
            "source": self.source,
            "folder": str(self.folder),
            "enabled": self.enabled,
            "eligible": self.ready,
            "missing": list(self.missing),
            "problem": self.problem,
            "changed": self.changed,
        }

    def reason(self, text: Callable[[str], str] = str) -> str:
        """Return why it can't be used, translated by `text`; "" if it can."""
        off = "" if self.enabled or self.problem else text(N_("off"))
        if off and self.off_because:
            off = text(N_("off: {reason}")).format(reason=text(self.off_because))
        missing = text(N_("missing {names}")).format(names=", ".join(self.missing)) if self.missing else ""
        return "; ".join(filter(None, (off, self.problem, missing)))


F = TypeVar("F", bound=Found[Any])


def trusted(found: F, switches: Switches, by_name: bool | None = None) -> F:
    """`found` in a workspace, enabled if `switches` trust its folder with its content. `by_name` is its entry in the
    settings: the settings file enables whatever has the name, `switches` do not."""
    known = (switches.trusted or {}).get(os.path.realpath(found.folder))
    is_named = by_name is True and found.name not in switches.enabled
    # What the user trusted and what can't be read any more is broken rather than off.
    is_on = is_named or (known is not None and found.digest in ("", known))
    is_wanted = by_name is not False and (bool(found.digest) or is_on)
    because = "" if not is_wanted or is_on else found.changed_text if known else BY_NAME if by_name else ""
    return msgspec.structs.replace(
        found, enabled=is_wanted and is_on, digest="" if is_named else found.digest, off_because=because
    )
