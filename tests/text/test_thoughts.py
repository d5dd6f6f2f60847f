"""Reasoning in the text of an answer is separated from the answer, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.thoughts import ThoughtSplitter, without_thoughts
from tests.tables import load_table

HARMONY = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
# What a server sends, what of it was thought, and the answer.
BLOCKS = [
    ("<think>hm</think>\n\nYes.", "hm", "Yes."),
    ("<think>\nhm\n</think>\n\nYes.\n\nNo.", "hm\n", "Yes.\n\nNo."),
    ("\n  <thinking>hm</thinking> Yes.", "hm", "Yes."),
    ("<thought>hm</thought>Yes.", "hm", "Yes."),
    ("<reasoning>hm</reasoning>Yes.", "hm", "Yes."),
    ("<reflection>hm</reflection>Yes.", "hm", "Yes."),
    ("<seed:think>hm</seed:think>Yes.", "hm", "Yes."),
    ("<THINK>hm</Think>Yes.", "hm", "Yes."),
    ("<think>hm</thinking>Yes.", "hm", "Yes."),
    ('<think type="deep">hm</think>Yes.', "hm", "Yes."),
    ("<think >hm</think\n>Yes.", "hm", "Yes."),
    ("<thinking budget=100>hm</thinking>Yes.", "hm", "Yes."),
    ("<think>hm<//think>Yes.", "hm", "Yes."),
    ("<think>hm<｜/think｜>Yes.", "hm", "Yes."),
    ("<｜begin▁of▁thinking｜>hm<｜end▁of▁thinking｜>Yes.", "hm", "Yes."),
    ("<|think_start|>hm<|think_end|>Yes.", "hm", "Yes."),
    ("<|thinking|>hm<|/thinking|>Yes.", "hm", "Yes."),
    ("<|think|>hm</think>Yes.", "hm", "Yes."),
    ("<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD>Yes.", "hm", "Yes."),
    ("<thought_process>hm</thought_process>Yes.", "hm", "Yes."),
    ("<思考>hm</思考>Yes.", "hm", "Yes."),
    ("\ufeff<think>hm</think>Yes.", "hm", "Yes."),
    ("<|im_start|>assistant\n<think>hm</think>Yes.<|im_end|>", "hm", "Yes."),
    ("<think>hm</think>Yes.<｜end▁of▁sentence｜>", "hm", "Yes."),
    ("◁think▷hm◁/think▷Yes.", "hm", "Yes."),
    ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
    ("<|begin_of_thought|>hm<|end_of_thought|>\n\nYes.", "hm", "Yes."),
    ("<|begin_of_thought|>hm<|end_of_thought|><|begin_of_solution|>Yes.<|end_of_solution|>", "hm", "Yes."),
    ("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>", "hm", "Yes."),
    ("<|inner_prefix|>hm<|inner_suffix|>Yes.", "hm", "Yes."),
    ("<|channel>thought\nhm<channel|>Yes.", "hm", "Yes."),
    ("<unused94>thought\nhm<unused95>Yes.", "hm", "Yes."),
    (HARMONY + "Yes.<|return|>", "hm", "Yes."),
    (HARMONY + "Yes.", "hm", "Yes."),
    ("<|start|>assistant" + HARMONY + "Yes.<|end|>\n", "hm", "Yes."),
    ("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Yes.", "hm", "Yes."),
    ("<|channel|>final<|message|>Yes.<|return|>", "", "Yes."),
    (
        "<|start|>assistant<|channel|>commentary<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        "",
        "Hm.\n\nYes.",
    ),
    ("Yes.<|im_end|>", "", "Yes."),
    ("Yes.\n<|eot_id|>", "", "Yes.\n"),
    ("<think>hm</think>\n<answer>\nYes.</answer>", "hm", "Yes."),
    ("<think>a</think>\n<think>b</think>\nYes.", "ab", "Yes."),
    ("<think>\n\n</think>\n\nYes.", "", "Yes."),
    ("<think>hm, `</think>` ends it</think>Yes.", "hm, `</think>` ends it", "Yes."),
    ("<think>see `x`</think>Yes.", "see `x`", "Yes."),
    ("<think>1 < 2 </thin</think>Yes.", "1 < 2 </thin", "Yes."),
    ("<think>never closed", "never closed", ""),
    ("<think>never closed </thi", "never closed </thi", ""),
    ("<think>hm</think>", "hm", ""),
    ("<think>hm</think>\n\n", "hm", ""),
    # The template opened the block in the prompt.
    ("hm, so\n</think>\n\nYes.", "hm, so\n", "Yes."),
    ('It is "ok"</think>Yes.', 'It is "ok"', "Yes."),
    ("回复“好”</think>好。", "回复“好”", "好。"),
    ("It is `x`</think>\n\nYes.", "It is `x`", "Yes."),
    ("hm, so.</think>Yes.", "hm, so.", "Yes."),
    ("hm, so</think>\n\nYes.", "hm, so", "Yes."),
    ("hm, so. </think> Yes.", "hm, so. ", "Yes."),
    ("先看看。</think>好的。", "先看看。", "好的。"),
    ("hm\n◁/think▷Yes.", "hm\n", "Yes."),
    ("hm\n[/THINK]Yes.", "hm\n", "Yes."),
    ("hm\n</think>", "hm\n", ""),
    ("hm\n</think>\n<think>more</think>Yes.", "hm\nmore", "Yes."),
    ("`a` is\n```\nx\n```\n</think>\nYes.", "`a` is\n```\nx\n```\n", "Yes."),
    ("</think>\n\nYes.", "", "Yes."),
    ("<think>a<think>b</think>c</think>Yes.", "a<think>bc", "Yes."),
]
TEXTS = load_table(__file__, "TEXTS")


def split(text: str, size: int) -> tuple[str, str]:
    splitter, thought, answer = ThoughtSplitter(), "", ""
    segments = [one for at in range(0, len(text), size) for one in splitter.feed(text[at : at + size])]
    for kind, part in [*segments, *splitter.end()]:
        if kind == "thought":
            thought += part
        elif kind == "text":
            answer += part
        else:
            thought, answer = thought + answer, ""
    return thought, answer


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("text", "thought", "answer"), [*BLOCKS, *((text, "", text) for text in TEXTS)])
def test_blocks_at_the_beginning_are_thoughts(text: str, thought: str, answer: str, size: int) -> None:
    assert split(text, size) == (thought, answer)


@pytest.mark.parametrize(("text", "_thought", "answer"), [*BLOCKS, *((text, "", text) for text in TEXTS)])
def test_the_answer_in_what_was_stored(text: str, _thought: str, answer: str) -> None:
    assert without_thoughts(text) == answer


def test_what_is_certain_is_not_held_back() -> None:
    splitter = ThoughtSplitter()
    assert splitter.feed("<think>hm") == [("thought", "hm")]
    assert splitter.feed("</think>Yes") == [("text", "Yes")]
    assert splitter.feed(", <b") == [("text", ", <b")]
    assert splitter.feed("no</") == [("text", "no")]


@given(st.text(alphabet=st.sampled_from("<>/|thinkTHINK[]◁▷ab `\n."), max_size=80), st.integers(1, 9))
def test_the_pieces_make_no_difference(text: str, size: int) -> None:
    assert split(text, size) == split(text, max(1, len(text)))


@given(st.text(alphabet=st.characters(exclude_characters="<[◁")))
def test_a_text_without_tags_stays_as_it_is(text: str) -> None:
    assert without_thoughts(text) == text
    assert split(text, 3) == ("", text)
