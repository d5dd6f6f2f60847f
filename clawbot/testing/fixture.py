"""What the fixture `scripted_llm` gives: one script, reached in three ways (in the test's process, over HTTP from a
thread of its own, by a file), and checked at the end of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clawbot.clock import Clock, SystemClock, epoch_ms
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import ModelError
from clawbot.llm.failures import Failure, to_error
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptedFault, ScriptEngine, load_script
from clawbot.llm.scripted.server import serve_script
from clawbot.llm.wire import to_openai


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


PROVIDER = "script"


class ScriptedModel:
    """Answers with the turns of `engine`, through the same spelling of requests and the same collecting of pieces as
    a real model.

    Faults come out as the `llm.errors` that a real provider's would, each at once: nothing is tried again here. A
    request that does not fit the script raises ScriptMismatch. `requests` holds what the loop asked, in order.
    """

    def __init__(self, engine: ScriptEngine, *, clock: Clock | None = None) -> None:
        self.engine = engine
        self.requests: list[ChatRequest] = []
        self._clock = clock or SystemClock()
        self._ref = f"{PROVIDER}:{engine.script.path}"

    @property
    def info(self) -> ModelInfo:
        """The script's file, model name and window."""
        window = self.engine.script.window
        source = "from the script" if window else ""
        return ModelInfo(ref=self._ref, reason="scripted", window=window, window_source=source)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` with the next turn of the script."""
        self.requests.append(request)
        model = self.engine.script.model
        collector = DeltaCollector(provider=PROVIDER, model=model, timestamp=epoch_ms(self._clock.now()))
        body = {"model": model, **to_openai(request)}
        shown = False
        async with contextlib.aclosing(self.engine.reply(body)) as chunks:
            try:
                async for chunk in chunks:
                    for part in collector.feed(chunk):
                        shown = True
                        yield part
            except ScriptedFault as fault:
                raise self._error(fault, streaming=shown) from fault
        for last in collector.finish():
            yield last

    async def warm(self) -> None:
        """Nothing has to be loaded."""

    async def aclose(self) -> None:
        """Raise ScriptMismatch or ScriptUnused when the script was not followed to its end."""
        self.engine.finish()

    def _error(self, fault: ScriptedFault, *, streaming: bool) -> ModelError:
        failure = Failure(
            name="APIConnectionError" if fault.kind == "drop" else "",
            message=fault.message,
            status=fault.status,
            retry_after=fault.headers.get("Retry-After", ""),
            streaming=streaming,
        )
        return to_error(failure, ref=f"{PROVIDER}/{self.engine.script.model}", now=self._clock.now())


Turns = Sequence[Mapping[str, Any]]


class ScriptedLLM:
    """One script for a test, read from `path`. `model` and `serve()` share one engine and its turns.

    What `ref` names is played where the model is opened, maybe in another process: closing that model is what raises
    for unmet expectations and unused turns there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = ScriptEngine(load_script(path))
        self.model = ScriptedModel(self.engine)
        self._named = False
        self._server: ServerThread | None = None

    @property
    def ref(self) -> str:
        """The model's name in settings: `script:FILE`."""
        self._named = True
        return f"script:{self.path}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What `model` and the server were asked, as OpenAI chat requests, in order."""
        return self.engine.requests

    def serve(self) -> str:
        """Serve the script on loopback until the test ends. The address goes into `api_base`."""
        if self._server is None:
            self._server = ServerThread(self.engine)
        return self._server.url

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def problems(self) -> list[str]:
        """What did not fit and what was left; nothing for a script that was reached by its `ref` alone."""
        if self._named and not self.requests:
            return []
        return [problem.message for problem in self.engine.problems()]


def scripted(source: str | Path | Turns, folder: Path) -> ScriptedLLM:
    """Make a script from turns, from YAML text (several lines) or from a file; the first two are kept in `folder`."""
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return ScriptedLLM(Path(source).resolve())
    path = folder / f"script-{len(list(folder.glob('script-*.yaml'))) + 1}.yaml"
    path.write_text(source if isinstance(source, str) else _as_yaml(source), encoding="utf-8")
    return ScriptedLLM(path)


def _as_yaml(turns: Turns) -> str:
    plain = json.loads(json.dumps({"turns": list(turns)}))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=float("inf"))
