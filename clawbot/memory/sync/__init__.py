"""Keeps the index as the files are."""
