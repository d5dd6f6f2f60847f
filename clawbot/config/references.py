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
from clawbot.text.interface import _
from clawbot.text.secrets import is_secret_name, remember_secret

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = rf"(?<![\w$])\$(?P<word>[A-Z_][A-Z0-9_]+)(?!\w)|\A\$(?P<alone>{_NAME})\Z"
_REFERENCE = re.compile(
    rf"\$(?P<plain>\$)|\$\{{(?P<body>[^{{}}\n]{{1,200}})\}}|\{{(?P<braces>(?:env|file):[^{{}}\n]{{1,200}})\}}"
    rf"|\A(?:os\.environ/)(?P<litellm>{_NAME})\Z|{_WORD}"
)
_BODY = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?")
# What VS Code, Cursor and opencode fill in themselves.
_FOREIGN = re.compile(r"(?:input|command|config|secret|file|workspaceFolder):.*|/")
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
        if name and (words or not (found["word"] or found["alone"])):
            return _value(name, default, environ)
        if name or not _FOREIGN.fullmatch(found["body"] or found["braces"]):
            return found[0]  # also `${NAME%.*}` of a shell, `${a.b}` of a template
        reference = _("{reference} is filled in by another program only").format(reference=found[0])
        raise UnresolvedError(reference, hint=_("Write ${NAME} and set NAME; $$ is a plain $."))

    return _REFERENCE.sub(value_of, text)


def _value(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    """The value of the variable `name`, `default` if it has none. Raises UnresolvedError if there is neither."""
    usual = str(Path.home()) if name == "userHome" else default  # of VS Code and Cursor
    value = environ.get(name) or usual
    if value is None:
        hint = _("Set {name} in the environment or in .env of the state folder; $$ is a plain $.")
        raise UnresolvedError(_("the variable {name} is not set").format(name=name), hint=hint.format(name=name))
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
            problems.append(ConfigProblem(layer.marks[path].place, dotted(path), f"{error.message}. {error.hint}"))
            return value

    data = {key: walk(value, (key,)) for key, value in layer.data.items()}
    return Layer(data, layer.marks), problems, data != layer.data
