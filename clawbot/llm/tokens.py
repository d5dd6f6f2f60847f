"""Counts tokens: exactly with a vocabulary that is on this machine, else by weighted characters."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

# The file name under which tiktoken looks for o200k_base: the SHA-1 of the address it would be downloaded from.
_VOCABULARY = "o200k_base"
_VOCABULARY_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
_ASCII_PER_TOKEN = 4
_MARGIN = 1.15
# Characters. A run without a break is one piece to the tokenizer, whose work on a piece grows faster than its length.
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


def estimate_tokens(text: str) -> int:
    """The same with 15 % on top, as tokenizers differ by that much: for when too little would be harmful."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return math.ceil((plain / _ASCII_PER_TOKEN + len(text) - plain) * _MARGIN)


@lru_cache(maxsize=1)
def vocabulary_folder() -> Path | None:
    """Where litellm carries its vocabularies, found without importing it; None when it has none."""
    spec = find_spec("litellm")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "litellm_core_utils" / "tokenizers"
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
