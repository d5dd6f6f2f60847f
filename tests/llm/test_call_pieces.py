"""Tool calls as servers stream them and models write them."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.llm.calls import CallAssembler, parse_arguments, safe_name
from tests.llm.cases import read_cases
from tests.tables import load_table


def piece(
    arguments: Any, name: str | None = None, index: int | None = 0, identity: str | None = None
) -> dict[str, Any]:
    return {"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}


def calls(*pieces: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    collected = CallAssembler(("read", "list"))
    for one in pieces:
        collected.feed(one)
    blocks = collected.blocks()
    assert all(block.id and block.malformed is None for block in blocks), blocks
    assert len({block.id for block in blocks}) == len(blocks)
    return [(block.name, block.arguments) for block in blocks]


READ = ("read", {"path": "A"})
ONE_CALL = {
    "vLLM's harmony parser: a new id and the name in each delta": [
        piece('{"pa', "read", 0, "1"), piece('th":', "read", 0, "2"), piece(' "A"', "read", 0, "3"),
        piece("}", "read", 0, "4"),
    ],
    "the same, beginning with nothing": [
        piece("", "read", 0, "1"), piece('{"pa', "read", 0, "2"), piece('th":"A"}', "read", 0, "3"),
    ],
    "a new id in each delta, no name": [piece('{"pa', "read", 0, "1"), piece('th":"A"}', None, 0, "2")],
    "cumulative": [piece('{"pa', "read", 0, "1"), piece('{"path":"A'), piece('{"path":"A"}')],
    "cumulative with name and id": [
        piece('{"pa', "read", 0, "1"), piece('{"path":"A"', "read", 0, "1"), piece('{"path":"A"}', "read", 0, "1"),
    ],
    "the whole again at the end": [
        piece('{"pa', "read", 0, "1"), piece('th":"A"}'), piece('{"path": "A"}', "read", 0, "1"),
    ],
    "whole, twice": [piece('{"path":"A"}', "read", 0, "1"), piece('{"path":"A"}', "read", 0, "1")],
    "a name in pieces": [piece("", "re", 0, "1"), piece("", "ad"), piece('{"path":"A"}')],
    "a name that grows": [piece("", "re", 0, "1"), piece("", "read"), piece('{"path":"A"}')],
    "no index": [piece('{"pa', "read", None, "1"), piece('th":"A"}', None, None)],
    "no index, no id": [piece('{"pa', "read", None), piece('th":"A"}', None, None)],
    "no index, the id each time": [piece('{"pa', "read", None, "1"), piece('th":"A"}', None, None, "1")],
    "an object": [piece({"path": "A"}, "read", 0, "1")],
    "a namespace": [piece('{"path":"A"}', "functions.read", 0, "1")],
}  # fmt: skip
TWO_CALLS = {
    "interleaved by index": [
        piece('{"pa', "read", 0, "a"), piece("{", "list", 1, "b"), piece('th":"A"}'), piece("}", None, 1),
    ],
    "interleaved by id": [
        piece('{"pa', "read", None, "a"), piece("{", "list", None, "b"), piece('th":"A"}', None, None, "a"),
        piece("}", None, None, "b"),
    ],
    "interleaved by id, at one index": [
        piece('{"pa', "read", 0, "a"), piece("{", "list", 0, "b"), piece('th":"A"}', None, 0, "a"),
        piece("}", None, 0, "b"),
    ],
    "whole calls at one index": [piece('{"path":"A"}', "read", 0, "a"), piece("{}", "list", 0, "b")],
    "whole calls without arguments": [piece('{"path":"A"}', "read", 0, "a"), piece(None, "list", 0, "b")],
    "no ids": [piece('{"path":"A"}', "read"), piece("{}", "list", 1)],
    "no index, no id": [piece('{"path":"A"}', "read", None), piece("{}", "list", None)],
}  # fmt: skip


@pytest.mark.parametrize("pieces", ONE_CALL.values(), ids=ONE_CALL)
def test_one_call(pieces: list[dict[str, Any]]) -> None:
    assert calls(*pieces) == [READ]


@pytest.mark.parametrize("pieces", TWO_CALLS.values(), ids=TWO_CALLS)
def test_two_calls(pieces: list[dict[str, Any]]) -> None:
    assert calls(*pieces) == [READ, ("list", {})]


def test_the_same_call_twice_is_two_calls() -> None:
    assert calls(piece('{"path":"A"}', "read", 0, "a"), piece('{"path":"A"}', "read", 0, "b")) == [READ, READ]


def test_what_no_reading_makes_sense_of_is_one_call_with_its_raw_text() -> None:
    collected = CallAssembler()
    for one in (piece('{"pa', "read", 0, "1"), piece("th: oops", None, 0, "2")):
        collected.feed(one)
    assert [block.malformed for block in collected.blocks()] == ['{"path: oops']


@pytest.mark.parametrize(
    ("raw", "arguments", "malformed"), [*read_cases("arguments")["arguments"], ("[" * 100_000, {}, "[" * 100_000)]
)
def test_arguments(raw: str, arguments: dict[str, Any], malformed: str | None) -> None:
    assert parse_arguments(raw) == (arguments, malformed)


@pytest.mark.parametrize("depth", [65, 500, 900, 5_000, 200_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_arguments_that_are_nested_deeply_are_no_arguments(depth: int, begin: str, end: str) -> None:
    raw = '{"path":' + begin * depth + "1" + end * depth + "}"
    assert parse_arguments(raw) == ({}, raw)


def test_arguments_with_many_brackets_and_little_depth_are_taken() -> None:
    raw = '{"edits":[' + ",".join(['{"a":["[[[[{{{{"]}'] * 100) + "]}"
    arguments, malformed = parse_arguments(raw)
    assert malformed is None
    assert len(arguments["edits"]) == 100


@pytest.mark.parametrize(
    ("name", "expected"),
    load_table(__file__, "names"),
)
def test_names(name: str, expected: str) -> None:
    assert safe_name(name) == expected
