"""Runs qmd: its environment without secrets, its limits, and what is wrong when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.config.schema_memory import ExtraPath
from clawbot.deadline import deadline
from clawbot.guarded import RefusedFileError, read_guarded
from clawbot.memory.backend import IndexUnavailableError
from clawbot.memory.values import Source
from clawbot.text.sanitize import clean_line

INSTALL = "Install it with `npm install -g @tobilu/qmd@latest` (Node 22 or later), or name it in memory.qmd.command."

MIN_NODE = 22
"""The major version that qmd needs; older ones crash in the middle."""

MIN_VERSION = (2, 8)
"""The version of qmd whose options are used. npm on an old Node installs a much older one."""

LARGEST_ANSWER = 8 * 1024**2
"""Bytes of output."""

_PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "CUDA_PATH"),
    *("QMD_EMBED_MODEL", "QMD_GENERATE_MODEL", "QMD_RERANK_MODEL", "QMD_FORCE_CPU", "QMD_LLAMA_GPU"),
)
_SHOWN = 200
_CHUNK = 65_536


class QmdError(IndexUnavailableError):
    """qmd can't be run, failed, or answered something else than expected."""


class QmdPaths(Struct, frozen=True):
    """Where qmd keeps the index of one agent: below `folder`. `transcripts` is the folder of those of the agent."""

    folder: Path
    transcripts: Path

    @property
    def index(self) -> Path:
        return self.folder / "index.sqlite"

    @property
    def config(self) -> Path:
        return self.folder / "config" / "index.yml"

    @property
    def exports(self) -> Path:
        return self.folder / "sessions"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    def clear(self) -> None:
        """Delete what was made of the files: the index, the exports, the manifest. Blocks. Raises OSError."""
        indexes = (Path(f"{self.index}{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))
        for file in (*indexes, self.manifest, *self.exports.glob("*.md")):
            file.unlink(missing_ok=True)


def own_environment(environ: Mapping[str, str], paths: QmdPaths, program: Path) -> dict[str, str]:
    """Return the environment of qmd: named variables of `environ` alone, since the others may hold secrets.

    The folder of `program` comes first on its PATH: an npm installation next to it may hold its own node.
    """
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    path = os.pathsep.join(part for part in (str(program.parent), kept.get("PATH", os.defpath)) if part)
    return kept | {
        "PATH": path,
        "PWD": str(paths.folder),
        "INDEX_PATH": str(paths.index),
        "QMD_CONFIG_DIR": str(paths.config.parent),
        "NO_COLOR": "1",
    }


class QmdProgram:
    """The program `command` (a name on the PATH, or a path), for the index at `paths`."""

    def __init__(self, command: str, paths: QmdPaths, environ: Mapping[str, str]) -> None:
        self._command = command
        self._paths = paths
        self._environ = environ

    def locate(self) -> Path:
        """Where it is. Raises QmdError. Blocks."""
        found = shutil.which(str(Path(self._command).expanduser()), path=self._environ.get("PATH", os.defpath))
        if found is None:
            where = "at that path" if os.sep in self._command else "on the PATH"
            raise QmdError(f"qmd is not installed: there is no program {self._command} {where}.", hint=INSTALL)
        return Path(found).absolute()

    async def run(self, *arguments: str, seconds: float) -> bytes:
        """What `qmd ARGUMENTS` prints. It is ended after `seconds`, and with a cancellation.

        Raises QmdError if it can't be started, takes longer, prints too much or exits with another status than 0.
        """
        program = await asyncio.to_thread(self.locate)
        environment = own_environment(self._environ, self._paths, program)
        # Its folder, or one that exists surely: qmd searches settings of a project from there upwards.
        folder = self._paths.folder if await asyncio.to_thread(self._paths.folder.is_dir) else Path("/")
        try:
            code, output, errors = await _finished([str(program), *arguments], environment, folder, seconds)
        except TimeoutError:
            raise QmdError(f"qmd {arguments[0]} took longer than {seconds:g} s.") from None
        except OSError as error:
            raise QmdError(f"{program} can't be started: {error.strerror or error}.", hint=INSTALL) from error
        if len(output) > LARGEST_ANSWER:
            raise QmdError(f"qmd {arguments[0]} answered with more than {LARGEST_ANSWER >> 20} MB.")
        if code != 0:
            failure = await _failure(arguments[0], code, errors, environment)
            raise await asyncio.to_thread(_too_old, program) or failure
        return output

    async def version(self) -> str:
        """Its version, as `2.8.3`; empty if unknown. Raises QmdError."""
        found = re.search(rb"\d+\.\d+\.\d+", await self.run("--version", seconds=10.0))
        return found[0].decode() if found else ""


def _too_old(program: Path) -> QmdError | None:
    """Return the error for a qmd that npm installed and that is older than MIN_VERSION; None for others. Blocks."""
    for folder in program.resolve().parents:
        if folder.parts[-2:] != ("@tobilu", "qmd"):
            continue
        try:
            version = str(msgspec.json.decode(read_guarded(folder, "package.json") or "{}").get("version"))
        except (OSError, ValueError, AttributeError, RefusedFileError):
            return None
        found = re.match(r"(\d{1,9})\.(\d{1,9})\.", version)
        if found and (int(found[1]), int(found[2])) < MIN_VERSION:
            least = ".".join(map(str, MIN_VERSION))
            return QmdError(f"qmd {clean_line(version, _SHOWN)} is too old: it needs {least} or later.", hint=INSTALL)
    return None


async def _failure(verb: str, code: int, errors: bytes, environment: dict[str, str]) -> QmdError:
    """Return why it failed: Node is asked for its version, since an old one is the usual cause."""
    output = clean_line(_gist(errors.decode(errors="replace").splitlines()), _SHOWN)
    ended = f"qmd {verb} was ended by signal {-code}" if code < 0 else f"qmd {verb} exited with {code}"
    reason = f"{ended}{f': {output}' if output else ''}".rstrip(".") + "."
    try:
        _, version, _ = await _finished(["node", "--version"], environment, Path("/"), 5.0)
    except (OSError, TimeoutError):
        return QmdError(f"{reason} There is no node on its PATH.", hint=INSTALL)
    major = re.match(rb"v(\d{1,9})", version)
    if major and int(major[1]) < MIN_NODE:
        return QmdError(f"{reason} It needs Node {MIN_NODE} or later, found {version.decode().strip()}.")
    return QmdError(reason, hint="`clawbot memory index --force` rebuilds its index.")


def _gist(lines: Sequence[str]) -> str:
    """Return the line of `lines` that names the error; else the last one."""
    filled = [line for line in lines if line.strip()]
    named = [line for line in filled if re.match(r"\s*\w*Error\b", line)]
    return (named or filled or [""])[-1]


async def _finished(
    command: list[str], environment: Mapping[str, str], folder: Path, seconds: float
) -> tuple[int, bytes, bytes]:
    """Exit status, stdout and stderr of `command`, which is gone afterwards, with its children.

    Each output is cut above LARGEST_ANSWER, which also ends it. Raises TimeoutError, OSError.
    """
    starting = asyncio.ensure_future(_start(command, environment, folder))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await _end(starting.result())
        raise
    try:
        async with deadline(seconds):
            output, errors = await asyncio.gather(_read(process, process.stdout), _read(process, process.stderr))
            return await process.wait(), output, errors
    finally:
        await _end(process)


async def _start(command: list[str], environment: Mapping[str, str], folder: Path) -> Process:
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(environment),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        umask=0o077,
    )


async def _read(process: Process, stream: asyncio.StreamReader | None) -> bytes:
    output = bytearray()
    while stream is not None and (data := await stream.read(_CHUNK)):
        if len(output) > LARGEST_ANSWER:
            continue  # Read to its end: a pipe that nobody reads is never closed.
        output += data
        if len(output) > LARGEST_ANSWER:
            _kill(process)
    return bytes(output)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: Process) -> None:
    """Kill the entire group, also after a normal end."""
    _kill(process)
    await process.wait()


NOTES, SESSIONS = "notes", "sessions"
_MARKDOWN = "*.{md,MD,markdown,MARKDOWN}"
_ROOT = "{MEMORY,memory}.md"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_URI = re.compile(r"qmd://(?P<name>[A-Za-z0-9_-]+)/(?P<path>.+)", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?\[\]{}()!+@,|]")


class Collection(Struct, frozen=True):
    """A collection of qmd: the files of `folder` that match `pattern`, all of one source."""

    name: str
    folder: str
    pattern: str
    source: Source = "memory"


def collections_of(
    agent_id: str, workspace: Path, extra: Sequence[ExtraPath], exports: Path, sources: Sequence[Source]
) -> tuple[Collection, ...]:
    """Return the collections of an agent. Their names are safe for a shell and a path, and no two are equal.

    `exports` is the folder of its exported transcripts. Blocks: an extra path may be a file or a folder.
    """
    own = _UNSAFE.sub("-", agent_id)
    found: list[Collection] = []
    if "memory" in sources:
        found.append(Collection(f"{own}-memory", str(workspace), _ROOT))
        found.append(Collection(f"{own}-{NOTES}", str(workspace / "memory"), f"**/{_MARKDOWN}"))
        found += [_extra(f"{own}-extra{number}", workspace, one) for number, one in enumerate(extra, 1)]
    if "sessions" in sources:
        found.append(Collection(f"{own}-{SESSIONS}", str(exports), "*.md", "sessions"))
    return tuple(found)


def _extra(name: str, workspace: Path, extra: ExtraPath) -> Collection:
    path = Path(os.path.normpath(workspace / extra.path))
    if path.is_dir():
        pattern = f"**/{_MARKDOWN}" if extra.pattern == "**/*.md" else extra.pattern
        return Collection(name, str(path), pattern)
    return Collection(name, str(path.parent), _SPECIAL.sub("?", path.name))


def config_data(before: Any, collections: Sequence[Collection]) -> Mapping[str, Any] | None:
    """qmd's configuration with `collections`; None if `before` is that already. The rest of `before` is kept."""
    wanted = {one.name: {"path": one.folder, "pattern": one.pattern} for one in collections}
    kept = before if isinstance(before, dict) else {}
    return None if kept.get("collections") == wanted else {**kept, "collections": wanted}


class QmdAnswer(Struct, frozen=True):
    """One result of qmd. `line` is its best line, from 1; 0 if unknown."""

    file: str
    score: float
    line: int = 0


def decode_answers(output: bytes) -> list[QmdAnswer]:
    """Return the results that `qmd … --json` prints. Raises msgspec.DecodeError for anything else."""
    return msgspec.json.decode(output, type=list[QmdAnswer])


def located(answer: QmdAnswer, collections: Sequence[Collection]) -> tuple[Collection, str] | None:
    """Return the collection and the absolute path of a result; None for what is outside its collection."""
    found = _URI.fullmatch(answer.file)
    collection = next((one for one in collections if found is not None and one.name == found["name"]), None)
    if found is None or collection is None:
        return None
    path = os.path.normpath(Path(collection.folder) / found["path"])
    return (collection, path) if path.startswith(collection.folder.rstrip("/") + "/") else None


def export_name(path: str) -> str:
    """Return the file name of an exported transcript, or part of one, with the path `path` in results."""
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest() + ".md"
