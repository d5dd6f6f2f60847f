"""Checks the memory index: whether it is usable, what could not be indexed, and whether vectors are available."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here, quoted
from clawbot.cli.output import counted
from clawbot.errors import ClawbotError
from clawbot.indexing import open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.documents.memory_files import MEMORY_FOLDER
from clawbot.memory.values import IndexStatus, Issue

MOST_ISSUES = 5  # more than anybody fixes before checking again
NONE = "none"  # the provider of an index without vectors

Open = Callable[[Here], MemoryBackend | None]


def _open(here: Here) -> MemoryBackend | None:
    return open_index(here.all_settings, here.agent, here.paths, here.clock, long_lived=False)


async def index(here: Here, open_here: Open = _open) -> Findings:
    """The index can be opened, is up to date, and has vectors."""
    if here.config_error is not None:
        return [Finding("memory", "warning", "not tried: the configuration is not valid", "clawbot config check")]
    try:
        backend = open_here(here)
    except ClawbotError as error:
        return [_broken(error, None)]
    if backend is None:
        return [Finding("memory", "ok", "memory search is switched off (memory_search.enabled)")]
    try:
        return await _look(backend, here)
    except ClawbotError as error:
        return [_broken(error, backend.location)]
    finally:
        await backend.close()


async def _look(backend: MemoryBackend, here: Here) -> Findings:
    """Raises ClawbotError."""
    if not backend.built:
        fix = f"clawbot memory index{here.for_agent}"
        return [Finding("memory", "ok", "there is no index yet; the first search builds it", fix)]
    database = backend.location
    if database is not None and database.is_dir():
        message = f"{database} is a folder, where the index should be a file"
        return [Finding("memory", "problem", message, f"mv {quoted(database)} {quoted(database)}.folder")]
    status = await backend.status(deep=here.ping)
    return [_state(status), *_parts(status, here), *_issues(status, here)]


def _broken(error: ClawbotError, database: Path | None) -> Finding:
    fix = error.hint
    if database is not None:
        fix = f"{fix or 'it can be deleted and will be rebuilt:'} rm {quoted(database)}*"
    return Finding("memory", "problem", error.message, fix)


def _state(status: IndexStatus) -> Finding:
    by = f"{status.provider} {status.model}".strip() if status.vectors and status.provider != NONE else "words alone"
    files, pieces = counted(status.total_files, "file"), counted(status.chunks, "piece")
    held = f"{status.files:,} of {files} in {pieces}, found by {by}"
    verb = "waits" if status.pending_vectors == 1 else "wait"
    waiting = f"; {counted(status.pending_vectors, 'piece')} {verb} for a vector" if status.pending_vectors else ""
    return Finding("memory", "ok", f"{held}{waiting}")


def _parts(status: IndexStatus, here: Here) -> Findings:
    """What prevents searching by vectors."""
    look = f"clawbot memory status --deep{here.for_agent}"
    found = []
    if status.fallback is not None:
        mend = f"what it says, or memory.backend: builtin in {here.config_file}"
        fix = look if status.fallback.since is None else mend
        found.append(Finding("memory", "warning", status.fallback.in_words, fix))
    if (error := _new_error(status)) is not None:
        # `auto` names no provider.
        asked = status.requested_provider if status.provider == NONE else status.provider
        found.append(Finding("memory", "warning", f"{asked} makes no vectors now: {error}", look))
    if status.rerank_problem:
        fix = f"what it says, or query.rerank: off in {here.config_file}"
        found.append(Finding("memory", "warning", status.rerank_problem, fix))
    return found


def _new_error(status: IndexStatus) -> str | None:
    """Why the provider did not answer, if one is wanted and nothing else has reported it."""
    probe = status.embedding_probe
    if probe is None or probe.ok or status.requested_provider == NONE:
        return None
    if status.fallback is not None and probe.error == status.fallback.reason:
        return None
    return probe.error or "it does not say why"


def _issues(status: IndexStatus, here: Here) -> Findings:
    found = [_issue(issue, here) for issue in status.issues[:MOST_ISSUES]]
    if len(status.issues) > MOST_ISSUES:
        more = f"{counted(len(status.issues) - MOST_ISSUES, 'more file')} could not be taken in"
        found.append(Finding("memory", "warning", more, "clawbot memory status"))
    return found


def _issue(issue: Issue, here: Here) -> Finding:
    place = here.settings.workspace / issue.path
    if not place.is_symlink():
        fix = f"mend {place}, or move it away"
    elif place.is_dir() and issue.path != MEMORY_FOLDER:
        fix = f"name {place.resolve()} in memory_search.extra_paths in {here.config_file}"
    else:
        fix = f"put what it leads to in the place of {place}"
    return Finding("memory", "warning", f"{issue.path}: {issue.text}", fix)
