"""`clawbot serve`: the agents over HTTP, and the token for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from clawbot.cli.output import echo, listening, warn
from clawbot.config.paths import Paths, find_home
from clawbot.signals import asked_to_end


@click.group(
    name="serve", invoke_without_command=True, short_help="Serve the agents over HTTP; print the token for it."
)
@click.option("--host", metavar="H", help="The address to listen on (default: serve.host, 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one (default: serve.port).")
@click.option("--agent", metavar="ID", help="The agent for those who name none (default: main).")
@click.option("--model", metavar="M", help="The model of that agent: auto, offline, provider/model or script:FILE.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Use this config file.")
@click.option("--workspace", type=click.Path(path_type=Path), help="The workspace of that agent.")
@click.option("--web", is_flag=True, help="Show the screen in a browser too, behind the token.")
@click.pass_context
def command(ctx: click.Context, /, *, host: str | None, port: int | None, web: bool, **chosen: Any) -> None:
    """Serve the agents over HTTP: chats in OpenAI's protocol, and tools.

    Prints its address, and runs until Ctrl+C or SIGTERM; running answers may finish.
    """
    if ctx.invoked_subcommand is not None:
        return
    asyncio.run(_serve(chosen, host, port, screen=_screen_arguments(chosen) if web else None))


def _screen_arguments(chosen: Mapping[str, Any]) -> list[str]:
    """Return the same choices as arguments of `clawbot chat`."""
    named = {f"--{name.removesuffix('_file')}": value for name, value in chosen.items()}
    return [word for name, value in named.items() if value is not None for word in (name, str(value))]


@command.command()
@click.option("--rotate", is_flag=True, help="Make a new one first; the old one is no longer accepted.")
def token(*, rotate: bool) -> None:
    """Print the token that clients send as `Authorization: Bearer TOKEN`."""
    from clawbot.token import load_token, rotate_token

    paths = Paths(find_home())
    paths.ensure_home()
    echo((rotate_token if rotate else load_token)(paths.serve_token))


async def _serve(chosen: Mapping[str, Any], host: str | None, port: int | None, screen: list[str] | None) -> None:
    from clawbot.plugins.serve.server import serving
    from clawbot.runtime import RuntimeOptions

    stopped = asked_to_end()
    with listening("The server can't listen there", "Choose another --port or --host."):
        async with serving(RuntimeOptions(**chosen), host=host, port=port, screen=screen) as served:
            echo(f"serving on {served.url}")
            if screen is not None:
                warn(f"the screen is on {served.url} too; it asks for the token (clawbot serve token).")
            await stopped.wait()
            warn("ending; running answers may finish.")
            await served.drain()
