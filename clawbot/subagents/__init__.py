"""Sub-agents: one tool, `task`, by which the model has a piece of its work done in a context of its own."""

from clawbot.subagents.desk import Desk

__all__ = ["Desk"]
