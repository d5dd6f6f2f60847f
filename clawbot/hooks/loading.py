"""Loads the `handle` of a hook's handler.py as a package of its own, reloads it after changes, and describes its errors
in one line for the author.

Used in the program's process for shipped hooks and in the worker for all others, so it imports little.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Literal, cast

from clawbot.guarded import open_real
from clawbot.hooks.api import HookServiceError
from clawbot.hooks.events import HookEvent
from clawbot.text.interface import N_
from clawbot.text.sanitize import clean_line

HOOK_FILE, HANDLER_FILE = "HOOK.md", "handler.py"
MAX_FILES, MAX_CODE = 200, 4 * 1024**2
"""Files, folders and bytes of Python of a hook that is trusted by its content."""
CHANGED = N_("its HOOK.md or its code changed since you enabled it")
EXPECTED = "async def handle(event)"

Handle = Callable[[HookEvent], Awaitable[None]]
Stamp = dict[Path, tuple[int, int, int] | None]

_PREFIX = "_clawbot_hook_"
_numbers = itertools.count(1)


class HandlerError(Exception):
    """handler.py has no usable `handle`."""


def code_files(folder: Path) -> list[Path]:
    """The Python files that a hook in `folder` can import from there, sorted. Raises OSError, and ValueError for more
    folders than a hook needs. Blocks."""
    found, folders = [], [folder]
    for position in folders:
        if len(folders) > MAX_FILES:
            raise ValueError(f"more than {MAX_FILES} folders; links may lead in a circle")
        with os.scandir(position) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(Path(entry.path))
                elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                    folders.append(Path(entry.path))
    return sorted(found)


def code_digest(folder: Path) -> str:
    """The SHA-256 of HOOK.md and of the Python code in `folder`. Raises OSError, and ValueError for more than a hook
    needs. Blocks."""
    files = [folder / HOOK_FILE, *code_files(folder)]
    if len(files) > MAX_FILES:
        raise ValueError(f"more than {MAX_FILES} Python files: a package holds so many")
    digest, left = hashlib.sha256(), MAX_CODE
    for file in files:
        with open_real(file) as stream:
            data = stream.read(left + 1)
        left -= len(data)
        if left < 0:
            raise ValueError(f"more than {MAX_CODE // 1024**2} MiB of code")
        name = os.fsencode(file.relative_to(folder).as_posix())
        digest.update(b"%d %s %d\n" % (len(name), name, len(data)) + data)
    return digest.hexdigest()


def stamp(files: Iterable[Path]) -> Stamp:
    """Return the versions of `files`: inode, time and size; None for one that is gone. Blocks."""
    found: Stamp = {}
    for file in files:
        try:
            state = file.stat()
            found[file] = state.st_ino, state.st_mtime_ns, state.st_size
        except OSError:
            found[file] = None
    return found


class Loaded:
    """One loaded version of a hook's code. `handle` receives the events."""

    def __init__(self, folder: Path) -> None:
        """Execute handler.py of `folder`: blocks. Raises HandlerError, and whatever the code raises, SystemExit
        included."""
        if not any(isinstance(finder, _Siblings) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Siblings())
        self._name = f"{_PREFIX}{next(_numbers)}"
        file = folder.resolve() / HANDLER_FILE
        spec = importlib.util.spec_from_file_location(
            self._name, file, loader=_Fresh(self._name, str(file)), submodule_search_locations=[str(file.parent)]
        )
        if spec is None or spec.loader is None:
            raise HandlerError(f"{file} cannot be loaded")
        module = sys.modules[self._name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            self.handle = _handle_of(module)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Remove the modules from `sys.modules`, so that the next load reads the files again."""
        for name in [name for name in sys.modules if name == self._name or name.startswith(f"{self._name}.")]:
            del sys.modules[name]


def _handle_of(module: ModuleType) -> Handle:
    handle = getattr(module, "handle", None)
    if handle is None:
        raise HandlerError(f"{HANDLER_FILE} has no handle; expected `{EXPECTED}`")
    if not inspect.iscoroutinefunction(handle):
        raise HandlerError(f"handle in {HANDLER_FILE} must be a coroutine function; expected `{EXPECTED}`")
    return cast("Handle", handle)


class _Fresh(SourceFileLoader):
    """Compiles the source each time: cached bytecode only distinguishes full seconds, and nothing should be written
    into users' folders."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Siblings(MetaPathFinder):
    """Resolves `from . import sibling` in hooks, without caching the folder's listing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        found = (FileFinder(folder, (_Fresh, [".py"])).find_spec(fullname) for folder in path or ())
        return next((spec for spec in found if spec is not None), None)


Status = Literal["ok", "failed", "timeout", "exited", "cancelled"]

_MAX_ERROR = 300
_OWN_MODULE = re.compile(r"^_clawbot_hook_\d+\.|(?<=_clawbot_hook)_\d+")


class HookFailedError(Exception):
    """A hook failed to handle an event. `error` is one line for the user."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status
        self.error = error


def describe(error: BaseException, folder: Path) -> str:
    """Type and message of `error`, and the last line of the hook in `folder` on its traceback: `ValueError: no such day
    (handler.py:12)`. A HookServiceError shows only its text. One line; may contain secrets."""
    if isinstance(error, HandlerError | HookServiceError):
        return one_line(str(error))
    where = _syntax_position(error) if isinstance(error, SyntaxError) else _position(error, folder.resolve())
    return f"{one_line(_words(error))}{where}{_hint(error)}"


def one_line(text: str) -> str:
    """Return `text` without line breaks, truncated."""
    return clean_line(text.encode("utf-8", "backslashreplace").decode(), _MAX_ERROR)


def _words(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return _OWN_MODULE.sub("", traceback.format_exception_only(error)[0])


def _position(error: BaseException, folder: Path) -> str:
    position = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(folder):
            position = f" ({file.relative_to(folder)}:{line})"
    return position


def _syntax_position(error: SyntaxError) -> str:
    return f" ({Path(error.filename).name}:{error.lineno})" if error.filename else ""


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "; install it, and name it in HOOK.md under requires: python"
    if isinstance(error, SystemExit | KeyboardInterrupt | asyncio.CancelledError):
        return "; a handler ends by returning, or by raising an exception of its own"
    return ""
