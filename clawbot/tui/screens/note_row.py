"""A place in the memory as a row of the search screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from textual.content import Content

from clawbot.tui.render.lines import middle, width_of
from clawbot.tui.screens.passages import marked, snippet_start
from clawbot.tui.screens.picker import Row


@dataclass(frozen=True)
class NoteRow(Row):
    """A place in the memory: lines `first` to `last` (from 1) of `path`, as the search for `query` found it.

    A note that nobody searched for has no `snippet` and no `score`. `room` are the columns there are for a row; a path
    that is too long for them is cut in its middle, so that its line can still be read. 0: as many as it takes.
    """

    path: str = ""
    first: int = 1
    last: int = 0
    snippet: str = ""
    query: str = ""
    score: float | None = None
    is_session: bool = False
    room: int = field(default=0, compare=False)

    def prompt(self, found: Sequence[int] = ()) -> Content:
        """The score, the place, and below them what stands there."""
        score = "" if self.score is None else f"{self.score:.2f}  "
        lines = [Content.assemble((score, "$foreground 60%"), self._place(self.room - width_of(score)))]
        if self.detail or self.snippet:
            day = f"{self.detail}  " if self.detail and self.snippet else self.detail
            start = marked(self.query, snippet_start(self.snippet, self.query), "$foreground 75%")
            lines.append(Content.assemble(" " * len(score), (day, "$foreground 50%"), start))
        return Content("\n").join(lines)

    def _place(self, width: int) -> str:
        line = f":{self.first}" if self.last else ""
        path = self.title.removesuffix(line)
        return f"{middle(path, width - width_of(line)) if self.room > 0 else path}{line}"
