"""What a compaction decides: where to cut, how the conversation reads as text, what a summary must hold."""

from clawbot.context.compaction.carrying import carry, quoted_in
from clawbot.context.compaction.checks import is_no_summary, mend, problems
from clawbot.context.compaction.choosing import Situation, choose_cut, is_inflated
from clawbot.context.compaction.cutting import Cut, find_cut
from clawbot.context.compaction.files import FileLists, file_lists, show_files
from clawbot.context.compaction.identifiers import wanted_identifiers
from clawbot.context.compaction.material import Earlier, Material, gather
from clawbot.context.compaction.prompts import SYSTEM, Task, prompt_for
from clawbot.context.compaction.sections import fit
from clawbot.context.compaction.serialise import UNFINISHED, serialise
from clawbot.context.compaction.stages import Piece, pieces_of, plan_stages, stage_budget

__all__ = [
    "SYSTEM",
    "UNFINISHED",
    "Cut",
    "Earlier",
    "FileLists",
    "Material",
    "Piece",
    "Situation",
    "Task",
    "carry",
    "choose_cut",
    "file_lists",
    "find_cut",
    "fit",
    "gather",
    "is_inflated",
    "is_no_summary",
    "mend",
    "pieces_of",
    "plan_stages",
    "problems",
    "prompt_for",
    "quoted_in",
    "serialise",
    "show_files",
    "stage_budget",
    "wanted_identifiers",
]
