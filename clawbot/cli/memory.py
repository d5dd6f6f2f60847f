"""`clawbot memory`: the state of the index, bringing it up to date, searching it, proving it right.

Nothing here imports the runtime: each command answers in a few tenths of a second.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click
import msgspec

from clawbot.cli import memory_output as output
from clawbot.cli.memory_open import Found, Place, Watching
from clawbot.cli.memory_progress import ProgressLine
from clawbot.cli.output import fail, json_option, print_json, reports_errors
from clawbot.config.paths import MAIN_AGENT
from clawbot.memory.index import MemoryIndex
from clawbot.memory.values import IndexStatus, SearchRequest, SyncReport, VerifyReport
from clawbot.tools.memory_dates import first_day, last_day
from clawbot.tui.render.sanitize import clean_line

F = TypeVar("F", bound=Callable[..., Any])

OFF = "Memory search is switched off (memory_search.enabled)."
INTERRUPTED = 130

COLLECT_AFTER = 50_000
"""New objects between two rounds of the garbage collector: a command is over before Python's 700 have paid (15 ms)."""

every_agent = click.option("--agent", "agent_id", metavar="ID", help="This agent only; all of them when left out.")


@click.group()
@click.pass_context
def command(context: click.Context) -> None:
    """Search the memory, and look after its index. The Markdown files are the truth; the index can be deleted."""
    context.call_on_close(functools.partial(gc.set_threshold, *gc.get_threshold()))
    gc.set_threshold(COLLECT_AFTER)


def _day_option(name: str, day: Callable[[str], date | None], text: str) -> Callable[[F], F]:
    """An option that takes a day, a month or a year, read by `day`."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> date | None:
        try:
            return day(value or "")
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, parameter) from None

    return click.option(name, callback=read, metavar="DAY", help=text)


@command.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--max-results", type=click.IntRange(min=1), metavar="N", help="Results at most.")
@click.option("--max-chars", type=click.IntRange(min=1), metavar="N", help="Characters of all snippets together.")
@click.option("--min-score", type=click.FloatRange(0, 1), metavar="X", help="Leave out results below (0 to 1).")
@_day_option("--after", first_day, "Notes of this day or later: 2026-11-20, 2026-11, 2026.")
@_day_option("--before", last_day, "Notes of this day or earlier.")
@click.option("--path", metavar="PATH", help="Only this file, folder or glob.")
@click.option("--agent", "agent_id", default=MAIN_AGENT, metavar="ID", show_default=True, help="Whose memory.")
@json_option
@reports_errors
def search(query: tuple[str, ...], agent_id: str, as_json: bool, **bounds: Any) -> None:
    """Search the memory for QUERY, in words or as a question. A hit is printed as `score path:start-end` and its text.

    With --json: an object with results (an array of path, startLine, endLine, score, snippet, source), mode (hybrid,
    fts-only, vector-only), provider, model, fallback (from, reason; or null), partial, notes.
    """
    text = " ".join(query)
    if not text.strip():
        fail("The query is empty: say what to look for.")
    place = Place.find()
    request = SearchRequest(queries=(text,), **bounds)
    [found] = asyncio.run(place.each(agent_id, lambda _, index: index.search(request)))
    _fail_for([found])
    if found.value is None:
        fail(OFF)
    result = found.value
    if as_json:
        print_json(output.search_data(result))
        return
    click.echo("\n".join(output.hit_lines(result)).rstrip("\n"))
    for remark in output.search_remarks(result):
        click.echo(f"clawbot: {clean_line(remark)}", err=True)


@command.command()
@click.option("--deep", is_flag=True, help="Also ask the embedding provider for one word.")
@every_agent
@json_option
@reports_errors
def status(deep: bool, agent_id: str | None, as_json: bool) -> None:
    """Say what the index holds and how well it is, what leaves this machine, and what a key would add.

    With --json: an array of objects, one for each agent, with agentId, status (files, totalFiles, chunks, vectors,
    tokens, textBytes, diskBytes, dirty, pendingVectors, lastSync, provider, requestedProvider, model, remote, mode,
    profile, dimensions, identity, dbPath, workspaceDir, sources, extraPaths, sourceCounts, fts, vector, cache,
    fallback, rebuilding, busy; null when switched off), scan (sources, totalFiles, issues), embeddingProbe (with
    --deep: ok, error, seconds), indexError.
    """
    place = Place.find()
    found = asyncio.run(place.each(agent_id, lambda _, index: index.status(deep=deep)))
    if as_json:
        print_json([output.status_data(one.agent_id, one.error or one.value) for one in found])
    else:
        click.echo("\n\n".join(_status_text(place, one) for one in found))
    _fail_for(found)


def _status_text(place: Place, found: Found[IndexStatus]) -> str:
    if found.value is None:
        return f"Memory of {found.agent_id}\n  {clean_line(str(found.error or OFF))}"
    # Deferred: the rooms of the language models, which the other commands do without.
    from clawbot.llm.embedding import embedding_keys

    zone = place.settings.agent(found.agent_id).timezone
    lines = output.status_lines(found.agent_id, found.value, ZoneInfo(zone) if zone else None, embedding_keys())
    return "\n".join(lines)


@command.command("index")
@click.option("--force", is_flag=True, help="Build everything anew; searches go on with the old index meanwhile.")
@click.option("--watch", is_flag=True, help="Stay, and follow every change until Ctrl+C.")
@every_agent
@json_option
@reports_errors
def index_files(force: bool, watch: bool, agent_id: str | None, as_json: bool) -> None:
    """Bring the index up to date with the files. Interrupted, the next run goes on from there.

    With --json: an array of objects, one for each agent, with agentId, report (added, changed, removed, unchanged: in
    files; piecesWritten, piecesEmbedded, pendingVectors, rebuilt, busy, fallback, issues, seconds; null when it failed
    or is switched off) and error. With --watch, one such object a line, again after each change.
    """
    place = Place.find()
    work = _Sync(place, force=force, quiet=as_json)
    try:
        if watch:
            asyncio.run(Watching(place, _tell_as_json if as_json else _tell_change).run(agent_id, work))
            return
        found = asyncio.run(place.each(agent_id, work))
    except KeyboardInterrupt:
        if watch:
            return
        click.echo("clawbot: Interrupted; the next run goes on from here.", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json([_report_data(one) for one in found])
    else:
        for one in found:
            _tell_report(one, several=len(found) > 1)
    _fail_for(found)


class _Sync:
    """Brings an index up to date, with a line that shows how far it is."""

    def __init__(self, place: Place, *, force: bool, quiet: bool) -> None:
        self._clock = place.clock
        self._several = len(place.settings.agent_ids) > 1
        self._force = force
        self._quiet = quiet

    async def __call__(self, agent_id: str, index: MemoryIndex) -> SyncReport:
        if self._quiet:
            return await index.sync(force=self._force)
        with ProgressLine(sys.stderr, self._clock, name=agent_id if self._several else "") as show:
            return await index.sync(force=self._force, progress=show)


def _report_data(found: Found[SyncReport] | Found[VerifyReport]) -> dict[str, Any]:
    error = None if found.error is None else str(found.error)
    return {"agentId": found.agent_id, "report": output.plain(found.value), "error": output.plain(error)}


def _tell_report(found: Found[SyncReport], *, several: bool) -> None:
    if found.error is not None:
        return
    line = OFF if found.value is None else output.sync_line(found.value)
    click.echo(f"{found.agent_id}: {line}" if several else line)
    for remark in output.sync_remarks(found.value) if found.value else ():
        click.echo(f"clawbot: {remark}", err=True)


def _tell_change(agent_id: str, news: SyncReport | IndexStatus) -> None:
    if isinstance(news, SyncReport):
        _tell_report(Found(agent_id, news), several=True)
        click.echo("Watching; Ctrl+C ends it.", err=True)
    else:
        click.echo(f"{agent_id}: {output.change_line(news)}")


def _tell_as_json(agent_id: str, news: SyncReport | IndexStatus) -> None:
    key = "report" if isinstance(news, SyncReport) else "status"
    click.echo(msgspec.json.encode({"agentId": agent_id, key: output.plain(news)}).decode())


@command.command()
@click.option("--fix", is_flag=True, help="Repair the difference, and nothing else.")
@every_agent
@json_option
@reports_errors
def verify(fix: bool, agent_id: str | None, as_json: bool) -> None:
    """Compare the files with the pieces, the pieces with the words and the vectors. Exits with 1 when they differ.

    With --json: an array of objects, one for each agent, with agentId, report (problems, fixed: arrays of text;
    checked: files, chunks, keywords, vectors; clean; null when it failed or is switched off) and error.
    """
    place = Place.find()
    found = asyncio.run(place.each(agent_id, lambda _, index: index.verify(fix=fix)))
    if as_json:
        print_json([_report_data(one) for one in found])
    else:
        for one in found:
            _tell_verified(one, several=len(found) > 1)
    _fail_for(found)
    if any(one.value is not None and not one.value.clean for one in found):
        sys.exit(1)


def _tell_verified(found: Found[VerifyReport], *, several: bool) -> None:
    if found.error is not None:
        return
    for line in [OFF] if found.value is None else output.verify_lines(found.value):
        click.echo(f"{found.agent_id}: {line}" if several else line)


def _fail_for(found: Sequence[Found[Any]]) -> None:
    """Exit with 1 when an agent's index could not be used, each with one line on stderr."""
    failed = [one for one in found if one.error is not None]
    for one in failed:
        name = f"{one.agent_id}: " if len(found) > 1 else ""
        click.echo(f"clawbot: {name}{clean_line(str(one.error))}", err=True)
    if failed:
        sys.exit(1)
