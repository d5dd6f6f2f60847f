"""The embedder that needs no network: the static vectors of wordllama (MIT), read from two files of its package.

The package itself is never imported: that takes 0.4 seconds of CPU, configures logging and uses the network.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.memory.embeddings.offline_model import Bpe, BrokenWeightsError, Tokenizer, WeightTable, WordPool
from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors

PROVIDER = "offline"
MODEL = "wordllama-l2-supercat-256"
IDENTITY = f"{PROVIDER}/{MODEL}"
WITHOUT_NUMPY_CHARS = 6000
"""Up to this size numpy is not worth its import (0.1 s of CPU): 10 microseconds a character without it."""
IDLE_SECONDS = 30.0
"""After this the memory for bulk embedding (up to 50 MB) is freed."""
_BATCH_TEXTS = 1024
_BATCH_CHARS = 128 * 1024
_PACKAGE = "wordllama"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_HINT = "Repeat the installation from its folder, or set another provider in memory_search.provider."


class OfflineFiles(Struct, frozen=True):
    """The paths of the vocabulary and the weights."""

    tokenizer: Path
    weights: Path


class _Parts(Struct, frozen=True):
    bpe: Bpe
    table: WeightTable


def find_offline() -> OfflineFiles | None:
    """Return the files of the offline model; None if they can't be used, see `offline_problem`. Blocks."""
    found = _resolve()
    return found if isinstance(found, OfflineFiles) else None


_find_once = cache(find_offline)  # 0.4 ms


def offline_problem() -> str:
    """Why `find_offline` returns None, as a sentence; else empty. Blocks."""
    found = _resolve()
    return found if isinstance(found, str) else ""


def is_frequent_word(word: str) -> bool:
    """Return whether `word`, in lower case, is frequent in English text; False without the offline model. Blocks."""
    files = _find_once()
    return files is not None and _load(files).bpe.has_word(word)


def _resolve() -> OfflineFiles | str:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return f"The package {_PACKAGE}, which holds the offline vectors, is not installed."
    root = Path(next(iter(spec.submodule_search_locations)))
    files = OfflineFiles(root / _TOKENIZER, root / _WEIGHTS)
    missing = next((path for path in (files.tokenizer, files.weights) if not path.is_file()), None)
    if missing is not None:
        return f"The package {_PACKAGE} lacks a file: {missing}."
    try:
        WeightTable(files.weights)
    except (OSError, BrokenWeightsError) as error:
        return f"The offline vectors in {files.weights} cannot be read: {error}."
    return files


class OfflineEmbedder:
    """An `Embedder`: the mean of a text's token vectors. Ignores the purpose.

    The first call reads the vocabulary (10 ms of CPU).
    """

    remote = False
    provider = PROVIDER
    model = MODEL
    identity = IDENTITY
    address = ""

    def __init__(self, files: OfflineFiles) -> None:
        self._files = files
        self._pool: WordPool | None = None
        self._pooling = threading.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return a row for each text, zeros without words. Raises EmbeddingError if the files are broken."""
        parts = await asyncio.to_thread(_load, self._files)
        if sum(map(len, texts)) <= WITHOUT_NUMPY_CHARS:
            rows = [await asyncio.to_thread(_few, parts, texts)]
        else:
            rows = []
            for batch in _batches(texts):
                rows.append(await asyncio.to_thread(self._many, parts, batch))
                self._retain()
        return Vectors(parts.table.dimensions, b"".join(rows))

    async def aclose(self) -> None:
        """Free the memory."""
        self._retain(over=True)
        self._pool = None

    def _many(self, parts: _Parts, texts: Sequence[str]) -> bytes:
        """Blocks. Loads numpy, which small amounts of text do without."""
        with self._pooling:
            pool = self._pool or WordPool(parts.bpe, parts.table)
            # Don't reuse a pool whose call failed halfway.
            self._pool = None
            rows = pool.embed(texts)
            self._pool = pool
            return rows

    def _retain(self, *, over: bool = False) -> None:
        """Keep the pool for `IDLE_SECONDS` from now, or drop it."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None if over else asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        self._pool = self._idle = None


def _few(parts: _Parts, texts: Sequence[str]) -> bytes:
    """Blocks."""
    return b"".join(parts.table.unit_sum(parts.bpe.text(text)) for text in texts)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == _BATCH_TEXTS or chars + len(text) > _BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch


@lru_cache(maxsize=1)
def _load(files: OfflineFiles) -> _Parts:
    """Blocks. Once per process."""
    try:
        vocabulary = msgspec.json.decode(files.tokenizer.read_bytes(), type=Tokenizer).model.vocab
        parts = _Parts(Bpe(vocabulary), WeightTable(files.weights))
        if max(vocabulary.values()) >= parts.table.count:
            raise BrokenWeightsError("they have fewer rows than the vocabulary has tokens")
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, KeyError, BrokenWeightsError) as error:
        raise EmbeddingError(
            f"The offline vectors in {files.weights.parent} cannot be read: {error}.", hint=_HINT
        ) from error
    return parts
