from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import chunks, kept_in, put, record, vector


def key(number: int) -> bytes:
    return bytes([number]) * 16


def test_what_is_kept_comes_back_for_its_model_alone(path: Path, writer: IndexWriter) -> None:
    rows = {key(number): vector(str(number)).tobytes() for number in range(3)}
    writer.cache.put_many("openai/small", rows)
    found = writer.cache.get_many("openai/small", [key(0), key(2), key(9)])
    assert set(found) == {key(0), key(2)}
    assert np.allclose(np.frombuffer(found[key(2)], "<f4"), vector("2"), atol=1e-3)
    assert writer.cache.get_many("openai/large", [key(0)]) == {}
    assert IndexReader(path).cache_count() == 3


def test_those_unused_longest_go_first(writer: IndexWriter) -> None:
    for number in range(4):
        writer.cache.put_many("m", {key(number): vector("x").tobytes()})
    writer.cache.get_many("m", [key(0)])
    assert writer.cache.prune(2) == 2
    assert set(writer.cache.get_many("m", [key(number) for number in range(4)])) == {key(0), key(3)}
    assert writer.cache.prune(None) == 0
    assert kept_in(writer) == 2


def test_another_thread_waits_for_the_transaction_and_survives_its_failure(writer: IndexWriter) -> None:
    begun, over = threading.Event(), threading.Event()

    def store() -> None:
        begun.set()
        writer.cache.put_many("m", {key(1): vector("x").tobytes()})
        over.set()

    thread = threading.Thread(target=store)

    def fail() -> None:
        with writer.transaction():
            thread.start()
            begun.wait(100)
            writer.replace_file(record("a.md", "one"), chunks("one"))
            assert not over.is_set()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    thread.join(100)
    assert over.is_set()
    assert kept_in(writer) == 1
    put(writer, {"a.md": "one"})


def test_who_waited_while_the_writer_closed_finds_nothing_and_fails_at_nothing(writer: IndexWriter) -> None:
    writer.cache.put_many("m", {key(1): vector("x").tobytes()})
    writer.close()
    writer.cache.put_many("m", {key(2): vector("x").tobytes()})
    assert writer.cache.get_many("m", [key(1)]) == {}
