"""The bindings of the conversation, from the table of its actions, and the keys in the lines that tell of them."""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding

from clawbot.config.keys import ACTIONS, BY_NAME, KeyMap
from clawbot.text.interface import N_, _


def binding(name: str, action: str, *, priority: bool = True) -> Binding:
    """The binding that runs `action` for the keys of the action `name`; the settings change them by its id."""
    entry = BY_NAME[name]
    return Binding(",".join(entry.keys), action, entry.meaning, show=False, priority=priority, id=name)


# What stands among the actions and can't be moved, by the action that it stands before.
FIXED_LINES = {
    "newline": (("enter", N_("send")),),
    "stop": (
        ("↑ ↓", N_("what you wrote before")),
        ("tab", N_("complete a command; @file attaches")),
        ("!", N_("shell command; !! shares its output")),
    ),
    "leave": ((N_("ctrl+c twice"), N_("leave")),),
}


def help_lines(keys: KeyMap) -> Iterator[tuple[str, str]]:
    """All keys of the conversation, each with what it does; `none` where an action has no key."""
    for action in ACTIONS:
        yield from ((_(key), _(meaning)) for key, meaning in FIXED_LINES.get(action.name, ()))
        yield keys.shown(action.name) or _("none"), _(action.meaning)
        if action.name == "stop" and (key := keys.first("stop")):
            yield _("{key} twice").format(key=key), _("go back to an earlier message")
