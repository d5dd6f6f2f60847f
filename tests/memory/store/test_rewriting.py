"""Whatever is written over what, the index is as if it had been built at once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import Profile
from clawbot.memory.sync.maintenance import verify
from tests.memory.store.making import chunks, opened, put, record

LINES = st.sampled_from(
    ["# top", "# 标题", "- 数据库", "- milk", "Bob: hello", "Eve: 你好", "one two", "...", "", "\0"]
)
TEXTS = st.lists(LINES, max_size=9).map("\n".join)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), TEXTS), st.booleans()), min_size=1, max_size=8)
WORDS = ("top", '"标题"', '"数据"', "milk", "bob", "你", "two")


def contents(path: Path) -> dict[str, Any]:
    """What the index holds of each file, by its path and not by ids."""
    reader = IndexReader(path)
    speakers = reader.speakers()
    found: dict[str, Any] = {}
    for file in reader.files().values():
        first = file.id << 20
        rows = reader.rows(range(first, first + file.chunks))
        ids, vectors = reader.vectors(range(first, first + file.chunks))
        shown = [
            structs.replace(row, id=row.id - first, heading=row.heading and row.heading - first, speaker=None)
            for row in rows
        ]
        said = [speakers[row.speaker] for row in rows if row.speaker is not None]
        words = {
            word: [one - first for one in reader.postings(word, 99).tolist() if one >> 20 == file.id] for word in WORDS
        }
        found[file.path] = shown, said, words, (ids - first).tolist(), np.round(vectors, 5).tolist()
    reader.close()
    return found


@pytest.mark.parametrize("profile", ["lines", "classic"])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_any_way_leads_to_the_same_index(profile: Profile, steps: list[tuple[str, str | None, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, once = Path(folder, "main.sqlite"), Path(folder, "once.sqlite")
        writer = opened(path, profile)
        files: dict[str, str] = {}
        for name, text, embed in steps:
            if text is None:
                with writer.transaction():
                    writer.remove([name])
                files.pop(name, None)
            else:
                put(writer, {name: text}, embed=embed)
                files[name] = text
        put(writer, {})
        report = verify(writer, [(record(name, text), chunks(text)) for name, text in files.items()], fix=False)
        assert report.clean, report
        assert writer.pending_count() == 0
        writer.close()
        fresh = opened(once, profile)
        put(fresh, files)
        fresh.close()
        assert contents(path) == contents(once)
