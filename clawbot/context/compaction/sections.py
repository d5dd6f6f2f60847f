"""The sections of a summary: which there must be, how they are told in what a model wrote, how they are shortened.

Reference sheet 7.6. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from clawbot.context.cutting import clamp

GOAL, PROGRESS = "Goal", "Progress"
DECISIONS, TODOS, CONSTRAINTS = "Decisions", "Open TODOs", "Constraints"
ASKS, IDENTIFIERS = "Pending user asks", "Exact identifiers"
TURN = "Turn in progress"

REQUIRED = (DECISIONS, TODOS, CONSTRAINTS, ASKS, IDENTIFIERS)
SECTIONS = (GOAL, PROGRESS, *REQUIRED)
"""All headings that a summary is asked for, in their order; a turn cut in two has `TURN` besides, as the last."""

NOTHING = "(none)"

_FRONT = frozenset({GOAL, CONSTRAINTS, ASKS})
"""Of these the first lines stay when they are shortened, of others the last, which are the newest."""

_HEADING = re.compile(r"^ {0,3}(?P<marks>#{1,6})(?P<gap>[ \t]*)(?P<title>\S[^\n]{0,79}?)[ \t]*#*[ \t]*$")
_BOLD = re.compile(r"^ {0,3}(?:\d{1,2}[.)、][ \t]*)?(?:\*\*|__)(?P<title>[^*_\n]{2,60})(?:\*\*|__)[ \t]*[:：]?[ \t]*$")
_INLINE = re.compile(
    r"^ {0,3}(?:[-*]|\d{1,2}[.)、])?[ \t]*(?:\*\*|__)(?P<title>[^*_\n]{2,60})(?:\*\*|__)[ \t]*[:：]?[ \t]+"
    r"(?P<rest>\S.*)$"
)
_BARE = re.compile(r"^ {0,3}(?:\d{1,2}[.)、][ \t]*)?(?P<title>[^\s\-*>`][^:：\n]{1,40})[:：][ \t]*$")
_DECORATION = re.compile(r"^[\s\d.)、:：*_`]+(?=\S)|[\s:：*_`]+$")
_ALIASES = tuple(
    (name, re.compile(rf"(?:{pattern})", re.IGNORECASE))
    for name, pattern in (
        (GOAL, r"(?:the |user'?s? |main |overall )?(?:goals?|objectives?)|目标"),
        (PROGRESS, r"(?:current )?(?:progress|status)(?: so far)?|进展|进度"),
        (DECISIONS, r"(?:key |main |important )?decisions?(?: (?:made|taken))?|(?:关键|主要)?(?:决定|决策)"),
        (
            TODOS,
            r"(?:open |remaining |pending )?(?:to-?dos?|to do)(?: (?:list|items))?|next steps|待办(?:事项)?|下一步",
        ),
        (
            CONSTRAINTS,
            r"(?:key )?(?:constraints?|rules?)(?:(?:/| / | and | & )(?:rules?|preferences?))?|约束(?:条件)?|规则",
        ),
        (
            ASKS,
            r"(?:pending|open|unanswered)(?: user)? (?:asks?|requests?|questions?)|(?:待处理|未完成)的?(?:用户)?请求",
        ),
        (IDENTIFIERS, r"(?:exact |key )?identifiers?|(?:精确)?标识符?"),
        (TURN, r"(?:current )?turn (?:in progress|context)(?: \(split turn\))?"),
    )
)


class Section(Struct, frozen=True):
    """A heading's text (one of the known ones, or the model's own) and the lines under it; `times` it came up."""

    title: str
    lines: tuple[str, ...]
    times: int = 1

    @property
    def empty(self) -> bool:
        """Whether nothing stands under it, not even that there is nothing."""
        return not any(line.strip() for line in self.lines)


def parse(text: str) -> tuple[str, list[Section]]:
    """What stands before the first section, and the sections of `text`, each title once, in the order of first places.

    Tolerant: the depth, case, numbering and emphasis of headings do not matter, nor does a colon behind them. A heading
    that is deeper than the section it is in, and none of the known ones, is text.
    """
    lines: dict[str, list[str]] = {"": []}
    times: Counter[str] = Counter()
    current, depth, fenced = "", 6, False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _heading(line, depth)
        if heading is None:
            lines[current].append(line)
            continue
        current, depth, rest = heading
        times[current] += 1
        lines.setdefault(current, []).extend([rest] if rest else [])
    opening = "\n".join(lines.pop("")).strip()
    return opening, [Section(title, tuple(under), times[title]) for title, under in lines.items()]


def folded(opening: str, sections: Sequence[Section]) -> list[Section]:
    """`sections` with what stood before them under `Progress`."""
    if not opening:
        return list(sections)
    progress = next((section for section in sections if section.title == PROGRESS), Section(PROGRESS, ()))
    others = [section for section in sections if section.title != PROGRESS]
    return [Section(PROGRESS, (*opening.split("\n"), *progress.lines)), *others]


def known(title: str) -> str | None:
    """The section that `title` means; None when it is none of ours."""
    plain = _DECORATION.sub("", title).strip()
    return next((name for name, alias in _ALIASES if plain.lower() == name.lower() or alias.fullmatch(plain)), None)


def render(sections: Iterable[Section]) -> str:
    """The sections as Markdown, ours first and in their order, the others before the turn in progress."""
    order = {name: place for place, name in enumerate(SECTIONS)} | {TURN: len(SECTIONS) + 1}
    ordered = sorted(sections, key=lambda section: order.get(section.title, len(SECTIONS)))
    return "\n\n".join(f"## {section.title}\n{_body(section)}" for section in ordered)


def _body(section: Section) -> str:
    return "\n".join(section.lines).strip("\n") or NOTHING


def _heading(line: str, depth: int) -> tuple[str, int, str] | None:
    """The title and the depth of a line that is a heading, and what stands behind it on the same line."""
    if (found := _HEADING.match(line)) is not None:
        name, marks = known(found["title"]), len(found["marks"])
        return (
            (name or found["title"].strip(), marks, "") if name or (found["gap"] and marks <= min(depth, 2)) else None
        )
    found = _BOLD.match(line) or _BARE.match(line) or _INLINE.match(line)
    name = known(found["title"]) if found else None
    return (name, depth, found.groupdict().get("rest", "")) if found and name else None


def fit(text: str, most: int, count: Callable[[str], int]) -> str:
    """`text`, or the same with its longest sections shortened to `most` tokens by `count`; headings stay. A text
    that is all headings may be cut at its end. Blocks."""
    room = most
    shown = text
    for _ in range(6):
        if count(shown) <= most:
            return shown
        shown = _shortened(text, room, count)
        room = int(room * 0.85)
    while count(shown) > most and shown:
        shown = clamp(shown, len(shown) * 9 // 10) if len(shown) > 10 else ""
    return shown


def _shortened(text: str, room: int, count: Callable[[str], int]) -> str:
    sections = folded(*parse(text))
    room -= sum(count(f"## {section.title}\n\n\n") for section in sections)
    sizes = [count(_body(section)) for section in sections]
    shares = _shares(sizes, max(room, 0))
    return render(
        section if size <= share else Section(section.title, tuple(_kept(section, share, count)))
        for section, size, share in zip(sections, sizes, shares, strict=True)
    )


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """What each of `sizes` gets of `room`: the small ones all they need, the others the same."""
    shares = [0] * len(sizes)
    left = len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index]):
        shares[index] = min(sizes[index], room // left)
        room -= shares[index]
        left -= 1
    return shares


def _kept(section: Section, room: int, count: Callable[[str], int]) -> list[str]:
    """The lines of a section within `room` tokens, with a mark where others were."""
    lines = [line for line in section.lines if line.strip()]
    front = section.title in _FRONT
    room -= count("- [...]\n")
    kept: list[str] = []
    for line in lines if front else reversed(lines):
        size = count(line + "\n")
        if size > room:
            if not kept and room > 4:
                kept.append(clamp(line, max(1, len(line) * room // size)))
            break
        kept.append(line)
        room -= size
    if len(kept) == len(lines):
        return kept if front else kept[::-1]
    return [*kept, "- [...]"] if front else ["- [...]", *kept[::-1]]
