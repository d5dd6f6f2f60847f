"""API keys in `$CLAWBOT_HOME/.env`: read at the start, written when the user enters a key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clawbot.config.errors import config_error, read_text, rewrite
from clawbot.config.paths import Paths
from clawbot.text.interface import ngettext
from clawbot.text.patterns import lazy_re

if TYPE_CHECKING:
    from dotenv.parser import Binding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of what others wrote: `$env:KEY="x"` is a line for PowerShell.
_ANY_NAME = lazy_re(r"[\w.-]+")
_MAX_LINES = 12
# NUL would end the variable; lone surrogates can't be encoded in UTF-8, and U+FFFD is what was not UTF-8.
_UNWRITABLE = lazy_re(r"[\x00\ud800-\udfff\ufffd]")


class EnvFile(NamedTuple):
    """The variables of a `.env` file, and the numbers of the `lines` that are none: no text of them is in it."""

    values: dict[str, str]
    lines: tuple[int, ...] = ()

    def notices(self, file: Path) -> list[str]:
        """One line about those of `file` that are left out."""
        shown = [*map(str, self.lines[:_MAX_LINES]), *(["…"] if len(self.lines) > _MAX_LINES else [])]
        text = ngettext(
            "{file}: line {lines} is left out: expected NAME=value",
            "{file}: lines {lines} are left out: expected NAME=value",
            len(self.lines),
        )
        return [text.format(file=file, lines=", ".join(shown))] if self.lines else []


def read_env(paths: Paths) -> EnvFile:
    """The variables of the `.env` file; none without a file. Raises ConfigError if it cannot be read. Blocks."""
    found: dict[str, str] = {}
    lines: list[int] = []
    try:
        text = read_text(paths.env_file, errors="replace")
    except FileNotFoundError:
        return EnvFile({})
    for binding in _bindings(text):
        name, value, line = binding.key, binding.value, binding.original.string.lstrip()
        if name and value is not None and _ANY_NAME.fullmatch(name) and not _UNWRITABLE.search(value):
            found[name] = value
        elif binding.error or (name and not line.startswith("export ")):
            blank = binding.original.string.removesuffix(line)  # lines above, which the parser counts in
            lines.append(binding.original.line + blank.count("\n"))
    return EnvFile(found, tuple(lines))


def load_env(paths: Paths) -> EnvFile:
    """Add the variables of the `.env` file to the environment, without replacing existing ones.

    Returns those that were added. Raises ConfigError if the file cannot be read.
    """
    values, lines = read_env(paths)
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    return EnvFile(added, lines)


def save_key(paths: Paths, name: str, value: str) -> None:
    """Write `name=value` to the `.env` file (0600), replacing an older value, and set it in the environment.

    The rest of the file is kept; spaces around the value are stripped. Raises ConfigError for an invalid name or value,
    and if the file cannot be read.
    """
    value = value.strip()
    place = str(paths.env_file)
    if not _NAME.fullmatch(name):
        raise config_error(place, "the name of a key has letters, digits and _ only, such as OPENAI_API_KEY")
    if not value or _UNWRITABLE.search(value):
        raise config_error(place, f"the value of {name} is empty or not text")
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    rewrite(paths.env_file, lambda old: _replaced(old, name, f"{name}='{quoted}'\n"))
    os.environ[name] = value


def _bindings(text: str) -> Iterator[Binding]:
    from dotenv.parser import parse_stream  # 25 ms, and most users have no such file

    return parse_stream(StringIO(text))


def _replaced(text: str, name: str, line: str) -> str:
    """`text` with `line` in place of the first binding of `name`, or at the end; further bindings are removed."""
    bindings = [*_bindings(text)]
    first = next((at for at, binding in enumerate(bindings) if binding.key == name), None)
    if first is None:
        return f"{text}\n{line}" if text and not text.endswith("\n") else text + line
    kept = (binding for at, binding in enumerate(bindings) if at == first or binding.key != name)
    return "".join(line if binding.key == name else binding.original.string for binding in kept)
