"""Saves the end of a conversation as a dated note when its session ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clawbot.hooks import CommandNew, CommandReset, Hook, HookServiceError, Said, SessionAutoReset

from . import naming, note

Ending = CommandNew | CommandReset | SessionAutoReset
MESSAGES = 15


async def handle(event: Ending) -> None:
    """Write the note under a name from the user's own words; a model may rename it later."""
    hook = event.hook
    last = await hook.said(int(hook.settings.get("messages", MESSAGES)))
    asked = await hook.overview() if last else []
    if not asked:
        return
    texts = await _with_question(hook, last)
    text, slug = await asyncio.to_thread(_compose, event, texts, asked)
    path = await hook.keep_note(text, slug, texts)
    if hook.settings.get("llm_slug", True):
        text = naming.conversation([each.text for each in asked])
        hook.later(_name(hook, path, slug, text))


async def _with_question(hook: Hook, texts: Sequence[Said]) -> list[Said]:
    """`texts` with at least one of the user's: after long work of the agent, the user's last request replaces the first
    text."""
    return [*texts] if any(text.role == "user" for text in texts) else [*await hook.said(1, "user"), *texts[1:]]


def _compose(event: Ending, texts: Sequence[Said], asked: Sequence[Said]) -> tuple[str, str]:
    """The text of the note, and its first name. It quotes `texts`; `asked` are the user's texts of the session."""
    if isinstance(event, SessionAutoReset):
        end = ("Reason", event.reason)
    else:
        end = ("Source", "/new" if isinstance(event, CommandNew) else "/reset")
    facts = dict([("Session Key", event.session_key), ("Session ID", event.session_id), end])
    zone = event.timestamp.tzinfo
    kept = [note.Text(text.role, text.text, note.local(text.timestamp, zone)) for text in texts]
    moments = (note.local(text.timestamp, zone) for text in (*asked, *texts))
    span = note.span_of(moments, event.timestamp)
    shown = note.render(span, event.zone or event.timestamp.tzname() or "UTC", facts, kept)
    return shown, naming.fallback((text.text for text in asked), span.ended)


async def _name(hook: Hook, path: str, slug: str, text: str) -> None:
    """Ask the model to name the conversation `text`, and rename the note `path` if its `slug` differs."""
    try:
        answer = await hook.ask(naming.prompt(text), system=naming.SYSTEM)
    except HookServiceError as error:
        hook.log.warning("%s keeps its name: %s", path, error)
        return
    named = naming.name_in(answer, text)
    if not named:
        hook.log.info("%s keeps its name: the model's answer contains no name", path)
    elif named != slug:
        await hook.rename_note(path, named)
