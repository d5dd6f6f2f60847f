"""The documents of the memory: listing and reading them."""
