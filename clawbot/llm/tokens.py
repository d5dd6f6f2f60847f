"""Counts tokens (exactly with a vocabulary that is on this machine, else by weighted characters), and normalises what
providers report of the usage and the cost of a call."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from clawbot.collector import trim_heaps
from clawbot.messages import Cost, Usage

_INPUT = ("input", "inputTokens", "input_tokens")
_PROMPT = ("promptTokens", "prompt_tokens")
_OUTPUT = ("output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens")
_CACHE_READ = ("cacheRead", "cache_read", "cache_read_input_tokens", "cached_tokens", "prompt_cache_hit_tokens")
_CACHE_WRITE = ("cacheWrite", "cache_write", "cache_creation_input_tokens", "cache_creation_tokens")
_TOTAL = ("total", "totalTokens", "total_tokens")
_LARGEST = 2**53
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


Count = Callable[[str], int]
"""Counts the tokens of a text."""


class Tier(Struct, frozen=True):
    """The prices that hold while a prompt has more than `above` tokens, in US dollars a token."""

    above: int
    input: float
    output: float
    cache_read: float
    cache_write: float


class Prices(Struct, frozen=True):
    """What a model costs: `tiers` in rising order of `above`, the first one from 0."""

    tiers: tuple[Tier, ...]

    def cost(self, usage: Usage) -> Cost:
        """Return the cost in US dollars; a long prompt moves the complete call into its tier."""
        tier = [tier for tier in self.tiers if usage.prompt_tokens > tier.above or tier.above == 0][-1]
        parts = {
            "input": usage.input * tier.input,
            "output": usage.output * tier.output,
            "cache_read": usage.cache_read * tier.cache_read,
            "cache_write": usage.cache_write * tier.cache_write,
        }
        return Cost(**parts, total=sum(parts.values()))


def usage_from(raw: Mapping[str, Any], prices: Prices | None = None) -> Usage | None:
    """Normalise a provider's usage object; None without figures. `prompt_tokens` counts what came from the cache or
    went into it, `input_tokens` does not: in both cases `Usage.input` leaves it out. A cost that the provider reports
    itself goes before the price table."""
    details: dict[str, Any] = {}
    for name in _DETAILS:
        if isinstance(raw.get(name), Mapping):
            details.update(raw[name])
    read = _first(raw, _CACHE_READ) or _first(details, _CACHE_READ)
    write = _first(raw, _CACHE_WRITE) or _first(details, _CACHE_WRITE)
    prompt = _first(raw, _PROMPT)
    fresh = max(0, prompt - read - write) if prompt else _first(raw, _INPUT)
    output = _first(raw, _OUTPUT)
    if not (fresh or read or write or output):
        return None
    total = _first(raw, _TOTAL) or fresh + read + write + output
    usage = Usage(input=fresh, output=output, cache_read=read, cache_write=write, total_tokens=total)
    return replace(usage, cost=_cost(raw, usage, prices))


def _cost(raw: Mapping[str, Any], usage: Usage, prices: Prices | None) -> Cost | None:
    reported = raw.get("cost")
    if _is_figure(reported) and reported > 0:
        return Cost(total=float(reported))
    return prices.cost(usage) if prices else None


def merge_usage(seen: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Add a usage report to those `seen` in one stream: figures are cumulative, so the largest one holds."""
    for name, value in new.items():
        nested = isinstance(seen.get(name, value), Mapping)
        if nested and isinstance(value, Mapping):
            merge_usage(seen.setdefault(name, {}), value)
        elif not nested and _is_figure(value):
            seen[name] = max(seen.get(name, 0), value)


def _first(source: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = source.get(name)
        if _is_figure(value):
            return max(0, int(value))
    return 0


def _is_figure(value: object) -> TypeGuard[int | float]:
    """Whether `value` can be a count or a price: finite, and within what JSON can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


# The file name under which tiktoken searches o200k_base: the SHA-1 of the address it would be downloaded from.
_VOCABULARY = "o200k_base"
_VOCABULARY_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
_ASCII_PER_TOKEN = 4
_MARGIN = 1.15
# Characters. A run without a break is one unit to the tokenizer, whose work on a unit grows faster than its length.
_SLICE = 65_536
_logger = logging.getLogger(__name__)


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


async def count_tokens(text: str) -> int:
    """How many tokens `text` has for the models of OpenAI; others are within about 15 % of it.

    The first call loads the vocabulary, in a thread. Without one it is `estimate_tokens`.
    """
    return await asyncio.to_thread(count_now, text)


def count_now(text: str) -> int:
    """The same. Blocks: for half a second when the vocabulary has to be loaded, then for some 0.1 ms for each 1,000
    tokens. A text of more than 65,536 characters is counted in slices, which may add a token for each of them."""
    encoding = _load()
    if encoding is None:
        return estimate_tokens(text)
    if len(text) <= _SLICE:
        return len(encoding.encode_ordinary(text))
    slices = (text[start : start + _SLICE] for start in range(0, len(text), _SLICE))
    return sum(len(encoding.encode_ordinary(part)) for part in slices)


def weigh_tokens(text: str) -> int:
    """About how many tokens `text` has: four ASCII characters a token, each other character one.

    Characters over four alone would see a quarter of a Chinese text.
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-plain // _ASCII_PER_TOKEN) + len(text) - plain


def cut_to(text: str, max_tokens: int | None) -> str:
    """`text`, or its beginning with an ellipsis where it weighs more than `max_tokens`."""
    if max_tokens is None or weigh_tokens(text) <= max_tokens:
        return text
    return text[: bisect_left(range(1, len(text) + 1), max_tokens, key=lambda end: weigh_tokens(text[:end]))] + "…"


def estimate_tokens(text: str) -> int:
    """The same with 15 % on top, as tokenizers differ by that much: for when too little would be harmful."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return math.ceil((plain / _ASCII_PER_TOKEN + len(text) - plain) * _MARGIN)


@lru_cache(maxsize=1)
def vocabulary_folder() -> Path | None:
    """Where litellm carries its vocabularies, found without importing it; None when it has none."""
    spec = find_spec("litellm")
    for folder_name in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(folder_name) / "litellm_core_utils" / "tokenizers"
        if (folder / _VOCABULARY_FILE).is_file():
            return folder
    return None


@lru_cache(maxsize=1)
def _load() -> _Encoding | None:
    folder = vocabulary_folder()
    if folder is None:
        return None
    # tiktoken would fetch what it does not find here, without a timeout.
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        import tiktoken

        return tiktoken.get_encoding(_VOCABULARY)
    except (ImportError, OSError, ValueError):
        _logger.exception("the vocabulary could not be loaded; tokens are estimated")
        return None


def release_vocabulary() -> None:
    """Free the vocabulary (70 MB); the next count loads it again. Blocks: milliseconds."""
    if _load.cache_info().currsize:
        from tiktoken import registry

        _load.cache_clear()
        registry.ENCODINGS.clear()
        trim_heaps()
