"""What a call used and cost: the providers' many spellings of usage, normalised (reference sheet 6.2), and prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from clawbot.messages import Cost, Usage

_INPUT = ("input", "inputTokens", "input_tokens")
_PROMPT = ("promptTokens", "prompt_tokens")
_OUTPUT = ("output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens")
_CACHE_READ = ("cacheRead", "cache_read", "cache_read_input_tokens", "cached_tokens", "prompt_cache_hit_tokens")
_CACHE_WRITE = ("cacheWrite", "cache_write", "cache_creation_input_tokens", "cache_creation_tokens")
_TOTAL = ("total", "totalTokens", "total_tokens")
_LARGEST = 2**53
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


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
        """What `usage` costs, in US dollars: a long prompt puts the whole call into its tier."""
        tier = [tier for tier in self.tiers if usage.prompt_tokens > tier.above or tier.above == 0][-1]
        parts = {
            "input": usage.input * tier.input,
            "output": usage.output * tier.output,
            "cache_read": usage.cache_read * tier.cache_read,
            "cache_write": usage.cache_write * tier.cache_write,
        }
        return Cost(**parts, total=sum(parts.values()))


def usage_from(raw: Mapping[str, Any], prices: Prices | None = None) -> Usage | None:
    """The normalised form of a provider's usage object; None when it says nothing.

    `prompt_tokens` counts what came from the cache or went into it, `input_tokens` does not: in both cases
    `Usage.input` leaves it out. A cost that the provider reports itself goes before the price table.
    """
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
    """Whether `value` is a number that can be a count or a price: not infinite, not beyond what JSON can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
