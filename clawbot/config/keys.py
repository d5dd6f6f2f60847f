"""The actions of the conversation: their names, keys and meaning, and which other keys can be given to them."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from clawbot.text.interface import N_


class KeyAction(NamedTuple):
    """What a key does: its name in the settings, the keys that do it by default, and its meaning for the user."""

    name: str
    keys: tuple[str, ...]
    meaning: str


ACTIONS = (
    KeyAction("newline", ("shift+enter", "alt+enter", "ctrl+j"), N_("break the line")),
    KeyAction("stop", ("escape",), N_("stop the running turn")),
    KeyAction("recall", ("alt+up",), N_("take back what is queued")),
    KeyAction("later_input", ("ctrl+n",), N_("what you wrote after")),
    KeyAction("stash", ("ctrl+s",), N_("put the text aside, or take it back")),
    KeyAction("paste_picture", ("ctrl+v", "alt+v"), N_("attach the picture in the clipboard")),
    KeyAction("unfold", ("ctrl+o",), N_("unfold tool calls, notes and summaries")),
    KeyAction("reasoning", ("ctrl+t",), N_("show the reasoning")),
    KeyAction("editor", ("ctrl+g",), N_("write in your own editor")),
    KeyAction("undo", ("ctrl+z",), N_("undo; with nothing to undo, suspend")),
    KeyAction("redo", ("ctrl+y",), N_("redo, or insert what was cut")),
    KeyAction("models", ("ctrl+l",), N_("choose a model")),
    KeyAction("local_model", ("f3",), N_("run a model on this machine")),
    KeyAction("sessions", ("ctrl+r",), N_("choose an earlier conversation")),
    KeyAction("memory", ("ctrl+f",), N_("search the memory")),
    KeyAction("find", ("ctrl+underscore", "ctrl+slash", "f4"), N_("search in the page")),
    KeyAction("page_up", ("pageup", "shift+up"), N_("scroll up")),
    KeyAction("page_down", ("pagedown", "shift+down"), N_("scroll down")),
    KeyAction("earlier_message", ("ctrl+up",), N_("your message above")),
    KeyAction("later_message", ("ctrl+down",), N_("your message below")),
    KeyAction("to_start", ("ctrl+home",), N_("start of the conversation")),
    KeyAction("to_end", ("ctrl+end",), N_("end of the conversation")),
    KeyAction("mode", ("shift+tab",), N_("change the mode: plan, ask, edits")),
    KeyAction("panel", ("f5",), N_("show or hide the side panel")),
    KeyAction("links", ("f6",), N_("go through links and folds")),
    KeyAction("help", ("f1",), N_("keys and commands")),
    KeyAction("palette", ("f2", "ctrl+p"), N_("find anything: commands, files, themes")),
    KeyAction("leave", ("ctrl+d",), N_("leave")),
)
BY_NAME = {action.name: action for action in ACTIONS}

# What these keys do can't be moved.
FIXED = {
    "enter": "sends",
    "tab": "completes",
    "ctrl+c": "copies, clears and leaves",
    "ctrl+q": "leaves at once",
    **dict.fromkeys(("up", "down", "left", "right", "home", "end"), "moves the cursor"),
    **dict.fromkeys(("backspace", "delete"), "deletes"),
}
# What terminals send in place of a key, since ASCII has no other sign for it.
SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+left_square_bracket": "escape"}
# A key that is sent under two names, by terminals of the older and of the newer kind.
ALSO = {
    "ctrl+slash": ("ctrl+underscore", "ctrl+slash"),
    "ctrl+underscore": ("ctrl+underscore", "ctrl+slash"),
    "ctrl+space": ("ctrl+@", "ctrl+space"),
}
MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
SPELLINGS = {
    "esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown",
    "control": "ctrl", "option": "alt", "cmd": "super", "/": "slash", "\\": "backslash", "[": "left_square_bracket",
    "]": "right_square_bracket", "_": "underscore", "^": "circumflex_accent", "-": "minus", ".": "full_stop",
    ";": "semicolon", "'": "apostrophe", "=": "equals_sign", "`": "grave_accent",
}  # fmt: skip
# How keys are written for the user, where that is not their name.
SHOWN = {"underscore": "/", "slash": "/", "@": "space"} | {
    name: sign for sign, name in SPELLINGS.items() if len(sign) == 1 and name != "underscore"
}
MOVING = ("up", "down", "left", "right", "home", "end", "pageup", "pagedown")
NAMED = (*MOVING, "insert", "delete", "backspace", "enter", "tab", "escape", "space")
FUNCTION = tuple(f"f{number}" for number in range(1, 25))
LETTERS = tuple(string.ascii_lowercase)
TYPED = (*LETTERS, *string.digits, *(name for sign, name in SPELLINGS.items() if len(sign) == 1))
BASES = frozenset((*NAMED, *FUNCTION, *TYPED))


NO_KEY = "none"  # textual ignores an empty text in a map of keys; no terminal sends this one


class UnusableKeyError(ValueError):
    """A key that no action can have; the text is what is expected."""


def parse_key(text: str) -> str:
    """Return the name of the key `text` (`Ctrl+O`, `pgup`, `alt+/`) in the form of textual. Raises UnusableKeyError."""
    *modifiers, base = (SPELLINGS.get(part, part) for part in text.strip().lower().split("+"))
    if base not in BASES or not set(modifiers) <= set(MODIFIERS):
        near = get_close_matches(base, sorted(BASES), n=1)
        meant = "+".join((*modifiers, *near)) if near and set(modifiers) <= set(MODIFIERS) else ""
        raise UnusableKeyError("a key such as ctrl+o, alt+x or f5" + (f" (did you mean {meant}?)" if meant else ""))
    key = "+".join((*sorted(set(modifiers)), base))
    if key in SENT_AS:
        raise UnusableKeyError(f"another key: for {shown_key(key)} terminals send {SENT_AS[key]}")
    if key in FIXED:
        raise UnusableKeyError(f"another key: {key} {FIXED[key]}")
    if set(modifiers) <= {"shift"} and base in (*TYPED, "space"):
        raise UnusableKeyError(f"a key that types nothing, such as ctrl+o, alt+x or f5: {shown_key(key)} is text")
    return key


def is_rare(key: str) -> bool:
    """Return whether only terminals with the protocol of Kitty distinguish `key` from another one."""
    *modifiers, base = key.split("+")
    held = set(modifiers)
    if base in MOVING or base in ("insert", "delete") or key in ("escape", "shift+tab", "alt+enter"):
        return bool(held & {"super", "hyper", "meta"})
    if base in FUNCTION:
        return bool(held - {"ctrl"})
    if held == {"ctrl"}:
        return base not in (*LETTERS, "backslash", "right_square_bracket", "circumflex_accent", "underscore") and (
            base not in ("slash", "space")
        )
    return not (held <= {"alt", "shift"} and "alt" in held and base in (*LETTERS, *string.digits))


def shown_key(key: str) -> str:
    """Return `key` as it is written for the user: `esc`, `pgup`, `ctrl+/`."""
    *modifiers, base = key.split("+")
    short = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn"}
    return "+".join((*modifiers, SHOWN.get(base, short.get(base, base))))


class KeyMap:
    """Which keys do what: the defaults, and `changes` (the keys by the names of actions; none: no key) over them."""

    def __init__(self, changes: Mapping[str, Sequence[str]] | None = None) -> None:
        self.changes = dict(changes or {})
        self._first: dict[str, str] = {}

    def keys(self, name: str) -> Sequence[str]:
        return self.changes.get(name, BY_NAME[name].keys)

    def first(self, name: str) -> str:
        """Return the first key of the action `name`, as it is shown; "" when it has none."""
        if name not in self._first:
            keys = self.keys(name)
            self._first[name] = shown_key(keys[0]) if keys else ""
        return self._first[name]

    def shown(self, name: str) -> str:
        """Return all keys of the action `name`, as they are shown."""
        return ", ".join(dict.fromkeys(shown_key(key) for key in self.keys(name)))

    def for_textual(self) -> dict[str, str]:
        """Return the changes in the form of textual."""
        return {name: ",".join(key for each in keys for key in ALSO.get(each, (each,))) or NO_KEY
                for name, keys in self.changes.items()}  # fmt: skip

    def clashes(self) -> Iterator[tuple[str, str, str]]:
        """Yield each key that two actions have: the action that was changed (the later one), the other one, the key."""
        owners: dict[str, str] = {}
        unchanged = [name for name in BY_NAME if name not in self.changes]
        for name in (*unchanged, *self.changes):
            for key in dict.fromkeys(ALSO.get(each, (each,))[0] for each in self.keys(name)):
                if key in owners:
                    yield name, owners[key], shown_key(key)
                owners.setdefault(key, name)

    def rare(self) -> Iterator[tuple[str, str]]:
        """Yield each changed action that has only keys which few terminals send, and the first of them."""
        for name, keys in self.changes.items():
            if keys and all(map(is_rare, keys)):
                yield name, shown_key(keys[0])
