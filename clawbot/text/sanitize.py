"""Makes text from models, tools and files safe to display by removing terminal control sequences.

ANSI sequences and control characters are removed, a line with many replacement characters is treated as binary,
right-to-left runs are isolated, and bidi overrides are removed.
"""

from __future__ import annotations

from pathlib import Path

from clawbot.text.patterns import lazy_re

BINARY_MARK = "[binary data omitted]"
BINARY_AT = 12  # replacement characters in one line
HELD_MAX = 2048  # the maximum length of an escape sequence

_ESCAPE = lazy_re(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # everything of two or three characters
)
_UNFINISHED = lazy_re(
    r"(?:\x1b\[[0-?]*[ -/]*|\x1b\][^\x07\x1b\n]*\x1b?|\x1b[PX^_][^\x1b\n]*\x1b?|\x1b[ -/]*|\r)\Z",
)
_CONTROL = lazy_re("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMAT = lazy_re("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
_NEWLINE = lazy_re("\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")
_SUSPICIOUS = lazy_re(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffd]"
)
_STEERING = lazy_re("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RTL_WORD = lazy_re(f"[{_RTL}]+")
_RTL_RUN = lazy_re(f"[{_RTL}]+(?:[^\\S\n]*[{_RTL}]+)*")


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters; line breaks and tabs are kept."""
    if not _SUSPICIOUS.search(text):
        return text
    text = _FORMAT.sub("", without_controls(text))
    if "\ufffd" not in text:
        return text
    return "\n".join(omit_binary(line) for line in text.split("\n"))


def without_controls(text: str) -> str:
    """Return `text` without escape sequences and control characters; line breaks become `\\n`, tabs are kept."""
    return _CONTROL.sub("", _ESCAPE.sub("", _NEWLINE.sub("\n", text)))


def clean_line(text: str, limit: int | None = None) -> str:
    """Return `text` on one line: cleaned, whitespace collapsed, truncated to `limit` characters with an `…`."""
    line = " ".join(clean(text).split())
    return line if limit is None or len(line) <= limit else f"{line[: limit - 1]}…"


def tilde(path: Path, home: Path) -> str:
    """Return `path` on one line, the user's `home` written as ~."""
    return clean_line(f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else f"{path}")


def json_escaped(text: str) -> str:
    """Return the JSON `text` with terminal control characters escaped; parses to the same value."""
    return _STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def omit_binary(line: str) -> str:
    """Return `line`, or a placeholder for binary data."""
    return BINARY_MARK if line.count("\ufffd") >= BINARY_AT else line


def isolate(text: str, *, words: bool = False) -> str:
    """Isolate runs of right-to-left letters, so that they don't reorder their surroundings; with `words` each word
    separately, if word order matters more."""
    if text.isascii():
        return text
    return (_RTL_WORD if words else _RTL_RUN).sub("\u2068\\g<0>\u2069", text)


def without_isolates(text: str) -> str:
    """Undo `isolate`, for the clipboard."""
    return text.replace("\u2068", "").replace("\u2069", "")


class StreamCleaner:
    """`clean` for a stream: escape sequences may be split anywhere."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the safe text available so far that was not returned yet."""
        text = self._held + text
        self._held = ""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - HELD_MAX))
        if unfinished:
            self._held = unfinished.group()
            text = text[: unfinished.start()]
        return clean(text)
