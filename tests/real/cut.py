"""Cuts a language model (a GGUF file) to its first layers: same words, same template, ten times as fast, and junk."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAGIC, VERSION = b"GGUF", 3
ALIGNMENT = 32  # bytes, unless the file says otherwise
# The kinds of values by their number in the file: those of a fixed size, in bytes, and the two that are not.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
UINT32, STRING, ARRAY = 4, 8, 9


class Tensor(NamedTuple):
    """The description of a tensor; `start` and `end` are bytes from the beginning of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int
    end: int


def cut(source: Path, target: Path, layers: int) -> None:
    """Write the model `source` with its first `layers` layers to `target`. Raises ValueError for what is no such
    file."""
    with source.open("rb") as file:
        if file.read(4) != MAGIC or _number(file, "<I") != VERSION:
            raise ValueError(f"{source} is no GGUF file of version {VERSION}")
        tensors, pairs = _number(file, "<Q"), _number(file, "<Q")
        settings, alignment = _read_settings(file, pairs, layers)
        described = [_read_tensor(file) for _ in range(tensors)]
        data = _aligned(file.tell(), alignment)
        ends = [*sorted(start for *_, start in described)[1:], source.stat().st_size - data]
        order = sorted(described, key=lambda each: each[3])
        kept = [Tensor(*each, end) for each, end in zip(order, ends, strict=True) if _layer(each[0]) < layers]
        head = _head(kept, pairs, settings, alignment)
        with target.open("wb") as out:
            out.write(head.ljust(_aligned(len(head), alignment), b"\0"))
            for tensor in kept:
                file.seek(data + tensor.start)
                out.write(file.read(tensor.end - tensor.start))


def _head(tensors: list[Tensor], pairs: int, settings: bytes, alignment: int) -> bytes:
    """All that stands before the data, whose tensors follow one another."""
    parts = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), pairs), settings]
    place = 0
    for tensor in tensors:
        name = tensor.name.encode()
        parts += [struct.pack("<Q", len(name)), name, struct.pack("<I", len(tensor.shape))]
        parts += [struct.pack(f"<{len(tensor.shape)}QIQ", *tensor.shape, tensor.kind, place)]
        place = _aligned(place + tensor.end - tensor.start, alignment)
    return b"".join(parts)


def _read_settings(file: BinaryIO, pairs: int, layers: int) -> tuple[bytes, int]:
    """The settings as they stand in the file, the number of layers exchanged, and the alignment of the data."""
    start, alignment, count_at = file.tell(), ALIGNMENT, None
    for _ in range(pairs):
        name, kind = _text(file), _number(file, "<I")
        if name.endswith(".block_count") and kind == UINT32:
            count_at = file.tell() - start
        if name == "general.alignment":
            alignment = _number(file, "<I")
        else:
            _skip(file, kind)
    if count_at is None:
        raise ValueError("the file does not say how many layers it has")
    length = file.tell() - start
    file.seek(start)
    settings = bytearray(file.read(length))
    settings[count_at : count_at + 4] = struct.pack("<I", layers)
    return bytes(settings), alignment


def _read_tensor(file: BinaryIO) -> tuple[str, tuple[int, ...], int, int]:
    name = _text(file)
    shape = tuple(_number(file, "<Q") for _ in range(_number(file, "<I")))
    return name, shape, _number(file, "<I"), _number(file, "<Q")


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == STRING:
        file.seek(_number(file, "<Q"), 1)
    elif kind == ARRAY:
        of, count = _number(file, "<I"), _number(file, "<Q")
        if of in SIZES:
            file.seek(SIZES[of] * count, 1)
        else:
            for _ in range(count):
                _skip(file, of)
    else:
        file.seek(SIZES[kind], 1)


def _layer(name: str) -> int:
    """The layer that a tensor belongs to; -1 for those of none."""
    kind, _, rest = name.partition(".")
    return int(rest.partition(".")[0]) if kind == "blk" else -1


def _aligned(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "<Q")).decode("utf-8", "replace")


def _number(file: BinaryIO, form: str) -> int:
    (number,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(number)
