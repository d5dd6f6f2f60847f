"""Looks through the sessions of an agent and mends what can be mended; nothing that a file holds is lost by it."""

from __future__ import annotations
