"""Keeps the index synchronised with the files."""
