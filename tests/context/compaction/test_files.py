"""The lists of files over many compactions. What they look like is in `test_carrying.py` (`TestFiles`)."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.files import FileLists, file_lists, show_files
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message
from tests.context.compaction.talk import answer, call, result


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("read", FileLists(("a.md",), ())),
        ("write", FileLists((), ("a.md",))),
        ("append", FileLists((), ("a.md",))),
        ("edit", FileLists((), ("a.md",))),
        ("grep", FileLists()),
        ("shell", FileLists()),
    ],
)
def test_which_tools_read_and_change(name: str, lists: FileLists) -> None:
    assert file_lists([answer("", call("1", name, path="a.md"))]) == lists


@pytest.mark.parametrize("path", [7, None, ["a.md"], {"a.md": 1}])
def test_what_a_model_gives_for_a_path_may_be_anything(path: object) -> None:
    assert file_lists([answer("", call("1", "read", path=path), call("2", "read"))]) == FileLists()


@pytest.mark.parametrize(
    "lists", [FileLists(("a.md", "b.md")), FileLists((), ("a.md",)), FileLists(("a.md",), ("c.md",))]
)
def test_what_is_shown_whole_has_no_more(lists: FileLists) -> None:
    assert "more" not in show_files(lists, 100, estimate_tokens)


_calls = st.tuples(st.sampled_from(["read", "edit", "append", "grep"]), st.sampled_from("abcd"), st.booleans())


@given(st.lists(_calls, max_size=12), st.integers(0, 12))
def test_two_compactions_list_what_one_would(drawn: list[tuple[str, str, bool]], at: int) -> None:
    """Sheet 7.4: added up over all compactions, sorted; what was changed is not listed as read."""
    talk: list[list[Message]] = [
        [answer("", call(f"c{number}", name, path=path)), result("x", f"c{number}", is_error=failed)]
        for number, (name, path, failed) in enumerate(drawn)
    ]
    first, second = list(chain(*talk[:at])), list(chain(*talk[at:]))
    whole = file_lists([*first, *second])
    assert file_lists(second, file_lists(first).as_details()) == whole
    assert not set(whole.read) & set(whole.modified)
    assert (list(whole.read), list(whole.modified)) == (sorted(whole.read), sorted(whole.modified))
