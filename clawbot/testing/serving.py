"""The scripted server in a thread with a loop of its own, for tests with and without one."""

from __future__ import annotations

import asyncio
import threading

from clawbot.llm.script.server import serve_script
from clawbot.llm.scripted import ScriptEngine


class ServerThread:
    """Serves `engine` on a free port of loopback from its creation until `stop`. `url` is its address."""

    def __init__(self, engine: ScriptEngine) -> None:
        self.url = ""
        self._engine = engine
        self._ready = threading.Event()
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="scripted-llm", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop serving, cutting off replies that still run. Returns when the port is free."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with serve_script(self._engine) as served:
                self.url = served.url
                self._ready.set()
                await self._stopped.wait()
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()
