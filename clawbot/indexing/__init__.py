"""Opens the memory index of an agent as its settings say: what is indexed, where vectors come from."""

from clawbot.indexing.opening import open_index

__all__ = ["open_index"]
