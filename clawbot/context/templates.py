"""How a workspace file stands to its template: who of the two has changed since the file was seeded."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path
from typing import Literal

from msgspec import Struct

State = Literal["same", "changed", "outdated", "both", "missing"]


class FileDifference(Struct, frozen=True):
    """How a file stands to its template; `diff` goes from the template to the workspace.

    `changed`: by the user (or by whom is not known, of files seeded before that was noted), `outdated`: the template
    has changed, and nobody touched the file, `both`: both have.
    """

    name: str
    state: State
    diff: str = ""


def digest_of(data: bytes) -> str:
    """By what a seeded file is known again: SHA-256 of its bytes, as hex."""
    return hashlib.sha256(data).hexdigest()


def difference(name: str, path: Path, template: Path, seeded: str | None = None) -> FileDifference:
    """How `path` stands to `template`, of which a version with the digest `seeded` was put there once (None: that was
    not noted). Blocks; raises OSError."""
    if not path.exists():
        return FileDifference(name, "missing")
    ours, theirs = template.read_bytes(), path.read_bytes()
    diff = "\n".join(
        difflib.unified_diff(_lines(ours), _lines(theirs), f"template/{name}", f"workspace/{name}", lineterm="")
    )
    return FileDifference(name, _state(ours, theirs, seeded) if diff else "same", diff)


def _state(template: bytes, file: bytes, seeded: str | None) -> State:
    if seeded is None or seeded == digest_of(template):
        return "changed"
    return "outdated" if seeded == digest_of(file) else "both"


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").rstrip().splitlines()
