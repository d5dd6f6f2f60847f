"""The decisions of a compaction: where to cut, the conversation as text, and what a summary must contain."""

from clawbot.context.compaction.carried import file_lists, quoted_in
from clawbot.context.compaction.checks import is_no_summary, junk, mend, problems
from clawbot.context.compaction.cut import Cut, Situation, choose_cut, is_inflated, valid_cuts
from clawbot.context.compaction.material import (
    Material,
    PreviousCompaction,
    gather,
    parts_of,
    plan_stages,
    stage_budget,
)
from clawbot.context.compaction.prompts import SYSTEM, Task, fit, prompt_for

__all__ = [
    "SYSTEM",
    "Cut",
    "Material",
    "PreviousCompaction",
    "Situation",
    "Task",
    "choose_cut",
    "file_lists",
    "fit",
    "gather",
    "is_inflated",
    "is_no_summary",
    "junk",
    "mend",
    "parts_of",
    "plan_stages",
    "problems",
    "prompt_for",
    "quoted_in",
    "stage_budget",
    "valid_cuts",
]
