"""What a note looks like: the facts of the session, and what was said, whole, with no doubt who said it.

One block for each text: its first line behind the speaker, the others quoted below with `> `. So nothing that was said
can be a heading of the note, an open fence or another speaker, and it still reads as the Markdown that it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_BREAKS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control characters, and those that turn the direction of what follows: neither can be seen.
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# A first line that is a part of something: of a list, a table, code, a quote, HTML.
_OPENS = re.compile(r"\s*(?:[#>|`~<*+=-]|\d+[.)]\s)")


def render(title: str, facts: Mapping[str, str], texts: Iterable[tuple[str, str]]) -> str:
    """The note: `facts` by their labels, then `texts`, pairs of role and text, the oldest first."""
    lines = [f"# {_line(title)}", "", *(f"- **{label}**: {_line(fact)}" for label, fact in facts.items())]
    blocks = [_block(role, shown) for role, text in texts if (shown := clean(text))]
    return "\n\n".join(["\n".join(lines), "## Conversation Summary", *blocks]) + "\n"


def clean(text: str) -> str:
    """`text` without what can't be seen, blank edges and lone surrogates; all line breaks are the usual one."""
    text = _UNSEEN.sub("", _ESCAPES.sub("", _BREAKS.sub("\n", text)))
    lines = (line if line.strip() else "" for line in text.encode("utf-8", "replace").decode("utf-8").split("\n"))
    return "\n".join(lines).strip()


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _block(role: str, text: str) -> str:
    first, *rest = text.split("\n")
    if not rest:
        return f"{role}: {first}"
    if _OPENS.match(first):
        return "\n".join([f"{role}:", *map(_quoted, [first, *rest])])
    return "\n".join([f"{role}: {first}", *map(_quoted, rest)])


def _quoted(line: str) -> str:
    return f"> {line}" if line else ">"
