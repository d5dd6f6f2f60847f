"""Cuts a note in one thread while another one is in the middle of importing the Markdown parser.

Run in a process of its own: prints the parts of the parser that the first thread would have imported by themselves,
while the package was not whole.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from clawbot.memory.chunking.markdown import blocks_of

HALFWAY = "markdown_it.helpers"


class Halfway(Loader):
    """Stops the import of the package in its middle, until the other thread waits for it, or does not."""

    def __init__(self) -> None:
        self.cutting = threading.Thread(target=blocks_of, args=(["> a quote"],))
        self.parts: list[str] = []
        self.rest: Loader | None = None

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if threading.current_thread() is self.cutting and name.startswith("markdown_it."):
            self.parts.append(name)
        spec = PathFinder.find_spec(name, path) if name == HALFWAY else None
        if spec is not None:
            self.rest, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        assert self.rest is not None
        self.cutting.start()
        while not self.parts and not self.is_waiting():
            time.sleep(0.001)
        sys.stdout.write(" ".join(self.parts) + "\n")
        self.rest.exec_module(module)

    def is_waiting(self) -> bool:
        """Whether the other thread waits for a package that is being imported."""
        frame = sys._current_frames().get(self.cutting.ident or 0)
        while frame is not None and frame.f_code.co_name != "_lock_unlock_module":
            frame = frame.f_back
        return frame is not None


halfway = Halfway()
sys.meta_path.insert(0, halfway)
importlib.import_module("markdown_it")
halfway.cutting.join()
