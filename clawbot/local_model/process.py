"""Keeps the server of one model running: starts it, registers it, restarts it when it dies, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.files import ensure_private_dir
from clawbot.local_model.gguf import read_head, window_for
from clawbot.local_model.machine import free_cores, free_memory, usable_cores
from clawbot.local_model.register import Running, add_running, alone, answers, is_there, read_running, remove_running
from clawbot.local_model.server import LOOPBACK, Answer, Failed, Order, Serving, answer_decoder
from clawbot.text.interface import _
from clawbot.text.secrets import remember_secret
from clawbot.worker_pipe import WorkerProcess, module_command

PACKAGE, EXTRA = "xllamacpp", "local"
MAX_DEATHS = 3
"""In a minute: a server that dies more often would die again."""
DEATH_SECONDS = 60.0
_logger = logging.getLogger(__name__)


class LocalModelError(ClawbotError):
    """The model of this machine can't be served."""


def is_installed() -> bool:
    """Return whether the extra is there that runs models."""
    return find_spec(PACKAGE) is not None


def demand_installed() -> None:
    """Raise LocalModelError with the command that installs the extra if it is missing. Blocks."""
    if not is_installed():
        raise LocalModelError(
            _("Local models need one package ({package}, up to 40 MB).").format(package=PACKAGE),
            hint=_("Install it with: {command}").format(command=install_command(EXTRA)),
        )


class ServerProcess:
    """The server of `file`, or that of another process for the same file.

    `window` None: what fits, up to 16,384 tokens. `port` 0: a free one, kept at a restart if it can be.
    `threads` None: as many as cores are free. `chat`: it ends with a chat.
    """

    def __init__(
        self,
        paths: Paths,
        file: Path,
        *,
        window: int | None = None,
        port: int = 0,
        threads: int | None = None,
        chat: bool = True,
    ) -> None:
        """Starts nothing. Needs a running event loop."""
        self._paths = paths
        self._file = file
        self._window = window
        self._wanted_port = self._port = port
        self._threads = threads
        self._chat = chat
        self._key = secrets.token_urlsafe(32)
        remember_secret(self._key)
        self._process: WorkerProcess[Answer] | None = None
        self._running: Running | None = None
        self._starting: asyncio.Task[Running] | None = None
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._closed = False
        self.over = asyncio.Event()
        """Set when it died too often or was closed, or by a caller that ends it."""

    @property
    def died_too_often(self) -> bool:
        """Whether the server died more often than it is restarted."""
        recent = asyncio.get_running_loop().time() - DEATH_SECONDS
        return len(self._deaths) == MAX_DEATHS and self._deaths[0] > recent

    def begin(self) -> None:
        """Start the server unless it runs, without waiting for it; `endpoint` raises what fails."""
        if self._running is None or self._process is None or self._process.ended.done():
            self._begun()

    def _begun(self) -> asyncio.Task[Running]:
        """Return the start that is under way, or a new one."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_note)
        return self._starting

    async def endpoint(self) -> Running:
        """The server once it answers; one that does not run is started. Raises LocalModelError, NoModelError, OSError.

        Who is cancelled while it waits does not stop the start.
        """
        process, running = self._process, self._running
        if process is not None and running is not None and process.pid == running.pid:
            if is_there(running.pid) and not process.ended.done():
                return running
            # It is gone, and its end was not reported yet.
            await asyncio.wait([process.ended])
        return await asyncio.shield(self._begun())

    async def revived(self, server: Running, *, refused: bool) -> Running | None:
        """Return what replaces `server`, which could not be reached; None when it answers after all. Where it
        `refused` the connection, the one that answers now was restarted at its address. Raises as `endpoint` does.
        """
        if await asyncio.to_thread(answers, server):
            return await self.endpoint() if refused else None
        if self._process is not None and self._process.pid == server.pid:
            self._process.kill()
            await asyncio.wait([self._process.ended])
        return await self.endpoint()

    async def close(self) -> None:
        """End the server."""
        self._closed = True
        self.over.set()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._let_go()

    def _of_others(self) -> Running | None:
        """The server of another process for the same file. What `model serve` has begun keeps its address: for that
        one there is no other."""
        if self._running is not None and not self._chat:
            return None
        found = [each for each in read_running(self._paths.local_file) if each.file == str(self._file)]
        return next((each for each in found if each.owner != os.getpid() and answers(each)), None)

    async def _start(self) -> Running:
        if (other := await asyncio.to_thread(self._of_others)) is not None:
            return other
        await asyncio.to_thread(demand_installed)
        await asyncio.to_thread(ensure_private_dir, self._paths.logs)
        register = self._paths.local_file
        lock = register.with_name(f"{register.name}.lock")
        # One loads at a time: chats that begin together get one server, and each sees the memory that is left.
        async with alone(lock):
            return await asyncio.to_thread(self._of_others) or await self._start_own()

    async def _start_own(self) -> Running:
        order = await asyncio.to_thread(self._order)
        await self._let_go()
        answer = await self._launch(order)
        if isinstance(answer, Failed) and self._port and not self._wanted_port:
            # Somebody else may have taken the port since.
            await self._let_go()
            self._port = 0
            answer = await self._launch(replace(order, port=0))
        if isinstance(answer, Failed):
            await self._let_go()
            raise LocalModelError(
                _("{file} can't be served: {problem}.").format(file=self._file, problem=answer.problem),
                hint=_("The log says more: {file}").format(file=self._paths.local_log),
            )
        return await self._write_down(answer, order.window)

    def _order(self) -> Order:
        """What the server is to do. Blocks."""
        if self._wanted_port:
            _demand_free(self._wanted_port)
        window = window_for(read_head(self._file), free_memory(), self._window)
        threads, readers = self._measure_cores()
        return Order(
            file=str(self._file),
            name=self._file.stem,
            window=window,
            port=self._port,
            key=self._key,
            log=str(self._paths.local_log),
            threads=threads,
            readers=readers,
        )

    def _measure_cores(self) -> tuple[int, int]:
        """How many threads answer, and how many read a prompt, which loses less by waiting; 0: the library knows."""
        usable = usable_cores()
        if self._threads is not None or usable is None:
            return self._threads or 0, self._threads or 0
        return free_cores(usable, os.getloadavg()[0], os.cpu_count() or usable), usable

    async def _launch(self, order: Order) -> Answer:
        """Start the process, and wait until the model is loaded or can't be."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def take(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._process = process = WorkerProcess(_logger, answer_decoder, take)
        await process.start(module_command("clawbot.local_model.server"))
        process.send(order)
        process.ended.add_done_callback(lambda ended: take(Failed(f"its process ended with status {ended.result()}")))
        return await answered

    async def _write_down(self, answer: Serving, window: int) -> Running:
        process = self._process
        if process is None or process.pid is None:
            raise LocalModelError("The server ended as soon as it had started.")
        self._port = answer.port
        running = Running(
            name=self._file.stem,
            file=str(self._file),
            base=f"http://{LOOPBACK}:{answer.port}/v1",
            key=self._key,
            window=window,
            pid=process.pid,
            owner=os.getpid(),
            chat=self._chat,
        )
        try:
            await asyncio.to_thread(add_running, self._paths.local_file, running)
        except OSError as error:
            await self._let_go()
            raise LocalModelError(
                f"{self._paths.local_file} can't be written: {error.strerror or error}.",
                hint="Every clawbot finds the server by it. Make room or mend that, then try again.",
            ) from error
        self._running = running
        process.ended.add_done_callback(self._died)
        return running

    def _died(self, ended: asyncio.Future[int]) -> None:
        """Restart it, unless it died too often."""
        if self._closed:
            return
        self._deaths.append(asyncio.get_running_loop().time())
        enough = self.died_too_often
        more = "" if enough else "; it is restarted"
        _logger.warning("the server of %s ended with status %d%s", self._file.stem, ended.result(), more)
        if enough:
            self.over.set()
        else:
            self.begin()

    async def _let_go(self) -> None:
        process, self._process = self._process, None
        running, self._running = self._running, None
        if running is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_running, self._paths.local_file, running.pid)
        if process is not None:
            await process.close()


def _demand_free(port: int) -> None:
    """Raises LocalModelError when another program listens at `port` of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise LocalModelError(
                f"Port {port} of {LOOPBACK} can't be had: {error.strerror}.",
                hint="Choose another one, or leave --port out.",
            ) from error


def _note(task: asyncio.Task[Running]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.warning("the local model can't be served: %s", error)


_processes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, tuple[ServerProcess, int]]] = WeakKeyDictionary()


def acquire_process(paths: Paths, file: Path) -> ServerProcess:
    """Return the process of `file` in this event loop, for `release_process` at the end. Starts nothing."""
    kept = _processes.setdefault(asyncio.get_running_loop(), {})
    process, users = kept.get(file) or (ServerProcess(paths, file), 0)
    kept[file] = (process, users + 1)
    return process


async def release_process(file: Path) -> None:
    """Release the process of `file`; its server ends with the last user."""
    kept = _processes.setdefault(asyncio.get_running_loop(), {})
    process, users = kept[file]
    if users > 1:
        kept[file] = (process, users - 1)
        return
    del kept[file]
    await process.close()
