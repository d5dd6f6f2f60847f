"""How a server is started: its environment, which holds nothing but the usual and what the settings name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from clawbot.config.env import UnresolvedError, resolve
from clawbot.config.schema_extensions import McpServer, McpSettings, check_url
from clawbot.mcp.frames import Start
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import remember_secret

USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")
"""What a program gets of the environment, with what begins with `LC_`. No key, no proxy (its address may hold one), and
nothing that makes a program load other code."""
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""More variables for the client process of an address, in capitals or not."""


def start_of(server: McpServer, common: McpSettings, environ: Mapping[str, str]) -> tuple[Start, dict[str, str]]:
    """How `server` is started, and the environment of its client process. Headers, and what
    `env` names as a secret, are kept out of the log from then on. Raises UnresolvedError."""
    usual = dict(_usual(environ))
    network = {name: value for name, value in environ.items() if name.upper() in NETWORK} if server.url else {}
    env = {name: resolve(value, environ) for name, value in server.env.items()}
    headers = {name: resolve(value.get_secret_value(), environ) for name, value in server.headers.items()}
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
        command=resolve(server.command, environ) if server.command else None,
        # A `$NAME` in a line of a shell is the shell's.
        args=tuple(resolve(text, environ, words=" " not in text) for text in server.args),
        cwd=resolve(str(server.cwd or Path.home()), environ),
        url=_address(server.url, environ) if server.url else None,
        headers=headers,
    )
    return start, usual | network


def _address(url: str, environ: Mapping[str, str]) -> str:
    try:
        return check_url(resolve(url, environ))
    except ValueError as error:
        raise UnresolvedError(f"{url}: expected {error}") from None


def _usual(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in environ.items() if name in USUAL or name.startswith("LC_"))
