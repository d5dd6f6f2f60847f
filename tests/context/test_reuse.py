"""The same object for what stands in an item's place from call to call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.context.reuse import Reuse
from clawbot.messages import TextBlock, ToolResultMessage
from clawbot.sessions.conversation import ContextItem
from tests.context.talk import items, result, user

ITEMS = items(*(user(f"问题 {number}") if number % 2 else result(f"{number}", f"c{number}") for number in range(6)))


def cut(item: ContextItem, text: str = "…") -> ContextItem:
    """A new item that stands in for `item`."""
    block = TextBlock(text)
    return ContextItem(item.entry_id, structs.replace(item.message, content=[block]))


def test_an_equal_item_is_the_object_of_the_last_view() -> None:
    reuse = Reuse()
    first = reuse.settle(ITEMS[:1], [cut(ITEMS[0])])
    again = reuse.settle(ITEMS[:2], [cut(ITEMS[0]), ITEMS[1]])
    assert again[0] is first[0]
    assert again[1] is ITEMS[1]


def test_another_text_is_another_object_and_takes_its_place() -> None:
    reuse = Reuse()
    first = reuse.settle(ITEMS[:1], [cut(ITEMS[0], "long")])
    second = reuse.settle(ITEMS[:1], [cut(ITEMS[0], "short")])
    assert (first[0].message.text, second[0].message.text) == ("long", "short")
    assert reuse.settle(ITEMS[:1], [cut(ITEMS[0], "short")])[0] is second[0]
    assert reuse.settle(ITEMS[:1], [cut(ITEMS[0], "long")])[0] is not first[0]


def test_results_that_have_no_entry_are_told_apart_by_their_calls() -> None:
    """What is made up for a call without a result belongs to the entry of the call."""
    pair = [ContextItem("", ToolResultMessage(call, "read", [TextBlock(call)])) for call in ("c1", "c2")]
    reuse = Reuse()
    first = reuse.settle(pair, [cut(item) for item in pair])
    again = reuse.settle(pair, [cut(item) for item in pair])
    assert [now is was for now, was in zip(again, first, strict=True)] == [True, True]
    assert [item.message.tool_call_id for item in again if isinstance(item.message, ToolResultMessage)] == ["c1", "c2"]


@given(st.lists(st.lists(st.sampled_from(["", "a", "b"]), min_size=len(ITEMS), max_size=len(ITEMS)), max_size=6))
def test_each_view_is_equal_to_what_was_given_and_knows_the_view_before_alone(views: list[list[str]]) -> None:
    reuse = Reuse()
    before: list[ContextItem] = []
    for texts in views:
        made = [cut(item, text) if text else item for item, text in zip(ITEMS, texts, strict=True)]
        settled = reuse.settle(ITEMS, made)
        assert settled == made
        assert len(reuse) == sum(map(bool, texts))
        for item, shown, new, known in zip(ITEMS, settled, made, before or ITEMS, strict=True):
            was_a_stand_in = known is not item
            assert shown is (known if was_a_stand_in and known == new else new)
        before = settled
