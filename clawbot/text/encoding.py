"""Detects a file's encoding by its byte order mark: UTF-8, or UTF-16 and UTF-32 as written by Windows.

Text added to a file must use the file's encoding, or the file is destroyed.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

_WIDE = (  # UTF-32 first: its mark starts with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Encoding(Struct, frozen=True):
    """An encoding by its Python `name`, with the `mark` at the start of the file (b"" for none)."""

    name: str = "utf-8"
    mark: bytes = b""

    @property
    def is_wide(self) -> bool:
        """Whether a character takes at least two bytes, so that the data can't be searched as UTF-8."""
        return self.name != "utf-8"

    @property
    def unit(self) -> int:
        """The bytes of the shortest character."""
        return 1 if not self.is_wide else 4 if "32" in self.name else 2


def encoding_of(head: bytes) -> Encoding:
    """Return the encoding of a file that starts with `head`; four bytes are enough."""
    for mark, name in _WIDE:
        if head.startswith(mark):
            return Encoding(name, mark)
    return Encoding(mark=codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else Encoding()


def decoded(data: bytes, *, errors: str = "strict") -> str:
    """Return the text of a complete file without the mark. Raises UnicodeDecodeError unless `errors` are replaced."""
    encoding = encoding_of(data)
    return data[len(encoding.mark) :].decode(encoding.name, errors)


def encoded_like(text: str, data: bytes) -> bytes:
    """Return `text` with the mark and the encoding of the file content `data`."""
    encoding = encoding_of(data)
    return encoding.mark + text.encode(encoding.name)


def as_utf8(data: bytes) -> bytes:
    """The file content `data`, converted to UTF-8 if it is UTF-16 or UTF-32; undecodable characters are replaced."""
    return decoded(data, errors="replace").encode() if encoding_of(data).is_wide else data
