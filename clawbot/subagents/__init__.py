"""Sub-agents: one tool, `task`, by which the model has a task done in a context of its own."""

from clawbot.subagents.runner import SubagentRunner

__all__ = ["SubagentRunner"]
