"""The documents of the memory: which files there are, and how they are read."""
