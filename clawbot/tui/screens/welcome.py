"""What the first start says: where things are kept, which model answers and why, what to try."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.tui.render.sanitize import clean_line

if TYPE_CHECKING:
    from clawbot.llm.protocol import ModelInfo

OFFLINE = "offline"
TRY = "remember that I prefer tabs over spaces"


def welcome_text(
    model: ModelInfo, found: Sequence[ModelInfo], workspace: Path, *, keys_looked_for: int, home: Path
) -> str:
    """The card of the first start, as Markdown.

    `model` is the one that answers, `found` all that can be used here, `keys_looked_for` how many environment
    variables were looked at; `home` is the user's, which is written as `~`.
    """
    others = [other.ref for other in found if other.ref not in (OFFLINE, model.ref)]
    return "\n\n".join(
        [
            f"**Welcome.** I keep what we talk about in plain Markdown, here: {_code(_tilde(workspace, home))}",
            _who_answers(model, others),
            f"- {_other_models(model, others, keys_looked_for)}\n- Try: {_code(TRY)}",
        ]
    )


def _who_answers(model: ModelInfo, others: Sequence[str]) -> str:
    offline = "I remember, find and quote your notes, and read files."
    if model.ref != OFFLINE:
        why = f": {clean_line(model.reason)}" if model.reason else ""
        return f"{_code(model.ref)} answers{why}."
    if others:
        why = f" ({clean_line(model.reason)})" if model.reason else ""
        return f"I run offline{why}: {offline}"
    return f"No model key was found, so I run offline: {offline}"


def _other_models(model: ModelInfo, others: Sequence[str], keys_looked_for: int) -> str:
    offer = "To talk to a language model" if model.ref == OFFLINE else "Another model"
    shown = ", ".join(_code(name) for name in others[:3]) or "none"
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    also = "found" if model.ref == OFFLINE else "also found"
    return f"{offer}: {_code('/model')} ({also} on this machine: {shown}{more} · keys looked for: {keys_looked_for})"


def _tilde(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else f"{path}"


def _code(text: str) -> str:
    """`text` as code in Markdown, whatever signs it holds."""
    text = clean_line(text)
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(len(run) for run in _backticks(text)) + 1)
    return f"{fence} {text} {fence}"


def _backticks(text: str) -> list[str]:
    return "".join(sign if sign == "`" else " " for sign in text).split()
