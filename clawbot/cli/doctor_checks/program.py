"""The program itself: Python, the libraries it needs, SQLite and its vector extension."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from clawbot import __version__
from clawbot.cli.doctor_checks.finding import Finding, Findings, Here, quoted

OLDEST = (3, 11)
EXTENSION = "sqlite_vec"
_REQUIREMENT = re.compile(r"[\w.-]+")


def python(here: Here) -> Findings:
    """The interpreter: 3.11 or newer."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < OLDEST:
        wanted = ".".join(str(part) for part in OLDEST)
        message = f"Python {version} is too old: {wanted} or newer is needed"
        return [Finding("python", "problem", message, f"install Python {wanted}, then clawbot again")]
    return [Finding("python", "ok", f"clawbot {__version__} on Python {version} ({sys.executable})")]


def packages(here: Here) -> Findings:
    """Every library that clawbot asks for is installed."""
    try:
        wanted = importlib.metadata.requires("clawbot") or []
    except importlib.metadata.PackageNotFoundError:
        return [Finding("packages", "warning", "clawbot runs without being installed", "pip install .")]
    names = [match[0] for line in wanted if "extra ==" not in line and (match := _REQUIREMENT.match(line))]
    missing = [name for name in names if not _installed(name)]
    if missing:
        names_of = " ".join(missing)
        return [Finding("packages", "problem", f"not installed: {', '.join(missing)}", _pip(names_of))]
    return [Finding("packages", "ok", f"all {len(names)} libraries are installed")]


def sqlite(here: Here) -> Findings:
    """SQLite as apsw brings it, with full-text search."""
    try:
        apsw: Any = importlib.import_module("apsw")
    except ImportError as error:
        return [Finding("sqlite", "problem", f"apsw can't be imported ({error})", _pip("--force-reinstall apsw"))]
    found = f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"
    connection = apsw.Connection(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except apsw.Error as error:
        message = f"{found} lacks full-text search: {error}"
        return [Finding("sqlite", "problem", message, _pip("--force-reinstall --only-binary :all: apsw"))]
    finally:
        connection.close()
    return [Finding("sqlite", "ok", f"{found} with full-text search (FTS5)"), _vectors(apsw)]


def _vectors(apsw: Any) -> Finding:
    library = _extension_file()
    if library is None:
        return Finding("sqlite-vec", "problem", "the vector extension is not installed", _pip("sqlite-vec"))
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(library))
        version = connection.execute("SELECT vec_version()").fetchone()[0]
    except apsw.Error as error:
        message = f"the vector extension {library} can't be loaded: {error}"
        return Finding("sqlite-vec", "problem", message, _pip("--force-reinstall sqlite-vec apsw"))
    finally:
        connection.close()
    return Finding("sqlite-vec", "ok", f"sqlite-vec {version}")


def _extension_file() -> Path | None:
    """The library in the package, found without importing it: that would bring numpy along."""
    spec = importlib.util.find_spec(EXTENSION)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [file for folder in folders for file in sorted(folder.glob("vec0.*"))]
    return next((file for file in files if file.suffix in {".so", ".dylib", ".dll"}), None)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _pip(what: str) -> str:
    return f"{quoted(Path(sys.executable))} -m pip install {what}"
