"""Texts as vectors: what an embedder is, the offline one, and a cache for the remote ones."""
