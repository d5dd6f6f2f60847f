"""Remembers which model servers of this machine may hear what is said: those that no setting names are asked about."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.files import PRIVATE_FILE, locked, read_plain, write_atomic
from clawbot.llm.local import LocalModel
from clawbot.llm.providers import OLLAMA, local_server
from clawbot.local_model.shelf import LOCAL

log = logging.getLogger(__name__)

_LARGEST_FILE = 64 * 1024


class _Kept(Struct):
    """The content of the file: addresses that are allowed for good."""

    allowed: list[str]


class ServerConsent:
    """Which addresses may be used: for good, in `file`, or as long as this program runs.

    Any process may listen on a usual port: without the user's word it would be sent the conversation and the notes.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._allowed: set[str] = set()
        self._settled: set[str] = set()

    def covers(self, found: LocalModel) -> bool:
        """Whether `found` may be used without a question. Blocks."""
        if found.ref.startswith(LOCAL) or found.base in self._allowed:
            return True
        named = local_server(found.ref) is OLLAMA and bool(os.environ.get("OLLAMA_HOST", "").strip())
        return named or found.base in self._read()

    def is_open(self, base: str) -> bool:
        """Whether the user has not been asked, or told, about `base` since the program began."""
        return base not in self._settled

    def settle(self, base: str) -> None:
        """Do not ask about `base` again while the program runs."""
        self._settled.add(base)

    def allow(self, base: str, *, always: bool) -> None:
        """Use `base` from now on, in later starts too if `always`. Blocks. Raises OSError if that can't be kept; it is
        allowed for now nevertheless."""
        self._allowed.add(base)
        if always:
            with locked(self._file.with_name(f"{self._file.name}.lock")):
                kept = _Kept(sorted({*self._read(), base}))
                write_atomic(self._file, msgspec.json.encode(kept) + b"\n", mode=PRIVATE_FILE)

    def _read(self) -> set[str]:
        try:
            return set(msgspec.json.decode(read_plain(self._file, _LARGEST_FILE), type=_Kept).allowed)
        except FileNotFoundError:
            return set()
        except (OSError, ValueError) as error:
            log.warning("%s can't be read, so its servers are asked about again: %s", self._file, error)
            return set()
