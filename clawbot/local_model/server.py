"""The child process that serves a model with llama.cpp, `python -m clawbot.local_model.server`; `process.py` starts it.
It ends with the pipe to its parent, which also brings what to serve and the key: no list of processes shows it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from clawbot.files import PRIVATE_FILE
from clawbot.worker_pipe import FrameWriter, claim_pipes, serve_frames

LOOPBACK = "127.0.0.1"
LARGEST_LOG = 2 * 1024**2
"""Bytes. A longer one is set aside when the next server starts."""
PROMPTS_MIB = 256
"""Memory for the ends of conversations that are not active. The library's own figure is 8 GB."""
BATCH = 256
"""Tokens of a prompt that are read at once: after each batch progress is reported, and a closed connection noticed."""
BROKEN = "llama.cpp can't load it"


class Order(Struct, frozen=True, tag="order"):
    """What is to be served: `window` in tokens, `port` 0 for a free one. An answer is made by so many `threads`, a
    prompt read by so many `readers`; 0: as many as the library likes."""

    file: str
    name: str
    window: int
    port: int
    key: str
    log: str
    threads: int = 0
    readers: int = 0


class Serving(Struct, frozen=True, tag="serving"):
    """The server answers at `port`."""

    port: int


class Failed(Struct, frozen=True, tag="failed"):
    """It does not, because of `problem`, half a sentence."""

    problem: str


Answer = Serving | Failed
order_decoder = msgspec.msgpack.Decoder(Order)
answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def main() -> None:
    """Serve what the first frame orders, until the pipe closes."""
    # Ctrl+C in the terminal is for the owner to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_run())


async def _run() -> None:
    requests, reports = claim_pipes()
    orders: asyncio.Queue[Order] = asyncio.Queue()
    serve_frames(requests, order_decoder, asyncio.get_running_loop(), orders.put_nowait)
    order = await orders.get()
    _print_to(Path(order.log))
    server, answer = await asyncio.to_thread(_start, order)
    FrameWriter(reports).send(answer)
    if server is not None:
        await asyncio.Event().wait()


def _print_to(log: Path) -> None:
    """Let the library's words, and a crash's, go to the file `log`; where it can't be made, to the log of clawbot."""
    try:
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            log.replace(log.with_name(f"{log.name}.1"))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        logging.getLogger(__name__).warning("%s: %s", log, error.strerror)
        return
    os.dup2(handle, 1)
    os.dup2(handle, 2)


def _start(order: Order) -> tuple[object | None, Answer]:
    """Return the server, which runs as long as it is held, and its description. Blocks while the model is loaded."""
    try:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = order.file
        params.model_alias = {order.name}
        params.n_ctx = order.window
        params.n_parallel = 1
        params.cache_ram_mib = PROMPTS_MIB
        params.n_batch = BATCH
        params.cpuparams.n_threads = order.threads or params.cpuparams.n_threads
        params.cpuparams_batch.n_threads = order.readers or params.cpuparams_batch.n_threads
        params.hostnames = [LOOPBACK]
        params.port = order.port
        params.api_keys = [order.key]
        params.ui = False
        params.endpoint_slots = False
        server = xllamacpp.Server(params)
        return server, Serving(urlsplit(server.listening_address).port or order.port)
    except RuntimeError:
        # The library's only message for any failure; its own words are in the log.
        return None, Failed(BROKEN)
    except (ImportError, AttributeError, TypeError) as error:
        return None, Failed(f"the xllamacpp that is installed does not fit: {error}")


if __name__ == "__main__":
    main()
