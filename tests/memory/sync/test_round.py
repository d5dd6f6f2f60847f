"""When an index has to be built anew."""

from __future__ import annotations

import pytest
from msgspec import structs

from clawbot.memory.store.records import Identity
from clawbot.memory.sync.round import needs_rebuild

KNOWN = Identity(profile="lines", chunker="1", tokenizer="1", vectors="offline", dimensions=256)


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({}, False),
        ({"sources": ("memory", "sessions")}, False),
        ({"chunker": "2"}, True),
        ({"tokenizer": "2"}, True),
        ({"profile": "classic"}, True),
        ({"vectors": "openai"}, True),
        ({"form": KNOWN.form + 1}, True),
        ({"vectors": ""}, False),
    ],
)
def test_what_chunks_and_vectors_depend_on_decides(change: dict[str, object], anew: bool) -> None:
    assert needs_rebuild(KNOWN, structs.replace(KNOWN, **change)) is anew


def test_an_index_without_vectors_gets_them_in_place() -> None:
    bare = structs.replace(KNOWN, vectors="", dimensions=0)
    assert not needs_rebuild(bare, KNOWN)
