"""The thesaurus of the index: other words, in English and Chinese, for what a query says."""

from clawbot.memory.lexicon.lexicon import Expansion, Lexicon

__all__ = ["Expansion", "Lexicon"]
