"""The rules of the Markdown parser, asked by a line's first character: the same blocks in half the time.

markdown-it asks up to ten rules about each line, and for a paragraph all that may end it twice. Nearly all notes are
lines that begin with a letter or a list marker, so one look at that character answers most of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from markdown_it import MarkdownIt
from markdown_it.parser_block import RuleFuncBlockType
from markdown_it.ruler import Ruler
from markdown_it.rules_block import (
    StateBlock,
    blockquote,
    code,
    fence,
    heading,
    hr,
    html_block,
    lheading,
    list_block,
    table,
)

TEXT = "text"
"""The type of the token of a paragraph; it has no closing one."""

TABLE = "table"
"""The type of the token of a table; it has no closing one, and none for its cells."""

Rules = Mapping[str, tuple[RuleFuncBlockType, ...]]

_ORDERED = dict.fromkeys("0123456789", (list_block,))
# What may begin with a character, in the order in which CommonMark asks.
_BEGINS: Rules = {
    "`": (fence,),
    "~": (fence,),
    ">": (blockquote,),
    "*": (hr, list_block),
    "-": (hr, list_block),
    "_": (hr,),
    "+": (list_block,),
    "<": (html_block,),
    "#": (heading,),
    **_ORDERED,
}
_ENDS_LIST: Rules = {
    first: tuple(rule for rule in rules if rule in (fence, blockquote, hr)) for first, rules in _BEGINS.items()
}
_TABLE_RULER = frozenset("|-:")
_UNDERLINE = frozenset("-=")
_LONGEST_HEADING = 100
_ENDS = frozenset(".!?。！？")


def block_parser(deepest: int) -> MarkdownIt:
    """A parser of CommonMark with tables, for blocks alone: no links are defined, no text is looked into.

    What is nested more than `deepest` levels (a list has two) is passed over.
    """
    parser = MarkdownIt("commonmark", {"maxNesting": deepest})
    ruler: Ruler[RuleFuncBlockType] = Ruler()
    # The parser looks for this name to know whether indented lines are code.
    ruler.push("code", _any_block, {"alt": []})
    ruler.push("ends_paragraph", _ends_paragraph, {"alt": ["paragraph"]})
    ruler.push("ends_quote", _ends_quote, {"alt": ["blockquote"]})
    ruler.push("ends_list", _ends_list, {"alt": ["list"]})
    parser.block.ruler = ruler
    return parser


def _any_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if _may_be_table(state, start, end) and _table(state, start, end):
        return True
    if state.is_code_block(start):
        return code(state, start, end, silent)
    return _asked(_BEGINS, state, start, end, silent) or _text(state, start, end)


def _ends_paragraph(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if _may_be_table(state, start, end) and table(state, start, end, silent):
        return True
    return _asked(_BEGINS, state, start, end, silent)


def _ends_quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return _asked(_BEGINS, state, start, end, silent)


def _ends_list(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return _asked(_ENDS_LIST, state, start, end, silent)


def _asked(rules: Rules, state: StateBlock, start: int, end: int, silent: bool) -> bool:
    here = rules.get(_first(state, start))
    return here is not None and any(rule(state, start, end, silent) for rule in here)


def _first(state: StateBlock, line: int) -> str:
    """The first character of a line behind its indentation; "" for an empty one at the end."""
    position = state.bMarks[line] + state.tShift[line]
    return state.src[position : position + 1]


def _may_be_table(state: StateBlock, start: int, end: int) -> bool:
    return start + 1 < end and _first(state, start + 1) in _TABLE_RULER


def _text(state: StateBlock, start: int, end: int) -> bool:
    """A paragraph, or a heading by the line below it."""
    if _is_underlined(state, start, end) and lheading(state, start, end, False):
        return True
    line, last = start + 1, state.lineMax
    outer, state.parentType = state.parentType, "paragraph"
    while line < last and not state.isEmpty(line):
        # Deeper lines go on with the paragraph, and so do those that a quote has taken in already.
        shallow = state.sCount[line] - state.blkIndent <= 3 and state.sCount[line] >= 0
        if shallow and _ends_paragraph(state, line, last, True):
            break
        line += 1
    state.push(TEXT, "p", 0).map = [start, line]
    state.line, state.parentType = line, outer
    return True


def _is_underlined(state: StateBlock, start: int, end: int) -> bool:
    """Whether the line may be a heading by the line below it.

    CommonMark takes whole paragraphs for one. In notes these are text that somebody drew a line under, and as a
    heading they would stand above all that follows.
    """
    line = start + 1
    if line >= end or state.isEmpty(line) or _first(state, line) not in _UNDERLINE:
        return False
    text = state.src[state.bMarks[start] : state.eMarks[start]].rstrip()
    return len(text) <= _LONGEST_HEADING and text[-1:] not in _ENDS


def _table(state: StateBlock, start: int, end: int) -> bool:
    """A table, without looking for the cells of its rows."""
    if not table(state, start, end, True):
        return False
    outer, state.parentType = state.parentType, "table"
    line = start + 2
    while line < end and state.sCount[line] >= state.blkIndent and not state.isEmpty(line):
        if state.is_code_block(line) or _ends_quote(state, line, end, True):
            break
        line += 1
    state.push(TABLE, "table", 0).map = [start, line]
    state.line, state.parentType = line, outer
    return True
