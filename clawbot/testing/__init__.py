"""Test support for authors of agents and hooks."""
