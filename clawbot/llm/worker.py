"""The worker process: litellm lives here and nowhere else, `python -m clawbot.llm.worker`.

It takes requests and sends reports (`llm.frames`) over the pipes of `clawbot.worker_pipe`, or a reusable one over the
sockets of `llm.worker_reuse`. Whatever a library prints goes to stderr, which the parent logs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import threading
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

from clawbot.collector import collecting_later
from clawbot.llm.failures import CLIENT_FAULT, Failure
from clawbot.llm.frames import (
    Alive,
    CallFailed,
    CancelCall,
    Complete,
    Deltas,
    Embed,
    Embedded,
    Ended,
    Request,
    WorkerReady,
    request_decoder,
)
from clawbot.llm.tokens import vocabulary_folder
from clawbot.llm.vectors import Rows
from clawbot.llm.worker_reuse import REUSABLE, Take, WorkerHost, first_client
from clawbot.worker_pipe import FrameWriter, claim_pipes, serve_frames

if TYPE_CHECKING:
    from clawbot.llm.engine import LiteLLMEngine

COALESCE_SECONDS = 0.015
"""Deltas that come faster than this share a frame: each frame costs the reader, and the screen has 12 a second."""
ROWS_BYTES = 4 * 1024**2
"""Vectors are sent in blocks of about this size, so that the reader's screen does not wait for the copy of all."""
UNUSED_PARTS = "openai.resources"
"""A package whose `__init__` imports 430 modules of OpenAI's SDK, of which a chat needs six."""
BEAT_SECONDS = 15.0
"""How often the worker reports that a call goes on; more often where a model may be silent for less than twice that."""
_NICE_WHILE_LOADING = 10
_logger = logging.getLogger("clawbot.llm.worker")


class CallReports:
    """The reports of one call: gathers its chunks and sends them a few times a second, the first one at once."""

    def __init__(self, send: Take, call_id: int) -> None:
        self._report = send
        self._id = call_id
        self._chunks: list[dict[str, Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        self._unsendable: Exception | None = None
        self.started = False

    def keep_alive(self, seconds: float) -> None:
        """Report every `seconds` that the call goes on, until `close`."""
        self._report(Alive(self._id))
        self._beat = asyncio.get_running_loop().call_later(seconds, self.keep_alive, seconds)

    def close(self) -> None:
        if self._beat is not None:
            self._beat.cancel()

    def add(self, chunk: dict[str, Any]) -> None:
        """Add a chunk; text is joined to text. Raises the error that blocked earlier ones."""
        self.started = self.started or "prompt_progress" not in chunk
        if not (self._chunks and _join(self._chunks[-1], chunk)):
            self._chunks.append(chunk)
        loop = asyncio.get_running_loop()
        due = self._sent_at + COALESCE_SECONDS
        if loop.time() >= due:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_at(due, self._send)

    def add_rows(self, rows: Rows) -> None:
        for data in rows.blocks(ROWS_BYTES):
            self._report(Embedded(self._id, rows.dimensions, data))

    def flush(self) -> None:
        """Send what is collected. Raises the first error of sending: an incomplete answer must not pass for a complete
        one."""
        self._send()
        if self._unsendable is not None:
            raise self._unsendable

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        chunks, self._chunks = self._chunks, []
        if not chunks or self._unsendable is not None:
            return
        try:
            self._report(Deltas(self._id, chunks))
        except (ValueError, OverflowError, TypeError) as error:
            self._unsendable = error
        self._sent_at = asyncio.get_running_loop().time()


def _join(last: dict[str, Any], chunk: dict[str, Any]) -> bool:
    """Append the text of `chunk` to `last` if both hold nothing else."""
    texts = [_only_text(last), _only_text(chunk)]
    for kind in ("content", "reasoning_content"):
        if all(text is not None and text.keys() == {kind} for text in texts):
            last["choices"][0]["delta"][kind] += chunk["choices"][0]["delta"][kind]
            return True
    return False


def _only_text(chunk: dict[str, Any]) -> dict[str, Any] | None:
    choices = chunk.get("choices")
    if chunk.keys() != {"choices"} or not choices or choices[0].keys() != {"delta"}:
        return None
    delta: dict[str, Any] = choices[0]["delta"]
    return delta


class Worker:
    """Serves the requests of one client, several at once. A pipe is blocking: a parent that does not read holds the
    models' streams back."""

    def __init__(self, send: Take, loaded: asyncio.Future[LiteLLMEngine]) -> None:
        """`loaded` gets the engine. Needs a running event loop."""
        self._send = send
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loaded = loaded
        self._loaded.add_done_callback(self._report_loaded)

    def _report_loaded(self, loaded: asyncio.Future[LiteLLMEngine]) -> None:
        if loaded.exception() is not None:
            _logger.error("every call will fail")
        self._send(WorkerReady())

    def take(self, request: Request) -> None:
        if isinstance(request, CancelCall):
            task = self._tasks.get(request.id)
            if task is not None:
                task.cancel()
            return
        task = asyncio.create_task(self._serve(request))
        self._tasks[request.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.id, None))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _serve(self, request: Complete | Embed) -> None:
        out = CallReports(self._send, request.id)
        engine: LiteLLMEngine | None = None
        try:
            engine = await asyncio.shield(self._loaded)
            try:
                await _perform(engine, request, out)
            finally:
                out.close()
                out.flush()
        except asyncio.CancelledError:
            self._send(Ended(request.id))
        except Exception as error:
            _logger.exception("call %d failed", request.id)
            if engine is None:
                failure = Failure(name=CLIENT_FAULT, message=f"litellm could not be loaded: {error!r}")
            else:
                failure = engine.failure_of(error, streaming=out.started)
            self._send(CallFailed(request.id, failure))
        else:
            self._send(Ended(request.id))


async def _perform(engine: LiteLLMEngine, request: Complete | Embed, out: CallReports) -> None:
    if isinstance(request, Complete):
        out.keep_alive(min(BEAT_SECONDS, request.arguments.get("timeout", math.inf) / 2))
        await engine.stream(request, out.add)
    else:
        out.add_rows(await engine.embed(request))


def _load_in_thread(loaded: asyncio.Future[LiteLLMEngine]) -> None:
    """Import litellm at low priority, so that the parent's screen remains smooth, and give `loaded` the engine."""
    loop = asyncio.get_running_loop()

    def load() -> None:
        if sys.platform == "linux":
            # A thread of its own, since a priority that was given away cannot be taken back.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE_WHILE_LOADING)
        try:
            # A quarter of the loading would be the search for garbage among a million live objects, and each later
            # one would hold up the streams for a tenth of a second.
            with collecting_later():
                defer_package(UNUSED_PARTS)
                from clawbot.llm.engine import LiteLLMEngine

                engine = LiteLLMEngine()
        except Exception as error:
            _logger.exception("litellm could not be loaded")
            loop.call_soon_threadsafe(loaded.set_exception, error)
        else:
            loop.call_soon_threadsafe(loaded.set_result, engine)

    threading.Thread(target=load, name="load-litellm", daemon=True).start()


def _prepare_environment() -> None:
    """Set what litellm and tiktoken read on import: no network, no `.env` files."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    # litellm would break off an answer that repeats itself, a long rule of dashes for instance.
    os.environ["REPEATED_STREAMING_CHUNK_LIMIT"] = str(2**31)
    folder = vocabulary_folder()
    if folder is not None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)


def defer_package(name: str) -> None:
    """Let the package `name` run when it is asked for a name, so that one module of it can be imported without all."""
    spec = find_spec(name)
    if spec is None or spec.loader is None or name in sys.modules:
        return
    loader, package = spec.loader, module_from_spec(spec)
    lock, begun = threading.RLock(), threading.Event()

    def run(attribute: str) -> Any:
        with lock:  # other threads wait until the package is complete; itself it may ask for what it has not yet
            if not begun.is_set():
                begun.set()
                loader.exec_module(package)
        if attribute in vars(package):
            return vars(package)[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    sys.modules[name] = package
    vars(package)["__getattr__"] = run


def _loading() -> asyncio.Future[LiteLLMEngine]:
    loaded: asyncio.Future[LiteLLMEngine] = asyncio.get_running_loop().create_future()
    _load_in_thread(loaded)
    return loaded


async def _serve() -> None:
    requests, reports = claim_pipes()
    _log_to(logging.StreamHandler(sys.stderr))
    worker = Worker(FrameWriter(reports).send, _loading())
    serve_frames(requests, request_decoder, asyncio.get_running_loop(), worker.take)
    await asyncio.Event().wait()


async def _serve_clients(first: socket.socket) -> None:
    """Serve `first` and later clients, until none has come for a while."""
    loaded = _loading()
    host = WorkerHost(lambda send: Worker(send, loaded))
    _log_to(_LogForwarder(host))
    await host.open(first)
    loaded.add_done_callback(lambda _: host.close() if loaded.exception() else None)
    await asyncio.Event().wait()


class _LogForwarder(logging.Handler):
    """Forwards log records to a client."""

    def __init__(self, host: WorkerHost) -> None:
        super().__init__()
        self._host = host
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._host.log, self.format(record))


def _log_to(handler: logging.Handler) -> None:
    logging.basicConfig(handlers=[handler], level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")


def main() -> None:
    """Run until the pipe closes; a reusable worker until it is idle."""
    # Ctrl+C in the terminal is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prepare_environment()
    # Before there is a loop, since it closes what it does not know.
    asyncio.run(_serve_clients(first_client()) if sys.argv[1:] == [REUSABLE] else _serve())


if __name__ == "__main__":
    main()
