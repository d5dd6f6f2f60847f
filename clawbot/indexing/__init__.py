"""Opens the memory index of an agent according to its settings: documents and embedding provider."""

from clawbot.indexing.opening import Listener, VectorProbe, memory_documents, open_index, open_reranker

__all__ = ["Listener", "VectorProbe", "memory_documents", "open_index", "open_reranker"]
