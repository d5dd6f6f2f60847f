"""The tools that recall: `memory_search` over the index, and `memory_get` for the lines around a hit.

They never fail: what could not be done comes back as `disabled` with the reason and the remedy, so that a model tells
the user instead of guessing (reference sheet 14).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, Any, Protocol

from msgspec import UNSET, Meta, UnsetType, field

from clawbot.errors import ClawbotError
from clawbot.memory.values import MAX_QUERIES, Excerpt, SearchRequest, SearchResult, Source
from clawbot.tools.arguments import Arguments, AsyncTool, one_line
from clawbot.tools.memory_card import card_of
from clawbot.tools.memory_dates import first_day, last_day
from clawbot.tools.memory_output import (
    Citations,
    Shown,
    excerpt_text,
    failure_text,
    fit,
    refusal_text,
    results_text,
)
from clawbot.tools.protocol import SessionAccess, ToolError, ToolOutcome

log = logging.getLogger(__name__)

GET_LINES = 120
"""Lines that memory_get returns when none are asked for."""

GET_CHARS = 12_000
"""Characters that memory_get returns at most."""

_CITED = re.compile(r"(?P<path>.+)#L(?P<first>\d{1,9})(?:-L?\d{1,9})?")
_TRANSCRIPT = re.compile(r"sessions/[^/]+\.jsonl\S*")
_NO_NOTE = (
    "This is a conversation, not a note: memory_get does not read it. What was said stands in the snippet; ask "
    "memory_search with other words, or with `path` set to this file, for more of it."
)


class Recall(Protocol):
    """What the tools need of the memory index."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search. Raises ClawbotError when there is no way to."""
        ...

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Read lines of a memory file. Raises ClawbotError for one that may not or can't be read."""
        ...


class SearchArguments(Arguments, frozen=True):
    """Arguments of `memory_search`."""

    query: Annotated[str, Meta(description="What to look for, in a few telling words or as a question.")] = ""
    queries: (
        Annotated[
            list[str],
            Meta(
                description="Up to four wordings of the same question instead of `query`, also in other languages; "
                "their results are joined.",
                max_length=MAX_QUERIES,
            ),
        ]
        | UnsetType
    ) = UNSET
    max_results: Annotated[int, Meta(description="Results at most.", ge=1)] | UnsetType = UNSET
    max_chars: Annotated[int, Meta(description="Characters of all snippets together.", ge=1)] | UnsetType = UNSET
    min_score: Annotated[float, Meta(description="Leave out results below (0 to 1).", ge=0, le=1)] | UnsetType = UNSET
    after: Annotated[str, Meta(description="Only notes of this day or later: YYYY-MM-DD, YYYY-MM or YYYY.")] = ""
    before: Annotated[str, Meta(description="Only notes of this day or earlier: YYYY-MM-DD, YYYY-MM or YYYY.")] = ""
    path: Annotated[str, Meta(description="Only this file, folder or glob, such as `memory/2026-11*.md`.")] = ""


class MemorySearchTool(AsyncTool[SearchArguments]):
    """`memory_search`: the places in the notes that fit best, with file and lines."""

    name = "memory_search"
    description = (
        "Search the user's notes (MEMORY.md, memory/*.md and what else is configured) by meaning and by word. "
        "Mandatory before you answer anything about earlier work, decisions, dates, people, preferences or todos, "
        "even when you believe you know: what was said before is in the notes, not in your head. "
        "Answers the best snippets with path and lines; read around a hit with memory_get. "
        "When nothing fits, search once more in other words (`queries`) before you say so. "
        "If the answer says `disabled`, recall does not work now: tell the user the reason and the remedy it names."
    )
    subject = "query"
    arguments = SearchArguments

    def __init__(
        self,
        index: Recall,
        *,
        max_injected_chars: int,
        output_max_chars: int,
        citations: Citations,
    ) -> None:
        self._index = index
        self._budget = max_injected_chars
        self._output_max_chars = output_max_chars
        self._citations = citations
        self._may_cite = False
        self._sources: tuple[Source, ...] = ("memory",)

    def for_session(self, access: SessionAccess) -> MemorySearchTool:
        """The tool as a session with `access` may use it: which sources it searches, and whether it cites them by
        itself. Nobody's session gets the least."""
        tool = MemorySearchTool(
            self._index,
            max_injected_chars=self._budget,
            output_max_chars=self._output_max_chars,
            citations=self._citations,
        )
        tool.allow(cite=access.citations, transcripts=access.transcripts)
        return tool

    def allow(self, *, cite: bool, transcripts: bool) -> None:
        """Cite unless the settings say otherwise; search the transcripts as well."""
        self._may_cite = cite
        self._sources = ("memory", "sessions") if transcripts else ("memory",)

    def title(self, arguments: dict[str, Any]) -> str:
        """`memory_search`, and the first wording."""
        queries = arguments.get("queries")
        first = queries[0] if isinstance(queries, list) and queries else ""
        return one_line(f"{self.name} {arguments.get('query') or first}")

    async def act(self, arguments: SearchArguments) -> ToolOutcome:
        """Search; whatever keeps the index from answering is told as `disabled`."""
        request = self._request(arguments)
        try:
            result = await self._index.search(request)
        except ClawbotError as error:
            return _unavailable(error.message, error.hint)
        except Exception as error:
            log.exception("the memory index failed")
            return _unavailable(f"{type(error).__name__}: {error}".rstrip(": "), "")
        shown, text = self._within_output(result, request.max_chars or self._budget)
        count = len(shown)
        return ToolOutcome(
            text,
            summary=f"{count} {'hit' if count == 1 else 'hits'}" if count else "no hits",
            details=card_of(text),
        )

    def _within_output(self, result: SearchResult, snippets: int) -> tuple[Sequence[Shown], str]:
        """The hits that are told, and the text: escaped, it must not be longer than what a model sees of a result, or
        the toolbox would cut through the JSON."""
        cite = self._citations == "on" or (self._citations == "auto" and self._may_cite)
        whole = self._budget
        shown = fit(result.hits, snippets, whole, cite=cite)
        text = results_text(result, shown, self._citations, cite=cite)
        while len(text) > self._output_max_chars and shown:
            whole = min(whole, len(text)) // 2
            shown = fit(result.hits, snippets, whole, cite=cite)
            text = results_text(result, shown, self._citations, cite=cite)
        return shown, text

    def _request(self, arguments: SearchArguments) -> SearchRequest:
        wordings = [arguments.query, *(arguments.queries or ())]
        queries = tuple(dict.fromkeys(text for text in wordings if text.strip()))
        if not queries:
            raise ToolError("`query` is empty: say what to look for.")
        asked = arguments.max_chars or self._budget
        return SearchRequest(
            queries=queries[:MAX_QUERIES],
            max_results=arguments.max_results or None,
            max_chars=min(asked, self._budget) if arguments.max_chars else None,
            min_score=None if arguments.min_score is UNSET else arguments.min_score,
            after=_bound("after", first_day, arguments.after),
            before=_bound("before", last_day, arguments.before),
            path=arguments.path or None,
            sources=self._sources,
        )


class GetArguments(Arguments, frozen=True):
    """Arguments of `memory_get`."""

    path: Annotated[str, Meta(description="The file, as memory_search names it: MEMORY.md, memory/2026-11-20.md.")]
    from_: Annotated[int, Meta(description="First line, from 1.", ge=1)] | UnsetType = field(default=UNSET, name="from")
    lines: Annotated[int, Meta(description=f"How many lines; {GET_LINES} when left out.", ge=1)] = GET_LINES


class MemoryGetTool(AsyncTool[GetArguments]):
    """`memory_get`: lines of one memory file."""

    name = "memory_get"
    description = (
        "Read lines of a memory file, for what stands around a hit of memory_search. "
        "Take just the lines you need. A file that does not exist is empty text, no error."
    )
    arguments = GetArguments

    def __init__(self, index: Recall, output_max_chars: int) -> None:
        self._index = index
        self._output_max_chars = output_max_chars

    async def act(self, arguments: GetArguments) -> ToolOutcome:
        """Read; what is refused or can't be read is told as `disabled`."""
        path, first = _place(arguments)
        try:
            excerpt = await self._index.read(path, first, arguments.lines)
        except ClawbotError as error:
            reason = _NO_NOTE if _TRANSCRIPT.fullmatch(path) else str(error)
            return _refused(arguments.path, reason, "refused")
        except Exception as error:
            log.exception("a memory file could not be read")
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            return _refused(arguments.path, reason, "failed")
        count = excerpt.to_line - excerpt.from_line + 1 if excerpt.text else 0
        summary = f"{count} {'line' if count == 1 else 'lines'}" if excerpt.found else "no such file"
        text = self._within_output(excerpt)
        return ToolOutcome(text, summary=summary, details=card_of(text))

    def _within_output(self, excerpt: Excerpt) -> str:
        budget = GET_CHARS
        text = excerpt_text(excerpt, budget)
        while len(text) > self._output_max_chars and budget > 1:
            budget //= 2
            text = excerpt_text(excerpt, budget)
        return text


def memory_tools(
    index: Recall,
    *,
    max_injected_chars: int,
    output_max_chars: int,
    citations: Citations,
) -> tuple[MemorySearchTool, MemoryGetTool]:
    """Both tools on `index`.

    `max_injected_chars` is `memory_search.query.max_injected_chars`, `output_max_chars` what a model sees of a result
    at all (`tools.output_max_chars`), `citations` is `memory.citations`. They know of no session yet: a toolbox makes
    them one's own.
    """
    search = MemorySearchTool(
        index,
        max_injected_chars=max_injected_chars,
        output_max_chars=output_max_chars,
        citations=citations,
    )
    return search, MemoryGetTool(index, output_max_chars)


def _place(arguments: GetArguments) -> tuple[str, int | None]:
    """The path and the first line that are asked for, be it as a citation: `MEMORY.md#L12-L20`."""
    cited = _CITED.fullmatch(arguments.path.strip())
    if cited is None:
        return arguments.path, arguments.from_ or None
    return cited["path"], arguments.from_ or max(1, int(cited["first"]))


def _unavailable(error: str, remedy: str) -> ToolOutcome:
    text = failure_text(error, remedy)
    return ToolOutcome(text, summary="unavailable", details=card_of(text))


def _refused(path: str, reason: str, summary: str) -> ToolOutcome:
    text = refusal_text(path, reason)
    return ToolOutcome(text, summary=summary, details=card_of(text))


def _bound(name: str, day: Callable[[str], date | None], text: str) -> date | None:
    try:
        return day(text)
    except ValueError as error:
        raise ToolError(f"`{name}`: {error}.") from None
