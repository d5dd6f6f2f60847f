"""The recall tools: `memory_search` over the index, and `memory_get` for the lines around a hit.

They never fail: problems are returned as `disabled` with reason and remedy, so that a model informs the user instead of
guessing. If the user allows access to other agents' memory (`tools.agents`), both have the argument `agent`.
"""

from __future__ import annotations

import copy
import logging
import re
import sys
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

from clawbot.clock import first_day, last_day
from clawbot.errors import ClawbotError
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.backends.guard import NOTHING, is_in_scope
from clawbot.memory.values import MAX_QUERIES, SearchRequest, Source
from clawbot.messages import ToolSpec
from clawbot.text.visible import one_line, title_of
from clawbot.tools.arguments import Arguments, AsyncTool
from clawbot.tools.memory_output import (
    Citations,
    card_of,
    counted,
    excerpt_data,
    failure_data,
    fit,
    outcome_of,
    refusal_data,
    results_data,
    results_text,
)
from clawbot.tools.protocol import AnyTool, Need, SessionAccess, ToolError, ToolOutcome
from clawbot.tools.seen import Shown

Current = Callable[[], str | None]
"""The transcript of the current conversation, as `sessions/….jsonl`; None before there is one. It is excluded from
recall."""

log = logging.getLogger(__name__)

MIN_CHARS = 400  # of an answer of memory_search, however few the model asks for
MAX_RESULTS = 60  # of a search that states no other number: the characters are its limit
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
    index: MemoryBackend, request: SearchRequest, citations: Citations, *, cite: bool, chars: int
) -> ToolOutcome:
    """The matching hits in an answer of at most `chars` characters; if `index` can't answer, the reason is returned as
    `disabled`. A session that may know none of the sources gets no hits, and `index` is not asked."""
    try:
        found = await index.search(request) if request.sources else NOTHING
        result = structs.replace(found, hits=tuple(hit for hit in found.hits if is_in_scope(request, hit)))
    except ClawbotError as error:
        return outcome_of(failure_data(error.message, error.hint), "unavailable")
    except Exception as error:
        log.exception("the memory index failed")
        return outcome_of(failure_data(f"{type(error).__name__}: {error}".rstrip(": "), ""), "unavailable")
    page = fit(result, chars)
    answer = results_data(result, page, citations, cite=cite)
    summary = counted(len(page.shown), "hit") if page.shown else "no hits"
    return ToolOutcome(results_text(result, page), summary=summary, details=card_of(answer), structured=answer)


class SearchArguments(Arguments, frozen=True):
    """Arguments of `memory_search`."""

    query: Annotated[str, Meta(description="A few distinctive words, or a question.")] = ""
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
    max_chars: Annotated[int, Meta(description="Of the answer.", ge=1)] | UnsetType = UNSET
    min_score: Annotated[float, Meta(ge=0, le=1, extra_json_schema={"deprecated": True})] | UnsetType = UNSET
    after: Annotated[str, Meta(description="From YYYY-MM-DD, YYYY-MM or YYYY on.")] = ""
    before: Annotated[str, Meta(description="Up to then.")] = ""
    path: Annotated[str, Meta(description="File, folder or glob.")] = ""


class MemorySearchTool(AsyncTool[SearchArguments]):
    """`memory_search`: the lines of the notes that fit best, with what they belong to."""

    name = "memory_search"
    needs = frozenset({"notes"})
    description = (
        "Search the user's notes: mandatory before any answer about the past. Answers lines with their numbers, below "
        "their note or who wrote them when, and how strong the evidence is. When it is weak or nothing fits, search "
        "once more in other words. If it says `disabled`, tell the user the reason and the remedy."
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
        chars = min(request.max_chars or sys.maxsize, self._output_max_chars)
        return await searched(self._memory.index, request, self._citations, cite=cite, chars=chars)

    def _request(self, arguments: SearchArguments) -> SearchRequest:
        wordings = [arguments.query, *(arguments.queries or ())]
        queries = tuple(dict.fromkeys(text for text in wordings if text.strip()))
        if not queries:
            raise ToolError("`query` is empty: name what to search for.")
        most = self._memory.max_injected_chars
        return SearchRequest(
            queries=queries[:MAX_QUERIES],
            max_results=arguments.max_results or MAX_RESULTS,
            max_chars=max(MIN_CHARS, min(arguments.max_chars or most, most)),
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
            return outcome_of(refusal_data(arguments.path, reason), "refused")
        except Exception as error:
            log.exception("a memory file could not be read")
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            return outcome_of(refusal_data(arguments.path, reason), "failed")
        count = excerpt.to_line - excerpt.from_line + 1 if excerpt.text else 0
        summary = counted(count, "line") if excerpt.found else "no such file"
        budget = GET_CHARS
        outcome = outcome_of(answer := excerpt_data(excerpt, budget), summary)
        while len(outcome.text) > self._output_max_chars and budget > 1:
            budget //= 2
            outcome = outcome_of(answer := excerpt_data(excerpt, budget), summary)
        if not count or not excerpt.digest:
            return outcome
        first, last = answer["from"], answer["to"]
        # Its last line may be cut.
        cut = () if f"{excerpt.text}\n".startswith(f"{answer['text']}\n") else (last,)
        record = Shown(excerpt.path, excerpt.digest, len(outcome.text), first, last, excerpt.total_lines, cut)
        return structs.replace(outcome, details=outcome.details | {"seen": msgspec.to_builtins(record)})


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
        whose = f"From the memory of agent {asked}."
        details = outcome.details | {"notes": [whose, *outcome.details["notes"]]}
        if outcome.structured is None:
            text = msgspec.json.encode({ARGUMENT: asked} | msgspec.json.decode(outcome.text)).decode()
            return structs.replace(outcome, text=text, details=details)
        structured = {ARGUMENT: asked} | outcome.structured
        return structs.replace(outcome, text=f"{whose}\n{outcome.text}", details=details, structured=structured)
