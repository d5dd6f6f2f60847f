"""Which models can be used here, which of them `auto` takes (keys, then servers on this machine, then offline), and
what litellm's table has of each: read as a file, without litellm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import CAPPED, ModelInfo
from clawbot.llm.providers import (
    KEYS,
    LLAMA_CPP,
    base_of_environment,
    is_vendors_own,
    key_names,
    local_server,
    provider_name,
)
from clawbot.llm.servers import FROM_SERVER, LocalModel, find_local, listed_models, served_model
from clawbot.llm.tokens import Prices, Tier
from clawbot.local_model.gguf import read_head, window_for
from clawbot.local_model.machine import free_memory
from clawbot.local_model.process import is_installed
from clawbot.local_model.register import read_running
from clawbot.local_model.store import LOCAL, ModelStore
from clawbot.text.interface import N_, _

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings

AUTO = "auto"
OFFLINE = "offline"
SCRIPT = "script:"
LOADS = N_(" and loads its model")
"""The end of the reason for a model while its server loads it."""
NOTHING_FOUND = N_("no key was found, and no model server on this machine; /model connects a language model")
CHOSEN = N_("your choice")


class UsableModel(Struct, frozen=True):
    """A model that can be used here: its `info`, and for one of a server on this machine where that is. `state` is
    `silent` when its server does not answer or does not list it, and `loading` when it is not loaded yet."""

    info: ModelInfo
    local: LocalModel | None = None
    state: Literal["ready", "loading", "silent"] = "ready"


async def find_models(settings: AgentSettings) -> list[ModelInfo]:
    """All models that can be used here, in the order in which `auto` would take them; `offline` is always the last.

    Those that the settings name come first. A provider with a key is listed with its default model.
    """
    chosen = (settings.model, *settings.fallbacks)
    named = [ref for ref in chosen if "/" in ref and not ref.startswith((SCRIPT, LOCAL))]
    found, described = await asyncio.gather(
        _available(settings), asyncio.gather(*(describe(ref, settings) for ref in named))
    )
    listed: dict[str, ModelInfo] = {}
    for entry in (*described, *found):
        listed.setdefault(entry.info.ref, entry.info)
    for info in await asyncio.to_thread(_stored_models, settings):
        listed.setdefault(info.ref, info)
    offline = ModelInfo(OFFLINE, reason=_("always there; it is no language model"))
    return [*listed.values(), offline]


async def resolve_auto(settings: AgentSettings) -> UsableModel:
    """Return the model for `auto`; the `reason` of its info is for the user."""
    found = _from_keys(settings)[:1] if settings.api_base is None else []
    if found:
        return await describe(found[0][0], settings, reason=found[0][1])
    available = await _available(settings)
    if not available:
        return UsableModel(ModelInfo(OFFLINE, reason=_(NOTHING_FOUND)))
    first = available[0]
    return first if first.local else await describe(first.info.ref, settings, reason=first.info.reason)


async def describe(ref: str, settings: AgentSettings, *, reason: str = "") -> UsableModel:
    """Return the facts of the model `ref`: from its server when that is on this machine, else from litellm's table."""
    full, reason = normal_ref(ref), reason or _(CHOSEN)
    server = local_server(full)
    base, key = (settings.api_base, _own_key(settings)) if is_own(ref, settings) else (None, None)
    if base is None and (base := base_of_environment(full)):
        key = key or next((found for name in key_names(full) if (found := os.environ.get(name, "").strip())), None)
    if server is not None:
        for model in await find_local([server], base, key):
            # llama.cpp answers to any name.
            if model.ref == full or local_server(model.ref) is server is LLAMA_CPP:
                return _local_info(replace(model, ref=full), settings, reason)
    facts = (await asyncio.to_thread(look_up, [full]))[full]
    if server is not None or not base or is_vendors_own(ref, base):
        return UsableModel(_info(ref, facts, settings, reason), state="silent" if server else "ready")
    served = await asyncio.to_thread(served_model, base, ref.partition("/")[2], key)
    if served is None:
        return UsableModel(_info(ref, facts, settings, reason), state="silent")
    if not served.loading:  # the server's facts go before those of another model with that name
        facts = replace(facts, tools=served.tools, images=facts.images or served.images)
        if served.window:
            facts = replace(facts, window=served.window, window_source=served.window_source)
    info = replace(_info(ref, facts, settings, reason), local=served.here)
    return UsableModel(info, state="loading" if served.loading else "ready")


def describe_local(ref: str, settings: AgentSettings, paths: Paths, reason: str = "") -> tuple[Path, ModelInfo]:
    """Return the file of `local/NAME` and its metadata. Blocks. Raises ClawbotError without such a file."""
    name = ref.removeprefix(LOCAL)
    served = next((each for each in read_running(paths.local_file) if each.name == name), None)
    file = Path(served.file) if served else ModelStore(paths.models).find(name)
    window, tools = served.window if served else None, True
    with contextlib.suppress(ClawbotError, OSError):
        # What is wrong with the file, or that it does not fit, is reported when it is served.
        head = read_head(file)
        tools = head.tools
        window = window or window_for(head, free_memory())
    window, source = capped(window, FROM_SERVER if served else N_("what fits this machine"), settings)
    known = ModelInfo(
        f"{LOCAL}{name}", reason=reason or _(CHOSEN), window=window, supports_tools=tools, window_source=source
    )
    info = replace(known, local=LLAMA_CPP.title)
    return file, info


def _stored_models(settings: AgentSettings) -> list[ModelInfo]:
    paths = Paths(find_home())
    names = ModelStore(paths.models).files() if is_installed() else ()
    return [
        describe_local(f"{LOCAL}{name}", settings, paths, _("on this machine; it starts when chosen"))[1]
        for name in names
    ]


def normal_ref(ref: str) -> str:
    """`ref` as litellm is to see it: `ollama/` cannot call tools, `ollama_chat/` can."""
    return ref.replace("ollama/", "ollama_chat/", 1) if ref.startswith("ollama/") else ref


def is_own(ref: str, settings: AgentSettings) -> bool:
    """Whether `api_base` and the key of the settings are meant for `ref`: never for another provider's model."""
    chosen = normal_ref(settings.model)
    if "/" in chosen and not chosen.startswith(SCRIPT):
        return provider_name(normal_ref(ref)) == provider_name(chosen)
    return settings.api_base is not None and provider_name(ref) == "openai"


def missing_key(ref: str, settings: AgentSettings, environ: Mapping[str, str] = os.environ) -> str:
    """Return the variable that would hold the key of the model `ref`; "" when there is a key, or none is needed."""
    names = key_names(normal_ref(ref))
    if is_own(ref, settings):
        if settings.api_key is not None or settings.api_base is not None:
            return ""
        names = (settings.api_key_env,) if settings.api_key_env else names
    if not names or base_of_environment(normal_ref(ref)) or any(environ.get(name) for name in names):
        return ""
    return names[0]


def skipped_fallbacks(settings: AgentSettings, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return a sentence for each fallback that has no key."""
    found = [(ref, missing_key(ref, settings, environ)) for ref in settings.fallbacks]
    text = _("The fallback {model} is skipped: {key} is not set.")
    return [text.format(model=ref, key=key) for ref, key in found if key]


async def _available(settings: AgentSettings) -> list[UsableModel]:
    listed, local = await asyncio.gather(asyncio.to_thread(_from_base, settings), find_local())
    keyed = _from_keys(settings)
    facts = await asyncio.to_thread(look_up, [ref for ref, _ in (*listed, *keyed)])
    named = [UsableModel(_info(ref, facts[ref], settings, reason)) for ref, reason in (*listed, *keyed)]
    return [*named, *(_local_info(model, settings, _runs(model)) for model in local)]


def _runs(model: LocalModel) -> str:
    runs = _("{server} runs on this machine").format(server=model.server)
    return f"{runs}{_(LOADS)}" if model.loading else runs


def _from_keys(settings: AgentSettings) -> list[tuple[str, str]]:
    """Return the default model of each provider with a key, and the reason: the key of the settings first."""
    found: dict[str, tuple[str, str]] = {}
    for name in (settings.api_key_env or "", *KEYS):
        if name in KEYS and os.environ.get(name, "").strip():
            found.setdefault(KEYS[name].name, (KEYS[name].default, _("{name} is set").format(name=name)))
    return list(found.values())


def _from_base(settings: AgentSettings) -> list[tuple[str, str]]:
    base = settings.api_base
    if not base:
        return []
    return [(f"openai/{name}", _("the server at api_base has it")) for name in listed_models(base, _own_key(settings))]


def _own_key(settings: AgentSettings) -> str | None:
    return settings.api_key.get_secret_value() if settings.api_key else os.environ.get(settings.api_key_env or "")


def _info(ref: str, facts: ModelFacts, settings: AgentSettings, reason: str) -> ModelInfo:
    window, source = capped(facts.window, facts.window_source, settings)
    return ModelInfo(
        ref=ref,
        reason=reason,
        window=window,
        window_source=source,
        max_output=facts.max_output,
        supports_tools=facts.tools,
        supports_images=facts.images,
        priced=facts.prices is not None,
    )


def _local_info(model: LocalModel, settings: AgentSettings, reason: str) -> UsableModel:
    facts = ModelFacts(model.window, model.window_source, tools=model.tools, images=model.images)
    info = replace(_info(model.ref, facts, settings, reason), local=model.here)
    return UsableModel(info, model, "loading" if model.loading else "ready")


def capped(window: int | None, source: str, settings: AgentSettings) -> tuple[int | None, str]:
    """The window, made smaller by `context_tokens` but never larger, and its source then."""
    cap = settings.context_tokens
    if cap is not None and (window is None or cap < window):
        return cap, CAPPED
    return window, source if window is not None else ""


TABLE = "model_prices_and_context_window_backup.json"
SOURCE = N_("litellm's model data")
_TIER = re.compile(r"input_cost_per_token_above_(\d{1,9})k_tokens")


class ModelFacts(Struct, frozen=True):
    """The facts of a model in the table; `window` and `max_output` are in tokens, None: unknown. `window_source` is for
    the user."""

    window: int | None = None
    window_source: str = SOURCE
    max_output: int | None = None
    tools: bool = True
    images: bool = False
    prices: Prices | None = None


def look_up(refs: Iterable[str]) -> dict[str, ModelFacts]:
    """What is known of each model (`provider/model`). Blocks for some 10 ms when one was not asked for before."""
    wanted = list(refs)
    missing = [ref for ref in wanted if ref not in _known]
    if missing:
        table = _read_table()
        _known.update({ref: _facts(table, ref) for ref in missing})
    return {ref: _known[ref] for ref in wanted}


_known: dict[str, ModelFacts] = {}


def may_name_provider(ref: str) -> bool:
    """Whether litellm may know the provider of `ref`, whose list is read without importing it. Blocks."""
    return ref.partition("/")[0] in (known := _providers()) or not known


@lru_cache(maxsize=1)
def _providers() -> frozenset[str]:
    code, like = map(_litellm_file, ("types/utils.py", "llms/openai_like/providers.json"))
    names = re.findall(r'^    [A-Z0-9_]+ = "([\w.-]+)"', code.read_text("utf-8"), re.MULTILINE) if code else ()
    return frozenset({*names, *(msgspec.json.decode(like.read_bytes()) if like else ())}) if names else frozenset()


@lru_cache
def _litellm_file(name: str) -> Path | None:
    spec = find_spec("litellm")
    paths = [Path(folder_name) / name for folder_name in (spec.submodule_search_locations or ())] if spec else []
    return next((path for path in paths if path.is_file()), None)


def _read_table() -> Mapping[str, msgspec.Raw]:
    # The 3 MB are not kept: the entries remain undecoded, and only what was asked for is remembered.
    path = _litellm_file(TABLE)
    return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw]) if path else {}


def _facts(table: Mapping[str, msgspec.Raw], ref: str) -> ModelFacts:
    for name, exact in _names(ref):
        if name in table:
            entry = msgspec.json.decode(table[name])
            if isinstance(entry, dict):
                return ModelFacts(
                    window=_count(entry, "max_input_tokens") or _count(entry, "max_tokens"),
                    max_output=_count(entry, "max_output_tokens"),
                    tools=entry.get("supports_function_calling") is not False,
                    images=bool(entry.get("supports_vision")),
                    prices=_prices(entry) if exact else None,
                )
            break
    return ModelFacts()


def _names(ref: str) -> list[tuple[str, bool]]:
    """Return the possible names of `ref` in the table, and whether each is the same offer: resellers have their own
    prices."""
    ref = ref.replace("/responses/", "/", 1)
    bare = ref.partition("/")[2]
    maker = bare.rpartition("/")[2]
    names = [(ref, True), (bare, ref.count("/") == 1)]
    if ref.count("/") > 1:
        names += [(maker, False), (maker.replace(".", "-"), False)]
    return [(name, exact) for name, exact in names if name]


def _prices(entry: Mapping[str, Any]) -> Prices | None:
    base = _tier(entry, 0, "")
    if base is None:
        return None
    sizes = sorted(int(match[1]) for name in entry if (match := _TIER.fullmatch(name)))
    tiers = [_tier(entry, size * 1000, f"_above_{size}k_tokens") for size in sizes]
    return Prices((base, *(tier for tier in tiers if tier is not None)))


def _tier(entry: Mapping[str, Any], above: int, suffix: str) -> Tier | None:
    fresh = _price(entry, f"input_cost_per_token{suffix}")
    output = _price(entry, f"output_cost_per_token{suffix}")
    if fresh is None or output is None:
        return None
    read = _price(entry, f"cache_read_input_token_cost{suffix}")
    write = _price(entry, f"cache_creation_input_token_cost{suffix}")
    # What has no price of its own for the cache costs as much as without one.
    return Tier(above, fresh, output, fresh if read is None else read, write or fresh)


def _price(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return int(value) if isinstance(value, int | float) and value > 0 else None
