"""The output of `clawbot memory`: text and plain data made from the values of the index. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from clawbot.errors import ClawbotError
from clawbot.memory.values import Hit, IndexStatus, Issue, SearchResult, SyncReport, VerifyReport
from clawbot.text.sanitize import clean, clean_line

LABEL = 12
"""Columns of the labels."""

MOST_ISSUES = 20
"""Issues shown one by one; JSON has all."""


def plain(value: Any) -> Any:
    """`value` as data for JSON: lone surrogates in file names become replacement characters."""
    return _well_formed(msgspec.to_builtins(value))


def _well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {key: _well_formed(item) for key, item in value.items()}
    return [_well_formed(item) for item in value] if isinstance(value, list | tuple) else value


# -- search ------------------------------------------------------------------------------------------------------------


def search_data(result: SearchResult) -> dict[str, Any]:
    """The JSON form of a search result."""
    found: dict[str, Any] = plain(result)
    hits = [{key: value for key, value in hit.items() if key != "earlier" or value} for hit in found.pop("hits")]
    return {"results": hits, **found}


def hit_lines(result: SearchResult) -> Iterator[str]:
    """Each hit as `0.873 path:start-end`, messages as `0.873 sessions/FILE#ENTRY (You, DAY TIME)`, with
    `(earlier)` where a later result tells something else; its text, and a blank line."""
    if not result.hits:
        yield "No matches."
    for hit in result.hits:
        yield f"{hit.score:.3f} {clean_line(_place(hit))}{' (earlier)' if hit.earlier else ''}"
        yield clean(hit.snippet).strip("\n")
        yield ""


def _place(hit: Hit) -> str:
    if hit.said is None:
        return f"{hit.path}:{hit.start_line}-{hit.end_line}"
    who = "You" if hit.said.who == "user" else "Clawbot"
    return f"{hit.place} ({who}, {hit.said.at:%Y-%m-%d %H:%M})"


def search_remarks(result: SearchResult) -> Iterator[str]:
    """Remarks about the search, for stderr."""
    if result.fallback is not None:
        yield clean_line(result.fallback.in_words)
    if result.partial:
        yield "Not everything was searched."
    yield from result.warnings


# -- index -------------------------------------------------------------------------------------------------------------


def sync_line(report: SyncReport) -> str:
    """`Memory index updated: 3 files (2 added), 14 pieces written, 14 embedded, 0.4 s.`"""
    if report.busy:
        return "Another process is indexing; nothing was done here."
    counts = [
        f"{count:,} {word}"
        for count, word in ((report.added, "added"), (report.changed, "changed"), (report.removed, "removed"))
        if count
    ]
    total = report.added + report.changed + report.unchanged
    if not counts and not report.pieces_written and not report.pieces_embedded and not report.rebuilt:
        return f"Memory index is up to date: {_files(total)}.{_waiting(report.pending_vectors)}"
    what = f" ({', '.join(counts)})" if counts else ""
    verb = "rebuilt" if report.rebuilt else "updated"
    pieces = f"{_count(report.pieces_written, 'piece')} written, {report.pieces_embedded:,} embedded"
    done = f"Memory index {verb}: {_files(total)}{what}, {pieces}, {report.seconds:.1f} s."
    return done + _waiting(report.pending_vectors)


def sync_remarks(report: SyncReport) -> Iterator[str]:
    """Remarks about a sync, for stderr."""
    if report.fallback is not None:
        yield clean_line(report.fallback.in_words)
    yield from issue_lines(report.issues)


def change_line(status: IndexStatus) -> str:
    """The size of an index after a change: `updated: 4 files, 45 pieces.`"""
    held = f"{_files(status.files)}, {_count(status.chunks, 'piece')}"
    return f"updated: {held}.{_waiting(status.pending_vectors)}"


def _waiting(vectors: int) -> str:
    return f" {_count(vectors, 'piece')} still {'waits' if vectors == 1 else 'wait'} for a vector." if vectors else ""


def issue_lines(issues: Sequence[Issue]) -> Iterator[str]:
    """What could not be indexed, one line each."""
    for issue in issues[:MOST_ISSUES]:
        yield clean_line(f"{issue.path}: {issue.text}")
    if len(issues) > MOST_ISSUES:
        yield f"… and {len(issues) - MOST_ISSUES:,} more"


# -- status ------------------------------------------------------------------------------------------------------------


def status_data(agent_id: str, found: IndexStatus | ClawbotError | None) -> dict[str, Any]:
    """The JSON form of one agent's status. None: memory search is off."""
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
    """The JSON form of `status`, with the details of the backend beside the common fields."""
    fields: dict[str, Any] = plain(status)
    details: dict[str, Any] = fields.pop("details")
    return {**details, **fields}


def status_lines(agent_id: str, status: IndexStatus, zone: tzinfo | None, keys: Mapping[str, str]) -> Iterator[str]:
    """The status of one agent for people, with times in `zone`. `keys` maps the embedding providers that have a key in
    the environment to its variable."""
    yield f"Memory of {agent_id}"
    rows = [
        ("instead", _instead(status)),
        ("notes", _notes(status)),
        *_sources(status),
        ("words", _words(status)),
        ("vectors", _vectors(status)),
        ("order", clean_line(status.rerank_problem)),
        ("state", _state(status, zone)),
        ("settings", clean_line(status.identity)),
        ("database", _database(status)),
        ("workspace", clean_line(status.workspace_dir)),
        *(("beside it", clean_line(path)) for path in status.extra_paths),
        *_cache(status),
        *_probe(status),
        ("leaves here", _reach(status)),
        ("with a key", _with_key(status, keys)),
    ]
    for name, text in rows:
        if text:
            yield f"  {name:<{LABEL}}{text}"
    for line in issue_lines(status.issues):
        yield f"  {'problem':<{LABEL}}{line}"


def _instead(status: IndexStatus) -> str:
    """What the builtin index stands in for."""
    fallback = status.fallback
    return clean_line(fallback.in_words) if fallback is not None and fallback.since is not None else ""


def _notes(status: IndexStatus) -> str:
    text = f"{status.files:,} of {_files(status.total_files)}, {_count(status.chunks, 'piece')}"
    return f"{text}, about {status.tokens:,} tokens ({size(status.text_bytes)})"


def _sources(status: IndexStatus) -> list[tuple[str, str]]:
    if len(status.source_counts) < 2:
        return []
    return [
        ("", f"{one.source}: {one.files:,} of {_files(one.total_files)}, {_count(one.chunks, 'piece')}")
        for one in status.source_counts
    ]


def _words(status: IndexStatus) -> str:
    words = status.details.get("fts")
    if not words or words["available"]:
        return "ready" if words else ""
    return f"not available: {clean_line(words['error'] or 'unknown reason')}"


def _database(status: IndexStatus) -> str:
    path = status.details.get("dbPath", "")
    return f"{clean_line(path)} ({size(status.disk_bytes)})" if path else ""


def _vectors(status: IndexStatus) -> str:
    if status.fallback is not None and status.fallback.since is None:
        return f"none: {clean_line(status.fallback.in_words)}"
    if status.provider == "none":
        return "none: searching by words alone"
    dimensions = status.details.get("dimensions")
    shape = f", {dimensions} dimensions" if dimensions is not None else ""
    by = clean_line(f"{status.provider} {status.model}".strip())
    return f"{status.vectors:,} of {status.chunks:,}{shape}, by {by}"


def _state(status: IndexStatus, zone: tzinfo | None) -> str:
    parts = ["files changed since the last sync" if status.dirty else "up to date"]
    if status.pending_vectors:
        parts.append(_waiting(status.pending_vectors).strip(" ."))
    if status.rebuilding:
        parts.append("a new index is being built beside this one")
    if status.busy:
        parts.append("another process is indexing")
    parts.append(f"last sync {_moment(status.last_sync, zone)}" if status.last_sync else "never synced")
    return "; ".join(parts)


def _moment(moment: datetime, zone: tzinfo | None) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def _cache(status: IndexStatus) -> list[tuple[str, str]]:
    cache = status.details.get("cache")
    if not cache or not cache["enabled"]:
        return []
    limit = f" of at most {cache['maxEntries']:,}" if cache["maxEntries"] else ""
    return [("cache", f"{cache['entries']:,}{limit} embeddings")]


def _probe(status: IndexStatus) -> list[tuple[str, str]]:
    probe = status.embedding_probe
    if probe is None:
        return []
    text = f"answer in {probe.seconds * 1000:.0f} ms" if probe.ok else f"do not answer: {clean_line(probe.error or '')}"
    return [("embeddings", text)]


def _reach(status: IndexStatus) -> str:
    if status.remote:
        return f"the text of pieces and queries goes to {clean_line(status.address or status.provider)}"
    return "nothing: words and vectors are made on this machine" if status.vectors else "nothing"


def _with_key(status: IndexStatus, keys: Mapping[str, str]) -> str:
    """What an API key would add; empty while a remote provider is in use."""
    if status.remote:
        return ""
    if not keys:
        return "vectors of a provider such as openai, gemini, voyage or mistral; none is needed"
    named = " or ".join(f"{provider} ({variable} is set)" for provider, variable in keys.items())
    return f"vectors of {named} by memory_search.provider; the texts go there then"


# -- verify ------------------------------------------------------------------------------------------------------------


def verify_lines(report: VerifyReport) -> Iterator[str]:
    """The findings of a verification, and its repairs."""
    checked = report.checked
    yield from (clean_line(problem) for problem in report.problems)
    yield from (clean_line(f"fixed: {fixed}") for fixed in report.fixed)
    looked = f"{_files(checked.files)}, {_count(checked.chunks, 'piece')}, {checked.keywords:,} by words"
    verdict = "agree" if report.clean else "do not agree; `clawbot memory verify --fix` repairs the differences"
    yield f"{looked}, {checked.vectors:,} by vectors: {verdict}."


# -- figures -----------------------------------------------------------------------------------------------------------


def size(count: int) -> str:
    """`count` bytes for people: `900 bytes`, `4.8 KB`, `12.6 MB`."""
    if count < 1000:
        return _count(count, "byte")
    value = count / 1000
    for unit in ("KB", "MB"):
        if value < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _files(count: int) -> str:
    return _count(count, "file")


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
