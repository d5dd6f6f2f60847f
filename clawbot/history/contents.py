"""The contents of memory files, by their SHA-256: compressed, each once."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from clawbot.files import PRIVATE_FILE, digest_of, ensure_private_dir, is_aside, write_atomic
from clawbot.guarded import MAX_RECORDED_BYTES


class Contents:
    """The contents in `folder`, each in `<2>/<digest>`. All methods block and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, data: bytes) -> str:
        """Store a content, unless it is too large to be restored later; returns its digest."""
        digest = digest_of(data)
        path = self._path(digest)
        if len(data) <= MAX_RECORDED_BYTES and not path.exists():
            ensure_private_dir(path.parent)
            # Without fsync: a content that a power cut has damaged is found by its digest.
            write_atomic(path, zlib.compress(data), mode=PRIVATE_FILE, lasting=False)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a content, b"" for no file; None if it is unknown, or not stored."""
        if not digest:
            return b""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, zlib.error):
            data = zlib.decompress(self._path(digest).read_bytes())
            return data if digest_of(data) == digest else None
        return None

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of each content."""
        return {path.name: path.stat().st_size for path in self._files() if not is_aside(path.name)}

    def sweep(self, needed: Collection[str]) -> None:
        """Delete the contents that are not `needed`, and what a kill has left."""
        for path in self._files():
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        return self._folder.glob("??/*")

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest
