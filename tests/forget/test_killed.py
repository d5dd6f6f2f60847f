"""`kill -9` at every step of forgetting: each file is whole, and the same command finishes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.forget import Forgetting, NothingFoundError, Request
from clawbot.sessions.entries import as_object
from clawbot.sessions.forgotten import read_forgotten
from tests.faults import kill_at_each
from tests.forget.world import OTHER, WORDS, World, holds, live, stored, world

__all__ = ["world"]

IMPORTS = """
    import os
    from pathlib import Path
    from clawbot.config.load import load_settings
    from clawbot.config.paths import Paths
    from clawbot.forget import Forgetting, Request
    from clawbot.memory.arrays import numpy
    import apsw
    numpy()
"""
STORY = """
    from pathlib import Path
    from clawbot.config.load import load_settings
    from clawbot.config.paths import Paths
    from clawbot.forget import Forgetting, Request

    paths = Paths(Path.cwd())
    settings = load_settings(paths).settings
    arm()
    Forgetting(settings, paths, "main", Request(**{request!r})).run()
"""


async def forget(home: Path, **request: Any) -> None:
    paths = Paths(home)
    await asyncio.to_thread(Forgetting(load_settings(paths).settings, paths, "main", Request(**request)).run)


def check_whole(home: Path, known: dict[Path, bytes]) -> None:
    """No file is torn, and none lost a word that was not to be forgotten."""
    for path in (home / "agents" / "main" / "sessions").glob("*.jsonl"):
        lines = path.read_bytes().splitlines()
        before = known[path.relative_to(home)].splitlines()
        assert len(lines) == len(before)
        entries = [as_object(line) for line in lines]
        assert None not in entries
        assert [entry["id"] for entry in entries if entry] == [json.loads(line)["id"] for line in before]
    trip = home / "workspace" / "memory" / "trip.md"
    assert OTHER in trip.read_text("utf-8")
    assert OTHER in (home / "history.jsonl").read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize(("how", "every"), [("words", 1), ("session", 3), ("note", 3)])
async def test_a_kill_at_any_step_is_made_good_by_the_same_command(
    world: World, tmp_path: Path, how: str, every: int
) -> None:
    first = await live(world, "en")
    known = {path.relative_to(world.folder): path.read_bytes() for path in world.files()}
    wanted = {"words": {"text": WORDS["en"]}, "session": {"session": first}, "note": {"text": "memory/trip.md"}}
    request: dict[str, Any] = {"transcripts": True, **wanted[how]}
    story = STORY.format(request=request)
    *killed, whole = kill_at_each(IMPORTS, story, place=world.folder, into=tmp_path / "steps", every=every)
    assert len(killed) > 20 / every
    left = left_in(whole)
    for home in killed:
        if how == "words":
            check_whole(home, known)
        finished = not read_forgotten(home / "agents" / "main" / "sessions").unfinished
        try:
            await forget(home, **request)
        except NothingFoundError:
            assert finished
        assert not read_forgotten(home / "agents" / "main" / "sessions").unfinished
        assert left_in(home) == left, home


def left_in(home: Path) -> set[str]:
    """The files that hold the words, the database aside where notes hold them too."""
    found = {
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and holds(stored(path, home / "workspace"), WORDS["en"])
    }
    return {path.replace("-wal", "") for path in found}
