"""Keeps one instance of a backend for each agent and configuration, shared by those who use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import Progress

Listener = Callable[[Progress | None], None]


class Shared:
    """An open `backend` and its users. Belongs to one event loop."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self.users = 0
        self._listeners: list[Listener] = []
        self._started = False

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the progress of the backend."""
        self._listeners.append(listener)
        self.backend.on_progress = self._progressed

    def ignore(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def start(self) -> None:
        if not self._started:
            self._started = True
            self.backend.start()

    def _progressed(self, progress: Progress | None) -> None:
        for listener in tuple(self._listeners):
            listener(progress)


class BackendPool:
    """The open backends of a process by key. Thread-safe: backends are opened off the loop."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Shared] = {}
        self._lock = threading.Lock()
        self._making = threading.Lock()  # apart, since the event loop takes the other one

    def take(self, key: Hashable, make: Callable[[], MemoryBackend]) -> Shared:
        """Return the backend of `key`, made if there is none. Blocks; raises what `make` raises."""
        with self._making:
            shared = self._open.get(key) or Shared(make())
            with self._lock:
                shared = self._open.setdefault(key, shared)
                shared.users += 1
            return shared

    def evict(self, key: Hashable, shared: Shared) -> bool:
        """Forget `shared`, so that the next user gets a new backend; False if that has happened before."""
        with self._lock:
            if self._open.get(key) is not shared:
                return False
            del self._open[key]
            return True

    def release(self, key: Hashable, shared: Shared) -> bool:
        """Remove one user. Return True if it was the last one, who closes the backend."""
        with self._lock:
            shared.users -= 1
            last = shared.users == 0
            if last and self._open.get(key) is shared:
                del self._open[key]
            return last
