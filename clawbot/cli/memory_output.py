"""The output of `clawbot memory`: text and plain data made from the values of the index, and the progress of a sync."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec

from clawbot.cli.output import counted, draw, write_line
from clawbot.clock import Clock, and_more
from clawbot.errors import ClawbotError
from clawbot.memory.dates.validity import folded
from clawbot.memory.values import (
    Hit,
    IndexStatus,
    Issue,
    Progress,
    ReportProgress,
    SearchResult,
    SyncReport,
    VerifyReport,
)
from clawbot.text.sanitize import clean, clean_line

LABEL = 12  # columns
_OPTIONAL = ("earlier", "ended", "more", "above", "below")
MAX_ISSUES = 20  # shown one by one; JSON has all


def plain(value: Any) -> Any:
    """Return `value` as data for JSON: lone surrogates in file names become replacement characters."""
    return _well_formed(msgspec.to_builtins(value))


def _well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {key: _well_formed(item) for key, item in value.items()}
    return [_well_formed(item) for item in value] if isinstance(value, list | tuple) else value


def search_data(result: SearchResult) -> dict[str, Any]:
    """Return the JSON form of a search result."""
    found: dict[str, Any] = plain(result)
    hits = [{key: value for key, value in hit.items() if key not in _OPTIONAL or value} for hit in found.pop("hits")]
    return {"results": hits, **found}


def hit_lines(result: SearchResult) -> Iterator[str]:
    """Yield each hit as `0.873 path:start-end`, messages as `0.873 sessions/FILE#ENTRY (You, DAY TIME)`, with
    `(earlier)` where a later result differs; its text with the list that belongs to it, or one line if it has ended;
    how many more repeat it, and a blank line."""
    if not result.hits:
        yield "No matches."
    for hit in result.hits:
        yield f"{hit.shown_score:.3f} {clean_line(_location(hit))}{' (earlier)' if hit.earlier else ''}"
        shown = (
            folded(hit.snippet, hit.ended)
            if hit.ended
            else "\n".join((hit.snippet, *(line.text for line in hit.below)))
        )
        yield clean(shown).strip("\n")
        if hit.more is not None:
            yield f"  ({clean_line(and_more(hit.more))})"
        yield ""


def _location(hit: Hit) -> str:
    if hit.said is None:
        return f"{hit.path}:{hit.start_line}-{hit.end_line}"
    who = "You" if hit.said.who == "user" else hit.said.by or "Clawbot"
    return f"{hit.location} ({who}, {hit.said.at:%Y-%m-%d %H:%M})"


def search_remarks(result: SearchResult) -> Iterator[str]:
    """Remarks about the search, for stderr."""
    if result.fallback is not None:
        yield clean_line(result.fallback.in_words)
    if result.partial:
        yield "Not everything was searched."
    yield from result.warnings


def report_data(agent_id: str, report: object, error: ClawbotError | None) -> dict[str, Any]:
    """Return the JSON form of what was done to one agent's index, or why it was not."""
    return {"agentId": agent_id, "report": plain(report), "error": None if error is None else plain(str(error))}


def sync_lines(report: SyncReport) -> Iterator[str]:
    """Yield `Memory index updated: 3 files (2 added), 14 pieces written, 14 embedded, 0.4 s.`"""
    if report.busy:
        yield "Another process is indexing; nothing was done here."
        return
    changes = ((report.added, "added"), (report.changed, "changed"), (report.removed, "removed"))
    counts = ", ".join(f"{count:,} {word}" for count, word in changes if count)
    files, waiting = counted(report.added + report.changed + report.unchanged, "file"), _waiting(report.pending_vectors)
    if not counts and not report.pieces_written and not report.pieces_embedded and not report.rebuilt:
        yield f"Memory index is up to date: {files}.{waiting}"
        return
    what = f"{files} ({counts})" if counts else files
    chunks = f"{counted(report.pieces_written, 'piece')} written, {report.pieces_embedded:,} embedded"
    verb = "rebuilt" if report.rebuilt else "updated"
    yield f"Memory index {verb}: {what}, {chunks}, {report.seconds:.1f} s.{waiting}"


def sync_remarks(report: SyncReport) -> Iterator[str]:
    """Remarks about a sync, for stderr."""
    if report.fallback is not None:
        yield clean_line(report.fallback.in_words)
    yield from issue_lines(report.issues)


def change_line(status: IndexStatus) -> str:
    """Return the size of an index after a change: `updated: 4 files, 45 pieces.`"""
    waiting = _waiting(status.pending_vectors)
    return f"updated: {counted(status.files, 'file')}, {counted(status.chunks, 'piece')}.{waiting}"


def _waiting(vectors: int) -> str:
    return f" {counted(vectors, 'piece')} still {'waits' if vectors == 1 else 'wait'} for a vector." if vectors else ""


def issue_lines(issues: Sequence[Issue]) -> Iterator[str]:
    """What could not be indexed, one line each."""
    for issue in issues[:MAX_ISSUES]:
        yield clean_line(f"{issue.path}: {issue.text}")
    if len(issues) > MAX_ISSUES:
        yield f"… and {len(issues) - MAX_ISSUES:,} more"


def status_data(agent_id: str, found: IndexStatus | ClawbotError | None) -> dict[str, Any]:
    """Return the JSON form of one agent's status. None: memory search is off."""
    if found is None:
        return {"agentId": agent_id, "status": None}
    if isinstance(found, ClawbotError):
        return {"agentId": agent_id, "status": None, "indexError": plain(str(found))}
    status = status_fields(found)
    issues, probe = status.pop("issues"), status.pop("embeddingProbe")
    counts = [{"source": one["source"], "totalFiles": one["totalFiles"]} for one in status["sourceCounts"]]
    scan = {"sources": counts, "totalFiles": found.total_files, "issues": issues}
    return {"agentId": agent_id, "status": status, "scan": scan} | ({"embeddingProbe": probe} if probe else {})


def status_fields(status: IndexStatus) -> dict[str, Any]:
    """Return the JSON form of `status`, with the details of the backend among the common fields."""
    fields: dict[str, Any] = plain(status)
    details: dict[str, Any] = fields.pop("details")
    return {**details, **fields}


def status_lines(agent_id: str, status: IndexStatus, zone: tzinfo | None, keys: Mapping[str, str]) -> Iterator[str]:
    """The status of one agent for people, with times in `zone`. `keys` maps the embedding providers that have a key in
    the environment to its variable."""
    yield f"Memory of {agent_id}"
    for name, text in (*_index_rows(status, zone), *_setting_rows(status, keys)):
        if text:
            yield f"  {name:<{LABEL}}{clean_line(text)}"


def _index_rows(status: IndexStatus, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    if status.fallback is not None and status.fallback.since is not None:
        yield "instead", status.fallback.in_words
    text = f"about {status.tokens:,} tokens ({size(status.text_bytes)})"
    yield "notes", f"{_held(status.files, status.total_files, status.chunks)}, {text}"
    for one in status.source_counts if len(status.source_counts) > 1 else ():
        yield "", f"{one.source}: {_held(one.files, one.total_files, one.chunks)}"
    if words := status.details.get("fts"):
        yield "words", "ready" if words["available"] else f"not available: {words['error'] or 'unknown reason'}"
    yield "vectors", _vectors(status)
    yield "order", status.rerank_problem
    yield "state", "; ".join(_state(status, zone))


def _setting_rows(status: IndexStatus, keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    details, probe = status.details, status.embedding_probe
    yield "settings", status.identity
    if details.get("dbPath"):
        yield "database", f"{details['dbPath']} ({size(status.disk_bytes)})"
    yield "workspace", status.workspace_dir
    for path in status.extra_paths:
        yield "next to it", path
    if (cache := details.get("cache")) and cache["enabled"]:
        limit = f" of at most {cache['maxEntries']:,}" if cache["maxEntries"] else ""
        yield "cache", f"{cache['entries']:,}{limit} embeddings"
    if probe is not None:
        answers = f"answer in {probe.seconds * 1000:.0f} ms"
        yield "embeddings", answers if probe.ok else f"do not answer: {probe.error or ''}"
    yield "leaves here", _reach(status)
    yield "with a key", "" if status.remote else _with_key(keys)
    for line in issue_lines(status.issues):
        yield "problem", line


def _held(files: int, total: int, chunks: int) -> str:
    return f"{files:,} of {counted(total, 'file')}, {counted(chunks, 'piece')}"


def _vectors(status: IndexStatus) -> str:
    if status.fallback is not None and status.fallback.since is None:
        return f"none: {status.fallback.in_words}"
    if status.provider == "none" or status.mode == "fts-only":
        return "none: searching by words alone"
    dimensions = status.details.get("dimensions")
    shape = f", {dimensions} dimensions" if dimensions is not None else ""
    return f"{status.vectors:,} of {status.chunks:,}{shape}, by {status.provider} {status.model}"


def _state(status: IndexStatus, zone: tzinfo | None) -> Iterator[str]:
    yield "files changed since the last sync" if status.dirty else "up to date"
    if status.pending_vectors:
        yield _waiting(status.pending_vectors).strip(" .")
    if status.rebuilding:
        yield "a new index is being built next to this one"
    if status.busy:
        yield "another process is indexing"
    yield f"last sync {status.last_sync.astimezone(zone):%Y-%m-%d %H:%M:%S}" if status.last_sync else "never synced"


def _reach(status: IndexStatus) -> str:
    if status.remote:
        return f"the text of pieces and queries goes to {status.address or status.provider}"
    return "nothing: words and vectors are made on this machine" if status.vectors else "nothing"


def _with_key(keys: Mapping[str, str]) -> str:
    """What an API key would add."""
    if not keys:
        return "vectors of a provider such as openai, gemini, voyage or mistral; none is needed"
    named = " or ".join(f"{provider} ({variable} is set)" for provider, variable in keys.items())
    return f"vectors of {named} by memory_search.provider; the texts go there then"


def verify_lines(report: VerifyReport) -> Iterator[str]:
    """Yield the findings of a verification, and its repairs."""
    checked = report.checked
    yield from (clean_line(problem) for problem in report.problems)
    yield from (clean_line(f"fixed: {fixed}") for fixed in report.fixed)
    held = f"{counted(checked.files, 'file')}, {counted(checked.chunks, 'piece')}, {checked.keywords:,} by words"
    verdict = "agree" if report.clean else "do not agree; `clawbot memory verify --fix` repairs the differences"
    yield f"{held}, {checked.vectors:,} by vectors: {verdict}."


def size(count: int) -> str:
    """Return `count` bytes for people: `900 bytes`, `4.8 KB`, `12.6 MB`."""
    if count < 1000:
        return counted(count, "byte")
    value = count / 1000
    for unit in ("KB", "MB"):
        if value < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


BAR = 24  # characters of the progress bar, if there is room
REDRAW = 0.1  # seconds between two updates
NAMES = {"scan": "listing", "text": "reading", "vectors": "embedding", "publish": "publishing"}


class ProgressLine:
    """Shows the progress of a sync on `stream` and removes it at the end. A context manager."""

    def __init__(self, stream: TextIO, clock: Clock, *, name: str = "") -> None:
        self._stream = stream
        self._clock = clock
        self._name = f"{name}: " if name else ""
        self._live = stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._drawn: float | None = None
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        if not self._live:
            if progress.phase != self._phase and progress.total:
                write_line(self._stream, f"{self._name}{NAMES[progress.phase]}: {progress.total:,} {progress.unit}")
                self._phase = progress.phase
            return
        now = self._clock.monotonic()
        if self._drawn is not None and now - self._drawn < REDRAW and progress.phase == self._phase:
            return
        self._drawn, self._phase = now, progress.phase
        width = shutil.get_terminal_size().columns - 1
        is_unicode = (self._stream.encoding or "").lower().replace("-", "") == "utf8"
        line = self._name + describe(progress, width - len(self._name), fancy=is_unicode)
        draw(self._stream, line[:width])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._drawn is not None:
            draw(self._stream)


def progress_line(
    clock: Clock, name: str = "", *, shown: bool
) -> contextlib.AbstractContextManager[ReportProgress | None]:
    """Return a progress line on stderr, or None unless `shown`."""
    return ProgressLine(sys.stderr, clock, name=name) if shown else contextlib.nullcontext()


def describe(progress: Progress, width: int, *, fancy: bool) -> str:
    """Return `embedding  ━━━━━━━━────  420/1,000 pieces  85/s  6 s left`; in ASCII unless `fancy`.

    The bar is dropped first if `width` columns are not enough.
    """
    figures = [f"{progress.done:,}/{progress.total:,} {progress.unit}"]
    if progress.rate > 0:
        figures.append(f"{progress.rate:,.0f}/s")
    if progress.seconds_left is not None:
        figures.append(f"{_duration(progress.seconds_left)} left")
    name, rest = f"{NAMES[progress.phase]:<10}", "  ".join(figures)
    room = max(min(BAR, width - len(name) - len(rest) - 3), 0)
    share = min(progress.done / progress.total, 1.0) if progress.total else 0.0
    full, empty = ("━", "─") if fancy else ("#", "-")
    done = round(share * room)
    return f"{name} {full * done}{empty * (room - done)}  {rest}"


def _duration(seconds: float) -> str:
    full = max(round(seconds), 0)
    minutes, rest = divmod(full, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
