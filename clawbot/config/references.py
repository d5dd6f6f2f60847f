"""References to environment variables in settings and MCP files, in the spellings of several programs.

`${NAME}`, `${NAME:-default}` and `$NAME` (shells), `${env:NAME}` (VS Code, Cursor), `{env:NAME}` (opencode),
`os.environ/NAME` (LiteLLM). `$$` is a plain `$`. What only another program can fill in (`${input:key}`) is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from clawbot.config.errors import ConfigProblem
from clawbot.config.source import KeyPath, Layer, dotted
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import remember_secret

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = rf"(?<![\w$])\$(?P<word>[A-Z_][A-Z0-9_]+)(?!\w)|\A\$(?P<alone>{_NAME})\Z"
_REFERENCE = re.compile(
    rf"\$(?P<plain>\$)|\$\{{(?P<body>[^{{}}\n]{{1,200}})\}}|\{{(?P<braces>(?:env|file):[^{{}}\n]{{1,200}})\}}"
    rf"|\A(?:os\.environ/)(?P<litellm>{_NAME})\Z|{_WORD}"
)
_BODY = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?")
# What VS Code, Cursor and opencode fill in themselves: what they ask for or keep, and the files that they have open.
_FOREIGN = re.compile(
    r"(?:input|command|config|secret|file):(?P<asked>.*)|(?:workspace(?:Folder|Root)|file|relativeFile|cwd)\w*(?::.*)?"
)
_FILLED_IN = N_("{reference} is filled in by another program only.")
_PREDEFINED: dict[str, Callable[[], str]] = {"userHome": lambda: str(Path.home()), "pathSeparator": lambda: "/"}
_SIGNS = ("$", "{env:", "{file:", "os.environ/")
# Texts for the model, where `$NAME` may be part of what is said; and commands, which are compared to the byte.
_TEXTS = ("prompt", "system_prompt", "placeholder")
_COMMANDS = ("allow", "network", "ask", "deny")


class UnresolvedError(ClawbotError):
    """A reference that can't be resolved: the variable is not set, or only another program knows what is meant."""


def name_in(text: str) -> str:
    """The variable whose value `text` is, "" if it is anything else."""
    found = _REFERENCE.fullmatch(text.strip())
    name, default = _variable(found) if found else ("", None)
    return name if default is None else ""


def _variable(found: re.Match[str]) -> tuple[str, str | None]:
    """The variable that a reference names, and its default; "" for none."""
    if body := _BODY.fullmatch(found["body"] or found["braces"] or ""):
        return body["name"], body["default"]
    return found["litellm"] or found["word"] or found["alone"] or "", None


def resolve(text: str, environ: Mapping[str, str], *, words: bool = True) -> str:
    """`text` with its references replaced by the values in `environ`; without `words`, `$NAME` stays.

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
    """A line for each reference in the texts of `server` that only another program can fill in."""
    found = {each[0]: _instead(each) for each in _REFERENCE.finditer(repr(server))}
    return [f"{_(_FILLED_IN).format(reference=reference)} {hint}" for reference, hint in found.items() if hint]


def _value(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    """The value of the variable `name`, `default` if it has none. Raises UnresolvedError if there is neither."""
    value = environ.get(name) or _PREDEFINED.get(name, lambda: default)()
    if value is None:
        hint = _("Set {name} in the environment or in .env of the state folder; $$ is a plain $.")
        raise UnresolvedError(_("the variable {name} is not set.").format(name=name), hint=hint.format(name=name))
    if is_secret_name(name):
        remember_secret(value)
    return value


def resolve_layer(layer: Layer, environ: Callable[[], Mapping[str, str]]) -> tuple[Layer, list[ConfigProblem], bool]:
    """`layer` with the references in its strings resolved, a problem for each that can't be, and whether there were
    any. MCP servers are left to their start. `environ` is called if there is a reference. Blocks."""
    problems: list[ConfigProblem] = []

    def walk(value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return value if path[-1] in _COMMANDS else [walk(item, (*path, at)) for at, item in enumerate(value)]
        if not isinstance(value, str) or path[:2] == ("mcp", "servers") or not any(sign in value for sign in _SIGNS):
            return value
        try:
            return resolve(value, environ(), words=path[-1] not in _TEXTS)
        except UnresolvedError as error:
            problems.append(ConfigProblem(layer.marks[path].place, dotted(path), str(error)))
            return value

    data = {key: walk(value, (key,)) for key, value in layer.data.items()}
    return Layer(data, layer.marks), problems, data != layer.data
