"""What clawbot tells about itself: the card of the first start, and the keys and slash commands at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Static

from clawbot.config.keys import KeyMap
from clawbot.text.sanitize import clean_line
from clawbot.tui.keys import help_lines
from clawbot.tui.screens.common import KeyHint, KeyLine, PageScreen

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.llm.protocol import ModelInfo

OFFLINE = "offline"
TRY = "remember that I prefer tabs over spaces"


def welcome_text(
    model: ModelInfo,
    found: Sequence[ModelInfo],
    workspace: Path,
    *,
    keys_looked_for: int,
    home: Path,
    local_key: str = "f3",
) -> str:
    """The card of the first start, as Markdown.

    `model` is the one that answers, `found` all that can be used here, `keys_looked_for` how many environment
    variables were looked at; `home` is the user's, which is written as `~`; `local_key` runs a model on this machine.
    """
    others = [other.ref for other in found if other.ref not in (OFFLINE, model.ref)]
    own = _own_model(model, others, local_key)
    return "\n\n".join(
        [
            f"**Welcome.** I keep what we talk about in plain Markdown, here: {_code(_tilde(workspace, home))}",
            _who_answers(model, others),
            f"- {_other_models(model, others, keys_looked_for)}\n{own}- Try: {_code(TRY)}",
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


def _own_model(model: ModelInfo, others: Sequence[str], key: str) -> str:
    """The offer of a model on this machine, where no other one answers."""
    offered = key and model.ref == OFFLINE and all(other.startswith("local/") for other in others)
    return f"- To run one on this machine, without a key: press {_code(key)}\n" if offered else ""


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


# Below this many columns the commands stand under the keys.
TWO_COLUMNS = 110


class HelpScreen(PageScreen[None]):
    """Shows the keys beside the commands of the runtime; below them where there is little room."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/help.tcss"]

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__()
        self.runtime = runtime
        self.keys = tuple(help_lines(KeyMap(runtime.settings.tui.keys)))

    def compose(self) -> ComposeResult:
        """Two columns, or one."""
        commands = [(f"{command.name} {command.arguments}", command.help) for command in self.runtime.commands]
        with VerticalScroll(id="page", can_focus=False), Horizontal(id="columns"):
            yield from self._column("Keys", self.keys)
            yield from self._column("Commands", commands)
        yield KeyLine([KeyHint("↑ ↓", "scroll", "screen.scroll('page_down')"), KeyHint("esc", "back", "screen.close")])

    def _column(self, title: str, lines: Iterable[tuple[str, str]]) -> ComposeResult:
        with Vertical(classes="column"):
            yield Static(title, classes="title")
            for term, meaning in lines:
                with Horizontal(classes="line"):
                    yield Static(clean_line(term), classes="term", markup=False)
                    yield Static(clean_line(meaning), classes="meaning", markup=False)

    def on_resize(self, event: Resize) -> None:
        """One column where there is little room."""
        self.set_class(event.size.width < TWO_COLUMNS, "-narrow")
