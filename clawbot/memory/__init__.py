"""The memory index: what was written is found, by meaning and by word."""
