"""`clawbot import`: conversations and notes of other programs, and back again."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from clawbot.authors import Author, recording
from clawbot.cli.output import agent_option, answer, counted, draw, echo, fail, json_option, options, shared_options
from clawbot.cli.schedule import add_jobs
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.history import history_of
from clawbot.importing.ledger import Ledger, Record, dismiss
from clawbot.importing.runs import Importer, Outcome, undo_run
from clawbot.scheduling.jobs import change_jobs
from clawbot.sessions.store import SessionStore

_EVERY = 25  # conversations between two updates of the line that shows how far it is
_SHOWN = 10
_BYTES_PER_TOKEN = 5  # of JSON lines, with their keys and times


class PathGroup(click.Group):
    """A group whose first word may also be a path: `clawbot import PATH` is `clawbot import from PATH`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["from", *args]
        return super().parse_args(ctx, args)


@click.group(cls=PathGroup)
def command() -> None:
    """Import conversations and notes: `clawbot import PATH`.

    PATH is the folder of OpenClaw, pi, Claude Code or Codex (~/.openclaw, ~/.pi, ~/.claude, ~/.codex), or an export of
    ChatGPT or Claude.ai (zip, folder, conversations.json).
    """


@command.command("from")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only print the counts.")
@click.option("--notes", is_flag=True, help="Let the model write notes from the new conversations, at the next chat.")
@options(agent_option("Who gets them."), shared_options)
def from_path(path: Path, *, dry_run: bool, notes: bool, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Import what is new at PATH. Nothing is overwritten, and `import undo` takes it back.

    With --json: an object with run, program, new, grown, parts, same, subagents, messages, size (bytes), copied,
    beside, skipped (counts by reason), remarks, jobs (the file).
    """
    paths, clock, is_seen = Paths(find_home()), SystemClock(), sys.stderr.isatty()
    every = load_settings(paths, config_file=file).settings
    workspace = every.agent(agent_id).workspace
    paths.ensure_home()
    store, ledger = SessionStore(paths.sessions(agent_id), clock, agent_id=agent_id), Ledger(paths.imports)

    def progress(count: int) -> None:
        if is_seen and count % _EVERY == 0:
            draw(sys.stderr, counted(count, "conversation"))

    importer = Importer(store, workspace, ledger, clock, dry_run=dry_run, notes=notes, progress=progress)
    try:
        with recording(history_of(every, paths, agent_id, clock), Author("import")):
            outcome = importer.run(path.expanduser())
    except KeyboardInterrupt:
        fail("Interrupted. What was imported so far is kept; the same command goes on with the rest.")
    finally:
        if is_seen:
            draw(sys.stderr)
    rows = add_jobs(paths, every, Path(outcome.jobs), dry_run=dry_run) if outcome.jobs else []
    if added := [Record("job", row["name"]) for row in rows if not row["problem"]]:
        importer.note(*added)
    answer(as_json, outcome, _lines(outcome, rows, dry_run=dry_run, notes=notes))


def _lines(outcome: Outcome, jobs: Sequence[dict[str, Any]], *, dry_run: bool, notes: bool) -> list[str]:
    would, by_problem = "would be " if dry_run else "", defaultdict[str, list[str]](list)
    for row in jobs:
        by_problem[row["problem"]].append(row["name"])
    added = by_problem.pop("", [])
    size = f" ({counted(outcome.messages, 'message')})" if outcome.messages else ""
    lines = [f"{outcome.program}: {counted(outcome.new, 'conversation')} {would}imported{size}"]
    for count, text in (
        (outcome.grown, "that grew, with their new messages"),
        (outcome.parts, "continued here: their new messages are conversations of their own"),
        (outcome.subagents, "more, held by sub-agents: clawbot sessions list --subagents NAME"),
        (outcome.same, "without anything new"),
    ):
        lines += [f"  {count:,} {text}"] if count else []
    for names, noun, text in (
        (added, "job", f"{would}added, switched off (clawbot schedule list)"),
        (outcome.copied, "note", f"{would}copied to the workspace"),
        (outcome.beside, "note", f"{would}put there separately, the name is taken"),
        *((names, "job", f"left out ({problem})") for problem, names in by_problem.items()),
    ):
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        lines += [f"  {counted(len(names), noun)} {text}: {', '.join(names[:_SHOWN])}{more}"] if names else []
    lines += [f"  left out: {reason} ({count:,})" for reason, count in outcome.skipped.items()]
    lines += [f"  not imported: {remark}" for remark in outcome.remarks]
    if notes and outcome.size:
        tokens = outcome.size // _BYTES_PER_TOKEN
        lines.append(f"The next chat sends them to the model for notes: about {tokens:,} tokens.")
    elif outcome.new and not dry_run:
        lines.append("They can be searched and continued. No model has read them: --notes lets one write notes.")
    is_changed = outcome.messages or outcome.copied or outcome.beside or added
    return [*lines, f"To take it back: clawbot import undo {outcome.run}"] if is_changed and not dry_run else lines


@command.command("list")
@json_option
def list_runs(as_json: bool) -> None:
    """List the imports, oldest first. With --json: an array of objects with id, time, program, path, agent, sessions,
    files, jobs."""
    found, lines = [], []
    for run, records in Ledger(Paths(find_home()).imports).runs():
        kinds = [record.kind for record in records]
        counts = {"sessions": kinds.count("session"), "files": kinds.count("file"), "jobs": kinds.count("job")}
        found.append({**structs.asdict(run), **counts})
        made = ", ".join(map(counted, counts.values(), ("conversation", "note", "job")))
        lines.append(f"{run.id}  {run.program:<11}  {made}  {run.path}")
    answer(as_json, found, lines or ["Nothing was imported yet: clawbot import PATH"])


@command.command()
@click.argument("run_id", metavar="ID")
@json_option
def undo(run_id: str, as_json: bool) -> None:
    """Take the import ID back: what it made, unless somebody used it since.

    With --json: an object with sessions, shortened, files, jobs (counts) and stays (lines).
    """
    paths = Paths(find_home())
    ledger = Ledger(paths.imports)
    run, records = ledger.find(run_id)
    store = SessionStore(paths.sessions(run.agent), SystemClock(), agent_id=run.agent)
    settings, clock = load_settings(paths).settings, SystemClock()
    jobs = settings.schedule.all_jobs
    history = history_of(settings, paths, run.agent if run.agent in settings.agent_ids else MAIN_AGENT, clock)

    def drop_job(name: str) -> str:
        if name in jobs and jobs[name].enabled:
            return f"{name}: this job was switched on"
        change_jobs(paths.jobs_file, {}, [name])
        return ""

    with recording(history, Author("import")):
        undone = undo_run(store, ledger, run, records, drop_job, workspace=history.workspace)
    removed = ((undone.sessions, "conversation"), (undone.files, "note"), (undone.jobs, "job"))
    lines = [f"Removed: {', '.join(counted(*each) for each in removed)}."]
    if undone.shortened:
        lines.append(f"{counted(undone.shortened, 'conversation')} without the new messages again.")
    answer(as_json, undone, lines + [f"Stays: {line}" for line in undone.stays])


@command.command("dismiss")
def dismiss_homes() -> None:
    """Offer no import any more, neither on the first page nor in doctor."""
    dismiss(Paths(find_home()))
    echo("No import is offered any more. `clawbot import PATH` still works.")
