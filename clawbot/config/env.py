"""Variables of the environment: API keys in `$CLAWBOT_HOME/.env`, read at the start and written when the user enters a
key; and references to variables in settings and MCP files, in the spellings of several programs.

`${NAME}`, `${NAME:-default}` and `$NAME` (shells), `${env:NAME}` (VS Code, Cursor), `{env:NAME}` (opencode),
`os.environ/NAME` (LiteLLM). `$$` is a plain `$`. What only another program can fill in (`${input:key}`) is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clawbot.config.errors import config_error, read_text, rewrite
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import remember_secret

if TYPE_CHECKING:
    from dotenv.parser import Binding


# Of what others wrote: `$env:KEY="x"` is a line for PowerShell.
_ANY_NAME = lazy_re(r"[\w.-]+")
_MAX_LINES = 12
# NUL would end the variable; lone surrogates can't be encoded in UTF-8, and U+FFFD is what was not UTF-8.
_UNWRITABLE = lazy_re(r"[\x00\ud800-\udfff\ufffd]")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = rf"(?<![\w$])\$(?P<word>[A-Z_][A-Z0-9_]+)(?!\w)|\A\$(?P<alone>{_NAME})\Z"
_REFERENCE = lazy_re(
    rf"\$(?P<plain>\$)|\$\{{(?P<body>[^{{}}\n]{{1,200}})\}}|\{{(?P<braces>(?:env|file):[^{{}}\n]{{1,200}})\}}"
    rf"|\A(?:os\.environ/)(?P<litellm>{_NAME})\Z|{_WORD}"
)
_BODY = lazy_re(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?")
# What VS Code, Cursor and opencode fill in themselves: what they ask for or keep, and the files that they have open.
_FOREIGN = lazy_re(
    r"(?:input|command|config|secret|file):(?P<asked>.*)|(?:workspace(?:Folder|Root)|file|relativeFile|cwd)\w*(?::.*)?"
)
_FILLED_IN = N_("{reference} is filled in by another program only.")
_PREDEFINED: dict[str, Callable[[], str]] = {"userHome": lambda: str(Path.home()), "pathSeparator": lambda: "/"}
REFERENCE_SIGNS = ("$", "{env:", "{file:", "os.environ/")


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
    """Return the variables of the `.env` file; none without a file. Raises ConfigError if it cannot be read. Blocks."""
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
    position = str(paths.env_file)
    if not re.fullmatch(_NAME, name):
        raise config_error(position, "the name of a key has letters, digits and _ only, such as OPENAI_API_KEY")
    if not value or _UNWRITABLE.search(value):
        raise config_error(position, f"the value of {name} is empty or not text")
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


class UnresolvedError(ClawbotError):
    """A reference that can't be resolved: the variable is not set, or only another program knows what is meant."""


def name_in(text: str) -> str:
    """Return the variable whose value `text` is, "" if it is anything else."""
    found = _REFERENCE.fullmatch(text.strip())
    name, default = _variable(found) if found else ("", None)
    return name if default is None else ""


def _variable(found: re.Match[str]) -> tuple[str, str | None]:
    """Return the variable that a reference names, and its default; "" for none."""
    if body := _BODY.fullmatch(found["body"] or found["braces"] or ""):
        return body["name"], body["default"]
    return found["litellm"] or found["word"] or found["alone"] or "", None


def resolve(text: str, environ: Mapping[str, str], *, words: bool = True) -> str:
    """Return `text` with its references replaced by the values in `environ`; without `words`, `$NAME` remains.

    Values of secret names are kept out of the log from then on. Raises UnresolvedError.
    """

    def value_of(found: re.Match[str]) -> str:
        if found["plain"]:
            return "$"
        name, default = _variable(found)
        if (hint := _instead(found)) and name not in environ:
            raise UnresolvedError(_(_FILLED_IN).format(reference=found[0]), hint=hint)
        if name and (words or not (found["word"] or found["alone"])):
            return _value(name, default, environ)
        return "/" if found["body"] == "/" else found[0]  # also `${NAME%.*}` of a shell, `${a.b}` of a template

    return _REFERENCE.sub(value_of, text)


def _instead(found: re.Match[str]) -> str:
    """What to write for a reference that only another program can fill in; "" for any other."""
    foreign = _FOREIGN.fullmatch(found["body"] or found["braces"] or "")
    if foreign is None or foreign["asked"] is None:
        return _("Write the path instead.") if foreign else ""
    name = re.sub(r"\W+", "_", foreign["asked"]).strip("_").upper() or "NAME"
    return _("Write ${{{name}}} and set {name} in .env of the state folder.").format(name=name)


def foreign_in(server: Mapping[str, object]) -> list[str]:
    """Return a line for each reference in the texts of `server` that only another program can fill in."""
    found = {each[0]: _instead(each) for each in _REFERENCE.finditer(repr(server))}
    return [f"{_(_FILLED_IN).format(reference=reference)} {hint}" for reference, hint in found.items() if hint]


def _value(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    """Return the value of the variable `name`, `default` if it has none. Raises UnresolvedError if there is neither."""
    value = environ.get(name) or _PREDEFINED.get(name, lambda: default)()
    if value is None:
        hint = _("Set {name} in the environment or in .env of the state folder; $$ is a plain $.")
        raise UnresolvedError(_("the variable {name} is not set.").format(name=name), hint=hint.format(name=name))
    if is_secret_name(name):
        remember_secret(value)
    return value
