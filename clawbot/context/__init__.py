"""Decides what the model sees. Pure."""
