"""The flags of a line are those of all its words, whatever marks stand around them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import pytest

from clawbot.memory.chunking import document_chunks
from clawbot.memory.dates import TIME_WORDS
from clawbot.memory.store.records import DATED, NUMBERED

FLAGS = document_chunks._flags_of_words
NAMES = sorted(document_chunks._TIME_NAMES | TIME_WORDS | document_chunks._NUMBER_NAMES)


@pytest.mark.parametrize("line", ["so {} it is", "so ({}), it is", "*{}*!", "_{}_", '"{}"?', "at {}."])
def test_no_word_that_tells_is_passed_over(line: str) -> None:
    for name in NAMES:
        for text in (line.format(name), line.format(name.title())):
            assert document_chunks._flags(text) & (DATED | NUMBERED) == reduce(or_, map(FLAGS.judge, text.split()), 0)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("Twenty-one guests came", NUMBERED),
        ("we met on 12.3. in town", DATED | NUMBERED),
        ("at 14h30 (or later)", DATED | NUMBERED),
        ("foo_two is a name", 0),
        ("nothing of the kind", 0),
        ("it was _Monday_", DATED),
    ],
)
def test_flags_of_a_line(text: str, flags: int) -> None:
    assert document_chunks._flags(text) == flags
