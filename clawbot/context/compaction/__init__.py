"""What a compaction decides: where to cut, how the conversation reads as text, what a summary must hold."""

from clawbot.context.compaction.cutting import Cut, find_cut

__all__ = ["Cut", "find_cut"]
