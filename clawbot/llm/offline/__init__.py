"""The model that needs no network and no key: a small grammar, a search and extracts instead of a language model."""

from clawbot.llm.offline.model import OfflineModel
from clawbot.llm.offline.turn import ProgramFacts

__all__ = ["OfflineModel", "ProgramFacts"]
