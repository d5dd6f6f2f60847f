"""The recall tools: `memory_search` over the index, and `memory_get` for the lines around a hit.

They never fail: problems are returned as `disabled` with reason and remedy, so that a model informs the user instead of
guessing. If the user allows access to other agents' memory (`tools.agents`), both have the argument `agent`.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

from clawbot.clock import first_day, last_day
from clawbot.errors import ClawbotError
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.backends.guard import NOTHING, is_in_scope
from clawbot.memory.values import MAX_QUERIES, Excerpt, SearchRequest, Source
from clawbot.messages import ToolSpec
from clawbot.text.visible import one_line, title_of
from clawbot.tools.arguments import Arguments, AsyncTool
from clawbot.tools.memory_output import (
    Citations,
    counted,
    excerpt_text,
    failure_text,
    fit,
    outcome_of,
    refusal_text,
    results_text,
)
from clawbot.tools.protocol import AnyTool, Need, SessionAccess, ToolError, ToolOutcome
from clawbot.tools.seen import Shown

Current = Callable[[], str | None]
"""The transcript of the current conversation, as `sessions/….jsonl`; None before there is one. It is excluded from
recall."""

log = logging.getLogger(__name__)

MIN_ROOM = 200  # characters for the results of memory_search, however few its answer may have
GET_LINES = 120  # of memory_get by default
GET_CHARS = 12_000  # of memory_get at most

_CITED = re.compile(r"(?P<path>.+)#L(?P<first>\d{1,9})(?:-L?\d{1,9})?")
_TRANSCRIPT = re.compile(r"sessions/[^/]+\.jsonl\S*")
_NO_NOTE = (
    "This is a conversation, not a note: memory_get does not read it. The snippet quotes it; read more "
    "of it with sessions_read, or ask memory_search with `path` set to this file."
)


class AgentMemory(Struct, frozen=True):
    """The memory of one agent, and `max_injected_chars` that one search may bring from it."""

    index: MemoryBackend
    max_injected_chars: int


async def searched(
    index: MemoryBackend,
    request: SearchRequest,
    citations: Citations,
    *,
    cite: bool,
    snippets: int,
    total: int,
    output_max_chars: int,
) -> ToolOutcome:
    """The matching hits; if `index` can't answer, the reason is returned as `disabled`. A session that may know none of
    the sources gets no hits, and `index` is not asked.

    `snippets` limits the characters of all snippets, `total` those of the answer. The escaped text must not exceed
    `output_max_chars`, or the toolbox would truncate the JSON.
    """
    try:
        found = await index.search(request) if request.sources else NOTHING
        result = structs.replace(found, hits=tuple(hit for hit in found.hits if is_in_scope(request, hit)))
    except ClawbotError as error:
        return outcome_of(failure_text(error.message, error.hint), "unavailable")
    except Exception as error:
        log.exception("the memory index failed")
        return outcome_of(failure_text(f"{type(error).__name__}: {error}".rstrip(": "), ""), "unavailable")
    most, room = min(total, output_max_chars), total
    while True:
        shown = fit(result.hits, snippets, room, cite=cite)
        text = results_text(result, shown, citations, cite=cite)
        is_least = room <= MIN_ROOM and len(text) <= output_max_chars
        if len(text) <= most or is_least or not shown:
            return outcome_of(text, counted(len(shown), "hit") if shown else "no hits")
        # The frame of the answer takes a part of it.
        room = max(room - len(text) + most, MIN_ROOM) if room > MIN_ROOM else room // 2


class SearchArguments(Arguments, frozen=True):
    """Arguments of `memory_search`."""

    query: Annotated[str, Meta(description="A few telling words, or a question.")] = ""
    queries: (
        Annotated[
            list[str],
            Meta(
                description="Instead of `query`: up to 4 wordings.",
                max_length=MAX_QUERIES,
            ),
        ]
        | UnsetType
    ) = UNSET
    max_results: Annotated[int, Meta(description="At most.", ge=1)] | UnsetType = UNSET
    max_chars: Annotated[int, Meta(description="Of all snippets.", ge=1)] | UnsetType = UNSET
    min_score: Annotated[float, Meta(ge=0, le=1, extra_json_schema={"deprecated": True})] | UnsetType = UNSET
    after: Annotated[str, Meta(description="From YYYY-MM-DD, YYYY-MM or YYYY on.")] = ""
    before: Annotated[str, Meta(description="Up to then.")] = ""
    path: Annotated[str, Meta(description="File, folder or glob.")] = ""


class MemorySearchTool(AsyncTool[SearchArguments]):
    """`memory_search`: the passages of the notes that fit best, with file and lines."""

    name = "memory_search"
    needs = frozenset({"notes"})
    description = (
        "Search the user's notes: mandatory before any answer about the past. Answers snippets with path and lines; "
        "hits from earlier conversations have `said` (who, when). When nothing fits, search once more in other words. "
        "If it says `disabled`, tell the user the reason and the remedy."
    )
    subject = "query"
    arguments = SearchArguments

    def __init__(self, memory: AgentMemory, output_max_chars: int, citations: Citations, current: Current) -> None:
        self._memory = memory
        self._output_max_chars = output_max_chars
        self._citations = citations
        self._current = current
        self._may_cite = False
        self._sources: tuple[Source, ...] = ("memory",)

    def for_session(self, access: SessionAccess) -> Self:
        """The tool with the sources and citations that `access` allows; the minimum without a session."""
        tool = copy.copy(self)
        tool.allow(cite=access.citations, transcripts=access.transcripts)
        if not access.offers(self.needs, narrows=True):
            tool.allow(cite=False, notes=False)
        return tool

    def allow(self, *, cite: bool, notes: bool = True, transcripts: bool = False) -> None:
        """Cite unless the settings forbid it; search the notes, and the transcripts as well."""
        self._may_cite = cite
        allowed: dict[Source, bool] = {"memory": notes, "sessions": transcripts}
        self._sources = tuple(source for source, may in allowed.items() if may)

    def title(self, arguments: dict[str, Any]) -> str:
        queries = arguments.get("queries")
        first = queries[0] if isinstance(queries, list) and queries else ""
        return title_of(self.name, arguments.get("query") or first)

    async def act(self, arguments: SearchArguments) -> ToolOutcome:
        """Search; if the index can't answer, the reason is returned as `disabled`. Raises ToolError."""
        request = self._request(arguments)
        cite = self._citations == "on" or (self._citations == "auto" and self._may_cite)
        most = self._memory.max_injected_chars
        return await searched(
            self._memory.index,
            request,
            self._citations,
            cite=cite,
            snippets=request.max_chars or most,
            total=most,
            output_max_chars=self._output_max_chars,
        )

    def _request(self, arguments: SearchArguments) -> SearchRequest:
        wordings = [arguments.query, *(arguments.queries or ())]
        queries = tuple(dict.fromkeys(text for text in wordings if text.strip()))
        if not queries:
            raise ToolError("`query` is empty: name what to search for.")
        most = self._memory.max_injected_chars
        return SearchRequest(
            queries=queries[:MAX_QUERIES],
            max_results=arguments.max_results or None,
            max_chars=min(arguments.max_chars, most) if arguments.max_chars else None,
            min_score=None if arguments.min_score is UNSET else arguments.min_score,
            after=day_bound("after", first_day, arguments.after),
            before=day_bound("before", last_day, arguments.before),
            path=arguments.path or None,
            sources=self._sources,
            without=self._current(),
        )


class GetArguments(Arguments, frozen=True):
    """Arguments of `memory_get`."""

    spellings: ClassVar[Mapping[str, str]] = {
        "rel_path": "path",
        "relative_path": "path",
        "file_path": "path",
        "file": "path",
    }

    path: Annotated[str, Meta(description="As memory_search names it.")]
    from_: Annotated[int, Meta(description="First line.", ge=1)] | UnsetType = field(default=UNSET, name="from")
    lines: Annotated[int, Meta(description="How many.", ge=1)] = GET_LINES


class MemoryGetTool(AsyncTool[GetArguments]):
    """`memory_get`: lines of one memory file."""

    name = "memory_get"
    needs = frozenset({"notes"})
    description = (
        "Read what stands around a hit of memory_search: just the lines you need. A missing file is empty text."
    )
    arguments = GetArguments

    def __init__(self, index: MemoryBackend, output_max_chars: int) -> None:
        self._index = index
        self._output_max_chars = output_max_chars

    async def act(self, arguments: GetArguments) -> ToolOutcome:
        """Read; refusals and read errors are returned as `disabled`."""
        path, first = _position(arguments)
        try:
            excerpt = await self._index.read(path, first, arguments.lines)
        except ClawbotError as error:
            reason = _NO_NOTE if _TRANSCRIPT.fullmatch(path) else str(error)
            return outcome_of(refusal_text(arguments.path, reason), "refused")
        except Exception as error:
            log.exception("a memory file could not be read")
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            return outcome_of(refusal_text(arguments.path, reason), "failed")
        count = excerpt.to_line - excerpt.from_line + 1 if excerpt.text else 0
        summary = counted(count, "line") if excerpt.found else "no such file"
        answer = self._within_output(excerpt)
        outcome = outcome_of(answer, summary)
        return structs.replace(outcome, details=outcome.details | _seen(excerpt, answer)) if count else outcome

    def _within_output(self, excerpt: Excerpt) -> str:
        budget = GET_CHARS
        text = excerpt_text(excerpt, budget)
        while len(text) > self._output_max_chars and budget > 1:
            budget //= 2
            text = excerpt_text(excerpt, budget)
        return text


def _seen(excerpt: Excerpt, answer: str) -> dict[str, Any]:
    """The record of what `answer` shows of `excerpt`; its last line may be cut."""
    shown = msgspec.json.decode(answer)
    first, last = shown["from"], shown["to"]
    cut = () if f"{excerpt.text}\n".startswith(f"{shown['text']}\n") else (last,)
    record = Shown(excerpt.path, excerpt.digest, len(answer), first, last, excerpt.total_lines, cut)
    return {"seen": msgspec.to_builtins(record)} if excerpt.digest else {}


def _position(arguments: GetArguments) -> tuple[str, int | None]:
    """The path and first line of a request, also from a citation: `MEMORY.md#L12-L20`."""
    cited = _CITED.fullmatch(arguments.path.strip())
    if cited is None:
        return arguments.path, arguments.from_ or None
    return cited["path"], arguments.from_ or max(1, int(cited["first"]))


def day_bound(name: str, day: Callable[[str], date | None], text: str) -> date | None:
    """The day given as the argument `name`, parsed by `day`. Raises ToolError."""
    try:
        return day(text)
    except ValueError as error:
        raise ToolError(f"`{name}`: {error}.") from None


ARGUMENT = "agent"
_NAMED_CHARS = 100  # what naming the agent adds to an answer at most


def memory_tools(
    own_id: str, memories: Mapping[str, AgentMemory], output_max_chars: int, citations: Citations, current: Current
) -> tuple[AnyTool, ...]:
    """`memory_search` and `memory_get` over `memories` by agent, of which that of `own_id` is searched when none is
    named.

    `output_max_chars` is what a model sees of a result at all (`tools.output_max_chars`), `citations` is
    `memory.citations`. They know of no session yet: a toolbox makes them one's own.
    """
    room = output_max_chars if len(memories) == 1 else max(output_max_chars - _NAMED_CHARS, 1)
    searches = {each: MemorySearchTool(memory, room, citations, current) for each, memory in memories.items()}
    readers = {each: MemoryGetTool(memory.index, room) for each, memory in memories.items()}
    if len(memories) == 1:
        return searches[own_id], readers[own_id]
    return _ByAgent(own_id, searches), _ByAgent(own_id, readers)


class _ByAgent:
    """One of the memory tools of several agents. Implements `Tool` and `SessionTool`."""

    read_only = True
    needs: frozenset[Need] | None = frozenset({"notes"})

    def __init__(self, own_id: str, tools: Mapping[str, MemorySearchTool | MemoryGetTool]) -> None:
        self._own_id = own_id
        self._tools = tools
        self._own = tools[own_id]

    @property
    def spec(self) -> ToolSpec:
        own = self._own.spec
        others = ", ".join(agent_id for agent_id in self._tools if agent_id != self._own_id)
        argument = {
            "type": "string",
            "enum": list(self._tools),
            "default": self._own_id,
            "description": f"Whose memory: your own ({self._own_id}), or that of another agent ({others}).",
        }
        properties = own.parameters["properties"] | {ARGUMENT: argument}
        return ToolSpec(own.name, own.description, own.parameters | {"properties": properties})

    def for_session(self, access: SessionAccess) -> _ByAgent:
        """The tool for a session with `access`: of other agents only the notes, never conversations."""
        tools: dict[str, MemorySearchTool | MemoryGetTool] = {}
        for agent_id, tool in self._tools.items():
            tools[agent_id] = tool
            if isinstance(tool, MemorySearchTool):
                tools[agent_id] = mine = tool.for_session(access)
                if agent_id != self._own_id:
                    mine.allow(cite=access.citations, notes=access.offers(tool.needs, narrows=True))
        return _ByAgent(self._own_id, tools)

    def title(self, arguments: dict[str, Any]) -> str:
        asked = arguments.get(ARGUMENT) or self._own_id
        title = self._own.title(arguments)
        return title if asked == self._own_id else f"{title} {one_line(f'(agent {asked})')}"

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        asked = arguments.get(ARGUMENT) or self._own_id
        tool = self._tools.get(asked) if isinstance(asked, str) else None
        if tool is None:
            known = ", ".join(self._tools)
            raise ToolError(
                f"`{ARGUMENT}` is {one_line(repr(asked))}: its memory is not open to you. Possible: {known}."
            )
        outcome = await tool.run({name: value for name, value in arguments.items() if name != ARGUMENT})
        if asked == self._own_id:
            return outcome
        text = msgspec.json.encode({ARGUMENT: asked} | msgspec.json.decode(outcome.text)).decode()
        notes = [f"From the memory of agent {asked}.", *outcome.details["notes"]]
        return ToolOutcome(text, outcome.is_error, outcome.summary, outcome.details | {"notes": notes})
