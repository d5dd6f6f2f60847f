"""The model: whether it answers, and which servers on this machine do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.errors import ModelError
from clawbot.llm.factory import open_model
from clawbot.llm.models import find_models
from clawbot.llm.protocol import ChatModel, ChatRequest, ModelInfo
from clawbot.llm.providers import local_server
from clawbot.messages import UserMessage

# The first call loads litellm (3 s of CPU); reasoning models and local ones that load weights take their time, too.
DEADLINE = 60.0

REQUEST = ChatRequest(system="Answer with one word.", messages=(UserMessage(content="Say: pong"),), max_tokens=16)

Find = Callable[[AgentSettings], Awaitable[list[ModelInfo]]]
Open = Callable[[Here], Awaitable[ChatModel]]


async def local_servers(here: Here, find: Find = find_models) -> Findings:
    """The servers on this machine that answer on their usual ports."""
    found = [model for model in await find(here.settings) if local_server(model.ref) is not None]
    if not found:
        return [Finding("servers", "ok", "no local model server answers (none is needed)")]
    return [Finding("servers", "ok", f"{model.ref}: {model.reason}") for model in found]


async def _open(here: Here) -> ChatModel:
    retries = here.settings.retries.model_copy(update={"attempts": 1})
    once = here.settings.model_copy(update={"retries": retries, "fallbacks": []})
    return await open_model(once.model, once, clock=here.clock, log_path=here.paths.log_file)


async def model(here: Here, open_here: Open = _open) -> Findings:
    """The model of the settings answers a tiny request. The offline one needs no asking."""
    ref = here.settings.model
    if here.config_error is not None:
        return [Finding("model", "warning", "not tried: the configuration is not valid", "clawbot config check")]
    if ref.startswith("script:"):
        return [Finding("model", "ok", f"{ref} (a script is not tried)")]
    try:
        opened = await open_here(here)
    except ModelError as error:
        return [_failed(ref, error)]
    try:
        return [await _ping(opened, here)]
    finally:
        await opened.aclose()


async def _ping(opened: ChatModel, here: Here) -> Finding:
    info = opened.info
    named = f"{info.ref} ({info.reason})" if info.reason else info.ref
    if info.ref == "offline":
        return Finding("model", "ok", f"{named}: answers without any server")
    if not here.ping:
        return Finding("model", "ok", f"{named}: not called (--no-ping)")
    started = here.clock.monotonic()
    stream = opened.stream(REQUEST)
    try:
        async with asyncio.timeout(DEADLINE):
            await anext(stream)
    except TimeoutError:
        fix = "check the network and the server, or choose another model: clawbot, then /model"
        return Finding("model", "problem", f"{named} has not answered within {DEADLINE:.0f} s", fix)
    except ModelError as error:
        return _failed(info.ref, error)
    finally:
        await stream.aclose()
    return Finding("model", "ok", f"{named} answers after {here.clock.monotonic() - started:.1f} s")


def _failed(ref: str, error: ModelError) -> Finding:
    named = f"{error.provider}: {error.message}" if error.provider else error.message
    return Finding("model", "problem", f"{ref}: {named}", error.hint or "choose another model: clawbot, then /model")
