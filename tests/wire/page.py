"""Writes docs/providers.md from the table of the matrix.

Run: .venv/bin/python -m tests.wire.page
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.wire.table import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
PLAIN = ("the answer", "", "no")
HEAD = """# Model providers

What do I see when a vendor answers, fails or breaks off, and is my message sent again? `make pages` writes this from
`tests/wire/matrix.yaml`. That file also has the vendors' finish reasons and all events of which the plain answer comes;
`tests/wire/test_matrix.py` plays them. litellm reaches other vendors, most of which speak one of these protocols.

## Addresses and keys

| vendor | for example | called at | key |
|---|---|---|---|
"""
EVENTS = """
## What you see

`clawbot chat -p` prints the answer on stdout and everything else on stderr, each line behind `clawbot:`; the chat shows
the same words. The message of a failed turn begins with who answered: `Anthropic: Overloaded (overloaded_error).`

- **Sent again**: until an answer comes, `agents.defaults.retries.attempts` times at most. The waits grow, or are
  as long as the vendor asks for. Nothing is sent again once a part of the answer was shown.
- **Stored**: besides your message, what came of the answer, reasoning too, and the failure.
- **Next step**: one of these lines is printed with a failure; `clawbot chat -p` exits with 1.

"""


def label(vendor: str) -> str:
    """The name of a vendor; with the protocol where it has two."""
    facts = TABLE["vendors"][vendor]
    twice = [other["title"] for other in TABLE["vendors"].values()].count(facts["title"]) > 1
    return f"{facts['title']} {facts['protocol']}" if twice else str(facts["title"])


def row(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def table(*heads: str) -> str:
    """The beginning of a table."""
    return row(*heads) + "|" + "---|" * len(heads) + "\n"


def message(event: Mapping[str, Any], text: str) -> str:
    """A message of the table, in words."""
    for name, words in {"{words}": "*the vendor's words*", "{reason}": "*finish reason*", "{n}": "…"}.items():
        text = text.replace(name, words)
    return text if event.get("exit") or "retried" not in event else f"{text} Trying again in *n* s."


def seen(event: Mapping[str, Any]) -> str:
    """What is shown of an event."""
    shown = [{"Hel": "what came of it", "": ""}.get(event.get("out", ""), "the answer")]
    if not event.get("exit"):
        shown = [event["notice"].replace("{reason}", "*finish reason*")] if "notice" in event else []
        shown = [*shown, "the answer"] if "message" not in event else shown
    if "message" in event:
        shown.append(message(event, event["message"]))
        others: dict[str, list[str]] = {}
        for vendor, there in event.get("at", {}).items():
            if "message" in there:
                others.setdefault(there["message"], []).append(label(vendor))
        shown += [f"{', '.join(vendors)}: {message(event, text)}" for text, vendors in others.items()]
    return "<br>".join(filter(None, shown))


def step(event: Mapping[str, Any]) -> str:
    """The next step that is shown: the name of the line in the table of hints, or its text."""
    text = event.get("hint", "")
    return next((f"*{name}*" for name, hint in TABLE["hints"].items() if hint == text), str(text))


def again(event: Mapping[str, Any]) -> str:
    """Whether it is sent again."""
    return str(event.get("again") or ("yes" if event.get("retried") else "no"))


def events() -> Iterator[str]:
    """Yield the tables of events, without those that come out as the plain answer."""
    for section, rows in sections():
        alike: dict[tuple[str, ...], list[str]] = {}
        for when, cells in rows:
            if cells != PLAIN:
                alike.setdefault(cells, []).append(when)
        if alike:
            yield f"\n### {section}\n\n" + table("when", "you see", "next step", "sent again")
        yield from (row("<br>".join(whens), *cells) for cells, whens in alike.items())


def hints() -> Iterator[str]:
    """Yield the table of the next steps that more than one event has."""
    yield table("name", "next step")
    used = {step(event) for event in TABLE["events"].values()}
    for name, text in TABLE["hints"].items():
        if f"*{name}*" in used:
            yield row(f"*{name}*", text.replace("{key}", "the variable"))


def sections() -> Iterator[tuple[str, list[tuple[str, tuple[str, ...]]]]]:
    """Yield each section of the table with its events: when, and the other cells."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    section = ""
    for event in TABLE["events"].values():
        section = event.get("section", section)
        only = f" ({label(event['only'][0])})" if len(event.get("only", ())) == 1 else ""
        if (event.get("exit") == 1) is not bool(step(event)):
            raise ValueError(f"{event['when']}: a failure has a next step, and only a failure")
        cells = (seen(event), step(event), again(event))
        found.setdefault(section, []).append((event["when"] + only, cells))
    yield from found.items()


def page() -> str:
    """The whole page."""
    vendors = ""
    for vendor, facts in TABLE["vendors"].items():
        keys = " or ".join(f"`{key}`" for key in facts["keys"]) or "none"
        note = f"<br>{facts['note']}" if "note" in facts else ""
        vendors += row(label(vendor), f"`{facts['model']}`{note}", f"`{facts['address']}`", keys)
    return "".join([HEAD, vendors, EVENTS, *hints(), *events()])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
