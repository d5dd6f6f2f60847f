"""How a server is started: its environment, which holds nothing but the usual and what the settings name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clawbot.config.schema_mcp import McpServer, McpSettings
from clawbot.errors import ClawbotError
from clawbot.mcp.frames import Start
from clawbot.text.secrets import is_secret_name, remember_secret

USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")
"""What a program gets of the environment, with what begins with `LC_`. No key, no proxy (its address may hold one), and
nothing that makes a program load other code."""
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What the process that talks to an address gets besides, in capitals or not."""
_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


class UnsetVariableError(ClawbotError):
    """The settings name a variable that is not set."""


def start_of(server: McpServer, common: McpSettings, environ: Mapping[str, str]) -> tuple[Start, dict[str, str]]:
    """How `server` is started, and the environment of the process that talks to it. Headers, and what
    `env` names as a secret, are kept out of the log from then on. Raises UnsetVariableError."""
    usual = dict(_usual(environ))
    network = {name: value for name, value in environ.items() if name.upper() in NETWORK} if server.url else {}
    env = {name: _filled(value, environ) for name, value in server.env.items()}
    headers = {name: _filled(value.get_secret_value(), environ) for name, value in server.headers.items()}
    for name, value in env.items():
        if is_secret_name(name):
            remember_secret(value)
    for value in headers.values():
        remember_secret(value)
        remember_secret(value.removeprefix("Bearer "))
    start = Start(
        env=usual | env,
        seconds=common.start_timeout,
        max_message=common.max_message,
        max_tools=common.max_tools,
        command=server.command,
        args=tuple(_filled(text, environ) for text in server.args),
        cwd=str(server.cwd or Path.home()),
        url=server.url,
        headers=headers,
    )
    return start, usual | network


def _usual(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in environ.items() if name in USUAL or name.startswith("LC_"))


def _filled(text: str, environ: Mapping[str, str]) -> str:
    """`text` with `${NAME}` and `${NAME:-default}` replaced. Raises UnsetVariableError."""

    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found["name"]) or found["default"]
        if value is None:
            raise UnsetVariableError(
                f"the variable {found['name']} is not set",
                hint=f"Set {found['name']} in the environment or in .env of the state folder.",
            )
        return value

    return _REFERENCE.sub(value_of, text)
