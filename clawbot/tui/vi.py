"""vi's way of editing as a pure state machine: a key, the text and the cursor go in, the next of each comes out.

A command is a text such as `2dw` or `fx`: it runs as soon as it is complete. Words are those of the prompt's own
ctrl+left (a run of letters, digits and Chinese is one), so `w` and `ctrl+right` agree; what is between is a word, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from clawbot.text.graphemes import edge, edges
from clawbot.text.patterns import lazy_re

# A run of one kind: of the word, or of what is neither word nor blank. An empty line is a word, too.
_WORDS = re.compile(r"\w+|[^\w\s]+|(?<=\n)(?=\n)")
_BIG_WORDS = re.compile(r"\S+|(?<=\n)(?=\n)")
_OPPOSITE = {"f": "F", "F": "f", "t": "T", "T": "t"}


class Span(NamedTuple):
    """From the cursor to the position that a motion leads to; `inclusive` of that character, or `linewise`."""

    start: int
    end: int
    inclusive: bool = False
    linewise: bool = False


def line_start(text: str, at: int) -> int:
    """Return the offset at which the line of `at` begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return the offset of the line break that ends the line of `at`, or of the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def location_of(text: str, at: int) -> tuple[int, int]:
    """Return the line (from 0) and the column of the offset `at`."""
    return text.count("\n", 0, at), at - line_start(text, at)


def shared(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two texts begin with and, of the rest, end with alike."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    return start, end


def clamped(text: str, at: int) -> int:
    """Return `at`, on a character of its line: not behind the last one, unless the line is empty."""
    at = max(0, min(at, len(text)))
    return edge(text, min(at, max(line_start(text, at), line_end(text, at) - 1)))


def move(text: str, at: int, motion: str, count: int, found: str) -> Span | None:
    """Return where `motion` leads from `at`, `count` times (0: none was given); None where it leads nowhere. `found` is
    the last search in a line (`fx`), which `;` and `,` do again."""
    times = max(1, count)
    if motion in ("j", "k"):
        return _vertical(text, at, times if motion == "j" else -times)
    if motion in ("gg", "G"):
        return _to_line(text, at, count or (1 if motion == "gg" else text.count("\n") + 1))
    if motion in ";,":
        if not found:
            return None
        motion = found if motion == ";" else _OPPOSITE[found[0]] + found[1]
        return _in_line(text, at, motion, times, again=True)
    if motion[0] in "fFtT":
        return _in_line(text, at, motion, times)
    if motion in "wbeWBE":
        return _by_word(text, at, motion, times)
    return Span(at, _along(text, at, motion, times))


def _along(text: str, at: int, motion: str, times: int) -> int:
    start, end = line_start(text, at), line_end(text, at)
    match motion:
        case "h":
            found = edges(text[start:at])
            return start + found[max(0, len(found) - 1 - times)]
        case "l":
            found = edges(text[at:end])
            return at + found[min(times, len(found) - 1)]
        case "0":
            return start
        case "^":
            return start + len(text[start:end]) - len(text[start:end].lstrip())
    for _ in range(times - 1):
        end = line_end(text, min(len(text), end + 1))
    return end


def _vertical(text: str, at: int, steps: int) -> Span | None:
    """Return so many lines down or, below 0, up, as far as there are any."""
    position, aim = at, at - line_start(text, at)
    for _ in range(abs(steps)):
        next_line = line_end(text, position) + 1 if steps > 0 else line_start(text, position) - 1
        if not 0 <= next_line <= len(text):
            break
        position = line_start(text, next_line)
    if line_start(text, position) == line_start(text, at):
        return None
    return Span(at, clamped(text, min(position + aim, line_end(text, position))), linewise=True)


def _to_line(text: str, at: int, number: int) -> Span:
    position = 0
    for _ in range(number - 1):
        end = line_end(text, position)
        if end == len(text):
            break
        position = end + 1
    return Span(at, _along(text, position, "^", 1), linewise=True)


def _in_line(text: str, at: int, motion: str, times: int, *, again: bool = False) -> Span | None:
    kind, sign = motion[0], motion[1]
    start, end = line_start(text, at), line_end(text, at)
    position = at
    if again and kind in "tT":
        position += 1 if kind == "t" else -1  # else it remains before the one that it found last
    for _ in range(times):
        position = text.find(sign, position + 1, end) if kind in "ft" else text.rfind(sign, start, max(start, position))
        if position < 0:
            return None
    if kind in "tT":
        position += -1 if kind == "t" else 1
    return Span(at, position, inclusive=kind in "ft")


def _by_word(text: str, at: int, motion: str, times: int) -> Span:
    words = [found.span() for found in (_WORDS if motion.islower() else _BIG_WORDS).finditer(text)]
    position = at
    for _ in range(times):
        match motion.lower():
            case "w":
                position = next((start for start, _ in words if start > position), len(text))
            case "b":
                position = next((start for start, _ in reversed(words) if start < position), 0)
            case _:
                last = max(0, len(text) - 1)
                position = next((end - 1 for start, end in words if end - 1 > position and end > start), last)
    return Span(at, position, inclusive=motion in "eE")


def object_at(text: str, at: int, name: str) -> Span | None:
    """Return the word that `at` is in (`iw`, `iW`), with the blanks after it or else before it (`aw`, `aW`)."""
    start, end = line_start(text, at), line_end(text, at)
    kinds = r"\w+|[^\w\s]+|\s+" if name[1] == "w" else r"\S+|\s+"
    for found in re.finditer(kinds, text[start:end]):
        if found.start() <= at - start < found.end():
            first, last = found.span()
            if name[0] == "a":
                after = len(text[start + last : end]) - len(text[start + last : end].lstrip())
                before = first - len(text[start : start + first].rstrip())
                first, last = (first, last + after) if after else (first - before, last)
            return Span(start + first, start + last)
    return Span(at, at) if start == end else None


INSERT = "insert"
NORMAL = "normal"
VISUAL = "visual"
LINES = "visual line"

MOTION = r"gg|[fFtT;,](?:(?<=[;,])|.)|[hjklwbeWBE0^$G]"
_COUNT = r"(?P<count>[1-9]\d{0,3})?"
_NORMAL = lazy_re(
    rf"{_COUNT}(?:(?P<op>[dcy])(?P<more>[1-9]\d{{0,3}})?(?:(?P<line>(?P=op))|(?P<object>[ia][wW])|(?P<to>{MOTION}))"
    rf"|(?P<move>{MOTION})|(?P<do>r.|[xXpPuiIaAoOJ~DCYSsvV.]))",
    re.DOTALL,
)
_VISUAL = lazy_re(rf"{_COUNT}(?:(?P<object>[ia][wW])|(?P<move>{MOTION})|(?P<do>r.|[dxcsyvVoJ~pP]))", re.DOTALL)
_UNFINISHED = lazy_re(r"(?:[1-9]\d{0,3})?(?:(?:[dcy](?:[1-9]\d{0,3})?)?[fFtTgia]?|[dcy](?:[1-9]\d{0,3})?|r)")
# Keys that have a name, and the command that they are.
NAMED = {
    "left": "h", "right": "l", "up": "k", "down": "j", "home": "0", "end": "$", "backspace": "h", "delete": "x",
}  # fmt: skip
# The short form of an operator and its motion.
SHORT = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "Y": "yy", "S": "cc", "s": "cl"}
OPERATORS = {"d": "d", "x": "d", "c": "c", "s": "c", "y": "y"}
_CHANGES = frozenset("xXpPiIaAoOJ~DCSs")


class Vi(Struct, frozen=True):
    """The state between keys: the mode, the command that is not complete yet, where a selection began, what was
    cut or copied (`linewise`), the last search in a line, the last change, the text that was inserted by it and how
    many `times`."""

    mode: str = INSERT
    typed: str = ""
    anchor: int = 0
    register: str = ""
    linewise: bool = False
    found: str = ""
    change: str = "i"
    times: int = 1
    inserted: str = ""
    began: tuple[int, int] = (0, 0)


class Step(NamedTuple):
    """The result of a key. `effect` is what only the prompt can do: `undo`, `redo`, `older`, `newer`, `stop`."""

    vi: Vi
    text: str
    cursor: int
    effect: str = ""


def press(vi: Vi, text: str, cursor: int, key: str) -> Step:
    """Take `key` (a character, or the name of a key) at `cursor`, an offset in `text`. In the mode insert only `escape`
    means something here."""
    if key == "escape":
        return _escape(vi, text, cursor)
    if vi.mode == INSERT:
        return Step(vi, text, cursor)
    if key == "ctrl+r":
        return Step(replace(vi, typed=""), text, cursor, "redo")
    typed = vi.typed + NAMED.get(key, key)
    visual = vi.mode in (VISUAL, LINES)
    found = (_VISUAL if visual else _NORMAL).fullmatch(typed)
    if found:
        step = (_selected if visual else _run)(replace(vi, typed=""), text, cursor, found)
        return step if step.vi.mode == INSERT else step._replace(cursor=clamped(step.text, step.cursor))
    return Step(replace(vi, typed=typed if _UNFINISHED.fullmatch(typed) else ""), text, cursor)


def _escape(vi: Vi, text: str, cursor: int) -> Step:
    if vi.mode == INSERT:
        start, length = vi.began
        added = len(text) - length
        inserted = text[start:cursor] if added > 0 and start + added == cursor else ""
        again = (("\n" if vi.change[-1] in "oO" else "") + inserted) * (vi.times - 1)
        text, cursor = text[:cursor] + again + text[cursor:], cursor + len(again)
        at = max(line_start(text, cursor), cursor - 1)
        return Step(replace(vi, mode=NORMAL, typed="", inserted=inserted), text, clamped(text, at))
    effect = "stop" if vi.mode == NORMAL and not vi.typed else ""
    return Step(replace(vi, mode=NORMAL, typed=""), text, clamped(text, cursor), effect)


def _run(vi: Vi, text: str, cursor: int, found: re.Match[str]) -> Step:
    count = int(found["count"] or 0)
    if found["op"]:
        total = max(1, count) * int(found["more"] or 1) if count or found["more"] else 0
        step = _operate(vi, text, cursor, found["op"], _reach(vi, text, cursor, found, total))
    elif found["move"]:
        return _go(vi, text, cursor, found["move"], count)
    else:
        step = _do(vi, text, cursor, found["do"], count)
    changes = found["op"] in ("d", "c") or (found["do"] or " ")[0] in (*_CHANGES, "r")
    return step._replace(vi=replace(step.vi, change=found[0])) if changes else step


def _reach(vi: Vi, text: str, cursor: int, found: re.Match[str], count: int) -> Span | None:
    """Return what an operator is about."""
    if found["line"]:
        last = move(text, cursor, "j", max(1, count) - 1, vi.found) if count > 1 else None
        return Span(cursor, last.end if last else cursor, linewise=True)
    if found["object"]:
        return object_at(text, cursor, found["object"])
    motion = found["to"]
    on_word = cursor < len(text) and not text[cursor].isspace()
    if found["op"] == "c" and motion in "wW" and on_word:
        end = move(text, cursor - 1, "e" if motion == "w" else "E", count, "")
        return end and end._replace(start=cursor)
    span = move(text, cursor, motion, count, vi.found)
    if span and motion in "wW":
        behind = cursor + len(text[cursor : span.end].rstrip())
        return span._replace(end=min(span.end, line_end(text, behind)))  # not the next line with the last word of one
    return span


def _found(vi: Vi, motion: str) -> Vi:
    return replace(vi, found=motion) if motion[0] in "fFtT" else vi


def _go(vi: Vi, text: str, cursor: int, motion: str, count: int) -> Step:
    span = move(text, cursor, motion, count, vi.found)
    if span is None:
        effect = {"k": "older", "j": "newer"}.get(motion, "") if vi.mode == NORMAL else ""
        return Step(_found(vi, motion), text, cursor, effect)
    return Step(_found(vi, motion), text, span.end)


def _operate(vi: Vi, text: str, cursor: int, operator: str, span: Span | None) -> Step:
    """Delete, change or copy what is in `span`, which begins or ends at `cursor`."""
    if span is None:
        return Step(replace(vi, mode=NORMAL), text, cursor)
    start, end = min(span.start, span.end), edge(text, max(span.start, span.end) + span.inclusive, after=True)
    if span.linewise:
        return _operate_lines(vi, text, cursor, operator, Span(line_start(text, start), line_end(text, end)))
    vi = replace(vi, mode=NORMAL, register=text[start:end], linewise=False)
    if operator == "y":
        return Step(vi, text, start)
    text = text[:start] + text[end:]
    return _insert(vi, text, start) if operator == "c" else Step(vi, text, start)


def _operate_lines(vi: Vi, text: str, cursor: int, operator: str, lines: Span) -> Step:
    start, end = lines.start, lines.end
    vi = replace(vi, mode=NORMAL, register=text[start:end], linewise=True)
    if operator == "y":
        return Step(vi, text, cursor if cursor <= end else start)
    if operator == "c":
        return _insert(vi, text[:start] + text[end:], start)
    if end < len(text):
        text = text[:start] + text[end + 1 :]
    else:
        text, start = text[: max(0, start - 1)], max(0, start - 1)
    return Step(vi, text, line_start(text, min(start, len(text))))


def _insert(vi: Vi, text: str, at: int, times: int = 1) -> Step:
    return Step(replace(vi, mode=INSERT, typed="", began=(at, len(text)), times=times), text, at)


def _do(vi: Vi, text: str, cursor: int, name: str, count: int) -> Step:
    if name in SHORT:
        found = _NORMAL.fullmatch(f"{count or ''}{SHORT[name]}")
        return _run(vi, text, cursor, found) if found else Step(vi, text, cursor)
    match name[0]:
        case "p" | "P":
            return _put(vi, text, cursor, max(1, count), after=name == "p")
        case "r" | "~":
            return _exchange(vi, text, cursor, name, max(1, count))
        case "J":
            return _join(vi, text, cursor, max(1, count - 1))
        case "v" | "V":
            return Step(replace(vi, mode=VISUAL if name == "v" else LINES, anchor=cursor), text, cursor)
        case ".":
            return _again(vi, text, cursor, count)
    return Step(vi, text, cursor, "undo") if name == "u" else _open(vi, text, cursor, name, max(1, count))


def _open(vi: Vi, text: str, cursor: int, name: str, times: int) -> Step:
    start, end = line_start(text, cursor), line_end(text, cursor)
    if name == "o":
        return _insert(vi, f"{text[:end]}\n{text[end:]}", end + 1, times)
    if name == "O":
        return _insert(vi, f"{text[:start]}\n{text[start:]}", start, times)
    first = start + len(text[start:end]) - len(text[start:end].lstrip())
    return _insert(vi, text, {"i": cursor, "a": _behind(text, cursor), "I": first, "A": end}[name], times)


def _behind(text: str, cursor: int) -> int:
    """Return the offset behind the character at `cursor`, on its line."""
    return min(edge(text, cursor + 1, after=True), line_end(text, cursor))


def _exchange(vi: Vi, text: str, cursor: int, name: str, times: int) -> Step:
    """Return the state after `r` and `~`: as many characters as there were."""
    found = edges(text[cursor : line_end(text, cursor)])
    until = cursor + found[min(times, len(found) - 1)]
    if name == "~":
        changed = text[cursor:until].swapcase()
        return Step(vi, text[:cursor] + changed + text[until:], cursor + len(changed))
    if times >= len(found):
        return Step(vi, text, cursor)
    return Step(vi, text[:cursor] + name[1] * times + text[until:], cursor + times - 1)


def _put(vi: Vi, text: str, cursor: int, times: int, *, after: bool) -> Step:
    if not vi.register and not vi.linewise:
        return Step(vi, text, cursor)
    if vi.linewise:
        lines = "\n".join([vi.register] * times)
        if after:
            end = line_end(text, cursor)
            return Step(vi, f"{text[:end]}\n{lines}{text[end:]}", end + 1)
        start = line_start(text, cursor)
        return Step(vi, f"{text[:start]}{lines}\n{text[start:]}", start)
    at = _behind(text, cursor) if after else cursor
    added = vi.register * times
    return Step(vi, text[:at] + added + text[at:], at + len(added) - 1)


def _join(vi: Vi, text: str, cursor: int, times: int) -> Step:
    at = cursor
    for _ in range(times):
        end = line_end(text, cursor)
        if end == len(text):
            break
        rest = text[end + 1 :].lstrip(" \t")
        space = "" if not rest or rest[0] == "\n" or text[end - 1 : end] in ("", " ", "\n") else " "
        text, at = text[:end] + space + rest, end
    return Step(vi, text, at)


def _again(vi: Vi, text: str, cursor: int, count: int) -> Step:
    """Do the last change here, with the text that was inserted by it, `count` times if not 0."""
    found = _NORMAL.fullmatch(f"{count}{vi.change.lstrip('0123456789')}" if count else vi.change)
    if not found:
        return Step(vi, text, cursor)
    step = _run(vi, text, cursor, found)
    if step.vi.mode != INSERT:
        return step
    at = step.cursor
    return _escape(step.vi, step.text[:at] + vi.inserted + step.text[at:], at + len(vi.inserted))


def _selected(vi: Vi, text: str, cursor: int, found: re.Match[str]) -> Step:
    if found["move"]:
        return _go(vi, text, cursor, found["move"], int(found["count"] or 0))
    if found["object"]:
        span = object_at(text, cursor, found["object"])
        taken = span and Step(replace(vi, anchor=span.start), text, max(span.start, span.end - 1))
        return taken or Step(vi, text, cursor)
    name, start, end = found["do"], *sorted((vi.anchor, cursor))
    if name in OPERATORS:
        linewise = vi.mode == LINES
        span = Span(start, end if linewise else min(end + 1, len(text)), linewise=linewise)
        return _operate(vi, text, start, OPERATORS[name], span)
    match name:
        case "o":
            return Step(replace(vi, anchor=cursor), text, vi.anchor)
        case "v" | "V":
            mode = VISUAL if name == "v" else LINES
            return Step(replace(vi, mode=NORMAL if vi.mode == mode else mode), text, cursor)
        case "J":
            return _join(replace(vi, mode=NORMAL), text, start, max(1, text.count("\n", start, end)))
    return _replaced(vi, text, name, Span(start, end))


def _replaced(vi: Vi, text: str, name: str, span: Span) -> Step:
    linewise = vi.mode == LINES
    start = line_start(text, span.start) if linewise else span.start
    end = line_end(text, span.end) if linewise else edge(text, span.end + 1, after=True)
    chosen = text[start:end]
    done = replace(vi, mode=NORMAL)
    if name[0] == "~":
        new = chosen.swapcase()
    elif name[0] == "r":
        new = "".join("\n" if chosen[at] == "\n" else name[1] for at in edges(chosen)[:-1])
    else:
        new = vi.register
        done = replace(done, register=chosen, linewise=linewise)
    return Step(done, text[:start] + new + text[end:], start)
