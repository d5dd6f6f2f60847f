"""Incremental Markdown rendering: final blocks are committed, the rest is parsed again at each flush.

A block is final when the next one begins. Long blocks (lists, code, endless paragraphs) are split, so that the cost of
a flush is bounded. What can't be split, and what exceeds the length of any reply, is shown as source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clawbot.text.sanitize import StreamCleaner
from clawbot.tui.render.markdown import PARSED_CHARS, blocks_of, continued, parse, plain_blocks
from clawbot.tui.render.markdown_blocks import Code, MarkdownBlock, MarkdownTable

if TYPE_CHECKING:
    from markdown_it.token import Token

LONG_BLOCK = 2000  # characters from which a block that still grows is cut inside
LONG_LIST = 800  # the same of a list, which shows no cut
UNCUT = 8000  # characters from which one that can't be cut is shown as it is written
AT_ONCE = 4000  # characters that are parsed together
SENTENCE_ENDS = ("\n", "。", "！", "？", ". ", "! ", "? ", " ")


class MarkdownStream:
    """Takes text in chunks and returns rendered blocks."""

    def __init__(self) -> None:
        self._cleaner = StreamCleaner()
        self._coming = ""
        self._room = PARSED_CHARS
        self._tail = ""
        self._env: dict[str, Any] = {}
        self._joined = False  # the tail goes on with a block that was cut
        self._number = 0  # where a numbered list that was cut goes on
        self._opening = ""  # the first lines of the code or the table that was cut: repeated before what comes
        self._columns: tuple[int, ...] = ()  # of the table that was cut

    def feed(self, text: str) -> None:
        self._coming += self._cleaner.feed(text)

    def flush(self) -> tuple[list[MarkdownBlock], list[MarkdownBlock]]:
        """Return the newly final blocks, and the current state of the tail."""
        done: list[MarkdownBlock] = []
        tokens: list[Token] = []
        for part in self._parts():
            self._tail += part
            more, tokens = self._settle()
            done += more
        if self._coming:
            done += self._as_written() + self._joined_after(list(plain_blocks(self._coming, gap=not self._joined)))
            self._coming, tokens = "", []
        return done, self._blocks(tokens)

    def _parts(self) -> Iterator[str]:
        """Yield what has come, as far as it is to be parsed, in parts that are parsed quickly; at least one."""
        coming, self._coming = self._coming[: self._room], self._coming[self._room :]
        self._room -= len(coming)
        for at in range(0, len(coming), AT_ONCE) or (0,):
            yield coming[at : at + AT_ONCE]

    def _settle(self) -> tuple[list[MarkdownBlock], list[Token]]:
        """Commit what is final; returns its blocks, and the tokens of the tail."""
        tokens = self._parse()
        done: list[MarkdownBlock] = []
        at = self._last_block(tokens)
        if at:
            done, tokens = self._take_before(tokens, at)
        if len(self._tail) > LONG_LIST:
            size = len(self._tail)
            done += self._cut_long(tokens)
            tokens = tokens if len(self._tail) == size else self._parse()
        if len(self._tail) > UNCUT:
            done += self._as_written()
            tokens = []
        return done, tokens

    def _as_written(self) -> list[MarkdownBlock]:
        blocks: list[MarkdownBlock] = list(plain_blocks(self._tail, gap=not self._joined))
        self._forget()
        return self._joined_after(blocks)

    def finish(self) -> list[MarkdownBlock]:
        done, tail = self.flush()
        self._forget()
        return done + tail

    def _end(self) -> list[MarkdownBlock]:
        blocks = self._blocks(self._parse())
        self._forget()
        return blocks

    def _forget(self) -> None:
        self._tail, self._joined, self._opening, self._number = "", False, "", 0
        self._columns = ()

    def _parse(self) -> list[Token]:
        tokens = parse(self._opening + self._tail, self._env)
        if self._number and tokens and tokens[0].type == "ordered_list_open":
            tokens[0].attrs["start"] = self._number
        return tokens

    def _blocks(self, tokens: list[Token]) -> list[MarkdownBlock]:
        blocks = blocks_of(tokens)
        if self._opening and blocks:
            blocks[:1] = self._rest_of(blocks[0])
        if self._joined and blocks:
            blocks[0] = continued(blocks[0])
        return blocks

    def _rest_of(self, block: MarkdownBlock) -> list[MarkdownBlock]:
        """Return the block without what was repeated to continue inside it; nothing of a table that has no row yet."""
        match block:
            case MarkdownTable() if self._columns:
                rows = block.rows[1:]
                return [replace(block, rows=rows, head=False, columns=self._columns)] if rows else []
        return [block]

    def _take(self, lines: int) -> list[MarkdownBlock]:
        rows = self._tail.split("\n")
        tail = "\n".join(rows[lines:])
        self._tail = "\n".join(rows[:lines])
        blocks = self._end()
        self._tail = tail
        return blocks

    def _last_block(self, tokens: list[Token]) -> int:
        """Return where in `tokens` the last block of the tail begins; 0 when there is but one."""
        starts = (at for at in range(len(tokens) - 1, -1, -1) if tokens[at].level == 0 and tokens[at].nesting >= 0)
        at = next((at for at in starts if tokens[at].map), 0)
        return at if at and (tokens[at].map or [0])[0] > self._opening.count("\n") else 0

    def _take_before(self, tokens: list[Token], at: int) -> tuple[list[MarkdownBlock], list[Token]]:
        """Commit what precedes the block that begins with the token `at`; return its blocks, and the tokens of the
        tail. Each block is parsed alike with others and alone, so nothing is parsed for it."""
        first = (tokens[at].map or [0])[0]
        tail = "\n".join(self._tail.split("\n")[first - self._opening.count("\n") :])
        blocks = self._blocks(tokens[:at])
        self._forget()
        self._tail = tail
        for token in tokens[at:]:
            token.map = [line - first for line in token.map] if token.map else token.map
        return blocks, tokens[at:]

    def _cut_long(self, tokens: list[Token]) -> list[MarkdownBlock]:
        if not tokens:
            return []
        if tokens[0].type in ("bullet_list_open", "ordered_list_open"):
            return self._cut_list(tokens)
        if len(self._tail) <= LONG_BLOCK:
            return []
        if tokens[0].type == "fence":
            return self._cut_code(tokens[0])
        if tokens[0].type == "table_open":
            return self._cut_table(tokens[0])
        if tokens[0].type == "blockquote_open":
            return self._cut_quote()
        return self._cut_paragraph() if tokens[0].type == "paragraph_open" else []

    def _joined_after(self, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
        self._joined = True
        return blocks

    def _cut_list(self, tokens: list[Token]) -> list[MarkdownBlock]:
        """Commit all items but the last; a numbered list goes on counting."""
        starts = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
        if len(starts) < 2:
            return []
        first = tokens[0].attrs.get("start", 1)
        blocks = self._take(starts[-1])
        self._number = int(first) + len(starts) - 1
        return self._joined_after(blocks)

    def _cut_quote(self) -> list[MarkdownBlock]:
        """Commit the complete lines of a very long quote; the others go on as one."""
        rows = self._tail.split("\n")
        return self._joined_after(self._take(len(rows) - 1)) if len(self._tail) > UNCUT // 2 and len(rows) > 1 else []

    def _cut_code(self, fence: Token) -> list[MarkdownBlock]:
        """Commit the complete lines of code so far, or a part of an endless one; the rest goes on inside the same
        fence."""
        rows = self._tail.split("\n")
        opening = self._opening or f"{fence.markup}{fence.info}\n"
        closed = rows[-1].strip().startswith(fence.markup) or rows[-2:-1] == [fence.markup]
        if closed or (len(rows) < 3 and len(self._tail) <= UNCUT):
            return []
        blocks = self._take(len(rows) - 1) if len(rows) >= 3 else self._end()
        self._opening = opening
        if blocks and isinstance(blocks[-1], Code):
            blocks[-1] = replace(blocks[-1], closed=False)
        return self._joined_after(blocks)

    def _cut_table(self, table_open: Token) -> list[MarkdownBlock]:
        """Commit the complete rows that are there; the others go on in the same columns."""
        rows = self._tail.split("\n")
        top = table_open.map[0] if table_open.map else 0
        opening = self._opening or "\n".join(rows[top : top + 2]) + "\n"
        if len(rows) < (2 if self._opening else top + 4):
            return []
        blocks = self._take(len(rows) - 1)
        table = blocks[-1] if blocks else None
        if isinstance(table, MarkdownTable):
            self._opening, self._columns = opening, table.natural()
        return self._joined_after(blocks)

    def _cut_paragraph(self) -> list[MarkdownBlock]:
        """Commit up to the end of the last sentence; an emphasis that spans the cut shows its marks."""
        half = len(self._tail) // 2
        for mark in SENTENCE_ENDS:
            at = self._tail.rfind(mark, half, len(self._tail) - 1)
            if at > 0:
                break
        else:
            return []
        at += len(mark)
        tail = self._tail[at:]
        self._tail = self._tail[:at]
        blocks = self._end()
        self._tail = tail
        return self._joined_after(blocks)
