"""Opens the memory index of an agent as its settings say: what is indexed, where vectors come from."""

from clawbot.indexing.opening import VectorProbe, memory_documents, open_index

__all__ = ["VectorProbe", "memory_documents", "open_index"]
