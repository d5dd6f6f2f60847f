"""Reads the head of a GGUF file, and estimates the memory that the model needs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.text.interface import _

MAGIC = b"GGUF"
OVERHEAD_BYTES = 640 * 1024**2
"""Of the program around the weights: buffers of a batch, templates, 256 MiB of prompts that are cached."""
WINDOWS = (16_384, 8_192, 4_096)
"""Tokens; the largest that fits is used. More than the first costs gigabytes, less than the last is too short."""
_CACHED_BYTES = 2  # of one number in the cache of keys and values
_MAX_TEXT = 16 * 1024**2
_MAX_KEYS = 10_000
_STRING, _ARRAY = 8, 9
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class NoModelError(ClawbotError):
    """A file that is no GGUF, or a broken one."""


class ModelFile(Struct, frozen=True):
    """A GGUF file: its `size` in bytes, the window in tokens that it was `trained` for (0: unknown), how many
    bytes of cache a token takes, and whether its template knows `tools`."""

    path: Path
    size: int
    trained: int = 0
    token_bytes: int = 0
    tools: bool = True

    def memory(self, window: int) -> int:
        """Return bytes of memory that it takes with a window of so many tokens."""
        return self.size + window * self.token_bytes + OVERHEAD_BYTES


def read_head(path: Path) -> ModelFile:
    """Read the head of the file at `path`. Blocks. Raises NoModelError, OSError."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            values = dict(_values(stream))
        except (struct.error, ValueError, OverflowError) as error:
            raise NoModelError(f"{path} is no GGUF file, or a broken one: {error}.") from error
    kind = values.get("general.architecture")
    facts = {name.removeprefix(f"{kind}."): value for name, value in values.items()}
    template = values.get("tokenizer.chat_template")
    tools = not isinstance(template, str) or "tools" in template
    return ModelFile(path, size, _number(facts, "context_length"), _cache(facts), tools)


def is_complete(path: Path) -> bool:
    """Whether the file at `path` is a model that reaches its last tensor, by its head. Blocks; raises OSError."""
    with path.open("rb") as stream:
        try:
            values, last = dict(_values(stream)), 0
            version, tensors = values[""]
            for _tensor in range(min(tensors, _MAX_KEYS)):
                _text(stream)
                stream.seek(8 * _read(stream, "I") + 4, os.SEEK_CUR)
                last = max(last, _read(stream, "Q"))
            is_known = 2 <= version <= 3 and tensors > 0 and "general.architecture" in values
            return is_known and stream.tell() + last < os.fstat(stream.fileno()).st_size
        except (struct.error, ValueError, OverflowError):
            return False


def window_for(model: ModelFile, memory: int, wanted: int | None = None) -> int:
    """The window that `model` gets where `memory` bytes are free. Raises NoModelError when it does not fit: `wanted`
    or, without one, the smallest."""
    most = model.trained or WINDOWS[0]
    windows = [wanted] if wanted else [min(size, most) for size in WINDOWS]
    for window in windows:
        if model.memory(window) <= memory:
            return window
    hint = _("End other programs, or take a smaller model: clawbot model list.")
    if wanted:
        hint = _("End other programs, or take a smaller --ctx, a smaller model: clawbot model list.")
    text = _("{file} needs {size} of memory with a window of {window:,} tokens; {free} are free.")
    need = shown_size(model.memory(windows[-1]))
    problem = text.format(file=model.path.name, size=need, window=windows[-1], free=shown_size(memory))
    raise NoModelError(problem, hint=hint)


def shown_size(size: float) -> str:
    """Return `size` bytes for people: in GB, small ones in MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _values(stream: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The values of the head (of the vocabulary, which is long, none), and as "" its version and number of tensors."""
    if stream.read(4) != MAGIC:
        raise ValueError("it does not begin with GGUF")
    version, tensors, count = struct.unpack("<IQQ", stream.read(20))
    yield "", (version, tensors)
    for _key in range(min(count, _MAX_KEYS)):
        name = _text(stream).decode(errors="replace")
        kind = _read(stream, "I")
        if kind == _ARRAY and name.startswith("tokenizer."):
            _skip_list(stream)
        else:
            yield name, _value(stream, kind)


def _value(stream: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _text(stream).decode(errors="replace")
    if kind == _ARRAY:
        inner, count = _read(stream, "I"), _read(stream, "Q")
        if count > _MAX_TEXT:
            raise ValueError("a list that is too long")
        return [_value(stream, inner) for _ in range(count)]
    if kind not in _FORMATS:
        raise ValueError(f"a value of the kind {kind}")
    return _read(stream, _FORMATS[kind])


def _skip_list(stream: IO[bytes]) -> None:
    kind, count = _read(stream, "I"), _read(stream, "Q")
    if kind == _STRING:
        for _ in range(count):
            stream.seek(_read(stream, "Q"), os.SEEK_CUR)
    elif kind in _FORMATS:
        stream.seek(count * struct.calcsize(f"<{_FORMATS[kind]}"), os.SEEK_CUR)
    else:
        raise ValueError(f"a list of the kind {kind}")


def _text(stream: IO[bytes]) -> bytes:
    length = _read(stream, "Q")
    if length > _MAX_TEXT:
        raise ValueError("a text that is too long")
    return stream.read(length)


def _read(stream: IO[bytes], form: str) -> Any:
    return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))[0]


def _cache(facts: dict[str, Any]) -> int:
    """Return bytes of keys and values that one token takes."""
    heads = _number(facts, "attention.head_count")
    shared = _number(facts, "attention.head_count_kv") or heads
    usual = _number(facts, "embedding_length") // heads if heads else 0
    key = _number(facts, "attention.key_length") or usual
    value = _number(facts, "attention.value_length") or usual
    return _number(facts, "block_count") * shared * (key + value) * _CACHED_BYTES


def _number(facts: dict[str, Any], name: str) -> int:
    """Return an integer; of one for each layer the largest."""
    value = facts.get(name)
    if isinstance(value, list):
        value = max((each for each in value if isinstance(each, int)), default=0)
    return value if isinstance(value, int) and value > 0 else 0
