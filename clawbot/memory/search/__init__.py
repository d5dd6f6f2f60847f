"""How the index is searched: the engine, and what comes out of it."""

from clawbot.memory.search.engine import SearchEngine
from clawbot.memory.search.ranking import Ranked, Ranking
from clawbot.memory.search.reading import Matrix, Reader

__all__ = ["Matrix", "Ranked", "Ranking", "Reader", "SearchEngine"]
