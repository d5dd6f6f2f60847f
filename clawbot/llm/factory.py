"""Opens a model by the name that stands in the settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clawbot.clock import Clock
from clawbot.llm.catalogue import look_up
from clawbot.llm.client import ClientOptions, LiteLLMModel, Target
from clawbot.llm.errors import RefusedError
from clawbot.llm.fallback import FallbackModel
from clawbot.llm.models import AUTO, OFFLINE, SCRIPT, Found, capped, describe, is_own, normal_ref, resolve_auto
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.llm.providers import OLLAMA, key_names, local_server
from clawbot.llm.retry import RetryPolicy
from clawbot.llm.script.model import ScriptModel
from clawbot.llm.scripted import Script, load_script

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


async def open_model(ref: str, settings: AgentSettings, *, clock: Clock, log_path: Path | None = None) -> ChatModel:
    """The model `ref` (`auto`, `offline`, `provider/model`, `script:FILE`), with the fallbacks of the settings.

    Nothing heavy is loaded by it; `warm` or the first call do that. `log_path` is named by errors of the worker
    process. Raises RefusedError for a name that is none, ScriptFileError for a script that cannot be read.
    """
    opener = _Opener(settings, clock, log_path)
    models: list[ChatModel] = []
    try:
        for name in (ref, *settings.fallbacks):
            model = await opener.open(name)
            models.append(model)
    except BaseException:
        await asyncio.gather(*(model.aclose() for model in models), return_exceptions=True)
        raise
    return models[0] if len(models) == 1 else FallbackModel(models, clock)


class _Opener:
    """Opens models with the same settings."""

    def __init__(self, settings: AgentSettings, clock: Clock, log_path: Path | None) -> None:
        self._settings = settings
        self._clock = clock
        retries = settings.retries
        policy = RetryPolicy(retries.attempts, retries.first_wait, retries.max_wait)
        self._options = ClientOptions(clock, policy, settings.request_timeout, log_path)

    async def open(self, ref: str) -> ChatModel:
        """One model, without fallbacks."""
        if ref.startswith(SCRIPT):
            return await self._script(ref.removeprefix(SCRIPT))
        if ref == AUTO:
            found = await resolve_auto(self._settings)
        elif ref == OFFLINE:
            return OfflineModel(self._clock)
        else:
            found = await describe(self._full_ref(ref), self._settings)
        if found.info.ref == OFFLINE:
            return OfflineModel(self._clock, reason=found.info.reason)
        return await self._litellm(found)

    def _full_ref(self, ref: str) -> str:
        if "/" in ref.strip("/"):
            return ref
        if self._settings.api_base and ref:
            return f"openai/{ref}"
        raise RefusedError(
            f"`{ref}` is no model.",
            hint="Write auto, offline, provider/model (openai/gpt-6.1-sol, ollama_chat/qwen3) or script:FILE.yaml.",
        )

    async def _litellm(self, found: Found) -> LiteLLMModel:
        target = self._target(found)
        facts = (await asyncio.to_thread(look_up, [target.ref]))[target.ref]
        return LiteLLMModel(target, found.info, self._options, prices=facts.prices)

    def _target(self, found: Found) -> Target:
        ref = found.info.ref
        model = normal_ref(ref)
        server = local_server(model)
        own = is_own(ref, self._settings)
        base = self._settings.api_base if own else None
        if base is None and server is not None:
            base = found.local.base if found.local else server.base
        secret = self._settings.api_key if own else None
        named = self._settings.api_key_env if own else None
        # A key of the environment goes to its provider; a server on this machine has no use for it.
        usual = () if base and _is_loopback(base) else key_names(model)
        return Target(
            ref=ref,
            model=model,
            base=base,
            key=secret.get_secret_value() if secret else None,
            key_names=(named,) if named else usual,
            keyless=base is not None,
            options={"num_ctx": found.info.window} if server is OLLAMA and found.info.window else {},
        )

    async def _script(self, name: str) -> ScriptModel:
        script = await asyncio.to_thread(_load_script, name)
        window, source = capped(script.window, "from the script", self._settings)
        info = ModelInfo(f"{SCRIPT}{name}", reason="chosen", window=window, supports_images=True, window_source=source)
        return ScriptModel(script, info, self._options)


def _load_script(name: str) -> Script:
    # Absolute: the worker process reads it too.
    return load_script(Path(name).expanduser().absolute())


def _is_loopback(base: str) -> bool:
    return (urlsplit(base).hostname or "") in _LOOPBACK
