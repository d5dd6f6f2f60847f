"""The contrast of what is on the screen, by WCAG 2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.strip import Strip

ENOUGH = 4.5


def contrast(style: Style) -> float:
    """Between the text and the ground of `style`."""
    assert style.color is not None
    assert style.bgcolor is not None
    light, dark = sorted(
        (_luminance(Color.from_rich_color(each)) for each in (style.color, style.bgcolor)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


def pale_texts(app: App[Any], inside: str = "") -> dict[str, float]:
    """Every text on the screen with too little contrast; only that `inside` a widget, where one is named."""
    strips = app.screen._compositor.render_strips()
    if inside:
        frame = app.screen.query_one(inside).region
        strips = [strip.crop(frame.x, frame.right) for strip in strips[frame.y : frame.bottom]]
    return pale(strips)


def pale(strips: Iterable[Strip]) -> dict[str, float]:
    """The texts of `strips` with too little contrast. Signs without a letter or figure are no text."""
    found = {segment.text.strip(): _figure(segment) for strip in strips for segment in strip}
    return {text: round(figure, 2) for text, figure in found.items() if figure < ENOUGH}


def _figure(segment: Segment) -> float:
    style = segment.style
    if style is None or style.color is None or style.bgcolor is None or not any(map(str.isalnum, segment.text)):
        return ENOUGH
    if ColorType.DEFAULT in (style.color.type, style.bgcolor.type):
        return ENOUGH
    return contrast(style)


def _luminance(colour: Color) -> float:
    parts = [part / 255 for part in (colour.r, colour.g, colour.b)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
