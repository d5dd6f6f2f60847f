"""Embeddings: the embedder protocol, the offline embedder, and a cache for remote ones."""
