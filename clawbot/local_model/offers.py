"""The models of this machine for a front end: which are here, which can be had, and the download of one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from clawbot import extras
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.local_model.gguf import shown_size
from clawbot.local_model.machine import total_memory
from clawbot.local_model.process import EXTRA, LocalModelError, demand_installed
from clawbot.local_model.pull import pull, source_for
from clawbot.local_model.register import read_running
from clawbot.local_model.store import LocalOffer, ModelStore
from clawbot.text.interface import _


class LocalModels:
    """See LocalModelsApi."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._store = ModelStore(paths.models)

    @property
    def problem(self) -> str:
        try:
            demand_installed()
        except LocalModelError as error:
            return str(error)
        return ""

    @property
    def memory(self) -> str:
        return shown_size(total_memory())

    async def install(self, progress: Callable[[str], None]) -> None:
        await extras.install(EXTRA, progress)

    async def offers(self) -> list[LocalOffer]:
        return await asyncio.to_thread(self._offers)

    def _offers(self) -> list[LocalOffer]:
        here = self._store.files()
        served = [running.name for running in read_running(self._paths.local_file) if running.name not in here]
        return [*(LocalOffer(name, True, _("is served here")) for name in served), *self._store.offers(total_memory())]

    async def pull(self, name: str, watch: Callable[[int, int | None], None]) -> None:
        if any(each.here and each.name == name for each in await self.offers()):
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        left = threading.Event()

        def seen(there: int, size: int | None) -> None:
            if left.is_set():
                raise ClawbotError(_("The download was stopped."))
            loop.call_soon_threadsafe(watch, there, size)

        def settle(error: ClawbotError | OSError | None) -> None:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        def work() -> None:
            # The program may end while a server says nothing: then the loop is gone.
            with contextlib.suppress(RuntimeError):
                try:
                    pull(source_for(name, self._store), self._store, seen)
                except (ClawbotError, OSError) as error:
                    loop.call_soon_threadsafe(settle, error)
                else:
                    loop.call_soon_threadsafe(settle, None)

        # Not of the pool, whose threads the end of the program waits for.
        threading.Thread(target=work, name="pull-model", daemon=True).start()
        try:
            await done
        finally:
            left.set()
