"""The chunks of the profile `classic`, against a transcription of what the reference sheet says in 12.3."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.schema_memory import ChunkingSettings, MemorySearchSettings
from clawbot.memory.chunking.chunks import MAX_BYTES, Chunk, chunk, chunk_classic


def transcribed(text: str, tokens: int, overlap: int) -> list[tuple[int, int, str]]:
    """Section 12.3, word for word, with no thought for speed."""
    tokens = max(1, tokens)
    overlap = max(0, min(overlap, tokens - 1))
    max_chars, overlap_chars = max(32, tokens * 4), overlap * 4
    current: list[tuple[str, int]] = []
    current_chars = 0
    emitted: list[tuple[int, int, str]] = []

    def flush() -> None:
        if current:
            emitted.append((current[0][1], current[-1][1], "\n".join(line for line, _ in current)))

    def carry() -> None:
        nonlocal current, current_chars
        kept: list[tuple[str, int]] = []
        total = 0
        for entry in reversed(current):
            if overlap_chars == 0:
                break
            kept.insert(0, entry)
            total += len(entry[0]) + 1
            if total >= overlap_chars:
                break
        current = kept
        current_chars = sum(len(line) + 1 for line, _ in kept)

    for number, line in enumerate(text.split("\n"), start=1):
        slices = [line[start : start + max_chars] for start in range(0, len(line), max_chars)] or [""]
        for part in slices:
            if current_chars + len(part) + 1 > max_chars and current:
                flush()
                carry()
            current.append((part, number))
            current_chars += len(part) + 1
    flush()
    return [chunk for chunk in emitted if chunk[2].strip()]


def as_tuples(chunks: list[Chunk]) -> list[tuple[int, int, str]]:
    return [(found.start_line, found.end_line, found.text) for found in chunks]


def random_note(seed: int) -> str:
    source = random.Random(seed)
    lines = []
    for _ in range(source.randint(0, 120)):
        width = source.choice([0, 0, 5, 40, 80, 300, 1_599, 1_600, 1_601, 4_000])
        lines.append("".join(source.choice("abc de 项目。\t\r") for _ in range(width)))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(40))
def test_the_chunks_are_those_of_the_transcription(seed: int) -> None:
    text = random_note(seed)
    assert as_tuples(chunk_classic(text, 400, 80)) == transcribed(text, 400, 80)


@given(
    st.lists(st.text(alphabet="ab \n\t好", max_size=90), max_size=30).map("\n".join),
    st.integers(1, 30),
    st.integers(0, 40),
)
@settings(max_examples=300, deadline=None)
def test_small_sizes_and_any_overlap(text: str, tokens: int, overlap: int) -> None:
    assert as_tuples(chunk_classic(text, tokens, overlap)) == transcribed(text, tokens, overlap)


def test_the_next_chunk_begins_with_the_end_of_the_last() -> None:
    lines = [f"line {number:03} {'x' * 60}" for number in range(60)]
    first, second = chunk_classic("\n".join(lines), 400, 80)[:2]
    assert (first.start_line, first.end_line) == (1, 22)
    assert second.start_line == 18
    assert second.text.startswith(lines[17])


def test_one_long_line_becomes_slices_with_one_number() -> None:
    found = chunk_classic("y" * 4_000, 400, 0)
    assert [(chunk.start_line, chunk.end_line, len(chunk.text)) for chunk in found] == [
        (1, 1, 1_600),
        (1, 1, 1_600),
        (1, 1, 800),
    ]


def test_a_long_segment_is_carried_whole_and_the_next_chunk_outgrows_the_size() -> None:
    found = chunk_classic("y" * 1_600 + "\n" + "z" * 1_600, 400, 80)
    assert [len(chunk.text) for chunk in found] == [1_600, 3_201]


def test_white_space_alone_is_no_chunk() -> None:
    assert chunk_classic("\n\n  \t\n", 400, 80) == []
    assert chunk_classic("", 400, 80) == []


@pytest.mark.parametrize("letter", ["a", "é", "项", "😀"])
def test_no_chunk_is_larger_than_a_model_takes(letter: str) -> None:
    text = letter * 20_000
    found = chunk_classic(text, 5_000, 0)
    assert "".join(chunk.text for chunk in found) == text
    assert all(MAX_BYTES - 4 < len(chunk.text.encode()) <= MAX_BYTES for chunk in found[:-1])
    assert {(chunk.start_line, chunk.end_line) for chunk in found} == {(1, 1)}


def test_the_profile_decides() -> None:
    text = "- a\n- b"
    assert len(chunk(text, MemorySearchSettings(profile="lines"))) == 2
    classic = MemorySearchSettings(profile="classic", chunking=ChunkingSettings(tokens=8, overlap=0))
    assert as_tuples(chunk(text * 10, classic)) == transcribed(text * 10, 8, 0)
