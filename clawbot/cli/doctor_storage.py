"""The input and output of a check of `clawbot doctor`, and the checks of storage: the state folder, the workspace, the
log, disk space, the conversations, and the memory index."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.cli.output import counted
from clawbot.clock import Clock
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths, shipped
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.workspace import bent_paths, diff_workspace
from clawbot.errors import ClawbotError
from clawbot.guarded import GuardedFolder, guarded_bytes
from clawbot.history import history_of
from clawbot.indexing import memory_documents, open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.documents.memory_files import MEMORY_FOLDER
from clawbot.memory.values import IndexStatus, Issue
from clawbot.sessions.folder import contains, read_folder
from clawbot.sessions.locks import Holder, holder_of
from clawbot.sessions.rotation import transcripts_in
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.text.encoding import decoded, encoding_of
from clawbot.text.visible import visible_name
from clawbot.trees import TreeWalk

State = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    """The result of one check. `fix` is the command that fixes it, or an instruction if there is none."""

    check: str
    state: State
    message: str
    fix: str | None = None


class Here(Struct, frozen=True, kw_only=True):
    """What the checks examine.

    `config_file` is the settings file, `settings` are the agent's, `all_settings` the program's. If they are invalid,
    `config_error` is set and the shipped ones are used. `environ` is the environment including `.env`; `ping`: the
    model may be called.
    """

    paths: Paths
    config_file: Path
    agent: str
    settings: AgentSettings
    all_settings: Settings
    config_error: ConfigError | None
    config_notices: tuple[str, ...]
    environ: Mapping[str, str]
    clock: Clock
    ping: bool

    @property
    def sessions(self) -> Path:
        """The folder of the agent's transcripts."""
        return self.paths.sessions(self.agent)

    @property
    def for_agent(self) -> str:
        """The option that makes a command apply to the same agent."""
        return "" if self.agent == "main" else f" --agent {self.agent}"


Findings = Sequence[Finding]


def quoted(path: Path) -> str:
    """Return `path` quoted for a shell."""
    return shlex.quote(str(path))


def nearest(path: Path) -> Path:
    """Return `path`, or its nearest existing parent."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def writable(path: Path) -> bool:
    """Return whether `path` can be written, or created if missing."""
    location = nearest(path)
    if location.is_dir():
        return os.access(location, os.W_OK | os.X_OK)
    return location == path and os.access(location, os.W_OK)


# Each is opened from its end; this many take about a second.
MAX_TRANSCRIPTS = 200
MAX_NAMED = 3  # files of a kind: enough to find the others


def sessions(here: Here) -> Findings:
    """Return whether every transcript is readable and indexed."""
    repair = f"clawbot sessions repair{here.for_agent}"
    files = sorted(transcripts_in(here.sessions), key=lambda file: file.stat().st_mtime, reverse=True)
    wrong = [finding for file in files[:MAX_TRANSCRIPTS] for finding in _transcript(file, here, repair)]
    store = SessionStore(here.sessions, here.clock, agent_id=here.agent)
    wrong += [Finding("sessions", "warning", f"{problem}", repair) for problem in store.repair_index(dry_run=True)]
    if wrong:
        return wrong
    unseen = f" (the newest {MAX_TRANSCRIPTS} were read)" if len(files) > MAX_TRANSCRIPTS else ""
    count = f"{len(files)} transcript{'' if len(files) == 1 else 's'}"
    return [Finding("sessions", "ok", f"{count} in {here.sessions}{unseen}")]


def strangers(here: Here) -> Findings:
    """Return the foreign files next to the transcripts, by kind: nobody reads or writes them."""
    content = read_folder(here.sessions, every=True)
    kinds: dict[str, list[str]] = {}
    for name, kind in content.foreign.items():
        kinds.setdefault(kind, []).append(name)
    for name, used in content.copies.items():
        is_copy = contains(here.sessions / used, here.sessions / name)
        kinds.setdefault("copies of a session" if is_copy else "other states of a session", []).append(name)
    if not kinds:
        return []
    parts = [f"{kind}: {_named(kinds[kind])}" for kind in sorted(kinds)]
    message = f"{here.sessions} has files that are left alone. {'; '.join(parts)}"
    return [Finding("sessions", "warning", message, f"move them out of {quoted(here.sessions)}, or leave them there")]


def _named(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    shown = ", ".join(visible_name(name) for name in sorted(names)[:MAX_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _transcript(file: Path, here: Here, repair: str) -> Findings:
    # A line being written by a running conversation seems truncated.
    if holder_of(file) is not None:
        return []
    try:
        with Transcript.open(file, clock=here.clock, writable=False) as transcript:
            problems = transcript.problems
    except ClawbotError as error:
        return [Finding("sessions", "problem", error.message, error.hint or repair)]
    return [Finding("sessions", "warning", f"{problem}", repair) for problem in problems]


def locks(here: Here) -> Findings:
    """Open conversations: not a fault, but they may explain one."""
    held = [(file, holder) for file in transcripts_in(here.sessions) if (holder := holder_of(file)) is not None]
    return [Finding("locks", "ok", f"{file.stem} is open in {_who(holder)}") for file, holder in held] or [
        Finding("locks", "ok", "no conversation is open")
    ]


def _who(holder: Holder) -> str:
    parts = [f"process {holder.pid}", f"({holder.command})" if holder.command else ""]
    parts += [f"on {holder.tty}" if holder.tty else "", f"since {holder.started}" if holder.started else ""]
    return " ".join(part for part in parts if part)


# A transcript line and an index update need far less; below the first limit appends start to fail on busy machines.
FULL = 100 * 2**20
SCARCE = 2**30


def state_folder(here: Here) -> Findings:
    """Return whether the state folder is writable, or can be created."""
    home = here.paths.home
    if (unusable := _unusable("home", home)) is not None:
        return [unusable]
    there = "" if home.exists() else ", created by the first start"
    return [Finding("home", "ok", f"{home}{there}")]


def workspace(here: Here) -> Findings:
    """Return whether the workspace exists, is writable, and has its files, all in UTF-8."""
    folder = here.settings.workspace
    init = f"clawbot workspace init{here.for_agent}"
    if not folder.exists():
        if not writable(folder):
            message = f"{folder} does not exist and can't be created: {nearest(folder)} can't be written"
            return [Finding("workspace", "problem", message, f"chmod u+rwx {quoted(nearest(folder))}")]
        return [Finding("workspace", "warning", f"{folder} does not exist yet; the first start creates it", init)]
    if (unusable := _unusable("workspace", folder)) is not None:
        return [unusable]
    notes = folder / "memory"
    if bent := bent_paths(folder):
        fix = f"clawbot doctor --fix{here.for_agent}"
        return [Finding("workspace", "problem", f"{location}", fix if location.mend else None) for location in bent]
    wrong = _unusable("workspace", notes, ": nothing can be remembered") or _left_out(folder)
    return [wrong or Finding("workspace", "ok", f"{folder}"), *_templates(here, init)]


def _unusable(check: str, folder: Path, effect: str = "") -> Finding | None:
    """Return the finding if something else is where the folder belongs, or if it can't be written."""
    if folder.exists() and not folder.is_dir():
        message = f"{folder} is a file, not a folder{effect}"
        return Finding(check, "problem", message, f"mv {quoted(folder)} {quoted(folder)}.old")
    if not writable(folder):
        location = nearest(folder)
        return Finding(check, "problem", f"{location} can't be written{effect}", f"chmod u+rwx {quoted(location)}")
    return None


def _left_out(workspace: Path) -> Finding | None:
    """Return the notes that the model's tools ignore."""
    folder = workspace / MEMORY_FOLDER
    if not folder.exists():
        return None
    with GuardedFolder(workspace).folder(MEMORY_FOLDER) as handle:
        walk = TreeWalk(handle)
        for _ in walk:
            pass
    message = f"{folder}: {visible_name('; '.join(walk.problems))}"
    return None if walk.is_complete else Finding("workspace", "warning", message, f"ls -R {quoted(folder)}")


def _templates(here: Here, init: str) -> Findings:
    folder = here.settings.workspace
    files = diff_workspace(folder, shipped("workspace_template"), here.paths.workspace_record(folder))
    missing = [file.name for file in files if file.state == "missing"]
    found = [_not_text(folder, file.name) for file in files if file.state != "missing"]
    if missing:
        found.append(Finding("workspace", "warning", f"missing: {', '.join(missing)}", init))
    return [finding for finding in found if finding is not None]


def _not_text(folder: Path, name: str) -> Finding | None:
    file, data = folder / name, guarded_bytes(folder, name) or b""
    if wide := _unmarked(data):
        message = f"{file} is UTF-16 without its byte order mark: the model sees a sign between any two letters"
        return Finding("workspace", "warning", message, f"iconv -f {wide} -t utf-8 {quoted(file)}")
    encoding = encoding_of(data)
    try:
        decoded(data)
    except UnicodeDecodeError as error:
        name = f"broken {encoding.name[:6].upper()}" if encoding.is_wide else "not UTF-8"
        message = f"{file} is {name} (byte {error.start}): the model sees replacement signs there"
        source = f"{encoding.name[:6]} -c" if encoding.is_wide else "latin1"
        return Finding("workspace", "warning", message, f"iconv -f {source} -t utf-8 {quoted(file)}")
    return None


def _unmarked(data: bytes) -> str:
    """Return the variant of UTF-16 that `data` seems to have without a byte order mark; "" for none."""
    half = len(data) // 2
    zeros = (data[0::2].count(0), data[1::2].count(0))
    if encoding_of(data).is_wide or not half or max(zeros) < half / 3 or min(zeros) > half / 10:
        return ""
    return "utf-16le" if zeros[1] > zeros[0] else "utf-16be"


_READABLE = "can be read by others on this machine"


def permissions(here: Here) -> Findings:
    """Return whether other users can read keys, transcripts and logs."""
    paths = here.paths
    files = [paths.env_file, paths.log_file]
    if here.settings.api_key is not None:
        files.append(here.config_file)
    private = dict.fromkeys((paths.home, paths.logs, here.sessions), "700") | dict.fromkeys(files, "600")
    found = [
        Finding("permissions", "warning", f"{path} {_READABLE}", f"chmod {mode} {quoted(path)}")
        for path, mode in private.items()
        if _readable_by_others(path)
    ]
    if count := sum(map(_readable_by_others, here.sessions.glob("*.json*"))):
        message = f"{count} files in {here.sessions} {_READABLE}"
        found.append(Finding("permissions", "warning", message, f"chmod -R go-rwx {quoted(here.sessions)}"))
    return found or [Finding("permissions", "ok", f"what is in {paths.home} is yours alone")]


def _readable_by_others(path: Path) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def log_file(here: Here) -> Findings:
    """Return whether the log is writable."""
    file = here.paths.log_file
    if not writable(file):
        return [Finding("log", "problem", f"{file} can't be written", f"chmod -R u+rwX {quoted(here.paths.logs)}")]
    return [Finding("log", "ok", f"{file}")]


def disk(here: Here) -> Findings:
    """Return whether there is enough disk space."""
    locations = (nearest(here.paths.home), nearest(here.settings.workspace))
    by_disk = {location.stat().st_dev: location for location in reversed(locations)}
    return [_room(location) for location in sorted(by_disk.values())]


def _room(location: Path) -> Finding:
    free = shutil.disk_usage(location).free
    message = f"{free / 2**30:.1f} GB free at {location}"
    if free >= SCARCE:
        return Finding("disk", "ok", message)
    fix = f"free some space: du -xh {quoted(location)} | sort -h | tail"
    return Finding("disk", "problem" if free < FULL else "warning", message, fix)


MAX_ISSUES = 5  # more than anybody fixes before checking again
NONE = "none"  # the provider of an index without vectors


async def index(here: Here) -> Findings:
    """Return the index can be opened, is up to date, and has vectors."""
    if here.config_error is not None:
        return [Finding("memory", "warning", "not tried: the configuration is not valid", "clawbot config check")]
    try:
        backend = open_index(here.all_settings, here.agent, here.paths, here.clock, long_lived=False)
    except ClawbotError as error:
        return [_broken(error, None)]
    if backend is None:
        return [Finding("memory", "ok", "memory search is switched off (memory_search.enabled)")]
    try:
        found = await _index_findings(backend, here)
        return [*found, *await asyncio.to_thread(_ambiguous_days, here), *await asyncio.to_thread(_history, here)]
    except ClawbotError as error:
        return [_broken(error, backend.location)]
    finally:
        await backend.close()


def _ambiguous_days(here: Here) -> Findings:
    """How names that may be of two days are read. Blocks. Raises ConfigError."""
    found = memory_documents(here.all_settings, here.agent, here.paths).ambiguous()
    if not found:
        return []
    note = next((each for each in found if not each.by_folder), found[0])
    others = f" and {counted(len(found) - 1, 'more note')}" if len(found) > 1 else ""
    meant = f"is read as {note.day.day} {note.day:%B %Y}" if note.day else "has no day"
    why = "as other names in the folder show" if note.by_folder else "as LC_ALL, LC_TIME or LANG set"
    message = f"{note.path}{others}: such a name may be of two days; this one {meant}, {why}"
    if note.by_folder:
        return [Finding("memory", "ok", message)]
    return [Finding("memory", "warning", message, "write the year first, as in 2026-04-03, or set LC_TIME")]


def _history(here: Here) -> Findings:
    """Return how much the history of the memory files holds. Blocks."""
    history = history_of(here.all_settings, here.paths, here.agent, here.clock)
    if not history.folder.exists():
        return []
    try:
        changes, size = len(history.changes()), history.size
    except OSError as error:
        return [Finding("memory", "problem", f"the history can't be read: {error.strerror}", quoted(history.folder))]
    bound = here.all_settings.memory.history.max_mb
    return [Finding("memory", "ok", f"history of {counted(changes, 'change')}, {size / 2**20:.1f} of {bound} MB")]


async def _index_findings(backend: MemoryBackend, here: Here) -> Findings:
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
    files, chunks = counted(status.total_files, "file"), counted(status.chunks, "piece")
    held = f"{status.files:,} of {files} in {chunks}, found by {by}"
    verb = "waits" if status.pending_vectors == 1 else "wait"
    waiting = f"; {counted(status.pending_vectors, 'piece')} {verb} for a vector" if status.pending_vectors else ""
    return Finding("memory", "ok", f"{held}{waiting}")


def _parts(status: IndexStatus, here: Here) -> Findings:
    """What prevents searching by vectors."""
    deep = f"clawbot memory status --deep{here.for_agent}"
    found = []
    if status.fallback is not None:
        mend = f"what it advises, or memory.backend: builtin in {here.config_file}"
        fix = deep if status.fallback.since is None else mend
        found.append(Finding("memory", "warning", status.fallback.in_words, fix))
    if (error := _new_error(status)) is not None:
        # `auto` names no provider.
        asked = status.requested_provider if status.provider == NONE else status.provider
        found.append(Finding("memory", "warning", f"{asked} makes no vectors now: {error}", deep))
    if status.rerank_problem:
        fix = f"what it advises, or query.rerank: off in {here.config_file}"
        found.append(Finding("memory", "warning", status.rerank_problem, fix))
    return found


def _new_error(status: IndexStatus) -> str | None:
    """Return why the provider did not answer, if one is wanted and nothing else has reported it."""
    probe = status.embedding_probe
    if probe is None or probe.ok or status.requested_provider == NONE:
        return None
    if status.fallback is not None and probe.error == status.fallback.reason:
        return None
    return probe.error or "it gives no reason"


def _issues(status: IndexStatus, here: Here) -> Findings:
    found = [_issue(issue, here) for issue in status.issues[:MAX_ISSUES]]
    if len(status.issues) > MAX_ISSUES:
        more = f"{counted(len(status.issues) - MAX_ISSUES, 'more file')} could not be taken in"
        found.append(Finding("memory", "warning", more, "clawbot memory status"))
    return found


def _issue(issue: Issue, here: Here) -> Finding:
    location = here.settings.workspace / issue.path
    if not location.is_symlink():
        fix = f"mend {location}, or move it away"
    elif location.is_dir() and issue.path != MEMORY_FOLDER:
        fix = f"name {location.resolve()} in memory_search.extra_paths in {here.config_file}"
    else:
        fix = f"replace by what it leads to: {location}"
    return Finding("memory", "warning", f"{issue.path}: {issue.text}", fix)
