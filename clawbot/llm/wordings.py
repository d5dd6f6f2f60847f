"""What vendors say of prompts that are too large, of quotas and of waiting, from `wordings.toml`."""

from __future__ import annotations

from functools import cache

from clawbot.text.tables import packaged_table

# "8192", "128,000", "128k". Not of characters or bytes, which some limit as well.
_TOKENS = r"(\d[\d,_]{0,12})(?![\d,_])\s?(k\b)?(?!\s?(?:char|byte|[kmg]i?b\b))"
_DURATION = (
    r"((?:\d+(?:\.\d+)?\s?(?:ms|milli(?:second)?s?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)"
    r"(?![a-z])[\s,]*(?:and )?)+|\d+(?:\.\d+)?)"
)


@cache
def wordings(table: str) -> dict[str, str]:
    """Return the patterns of `table` (`too_large`, `limits`, `exhausted`, `waits`) by who says it. Blocks at the first
    call."""
    found = packaged_table("clawbot.llm", "wordings.toml", dict[str, dict[str, str]])[table]
    return {who: text.replace("TOKENS", _TOKENS).replace("DURATION", _DURATION) for who, text in found.items()}
