"""Writes docs/providers.md from the table of the matrix.

Run: .venv/bin/python -m tests.wire.page
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.wire.table import TABLE, cases

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
MEANINGS = {
    "whole": "the whole answer",
    "calls": "calls of tools",
    "cut": "cut off at a limit",
    "declined": "the model declined",
    "refused": "stopped by a filter",
    "garbled": "a call that could not be read",
    "broken": "broken off",
}
HEAD = """# Model providers

What vendors send, and what you see, what is sent again and what the conversation keeps. This page is made from
`tests/wire/matrix.yaml` by `python -m tests.wire.page`; `tests/wire/test_matrix.py` plays every line of it at every
vendor that it names. litellm reaches the others, most of which speak one of these protocols.

## Addresses and keys

The key is taken from the environment, or from `agents.defaults.api_key` and `api_key_env`
([configuration.md](configuration.md)). In the chat, `/model` takes one with ctrl+k.

"""
EVENTS = """
## What you see

`clawbot chat -p` prints the answer on stdout and everything else on stderr, each line behind `clawbot:`; the chat shows
the same words. The message of a failed turn begins with who answered: `Anthropic: Overloaded (overloaded_error).`

- **Sent again**: until an answer comes, `agents.defaults.retries.attempts` times at most. The waits grow, or are
  as long as the vendor asks for. Nothing is sent again once a part of the answer was shown.
- **Stored**: what the conversation keeps, besides your message.
- **Exit**: the exit code of `clawbot chat -p`.
"""
LAST = """
## The vendors' words

The finish reasons of each vendor, and the errors that the tests send, with the vendor's name for the error in
parentheses.
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
    return row(*heads) + row(*["---"] * len(heads))


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
    """The next step that is shown."""
    return str(event.get("hint", "")).replace("{key}", "the variable").replace("{base}", "the address")


def again(event: Mapping[str, Any]) -> str:
    """Whether it is sent again."""
    return str(event.get("again") or ("yes" if event.get("retried") else "no"))


def stored(event: Mapping[str, Any]) -> str:
    """What the conversation keeps."""
    reason, *contents = event["stored"][-1]
    if reason == "error":
        return "what came, and the failure" if contents else "the failure"
    return "the answer, as cut off" if reason == "length" else "the answer"


def events() -> Iterator[str]:
    """Yield the tables of events."""
    for event in TABLE["events"].values():
        if "section" in event:
            yield f"\n### {event['section']}\n\n"
            yield table("when", "you see", "next step", "sent again", "stored", "exit")
        only = f" ({', '.join(map(label, event['only']))})" if "only" in event else ""
        cells = (seen(event), step(event), again(event), stored(event), str(event.get("exit", 0)))
        yield row(event["when"] + only, *cells)


def words(vendor: str) -> Iterator[str]:
    """Yield what a vendor says."""
    facts = TABLE["vendors"][vendor]
    yield f"\n### {label(vendor)}\n\n{table('finish reason', 'means')}"
    for meaning, reasons in facts["reasons"].items():
        known = [f"`{reason}`" for reason in reasons if reason.lower() != "something_new"]
        other = ["any other"] if len(known) < len(reasons) else []
        yield row(", ".join([*known, *other]), MEANINGS[meaning])
    yield f"\n{table('error', 'shown as')}"
    shown: dict[str, str] = {}
    for case in cases():
        if case.vendor == vendor and "words" in case.row:
            shown.setdefault(case.fill("{words}"), case.row["when"])
    yield from (row(when, text) for text, when in shown.items())


def page() -> str:
    """The whole page."""
    vendors = table("vendor", "for example", "called at", "key")
    for vendor, facts in TABLE["vendors"].items():
        keys = " or ".join(f"`{key}`" for key in facts["keys"]) or "none"
        note = f"<br>{facts['note']}" if "note" in facts else ""
        vendors += row(label(vendor), f"`{facts['model']}`{note}", f"`{facts['address']}`", keys)
    spoken = "".join(text for vendor in TABLE["vendors"] for text in words(vendor))
    return f"{HEAD}{vendors}{EVENTS}{''.join(events())}{LAST}{spoken}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
