"""Shared by the search commands: date options, and a search with its output as text or JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clawbot.cli.output import fail, print_json, say, tell

if TYPE_CHECKING:
    from clawbot.clock import Clock
    from clawbot.memory.backend import MemoryBackend
    from clawbot.memory.values import SearchRequest, SearchResult, Source

F = TypeVar("F", bound=Callable[..., Any])

OFF = "Memory search is switched off (memory_search.enabled)."
NO_TALKS = "Conversations are not indexed: put `sessions` among memory_search.sources."


def day_option(name: str, day: Callable[[str], date | None], text: str) -> Callable[[F], F]:
    """An option for a day, a month or a year, parsed by `day`."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> date | None:
        try:
            return day(value or "")
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, parameter) from None

    return click.option(name, callback=read, metavar="DAY", help=text)


def search_and_print(
    query: tuple[str, ...],
    agent_id: str,
    file: Path | None,
    *,
    as_json: bool,
    only: Source | None = None,
    **bounds: Any,
) -> None:
    """Search an agent's memory and print the results; `only` limits it to one source."""
    # Deferred: the other session commands do without the index.
    from clawbot.cli import memory_output as output
    from clawbot.cli.memory_open import Place
    from clawbot.memory.values import EVERY_SOURCE, SearchRequest

    text = " ".join(query)
    if not text.strip():
        fail("The query is empty.")
    place = Place.find(file)
    place.settings.agent(agent_id)
    if only is not None and only not in place.settings.agent(agent_id).memory_search.sources:
        fail(NO_TALKS)
    request = SearchRequest(queries=(text,), sources=EVERY_SOURCE if only is None else (only,), **bounds)
    work = _searching(request, place.clock, shows=not as_json and sys.stderr.isatty())
    [found] = asyncio.run(place.each(agent_id, work))
    if found.error is not None:
        raise found.error
    if found.value is None:
        fail(OFF)
    if as_json:
        print_json(output.search_data(found.value))
        return
    say("\n".join(output.hit_lines(found.value)).rstrip("\n"))
    for remark in output.search_remarks(found.value):
        tell(f"clawbot: {remark}")


def _searching(
    request: SearchRequest, clock: Clock, *, shows: bool
) -> Callable[[str, MemoryBackend], Awaitable[SearchResult]]:
    """A function that searches an index; `shows` the progress if it must be built first."""
    # Deferred, as above.
    from clawbot.cli.memory_open import ProgressLine

    async def work(_: str, index: MemoryBackend) -> SearchResult:
        if not shows:
            return await index.search(request)
        with ProgressLine(sys.stderr, clock) as show:
            return await index.search(request, show)

    return work
