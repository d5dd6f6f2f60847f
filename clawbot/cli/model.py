"""`clawbot model`: get, serve and choose models of this machine. The work is done in `local_model/`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from clawbot.cli.output import answer, config_option, draw, echo, echo_error, json_option, print_json
from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.llm.worker_reuse import end_reusable_worker
from clawbot.local_model.gguf import read_head, shown_size
from clawbot.local_model.machine import total_memory
from clawbot.local_model.process import EXTRA, ServerProcess, demand_installed, is_installed
from clawbot.local_model.register import Running, answers, read_running
from clawbot.local_model.store import LOCAL, OFFERS, SUFFIX, ModelStore
from clawbot.signals import ASKED, on_signals


@click.group(name="model")
def command() -> None:
    """Get a model that runs on this machine; serve it."""


def _home() -> tuple[Paths, ModelStore]:
    paths = Paths(find_home())
    return paths, ModelStore(paths.models)


@command.command(name="list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models that are here, and those that can be had by name."""
    paths, store = _home()
    served = {running.name for running in read_running(paths.local_file)}
    here = {name: path.stat().st_size for name, path in store.files().items()}
    memory = total_memory()
    offers = [{"name": offer.name, "machineGb": offer.machine, "licence": offer.licence} for offer in OFFERS]
    models = [{"name": name, "bytes": size, "served": name in served} for name, size in here.items()]
    if as_json:
        print_json({"folder": str(store.folder), "installed": is_installed(), "models": models, "offers": offers})
        return
    rows = store.offers(memory)
    for row in (each for each in rows if each.here):
        echo(f"{LOCAL}{row.name}  {row.detail}{', served' if row.name in served else ''}")
    if not here:
        echo(f"There is no model in {store.folder} yet.")
    echo("")
    echo(f"To be had with `clawbot model pull NAME` (this machine: {shown_size(memory)} of memory):")
    for row in (each for each in rows if not each.here):
        echo(f"  {row.name:<12} {row.detail}{' (recommended)' if row.best else ''}")
    if not is_installed():
        echo(f"To run one, install what serves it: {install_command(EXTRA)}")


@command.command()
@click.argument("source", metavar="NAME|URL")
@click.option("--name", help="What to call it here.")
@click.option("--sha256", metavar="HEX", help="What its SHA-256 must be.")
def pull(source: str, name: str | None, sha256: str | None) -> None:
    """Get a model: a NAME of the list, or any http, https or file URL of a .gguf file.

    What was cut off goes on where it was. The hash of the first time is kept, and later ones are checked by it.
    """
    from clawbot.local_model.pull import pull as get
    from clawbot.local_model.pull import source_for

    _, store = _home()
    wanted = source_for(source, store, name=name, sha256=sha256)
    known = get(wanted, store, _Meter(wanted.name))
    if sys.stderr.isatty():
        draw(sys.stderr)
    echo(f"{LOCAL}{wanted.name} is here: {shown_size(known.size)}, SHA-256 {known.sha256}")
    if not is_installed():
        echo_error(f"To run it, install what serves it: {install_command(EXTRA)}")
    echo_error(f"Chat with it: clawbot --model {LOCAL}{wanted.name}, or always: clawbot model use {wanted.name}")


class _Meter:
    """Shows on a terminal how much is there, once for each per cent."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = ""

    def __call__(self, done: int, size: int | None) -> None:
        """`done` bytes of `size` are there."""
        if not sys.stderr.isatty():
            return
        share = f" {done * 100 // size} % of {shown_size(size)}" if size else f" {shown_size(done)}"
        if share != self._shown:
            self._shown = share
            draw(sys.stderr, f"{self._name}:{share}")


@command.command()
@click.argument("file", metavar="FILE.gguf|NAME")
@click.option("--ctx", type=click.IntRange(512), metavar="N", help="The window in tokens (up to 16,384 that fit).")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; 0 takes a free one.")
@click.option("--threads", type=click.IntRange(1, 1024), metavar="N", help="The threads (as many as cores are free).")
def serve(file: str, ctx: int | None, port: int, threads: int | None) -> None:
    """Serve a model on loopback until Ctrl+C, SIGTERM or `clawbot model stop`.

    It asks for a key, which is in local.json of the home, where `auto` finds both. A server that dies is restarted.
    """
    paths, store = _home()
    path = Path(file).expanduser().absolute() if Path(file).suffix == SUFFIX or "/" in file else store.find(file)
    read_head(path)
    demand_installed()
    sys.exit(asyncio.run(_serve(paths, path, window=ctx, port=port, threads=threads)))


async def _serve(paths: Paths, path: Path, *, window: int | None, port: int, threads: int | None) -> int:
    server = ServerProcess(paths, path, window=window, port=port, threads=threads, chat=False)
    on_signals(ASKED, lambda _: server.over.set())
    serving = asyncio.create_task(_until_over(paths, server))
    try:
        await server.over.wait()
        if not serving.done():
            return 0
        served = await serving
        if server.died_too_often:
            raise ClawbotError(
                f"The server of {served.name} died again and again.", hint=f"See the log: {paths.local_log}"
            )
        return 0
    finally:
        serving.cancel()
        await server.close()


async def _until_over(paths: Paths, server: ServerProcess) -> Running:
    """Start, and print the address."""
    try:
        running = await server.endpoint()
    except BaseException:
        server.over.set()
        raise
    if running.owner != os.getpid():
        server.over.set()
        raise ClawbotError(f"{running.name} is served already on {running.base}.", hint="End that: clawbot model stop")
    echo(
        f"serving {running.name} on {running.base} (window {running.window:,} tokens; the key is in {paths.local_file})"
    )
    echo_error("Chat with it in another terminal: clawbot. Ctrl+C ends it.")
    return running


@command.command()
@json_option
def status(as_json: bool) -> None:
    """List the models that are served here. Exits with 1 when none answers."""
    paths, _ = _home()
    found = [(running, answers(running)) for running in read_running(paths.local_file)]
    lines = [
        f"{LOCAL}{running.name} on {running.base}, {running.window:,} tokens, "
        f"by {'a chat' if running.chat else 'clawbot model serve'}: {'answers' if alive else 'does not answer'}"
        for running, alive in found
    ]
    answer(as_json, [_shown(running, alive) for running, alive in found], lines or ["No model is served here."])
    sys.exit(0 if any(alive for _, alive in found) else 1)


def _shown(running: Running, alive: bool) -> dict[str, object]:
    """Return all but the key."""
    names = ("name", "file", "base", "window", "pid", "chat")
    return {name: getattr(running, name) for name in names} | {"answers": alive}


@command.command()
@click.argument("name", required=False)
def stop(name: str | None) -> None:
    """Stop serving NAME, or all models. A chat keeps its own until it ends.

    Without NAME also ends the process that `clawbot chat -p` left to call models.
    """
    paths, _ = _home()
    wanted = (name or "").removeprefix(LOCAL)
    found = [each for each in read_running(paths.local_file) if not wanted or each.name == wanted]
    left = None if wanted else end_reusable_worker()
    if left is not None:
        echo(f"What calls models ends when its calls are over{f' (process {left})' if left else ''}.")
    elif not found:
        raise ClawbotError(f"{wanted or 'No model'} is {'not ' if wanted else ''}served here.")
    for running in found:
        # Only while its server answers: the number of a process may belong to another one by now.
        if running.chat:
            echo(f"{running.name} is served by a chat, and ends with it (process {running.owner}).")
        elif answers(running):
            os.kill(running.owner, signal.SIGTERM)
            echo(f"{running.name} is being stopped.")
        else:
            echo(f"{running.name} does not answer: if process {running.owner} is a clawbot, end that.")


@command.command()
@click.argument("name")
@click.option("--agent", metavar="ID", help="The agent to use (default: main).")
@click.option("--session", metavar="KEY", help="Which conversation (default: main).")
@config_option
def use(name: str, agent: str | None, session: str | None, file: Path | None) -> None:
    """Let the model NAME answer from now on: in the conversation, as `/model` does."""
    _, store = _home()
    model = store.find(name.removeprefix(LOCAL))
    demand_installed()
    from clawbot.cli.one_turn import run_one_turn
    from clawbot.runtime import RuntimeOptions

    options = RuntimeOptions(config_file=file, agent=agent, session=session).unattended()
    sys.exit(asyncio.run(run_one_turn(options, f"/model {LOCAL}{model.stem}", as_json=False)))
