"""The collections that qmd is given, and the way back from its paths to those of the memory. Pure."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.config.schema_memory import ExtraPath
from clawbot.memory.values import Source

NOTES, TALKS = "notes", "sessions"
_MARKDOWN = "*.{md,MD,markdown,MARKDOWN}"
_ROOT = "{MEMORY,memory}.md"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_URI = re.compile(r"qmd://(?P<name>[A-Za-z0-9_-]+)/(?P<path>.+)", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?\[\]{}()!+@,|]")


class Collection(Struct, frozen=True):
    """A collection of qmd: the files of `folder` that match `pattern`, all of one source."""

    name: str
    folder: str
    pattern: str
    source: Source = "memory"


def collections_of(
    agent_id: str, workspace: Path, extra: Sequence[ExtraPath], exports: Path, sources: Sequence[Source]
) -> tuple[Collection, ...]:
    """The collections of an agent. Their names are safe for a shell and a path, and no two are equal.

    `exports` is the folder of its exported transcripts. Blocks: an extra path may be a file or a folder.
    """
    own = _UNSAFE.sub("-", agent_id)
    found: list[Collection] = []
    if "memory" in sources:
        found.append(Collection(f"{own}-memory", str(workspace), _ROOT))
        found.append(Collection(f"{own}-{NOTES}", str(workspace / "memory"), f"**/{_MARKDOWN}"))
        found += [_extra(f"{own}-extra{number}", workspace, one) for number, one in enumerate(extra, 1)]
    if "sessions" in sources:
        found.append(Collection(f"{own}-{TALKS}", str(exports), "*.md", "sessions"))
    return tuple(found)


def _extra(name: str, workspace: Path, extra: ExtraPath) -> Collection:
    place = Path(os.path.normpath(workspace / extra.path))
    if place.is_dir():
        pattern = f"**/{_MARKDOWN}" if extra.pattern == "**/*.md" else extra.pattern
        return Collection(name, str(place), pattern)
    return Collection(name, str(place.parent), _SPECIAL.sub("?", place.name))


def config_data(before: Any, collections: Sequence[Collection]) -> Mapping[str, Any] | None:
    """qmd's configuration with `collections`; None if `before` is that already. The rest of `before` is kept."""
    wanted = {one.name: {"path": one.folder, "pattern": one.pattern} for one in collections}
    kept = before if isinstance(before, dict) else {}
    return None if kept.get("collections") == wanted else {**kept, "collections": wanted}


class QmdAnswer(Struct, frozen=True):
    """One result of qmd. `line` is its best line, from 1; 0 if it does not say."""

    file: str
    score: float
    line: int = 0


def decode_answers(output: bytes) -> list[QmdAnswer]:
    """The results that `qmd … --json` prints. Raises msgspec.DecodeError for anything else."""
    return msgspec.json.decode(output, type=list[QmdAnswer])


def located(answer: QmdAnswer, collections: Sequence[Collection]) -> tuple[Collection, str] | None:
    """The collection and the absolute path of a result; None for what lies outside its collection."""
    found = _URI.fullmatch(answer.file)
    collection = next((one for one in collections if found is not None and one.name == found["name"]), None)
    if found is None or collection is None:
        return None
    path = os.path.normpath(Path(collection.folder) / found["path"])
    return (collection, path) if path.startswith(collection.folder.rstrip("/") + "/") else None


def export_name(path: str) -> str:
    """The file name of an exported transcript, or part of one, with the path `path` in results."""
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest() + ".md"
