"""Checks the program and its environment: Python, libraries, SQLite with its vector extension, the terminal, the
sandbox for shell commands."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import locale
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from clawbot import __version__
from clawbot.cli.doctor_checks.finding import Finding, Findings, Here
from clawbot.distribution import DISTRIBUTION, pip_install, requirements, version_of
from clawbot.entry_points import GROUPS, BrokenExtension, Extension, installed
from clawbot.hooks.discovery import GROUP as HOOKS
from clawbot.tools.sandbox.walls import Missing, Walls, probe


async def sandbox(here: Here) -> Findings:
    """Whether a sandbox is available, and wanted."""
    wanted = here.settings.tools.shell.sandbox
    if wanted == "off":
        message = "tools.shell.sandbox is off: commands can do whatever you can"
        return [Finding("sandbox", "ok", message, "set it to auto")]
    return [judged(await probe(), required=wanted == "required")]


def judged(found: Walls | Missing, *, required: bool) -> Finding:
    """The finding about the available sandbox; `required`: no command runs without it."""
    if isinstance(found, Walls):
        weaker = found.kind == "bubblewrap" and not found.nesting_off
        note = " (older than 0.8: namespaces inside can't be forbidden)" if weaker else ""
        return Finding("sandbox", "ok", f"shell commands run in {found.kind} ({found.program}){note}")
    if required:
        message = f"no shell command runs: tools.shell.sandbox is required, and {found.reason}"
        return Finding("sandbox", "problem", message, found.remedy)
    return Finding("sandbox", "warning", f"shell commands run without a sandbox: {found.reason}", found.remedy)


def terminal(here: Here) -> Findings:
    """Type, colours, encoding, and clipboard access."""
    return look(here.environ, locale.getencoding())


def look(environ: Mapping[str, str], encoding: str) -> Findings:
    """The findings for an environment and the encoding of the locale."""
    return [_kind(environ), _encoding(encoding), *_clipboard(environ)]


def _kind(environ: Mapping[str, str]) -> Finding:
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        message = f"TERM is {term or 'not set'}: the chat comes in lines, without a screen"
        return Finding("terminal", "warning", message, "export TERM=xterm-256color")
    return Finding("terminal", "ok", f"{term}, {_colours(environ, term)}")


def _colours(environ: Mapping[str, str], term: str) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in term else "16 colours"


def _encoding(encoding: str) -> Finding:
    if encoding.lower().replace("-", "") == "utf8":
        return Finding("locale", "ok", "UTF-8")
    message = f"the locale's encoding is {encoding}: anything beyond it is shown wrong"
    return Finding("locale", "warning", message, "export LC_ALL=C.UTF-8")


def _clipboard(environ: Mapping[str, str]) -> Findings:
    found = []
    if environ.get("TMUX"):
        message = "tmux: copying out of the screen needs its clipboard to be on"
        found.append(Finding("clipboard", "ok", message, "tmux set -g set-clipboard on"))
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        message = "ssh: copying goes through the terminal at your end (OSC 52), which must allow it"
        found.append(Finding("clipboard", "ok", message))
    return found


OLDEST = (3, 11)
EXTENSION = "sqlite_vec"
_TESTED = "Programming Language :: Python :: 3."


def python(here: Here) -> Findings:
    """The interpreter: 3.11 or newer, and whether the tests run on its version."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < OLDEST:
        wanted = ".".join(str(part) for part in OLDEST)
        message = f"Python {version} is too old: {wanted} or newer is needed"
        return [Finding("python", "problem", message, f"install Python {wanted}, then clawbot again")]
    message = f"clawbot {__version__} on Python {version} ({sys.executable})"
    tested = tested_versions()
    if tested and version.rpartition(".")[0] not in tested:
        return [Finding("python", "ok", f"{message}, which it is not tested on: that is {', '.join(tested)}")]
    return [Finding("python", "ok", f"{message}, tested on {', '.join(tested)}" if tested else message)]


def tested_versions() -> list[str]:
    """The versions of Python that the tests run on, by the package's classifiers; none where it is not installed."""
    try:
        classifiers = importlib.metadata.metadata(DISTRIBUTION).get_all("Classifier") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [each.rpartition(" ")[2] for each in classifiers if each.startswith(_TESTED)]


def packages(here: Here) -> Findings:
    """Whether every library that clawbot requires is installed."""
    if not (wanted := requirements()):
        fix = pip_install("-e", str(Path(__file__).parents[3]))
        return [Finding("packages", "warning", "clawbot runs without being installed", fix)]
    if missing := {line: name for line, name in wanted.items() if not version_of(name)}:
        message = f"not installed: {', '.join(missing.values())}"
        return [Finding("packages", "problem", message, pip_install(*missing))]
    return [Finding("packages", "ok", f"all {len(wanted)} libraries are installed")]


def extensions(here: Here) -> Findings:
    """Import what installed packages add, except hooks, as the program does; silent if nothing is added."""
    fix = "upgrade or remove that package"
    found: list[Finding] = []
    loaded: list[Extension] = []
    offered = [each for group in GROUPS if group != HOOKS for each in installed(group)]
    for each in (each for each in offered if each.distribution != DISTRIBUTION):
        if isinstance(broken := each.load(), BrokenExtension):
            found.append(Finding("extensions", "problem", f"{broken.name}: {broken.problem}", fix))
        else:
            loaded.append(each)
    if loaded:
        named = ", ".join(f"{each.name} ({each.distribution})" for each in loaded)
        found.append(Finding("extensions", "ok", f"loaded from packages: {named}"))
    return found


def sqlite(here: Here) -> Findings:
    """SQLite as bundled with apsw, with full-text search."""
    again = pip_install("--force-reinstall", "--only-binary", ":all:", "apsw")
    try:
        apsw: Any = importlib.import_module("apsw")
    except ImportError as error:
        return [Finding("sqlite", "problem", f"apsw can't be imported ({error})", again)]
    found = f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except apsw.Error as error:
        return [Finding("sqlite", "problem", f"{found} lacks full-text search: {error}", again)]
    return [Finding("sqlite", "ok", f"{found} with full-text search (FTS5)"), _vectors(apsw)]


def _vectors(apsw: Any) -> Finding:
    library = _extension_file()
    if library is None:
        return Finding("sqlite-vec", "problem", "the vector extension is not installed", pip_install("sqlite-vec"))
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            connection.enable_load_extension(True)
            connection.load_extension(str(library))
            version = connection.execute("SELECT vec_version()").fetchone()[0]
    except apsw.Error as error:
        message = f"the vector extension {library} can't be loaded: {error}"
        return Finding("sqlite-vec", "problem", message, pip_install("--force-reinstall", "sqlite-vec", "apsw"))
    return Finding("sqlite-vec", "ok", f"sqlite-vec {version}")


def _extension_file() -> Path | None:
    """The library in the package, located without importing it (which would import numpy)."""
    spec = importlib.util.find_spec(EXTENSION)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [file for folder in folders for file in sorted(folder.glob("vec0.*"))]
    return next((file for file in files if file.suffix in {".so", ".dylib", ".dll"}), None)
