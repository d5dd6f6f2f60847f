"""Keeps the end of a conversation as a dated note when its session ends (reference sheet 11.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clawbot.hooks import CommandNew, CommandReset, Hook, HookServiceError, Said, SessionAutoReset

from . import asking, naming, note

Ending = CommandNew | CommandReset | SessionAutoReset
MESSAGES = 15
EVERYTHING = 100_000


async def handle(event: Ending) -> None:
    """Write the note under the name that the user's own words give it; a model names it better, later."""
    hook = event.hook
    texts = await _last(hook, int(hook.settings.get("messages", MESSAGES)))
    if not texts:
        return
    text, slug = await asyncio.to_thread(_compose, event, texts)
    path = await hook.keep_note(text, slug)
    if hook.settings.get("llm_slug", True):
        hook.later(_name(hook, path, slug, asking.conversation(_pairs(texts))))


async def _last(hook: Hook, limit: int) -> list[Said]:
    """The last `limit` texts, among them one of the user; nothing when the user said nothing."""
    texts = await hook.said(limit)
    if not texts or any(text.role == "user" for text in texts):
        return texts
    # The agent worked long and spoke of it: the question that it worked on tells what all of that is about.
    earlier = await hook.said(EVERYTHING)
    asked = [text for text in earlier if text.role == "user"]
    return [asked[-1], *texts[1:]] if asked else []


def _compose(event: Ending, texts: Sequence[Said]) -> tuple[str, str]:
    """The text of the note and its first name."""
    zone = event.zone or event.timestamp.tzname() or "UTC"
    if isinstance(event, SessionAutoReset):
        end = ("Reason", event.reason)
    else:
        end = ("Source", "/new" if isinstance(event, CommandNew) else "/reset")
    facts = dict([("Session Key", event.session_key), ("Session ID", event.session_id), end])
    text = note.render(f"Session: {event.timestamp:%Y-%m-%d %H:%M} ({zone})", facts, _pairs(texts))
    return text, naming.fallback((text.text for text in texts if text.role == "user"), event.timestamp)


async def _name(hook: Hook, path: str, slug: str, talk: str) -> None:
    """Let the model name the note `path`, whose slug is `slug`, by the conversation `talk`."""
    try:
        answer = await hook.ask(asking.prompt(talk), system=asking.SYSTEM)
    except HookServiceError as error:
        hook.log.warning("%s keeps its name: %s", path, error)
        return
    named = asking.name_in(answer, talk)
    if not named:
        hook.log.info("%s keeps its name: the model's answer is none", path)
    elif named != slug:
        await hook.rename_note(path, named)


def _pairs(texts: Sequence[Said]) -> list[tuple[str, str]]:
    return [(text.role, text.text) for text in texts]
