"""Opens the configured memory backend: one of the program, or of an installed package."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint

from clawbot.config.names import QMD_BACKEND
from clawbot.config.schema_backends import BACKEND_GROUP
from clawbot.entry_points import BrokenExtension, installed
from clawbot.memory.backend import BackendContext, IndexUnavailableError, MemoryBackend

_HINT = "Update or repair the package, or set memory.backend to builtin."


def open_configured(context: BackendContext) -> MemoryBackend:
    """The backend of the settings, other than the builtin one. Imports it: blocks.

    Raises IndexUnavailableError with the reason if it can't be opened.
    """
    if (broken := context.memory.broken) is not None:
        raise IndexUnavailableError(f"{broken.reason}.", hint="`clawbot config check` checks the settings.")
    name = context.memory.backend
    if name == QMD_BACKEND:
        # Deferred import: only the chosen backend is loaded.
        from clawbot.memory.backends.qmd.backend import open_qmd

        return open_qmd(context)
    offered = next((each for each in installed(BACKEND_GROUP) if each.name == name), None)
    if offered is None:
        raise IndexUnavailableError(f"The memory backend {name} is not installed.", hint=_HINT)
    backend = offered.use(lambda point: _opened(point, context))
    if isinstance(backend, BrokenExtension):
        raise IndexUnavailableError(f"The memory backend {name} can't be opened: {backend.problem}.", hint=_HINT)
    return backend


def _opened(point: EntryPoint, context: BackendContext) -> MemoryBackend:
    """Raises TypeError if the result is not a backend, and whatever the package raises."""
    backend: MemoryBackend = point.load()(context)
    if lacking := _lacking(backend):
        raise TypeError(f"it made a {type(backend).__name__}, which lacks {', '.join(lacking)}")
    return backend


def _lacking(backend: object) -> list[str]:
    """The missing members of a MemoryBackend; evaluates no property."""
    members = {name for name in (*vars(MemoryBackend), "on_progress") if not name.startswith("_")}
    absent = object()
    return sorted(name for name in members if inspect.getattr_static(backend, name, absent) is absent)
