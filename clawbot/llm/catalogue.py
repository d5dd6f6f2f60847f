"""Windows, abilities and prices of models, from the table that litellm ships: read as a file, litellm stays out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.llm.usage import Prices, Tier

TABLE = "model_prices_and_context_window_backup.json"
SOURCE = "litellm's model data"
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class ModelFacts(Struct, frozen=True):
    """What the table says of a model; `window` and `max_output` are in tokens, None: it does not say. `window_source`
    is for the user."""

    window: int | None = None
    window_source: str = SOURCE
    max_output: int | None = None
    tools: bool = True
    images: bool = False
    prices: Prices | None = None


UNKNOWN = ModelFacts()


def look_up(refs: Iterable[str]) -> dict[str, ModelFacts]:
    """What is known of each model (`provider/model`). Blocks for some 10 ms when one was not asked for before."""
    wanted = list(refs)
    missing = [ref for ref in wanted if ref not in _known]
    if missing:
        table = _read_table()
        _known.update({ref: _facts(table, ref) for ref in missing})
    return {ref: _known[ref] for ref in wanted}


_known: dict[str, ModelFacts] = {}


@lru_cache(maxsize=1)
def _table_path() -> Path | None:
    spec = find_spec("litellm")
    places = [Path(place) / TABLE for place in (spec.submodule_search_locations or ())] if spec else []
    return next((path for path in places if path.is_file()), None)


def _read_table() -> Mapping[str, msgspec.Raw]:
    # The 3 MB are not kept: the entries stay undecoded, and only what was asked for is remembered.
    path = _table_path()
    return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw]) if path else {}


def _facts(table: Mapping[str, msgspec.Raw], ref: str) -> ModelFacts:
    for name, exact in _names(ref):
        if name in table:
            entry = msgspec.json.decode(table[name])
            return _read_entry(entry, priced=exact) if isinstance(entry, dict) else UNKNOWN
    return UNKNOWN


def _names(ref: str) -> list[tuple[str, bool]]:
    """The names under which `ref` may stand, and whether that is the same offer: a reseller has prices of its own."""
    bare = ref.partition("/")[2]
    maker = bare.rpartition("/")[2]
    names = [(ref, True), (bare, ref.count("/") == 1)]
    if ref.count("/") > 1:
        names += [(maker, False), (maker.replace(".", "-"), False)]
    return [(name, exact) for name, exact in names if name]


def _read_entry(entry: Mapping[str, Any], *, priced: bool) -> ModelFacts:
    return ModelFacts(
        window=_count(entry, "max_input_tokens") or _count(entry, "max_tokens"),
        max_output=_count(entry, "max_output_tokens"),
        tools=entry.get("supports_function_calling") is not False,
        images=bool(entry.get("supports_vision")),
        prices=_prices(entry) if priced else None,
    )


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
