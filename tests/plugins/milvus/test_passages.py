"""Passages and claims as they are stored: ids by content, terms, filters, and what becomes of blocks."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.store.records import ChunkRecord, DayRun
from clawbot.plugins.milvus.passages import (
    BLOCK,
    Claim,
    Version,
    begun,
    blocks_of,
    contested,
    decode_claim,
    deletable,
    encode_claim,
    forgotten,
    quoted,
    settled,
    terms_of,
    within,
    word_of,
)


def passages(count: int) -> list[ChunkRecord]:
    return [ChunkRecord(n + 1, n + 1, "prose", f"line {n}", f"line {n}") for n in range(count)]


def ids(agent: str, path: str, count: int) -> list[int]:
    return [block.id for block in blocks_of(agent, path, passages(count))]


def test_a_file_that_grows_keeps_its_full_blocks() -> None:
    before, after = ids("main", "memory/a.md", 2 * BLOCK + 3), ids("main", "memory/a.md", 2 * BLOCK + 4)
    assert before[:2] == after[:2]
    assert before[2] != after[2]


def test_equal_text_is_the_same_block_only_in_the_same_place() -> None:
    assert ids("main", "memory/a.md", 3) == ids("main", "memory/a.md", 3)
    assert ids("main", "memory/a.md", 3) != ids("main", "memory/b.md", 3)
    assert ids("main", "memory/a.md", 3) != ids("other", "memory/a.md", 3)


def test_a_heading_above_the_block_is_part_of_it() -> None:
    def under(heading: str) -> int:
        rows = [ChunkRecord(1, 1, "heading", heading, heading)]
        rows += [ChunkRecord(n + 2, n + 2, "item", f"- {n}", f"- {n}", heading=0) for n in range(BLOCK)]
        return blocks_of("main", "memory/a.md", rows)[1].id

    assert under("# One") != under("# Two")


def test_terms_are_plain_letters_whatever_the_script() -> None:
    found = terms_of("Moving café 数据库 user_id")
    assert all(term.isascii() and term.isalnum() for term in found)
    assert {"move", "cafe"} <= set(found)
    assert "数据" in [word_of(term) for term in found]
    assert set(terms_of("数据")) <= set(found)


@given(st.text())
def test_a_value_can_not_leave_its_quotes(text: str) -> None:
    inner = quoted(text)[1:-1]
    assert '"' not in inner.replace("\\\\", "").replace('\\"', "")


def test_every_filter_names_the_agents() -> None:
    assert within(["b", "a"], 'path == "x"') == 'agent in ["a", "b"] and path == "x"'


def version(*blocks: int) -> Version:
    return Version(size=1, mtime_ns=2, digest=b"\x00\xff", source="memory", blocks=blocks, chunks=len(blocks) * BLOCK)


def claim(owner: str, of: Version | None = None, **more: tuple[int, ...]) -> Claim:
    return Claim(agent="main", owner=owner, path="memory/笔记.md", at=5, version=of, **more)


def test_a_claim_is_read_as_it_was_written() -> None:
    day = dt.date(2026, 3, 2)
    full = Version(
        size=1,
        mtime_ns=2,
        digest=b"\x00\xff",
        source="memory",
        blocks=(1, 2**58 - 1),
        chunks=40,
        day=day,
        days=(DayRun(0, (day,)),),
        speakers=("Anna", "李"),
    )
    for each in (claim("a", full, pending=(3,), dropped=(4, 5)), claim("a")):
        assert decode_claim(encode_claim(each)) == each


@pytest.mark.parametrize("body", ["", "[]", "{}", '[{"size": "many"}, "", "", ""]'])
def test_a_claim_that_is_none_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_claim({**encode_claim(claim("a")), "body": body})


def test_a_new_version_drops_what_it_no_longer_needs() -> None:
    before = claim("a", version(1, 2))
    pending = begun(before, (1, 3), 6)
    assert (pending.blocks, pending.pending) == ((1, 2), (3,))
    done = settled(pending, version(1, 3), 7)
    assert (done.blocks, done.pending, done.dropped) == ((1, 3), (), (2,))
    assert forgotten(done, 8).dropped == ()


def test_a_cut_off_version_is_dropped_by_the_next() -> None:
    cut_off = begun(claim("a", version(1)), (2,), 6)
    assert settled(begun(cut_off, (3,), 7), version(3), 8).dropped == (1, 2)


def test_what_another_machine_needs_is_not_deleted() -> None:
    mine = settled(claim("a", version(1, 2, 3)), None, 6)
    assert mine.version is None
    others = [mine, claim("b", version(2)), claim("c", pending=(3,))]
    assert deletable(mine, others) == {1}


def test_one_of_two_machines_that_meet_sees_the_other() -> None:
    """Each writes before it reads, in any order."""
    deleting, writing = claim("a", dropped=(1,)), claim("b", pending=(1,))
    assert deletable(deleting, [deleting]) == {1}
    assert contested(writing, [deleting, writing]) == {1}
    assert deletable(deleting, [deleting, writing]) == frozenset()
