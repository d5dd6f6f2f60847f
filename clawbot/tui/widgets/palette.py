"""The names of styles that the page uses, resolved to the colours of the theme."""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget

from clawbot.tui.render.lines import Span

PREFIX = "transcript--"
NAMES = (
    "speaker", "you", "user", "time", "strong", "em", "strike", "heading", "heading-1", "link", "note", "marker",
    "quote", "quote-bar", "rule", "code", "code-inline", "code-comment", "code-string", "code-number", "code-keyword",
    "code-name", "code-deleted", "tool", "tool-mark", "tool-text", "tool-error", "tool-added", "tool-removed",
    "reasoning", "divider", "note-quiet", "mark", "notice-info", "notice-warning", "notice-error", "discarded",
)  # fmt: skip
COMPONENTS = {PREFIX + name for name in NAMES}


class Palette:
    """Turns the style names of spans into styles: a widget's component classes, laid over each other."""

    def __init__(self, widget: Widget, prefix: str = PREFIX) -> None:
        self._widget = widget
        self._prefix = prefix
        self._styles: dict[tuple[str, str], Style] = {}

    def forget(self) -> None:
        """The theme has changed."""
        self._styles.clear()

    def style(self, span: Span) -> Style:
        """The style of `span`, with its target where a click and the terminal's own links find it."""
        key = (span.style, span.link)
        if key not in self._styles:
            self._styles[key] = self._resolve(*key)
        return self._styles[key]

    def named(self, names: str) -> Style:
        """The style of one or several names."""
        return self.style(Span("", names))

    def _resolve(self, names: str, link: str) -> Style:
        _, _, ground, colour = self._widget.colors
        flags = Style()
        for name in names.split():
            styles = self._widget.get_component_styles(self._prefix + name)
            if styles.has_rule("background"):
                ground += styles.background
            if styles.has_rule("color"):
                colour = styles.color
            flags += styles.text_style
        style = Style(color=(ground + colour).rich_color, bgcolor=ground.rich_color) + flags
        if not link:
            return style
        if "://" in link:
            style += Style(link=link)
        return style + Style(meta={"target": link})
