"""`clawbot memory`: status, update, search and verification of the index, and forgetting.

Nothing here imports the runtime: each command answers within a few tenths of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import Struct

from clawbot.cli import history
from clawbot.cli import memory_output as output
from clawbot.cli.added import ExtensibleGroup
from clawbot.cli.output import (
    agent_option,
    answer,
    day_options,
    echo,
    echo_error,
    fail,
    options,
    print_json,
    print_json_line,
    shared_options,
    warn,
)
from clawbot.clock import SystemClock
from clawbot.config.env import load_env
from clawbot.config.paths import Paths, find_home
from clawbot.config.snapshot import quick_settings
from clawbot.errors import ClawbotError
from clawbot.indexing import open_index
from clawbot.logs import setup_logging
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import EVERY_SOURCE, IndexStatus, Progress, SearchRequest, SearchResult, Source, SyncReport
from clawbot.signals import on_interruption
from clawbot.text.sanitize import clean_line

if TYPE_CHECKING:
    from clawbot.config.schema import Settings
    from clawbot.forget import ForgetOutcome, Request


T = TypeVar("T")

OFF = "Memory search is switched off (memory_search.enabled)."


class AgentResult(Struct, Generic[T], frozen=True):
    """The result of one agent's index: a value, or an error. Neither: its memory search is off."""

    agent_id: str
    value: T | None = None
    error: ClawbotError | None = None


class Setup:
    """The settings, state folder and clock of a command."""

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self.settings = settings
        self.paths = paths
        self.clock = SystemClock()

    @classmethod
    def load(cls, config_file: Path | None = None) -> Self:
        """Load the settings (of `config_file` instead of the user's) and the keys, and set up the log file.

        Raises ConfigError. Blocks.
        """
        paths = Paths(find_home())
        load_env(paths)
        settings = quick_settings(paths, config_file=config_file)
        logging = settings.logging
        setup_logging(paths.log_file, logging.level, logging.max_bytes, logging.backups)
        return cls(settings, paths)

    def agents(self, agent_id: str | None) -> list[str]:
        """Return `agent_id` alone, or all agents. Raises ConfigError for an unknown one."""
        if agent_id is None:
            return self.settings.agent_ids
        self.settings.agent(agent_id)
        return [agent_id]

    @contextlib.asynccontextmanager
    async def opened(self, agent_id: str, *, long_lived: bool = False) -> AsyncIterator[MemoryBackend | None]:
        """The agent's index; None if it is off. Raises ClawbotError."""
        index = open_index(self.settings, agent_id, self.paths, self.clock, long_lived=long_lived)
        try:
            yield index
        finally:
            if index is not None:
                await index.close()

    async def each(
        self, agent_id: str | None, work: Callable[[str, MemoryBackend], Awaitable[T]]
    ) -> list[AgentResult[T]]:
        """The results of `work` for one agent or all, one after another; a failing agent does not stop the others."""
        found: list[AgentResult[T]] = []
        for name in self.agents(agent_id):
            try:
                async with self.opened(name) as index:
                    found.append(AgentResult(name, None if index is None else await work(name, index)))
            except ClawbotError as error:
                found.append(AgentResult(name, error=error))
        return found


async def watch(
    setup: Setup,
    agent_id: str | None,
    sync: Callable[[str, MemoryBackend], Awaitable[SyncReport]],
    report: Callable[[str, SyncReport | IndexStatus], None],
) -> None:
    """Synchronise one agent's index or all, then follow their files until a signal cancels the task.

    `report` gets the results of `sync`, then the state after each change. Returns at once if no index is enabled.
    Raises ClawbotError.
    """
    if (task := asyncio.current_task()) is not None:
        # The handler of asyncio.run wakes no loop that is about to wait.
        on_interruption(task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        indexes: list[tuple[str, MemoryBackend]] = []
        for name in setup.agents(agent_id):
            index = await stack.enter_async_context(setup.opened(name, long_lived=True))
            if index is not None:
                report(name, await sync(name, index))
                indexes.append((name, index))
        await asyncio.gather(*(_follow(name, index, report) for name, index in indexes))


async def _follow(name: str, index: MemoryBackend, report: Callable[[str, IndexStatus], None]) -> None:
    loop = asyncio.get_running_loop()
    idle = asyncio.Event()

    def on_progress(progress: Progress | None) -> None:
        if progress is None:
            loop.call_soon_threadsafe(idle.set)

    before = await index.status()
    index.on_progress = on_progress
    index.start()
    while True:
        await idle.wait()
        idle.clear()
        now = await index.status()
        if _gist(now) != _gist(before):
            report(name, now)
            before = now


def _gist(status: IndexStatus) -> tuple[object, ...]:
    return status.last_sync, status.files, status.chunks, status.vectors, status.text_bytes, status.issues


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
    text = " ".join(query)
    if not text.strip():
        fail("The query is empty.")
    setup = Setup.load(file)
    if only is not None and only not in setup.settings.agent(agent_id).memory_search.sources:
        fail("Conversations are not indexed: put `sessions` among memory_search.sources.")
    request = SearchRequest(queries=(text,), sources=EVERY_SOURCE if only is None else (only,), **bounds)

    async def search(_: str, index: MemoryBackend) -> SearchResult:
        with output.progress_line(setup.clock, shown=not as_json and sys.stderr.isatty()) as show:
            return await index.search(request, show)

    [found] = asyncio.run(setup.each(agent_id, search))
    if found.error is not None:
        raise found.error
    if found.value is None:
        fail(OFF)
    text = "\n".join(output.hit_lines(found.value)).rstrip("\n")
    answer(as_json, output.search_data(found.value), [text], output.search_remarks(found.value))


INTERRUPTED = 130
# Garbage collection threshold in new objects: a command ends before Python's default of 700 pays off (15 ms).
COLLECT_AFTER = 50_000

every_agent = options(
    click.option("--agent", "agent_id", metavar="ID", help="This agent only; all of them when left out."),
    shared_options,
)
one_agent = options(agent_option("Whose memory."), shared_options)


@click.group("memory", cls=ExtensibleGroup)
@click.pass_context
def command(context: click.Context) -> None:
    """Search the memory and manage its index. The Markdown files are the source of truth; the index can be deleted."""
    context.call_on_close(functools.partial(gc.set_threshold, *gc.get_threshold()))
    gc.set_threshold(COLLECT_AFTER)


command.add_command(history.log)
command.add_command(history.show)
command.add_command(history.undo)


@command.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--max-results", type=click.IntRange(min=1), metavar="N", help="Results at most.")
@click.option("--max-chars", type=click.IntRange(min=1), metavar="N", help="Characters of all snippets together.")
@click.option("--min-score", type=click.FloatRange(0, 1), metavar="X", help="Minimum score of a hit.")
@day_options("Notes of this day or")
@click.option("--path", metavar="PATH", help="Only this file, folder or glob.")
@one_agent
def search(query: tuple[str, ...], agent_id: str, file: Path | None, as_json: bool, **bounds: Any) -> None:
    """Search the memory for QUERY, words or a question. A hit is printed as `score path:start-end` and its text.

    A passage of a conversation is printed as `score sessions/FILE#ENTRY (who, when)`.

    With --json: an object with results (an array of path, startLine, endLine, score, snippet, source, line: of the best
    one, said: entry, who, at; null for notes), mode (hybrid, fts-only, vector-only), provider, model, fallback (from,
    reason, since: where the builtin index answers for another backend; or null), partial, notes.
    """
    search_and_print(query, agent_id, file, as_json=as_json, **bounds)


@command.command()
@click.option("--deep", is_flag=True, help="Also ask the embedding provider for one word.")
@every_agent
def status(deep: bool, agent_id: str | None, file: Path | None, as_json: bool) -> None:
    """Show what the index holds and its state, what leaves this machine, and what a key would add.

    With --json: an array of objects, one for each agent, with agentId, status (files, totalFiles, chunks, vectors,
    tokens, textBytes, diskBytes, dirty, pendingVectors, lastSync, provider, requestedProvider, model, remote, mode,
    profile, dimensions, identity, dbPath, workspaceDir, sources, extraPaths, sourceCounts, fts, vector, cache,
    fallback, rebuilding, busy; null when switched off), scan (sources, totalFiles, issues), embeddingProbe (with
    --deep: ok, error, seconds), indexError. rerankProblem in status is why no model orders the results.
    """
    setup = Setup.load(file)
    found = asyncio.run(setup.each(agent_id, lambda _, index: index.status(deep=deep)))
    data = [output.status_data(one.agent_id, one.error or one.value) for one in found]
    answer(as_json, data, ("\n" * bool(number) + _status_text(setup, one) for number, one in enumerate(found)))
    _fail_for(found)


def _status_text(setup: Setup, found: AgentResult[IndexStatus]) -> str:
    if found.value is None:
        return f"Memory of {found.agent_id}\n  {clean_line(str(found.error or OFF))}"
    # Deferred: zones and the rooms of the language models, which the other commands do without.
    from zoneinfo import ZoneInfo

    from clawbot.llm.embedding import embedding_keys

    zone = setup.settings.agent(found.agent_id).timezone
    lines = output.status_lines(found.agent_id, found.value, ZoneInfo(zone) if zone else None, embedding_keys())
    return "\n".join(lines)


@command.command("index")
@click.option("--force", is_flag=True, help="Rebuild everything; searches use the old index until then.")
@click.option("--watch", "watches", is_flag=True, help="Keep running and index every change until Ctrl+C.")
@every_agent
def index_files(force: bool, watches: bool, agent_id: str | None, file: Path | None, as_json: bool) -> None:
    """Bring the index up to date with the files. Interrupted, the next run goes on from there.

    With --json: an array of objects, one for each agent, with agentId, report (added, changed, removed, unchanged: in
    files; piecesWritten, piecesEmbedded, pendingVectors, rebuilt, busy, fallback, issues, seconds; null when it failed
    or is switched off) and error. With --watch, one such object a line, again after each change.
    """
    setup = Setup.load(file)
    several = len(setup.settings.agent_ids) > 1

    async def sync(name: str, index: MemoryBackend) -> SyncReport:
        with output.progress_line(setup.clock, name if several else "", shown=not as_json) as show:
            return await index.sync(force=force, progress=show)

    try:
        if watches:
            asyncio.run(watch(setup, agent_id, sync, _report_as_json if as_json else _report_change))
            return
        found = asyncio.run(setup.each(agent_id, sync))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if watches:
            return
        warn("Interrupted; the next run goes on from here.")
        sys.exit(INTERRUPTED)
    _print_reports(found, output.sync_lines, as_json=as_json)


def _print_reports(
    found: Sequence[AgentResult[T]], lines: Callable[[T], Iterable[str]], *, as_json: bool, named: bool = False
) -> None:
    """Print what `lines` makes of each result, with the name of its agent if there are several, or if `named`.

    Exits with 1 if one failed.
    """
    if as_json:
        print_json([output.report_data(one.agent_id, one.value, one.error) for one in found])
    for one in () if as_json else found:
        for line in [OFF] if one.value is None else lines(one.value):
            if one.error is None:
                echo(f"{one.agent_id}: {line}" if named or len(found) > 1 else line)
        if isinstance(one.value, SyncReport):
            warn(*output.sync_remarks(one.value))
    _fail_for(found)


def _report_change(agent_id: str, news: SyncReport | IndexStatus) -> None:
    if isinstance(news, SyncReport):
        _print_reports([AgentResult(agent_id, news)], output.sync_lines, as_json=False, named=True)
        echo_error("Watching; Ctrl+C ends it.")
    else:
        echo(f"{agent_id}: {output.change_line(news)}")


def _report_as_json(agent_id: str, news: SyncReport | IndexStatus) -> None:
    if isinstance(news, SyncReport):
        print_json_line({"agentId": agent_id, "report": output.plain(news)})
    else:
        print_json_line({"agentId": agent_id, "status": output.status_fields(news)})


@command.command()
@click.option("--fix", is_flag=True, help="Repair the differences.")
@every_agent
def verify(fix: bool, agent_id: str | None, file: Path | None, as_json: bool) -> None:
    """Compare the files with the chunks, the chunks with the words and the vectors. Exits with 1 if the index differs
    from the files.

    With --json: an array of objects, one for each agent, with agentId, report (problems, fixed: arrays of text;
    checked: files, chunks, keywords, vectors; clean; null when it failed or is switched off) and error.
    """
    setup = Setup.load(file)
    found = asyncio.run(setup.each(agent_id, lambda _, index: index.verify(fix=fix)))
    _print_reports(found, output.verify_lines, as_json=as_json)
    if any(one.value is not None and not one.value.clean for one in found):
        sys.exit(1)


def _fail_for(found: Sequence[AgentResult[Any]]) -> None:
    """Exit with 1 if an agent's index could not be used, with one line for each on stderr."""
    if failed := [one for one in found if one.error is not None]:
        warn(*(f"{f'{one.agent_id}: ' if len(found) > 1 else ''}{one.error}" for one in failed))
        sys.exit(1)


@command.command()
@click.argument("target", metavar="FILE[:LINE]")
@one_agent
def blame(target: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Show which conversation, message and day made each line of a memory FILE, or one LINE of it.

    From the history of changes and the records in the transcripts; by the words alone where neither names a line, which
    is marked as a guess.

    With --json: an object with file and, for a LINE, line, text, by, session, key, entry, time (UTC), guess, sources
    (empty where unknown); without one, lines: an array of such objects. What a dream made from other lines has these as
    sources, newest first, and their conversation.
    """
    # Deferred, as above.
    from clawbot.cli.memory_blame import print_blame

    setup = Setup.load(file)
    print_blame(setup.settings, setup.paths, setup.clock, agent_id, target, as_json=as_json)


def _session_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    # Deferred: what the other commands on the memory do without.
    from clawbot.cli.completion import session_names

    return session_names(context, parameter, incomplete)


@command.command("forget")
@click.argument("query", nargs=-1)
@click.option(
    "--session",
    metavar="ID",
    default="",
    shell_complete=_session_names,
    help="A conversation: name, id, its beginning.",
)
@click.option("--transcripts", is_flag=True, help="Also remove the words from the transcripts.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@one_agent
def forget(query: tuple[str, ...], agent_id: str, file: Path | None, as_json: bool, **wanted: Any) -> None:
    """Forget QUERY, the note at the path QUERY, or a conversation.

    QUERY is taken literally, but for case and blanks: each line of a note that holds it goes, and messages with it
    are found and remembered no more. A note goes with the quotes of its lines; a conversation with its note, what
    memory wrote of it, and the quotes of these. Transcripts are unchanged without --transcripts. What is still there
    is shown. Exits with 1 when nothing holds QUERY, or when something could not be done.

    With --json: an object with agentId, dryRun, done (an array of path, lines, what), stillThere (path, lines, why,
    unseen, failed), complete.
    """
    # Deferred, as above.
    from clawbot.forget import Forgetting, Request

    text = " ".join(query).strip()
    if bool(text) == bool(wanted["session"]):
        fail("Give either QUERY (words, or the path of a note) or --session ID.")
    setup = Setup.load(file)
    request = Request(text=text, **wanted)
    outcome = Forgetting(setup.settings, setup.paths, agent_id, request).run()
    data = {
        "agentId": agent_id,
        "dryRun": request.dry_run,
        "done": msgspec.to_builtins(outcome.done),
        "stillThere": msgspec.to_builtins(outcome.left),
        "complete": outcome.complete,
    }
    answer(as_json, data, outcome.lines(), _remarks(outcome, request))
    if not outcome.complete:
        sys.exit(1)


def _remarks(outcome: ForgetOutcome, request: Request) -> Iterator[str]:
    if not outcome.done:
        yield "Nothing left to do."
    if request.dry_run:
        yield "Nothing was changed (--dry-run)."
    if not outcome.complete:
        yield "Not all of it could be done; the lines above show what is left. Run it again then."
