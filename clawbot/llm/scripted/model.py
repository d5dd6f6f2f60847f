"""`script:FILE` as a model: the scripted engine as a provider of litellm's, in the worker process."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from clawbot.llm.client import ClientOptions, LiteLLMModel, Target
from clawbot.llm.errors import ModelError, RefusedError
from clawbot.llm.frames import CallFailed, CloseScript, Complete, OpenScript
from clawbot.llm.process import WorkerLostError
from clawbot.llm.protocol import ChatRequest, ModelInfo
from clawbot.llm.scripted import Script, ScriptEngine, ScriptUnused

PROVIDER = "script"
_numbers = itertools.count(1)
# What the worker says about a script has both sides in it, on lines of their own, and is shown as it is.
_OWN_WORDS = {"ScriptMismatch", "ScriptFileError"}


class ScriptModel(LiteLLMModel):
    """Plays one script. `aclose` raises when a request did not fit it, or when turns are left."""

    def __init__(self, script: Script, info: ModelInfo, options: ClientOptions) -> None:
        super().__init__(Target(ref=f"{PROVIDER}/{script.model}", model=script.model), info, options)
        self._script = script
        self._number: int | None = None

    async def _call(self, request: ChatRequest) -> Complete:
        if self._number is None:
            number = next(_numbers)
            await self._ask(OpenScript(await self.worker.next_id(), number, str(self._script.path)))
            self._number = number
        call = await super()._call(request)
        return replace(call, script=self._number)

    async def _ask(self, request: OpenScript | CloseScript) -> None:
        async for report in self.worker.reports(request):
            if isinstance(report, CallFailed):
                unused = report.failure.name == ScriptUnused.__name__
                raise ScriptUnused(report.failure.message) if unused else self._error(report)

    def _error(self, report: CallFailed) -> ModelError:
        if report.failure.name in _OWN_WORDS:
            return RefusedError(report.failure.message, provider=PROVIDER)
        return super()._error(report)

    async def aclose(self) -> None:
        """End the script. Raises RefusedError for a request that did not fit, ScriptUnused for turns that are left."""
        try:
            if self._number is None:
                ScriptEngine(self._script).finish()
            elif self.worker.pid is None:
                # Another process would be started, which knows nothing of the script.
                raise WorkerLostError
            else:
                await self._ask(CloseScript(await self.worker.next_id(), self._number))
        except WorkerLostError as error:
            raise RefusedError("the process that played the script ended.", provider=PROVIDER) from error
        finally:
            await super().aclose()
