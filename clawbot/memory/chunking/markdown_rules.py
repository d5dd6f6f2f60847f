"""Rules for the Markdown parser that are selected by a line's first character: the same blocks in half the time.

markdown-it tries up to ten rules on each line, and twice for everything that may end a paragraph. Nearly all lines of
notes begin with a letter or a list marker, so the first character decides most of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

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
"""The token type of a paragraph; it has no closing token."""

TABLE = "table"
"""The token type of a table; it has no closing token and none for its cells."""

Rules = Mapping[str, tuple[RuleFuncBlockType, ...]]

_ORDERED = dict.fromkeys("0123456789", (list_block,))
# The rules for a first character, in CommonMark's order.
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
_MAX_HEADING = 100
_ENDS = frozenset(".!?。！？")


def block_parser(deepest: int) -> MarkdownIt:
    """Return a CommonMark parser with tables, for blocks only: without link definitions and inline parsing.

    Nesting beyond `deepest` levels (a list has two) is ignored.
    """
    parser = MarkdownIt("commonmark", {"maxNesting": deepest})
    ruler: Ruler[RuleFuncBlockType] = Ruler()
    # The parser checks this name to decide whether indented lines are code.
    ruler.push("code", _any_block, {"alt": []})
    ruler.push("ends_paragraph", _ends_paragraph, {"alt": ["paragraph"]})
    ruler.push("ends_quote", partial(_asked, _BEGINS), {"alt": ["blockquote"]})
    ruler.push("ends_list", partial(_asked, _ENDS_LIST), {"alt": ["list"]})
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


def _asked(rules: Rules, state: StateBlock, start: int, end: int, silent: bool) -> bool:
    here = rules.get(_first(state, start))
    return here is not None and any(rule(state, start, end, silent) for rule in here)


def _first(state: StateBlock, line: int) -> str:
    """The first character of a line after its indentation; "" for an empty one at the end."""
    position = state.bMarks[line] + state.tShift[line]
    return state.src[position : position + 1]


def _may_be_table(state: StateBlock, start: int, end: int) -> bool:
    return start + 1 < end and _first(state, start + 1) in _TABLE_RULER


def _text(state: StateBlock, start: int, end: int) -> bool:
    """A paragraph, or a heading underlined by the next line."""
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
    """Return whether the line may be a heading underlined by the next line.

    CommonMark accepts entire paragraphs. In notes these are usually text above a rule, and must not become the heading
    of everything below.
    """
    line = start + 1
    if line >= end or state.isEmpty(line) or _first(state, line) not in _UNDERLINE:
        return False
    text = state.src[state.bMarks[start] : state.eMarks[start]].rstrip()
    return len(text) <= _MAX_HEADING and text[-1:] not in _ENDS


def _table(state: StateBlock, start: int, end: int) -> bool:
    """A table, without parsing the cells of its rows."""
    if not table(state, start, end, True):
        return False
    outer, state.parentType = state.parentType, "table"
    line = start + 2
    while line < end and state.sCount[line] >= state.blkIndent and not state.isEmpty(line):
        if state.is_code_block(line) or _asked(_BEGINS, state, line, end, True):
            break
        line += 1
    state.push(TABLE, "table", 0).map = [start, line]
    state.line, state.parentType = line, outer
    return True
