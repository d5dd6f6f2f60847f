"""The terminal: what it can show, and how copying gets out of it."""

from __future__ import annotations

import locale
from collections.abc import Mapping

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here


def terminal(here: Here) -> Findings:
    """Kind, colours, encoding, and what stands between it and the clipboard."""
    return look(here.environ, locale.getencoding())


def look(environ: Mapping[str, str], encoding: str) -> Findings:
    """The findings for an environment and the encoding of the locale."""
    return [_kind(environ), _encoding(encoding), *_clipboard(environ)]


def _kind(environ: Mapping[str, str]) -> Finding:
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        message = f"TERM is {term or 'not set'}: the chat screen needs a terminal (`clawbot chat -p TEXT` needs none)"
        return Finding("terminal", "warning", message, "export TERM=xterm-256color")
    return Finding("terminal", "ok", f"{term}, {_colours(environ, term)}")


def _colours(environ: Mapping[str, str], term: str) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in term else "16 colours"


def _encoding(encoding: str) -> Finding:
    if encoding.lower().replace("-", "") == "utf8":
        return Finding("locale", "ok", "UTF-8")
    message = f"the locale's encoding is {encoding}: anything beyond it is shown wrong"
    return Finding("locale", "warning", message, "export LC_ALL=C.UTF-8")


def _clipboard(environ: Mapping[str, str]) -> Findings:
    found = []
    if environ.get("TMUX"):
        message = "tmux: copying out of the screen needs its clipboard to be on"
        found.append(Finding("clipboard", "ok", message, "tmux set -g set-clipboard on"))
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        message = "ssh: copying goes through the terminal at your end (OSC 52), which must allow it"
        found.append(Finding("clipboard", "ok", message))
    return found
