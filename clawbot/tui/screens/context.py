"""The context window on the screen: where its tokens go, as a stacked bar and a table, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from clawbot.clock import Clock, day_of
from clawbot.context.report import (
    ContextPart,
    ContextReport,
    LastFlush,
    cache_line,
    certainty,
    coming,
    left_out_line,
    outcome,
)
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean, clean_line, isolate
from clawbot.tui.render.lines import ellipsis, note_link, padded, width_of
from clawbot.tui.screens.common import KeyHint, KeyLine, PageScreen

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.context.report import ContextReport


def share_out(amounts: Sequence[int], cells: int) -> list[int]:
    """Return how many of `cells` each of `amounts` (0 or more) gets. The cells sum up to `cells` as long as there is an
    amount and a cell for each that is not 0; what is rounded goes to where most was lost."""
    total = sum(amounts)
    if not total:
        return [0] * len(amounts)
    exact = [amount * cells / total for amount in amounts]
    given = [max(1, int(share)) if amount else 0 for amount, share in zip(amounts, exact, strict=True)]
    while sum(given) < cells:
        given[max(range(len(given)), key=lambda n: exact[n] - given[n] if amounts[n] else -1.0)] += 1
    while sum(given) > cells and max(given) > 1:
        given[max((n for n in range(len(given)) if given[n] > 1), key=lambda n: given[n] - exact[n])] -= 1
    return given


QUIET = "$foreground 70%"
# Sign and colour of each part: what no compaction makes smaller, the conversation, what is left.
FIXED, HISTORY, LEFT = "$secondary", "$accent", "$foreground 30%"
STYLES = {
    "system": ("█", FIXED),
    "bootstrap": ("▓", FIXED),
    "tools": ("▒", FIXED),
    "summary": ("█", HISTORY),
    "notes": ("▞", HISTORY),
    "messages": ("▓", HISTORY),
    "toolResults": ("▒", HISTORY),
    "unaccounted": ("▚", QUIET),
    "free": ("░", LEFT),
    "reserve": ("·", LEFT),
}
NO_STYLE = ("▚", QUIET)  # of a part that is not known here
NAME, AMOUNT, SHARE = 18, 10, 8  # cells of the columns of the parts
NUMBER = 11  # and of those of the detail
UNKNOWN = N_("The window is assumed; context_tokens sets it.")
OPEN_FLUSH = "screen.open_flush"


def context_lines(report: ContextReport, width: int, now: datetime, *, detail: bool = False) -> list[Content]:
    """Return the page: lines of at most `width` cells; `now` in the zone of the user."""
    lines = [_title(report, width), Content(), *bar(report, width), Content()]
    lines += [_row(part, report, width) for part in report.parts if part.tokens or part.key == "free"]
    lines += [Content(), *_closing(report, width, now)]
    lines += _detail(report, width) if detail else ()
    return [line.truncate(width, ellipsis=True) for line in lines]


def _title(report: ContextReport, width: int) -> Content:
    """Return the model, its window, and its source: without the reasons if there is no room for them."""
    head = _("context window")
    figures = " · " + ngettext("{n:,} token", "{n:,} tokens", report.window).format(n=report.window)
    model = ellipsis(clean_line(report.model), max(12, width - width_of(head) - 3 - width_of(figures)))
    room = width - width_of(head) - 3 - width_of(model) - width_of(figures)
    source = f" · {clean_line(_(report.window_source))}" if report.window_source else ""
    if width_of(source) > room:
        source = source.partition(":")[0]
    return Content.assemble(
        (head, "$text-accent"),
        (" · ", QUIET),
        isolate(model),
        (figures, QUIET),
        (ellipsis(source, room), "$text-warning" if report.assumed else QUIET),
    )


def bar(report: ContextReport, width: int, styles: Mapping[str, tuple[str, str]] = STYLES) -> list[Content]:
    """Return the window with its marks, each part as in `styles`, and the names of the marks on the line below."""
    shown = [part for part in report.parts if part.tokens > 0]
    cells = share_out([part.tokens for part in shown], width)
    signs = [styles.get(part.key, NO_STYLE) for part, count in zip(shown, cells, strict=True) for _ in range(count)]
    marks = mark_columns(report, width)
    spans = [("┊", QUIET) if column in marks.values() else sign for column, sign in enumerate(signs)]
    return [Content.assemble(*spans), Content.styled(mark_names(marks, width), QUIET)]


def mark_columns(report: ContextReport, width: int) -> dict[str, int]:
    """Return in which cell (from 0) of a bar of `width` cells flush and compaction come, by their names."""
    total = max(report.window, sum(part.tokens for part in report.parts if part.tokens > 0))
    marks = {_("flush"): report.flush_at, _("compaction"): report.compact_at}
    return {name: min(width - 1, at * width // total) for name, at in marks.items() if at and total}


def mark_names(marks: dict[str, int], width: int) -> str:
    """Return the names of the marks: one at each side where there is room, else both left of them, else right."""
    if not marks:
        return ""
    names, first, last = list(marks), min(marks.values()), max(marks.values())
    lines = "┊" * (last - first > 0) + " " * (last - first - 1) + "┊"
    if len(names) > 1 and last + 2 + width_of(names[-1]) <= width and first > width_of(names[0]):
        return f"{padded(names[0] + ' ', first, right=True)}{lines} {names[-1]}"
    text = " · ".join(names)
    if first > width_of(text):
        return f"{padded(text + ' ', first, right=True)}{lines}"
    return f"{'':>{first}}{lines} {text}" if last + 2 + width_of(text) <= width else ""


def _row(part: ContextPart, report: ContextReport, width: int) -> Content:
    sign, style = STYLES.get(part.key, NO_STYLE)
    tokens = f"{part.tokens:+,}" if part.key == "unaccounted" else f"{part.tokens:,}"
    has_share = report.window and part.key != "unaccounted" and width >= 2 + NAME + AMOUNT + SHARE
    share = f"{100 * part.tokens / report.window:.1f} %" if has_share else ""
    made = ellipsis(_made_of(part, report), max(0, width - 2 - NAME - AMOUNT - SHARE - 3))
    return Content.assemble(
        (sign, style),
        f" {padded(_('other') if part.key == 'unaccounted' else clean_line(_(part.name)), NAME)}{tokens:>{AMOUNT}}",
        (f"{share:>{SHARE}}", QUIET),
        (f"   {made}" if len(made) > 1 else "", QUIET),
    )


def _made_of(part: ContextPart, report: ContextReport) -> str:
    match part.key:
        case "bootstrap":
            files = sorted(report.bootstrap_files, key=lambda file: -file.tokens)
            return " · ".join(f"{isolate(clean_line(file.name)).removesuffix('.md')} {file.tokens:,}" for file in files)
        case "tools" | "notes" as key:
            count = len(report.tools if key == "tools" else report.notes)
            text = (
                ngettext("{n} tool", "{n} tools", count) if key == "tools" else ngettext("{n} file", "{n} files", count)
            )
            return text.format(n=count) if count else ""
        case "messages":
            return ngettext("{n:,} message", "{n:,} messages", report.messages).format(n=report.messages)
        case "toolResults" if report.pruned:
            left = ngettext("{n:,} old result left out", "{n:,} old results left out", report.pruned)
            return left.format(n=report.pruned)
        case "unaccounted":
            return _("by the provider's count")
        case "reserve":
            return _("kept for the answer")
    return ""


def _closing(report: ContextReport, width: int, now: datetime) -> Iterator[Content]:
    used = _("used {used:,} of {window:,} · {certainty}").format(
        used=report.used, window=report.window, certainty=certainty(report)
    )
    yield Content.styled(used, QUIET)
    parts = [Content(coming(report))]
    if report.last_flush is not None:
        parts.append(_last_flush(report.last_flush, now))
    compactions = ngettext("{n:,} compaction", "{n:,} compactions", report.compactions)
    parts.append(Content(compactions.format(n=report.compactions)))
    lines: list[list[Content]] = [[]]
    for part in parts:
        if lines[-1] and sum(item.cell_length + 3 for item in lines[-1]) + part.cell_length > width:
            lines.append([])
        lines[-1].append(part)
    yield from (Content(" · ").join(line).stylize_before(QUIET) for line in lines)
    if report.cache is not None:
        yield Content.styled(cache_line(report.cache, now.tzinfo), QUIET)
    if report.tools_left_out:
        yield Content.styled(left_out_line(report), QUIET)
    if report.assumed:
        yield Content.styled(_(UNKNOWN), "$text-warning")


def _last_flush(flush: LastFlush, now: datetime) -> Content:
    """When the last flush was and what came of it; what was written opens."""
    text = _("last flush {time}, ").format(time=_moment(flush.at, now))
    if flush.path:
        count = flush.end_line - flush.line + 1
        lines = ngettext("{n:,} line", "{n:,} lines", count).format(n=count)
        return Content.from_markup(f"$text[@click={OPEN_FLUSH}]$lines[/]", text=text, lines=lines)
    return Content(text + clean_line(outcome(flush)))


def _moment(at: str, now: datetime) -> str:
    try:
        then = datetime.fromisoformat(at).astimezone(now.tzinfo)
    except ValueError:
        return clean_line(at)
    return f"{then:%H:%M}" if then.date() == now.date() else f"{day_of(then, with_year=False)} {then:%H:%M}"


# The detail


def _detail(report: ContextReport, width: int) -> Iterator[Content]:
    """Yield the files with how much of each is sent, the tools, the sections of the system prompt."""
    room = max(12, min(34, width - 3 * NUMBER - 12))
    tokens = {file.name: file.tokens for file in report.bootstrap_files}
    if report.files:
        yield from _heading(_("files"), (_("characters"), _("sent"), _("tokens")), room)
    for file in report.files:
        if file.missing:
            yield _figures(file.name, ("–", "–", "–"), room, _("missing"))
        else:
            sizes = (f"{file.raw_chars:,}", f"{file.injected_chars:,}", f"{tokens.get(file.name, 0):,}")
            yield _figures(file.name, sizes, room, _("cut") if file.truncated else "", warns=True)
    yield from _listing(_("notes at the start"), _("tokens"), [(note.name, note.tokens) for note in report.notes], room)
    yield from _listing(_("tools"), _("tokens"), [(tool.name, tool.tokens) for tool in report.tools], room)
    yield from _listing(
        _("system prompt"), _("characters"), [(size.name, size.chars) for size in report.sections], room
    )


def _listing(title: str, unit: str, rows: Sequence[tuple[str, int]], room: int) -> Iterator[Content]:
    if rows:
        yield from _heading(title, (unit,), room)
    for name, size in sorted(rows, key=lambda row: -row[1]):
        yield _figures(name, (f"{size:,}",), room)


def _heading(title: str, units: Sequence[str], room: int) -> Iterator[Content]:
    yield Content()
    yield Content.assemble(
        (padded(title, room), "$text-accent"), ("".join(padded(unit, NUMBER, right=True) for unit in units), QUIET)
    )


def _figures(name: str, figures: Sequence[str], room: int, remark: str = "", *, warns: bool = False) -> Content:
    shown = ellipsis(clean_line(name), room - 1)
    space = " " * (room - width_of(shown))
    return Content.assemble(
        isolate(shown) + space + "".join(f"{figure:>{NUMBER}}" for figure in figures),
        (f"   {remark}" if remark else "", "$text-warning" if warns else QUIET),
    )


COUNTING = N_("counting …")
AFTER_TURN = N_("The figures come when the running turn has ended.")


class ContextScreen(PageScreen[str]):
    """Dismisses with the target of a note that is to be opened, or None."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/context.tcss"]
    BINDINGS: ClassVar = [
        Binding("d", "detail", "More or less detail", show=False),
        Binding("o", "open_flush", "Open what the last flush wrote", show=False),
    ]

    def __init__(self, runtime: RuntimeApi, *, clock: Clock) -> None:
        super().__init__()
        self.runtime = runtime
        self.clock = clock
        self.report: ContextReport | None = None
        self.detail = False

    def compose(self) -> ComposeResult:
        wait = AFTER_TURN if self.runtime.agent.status.busy else COUNTING
        with Vertical(id="frame") as frame:
            frame.border_title = _("Context")
            with VerticalScroll(id="page", can_focus=False, classes="body"):
                yield Static(Content.styled(_(wait), "$foreground 70%"), id="report")
            yield KeyLine([])

    def on_mount(self) -> None:
        self.run_worker(self._load(), group="report")
        self._show()

    async def _load(self) -> None:
        try:
            report = await self.runtime.agent.context_report()
        except (ClawbotError, OSError) as error:
            if not self.has_left:
                self.query_one("#report", Static).update(Content.styled(clean(f"{error}"), "$text-error"))
            return
        if not self.has_left:
            self.report = report
            self._show()

    def _show(self) -> None:
        keys = [KeyHint("esc", _("back"), "screen.back")]
        if self.report is not None:
            lines = context_lines(self.report, self.inner_width, self.clock.now(), detail=self.detail)
            self.query_one("#report", Static).update(Content("\n").join(lines))
            keys.insert(0, KeyHint("d", _("less") if self.detail else _("detail"), "screen.detail"))
            if self._written:
                keys.insert(1, KeyHint("o", _("open what was written"), "screen.open_flush"))
        line = self.query_one(KeyLine)
        line.keys = tuple(keys)
        line.refresh()

    @property
    def _written(self) -> str:
        flush = self.report.last_flush if self.report is not None else None
        return note_link(flush.path, flush.line) if flush is not None and flush.path else ""

    def on_resize(self, event: Resize) -> None:
        self._show()

    def action_detail(self) -> None:
        self.detail = not self.detail
        self._show()

    def action_open_flush(self) -> None:
        if self._written:
            self.dismiss(self._written)
