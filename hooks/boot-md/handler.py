"""Follows BOOT.md when the program starts with a screen."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clawbot.hooks import Hook, RefusedFileError, RuntimeStart, read_guarded

NAME = "BOOT.md"
SESSION = "boot"
PROMPT = """\
The program has just started, and nobody has said anything yet. Follow BOOT.md now, which the user wrote:

<boot>
{text}
</boot>

If it asks you to tell the user something, answer with that alone, in one or two sentences. Otherwise answer with
NO_REPLY and nothing else."""


async def handle(event: RuntimeStart) -> None:
    """Start following BOOT.md in the background."""
    hook = event.hook
    if not event.interactive:
        return
    try:
        text = await asyncio.to_thread(read_guarded, Path(event.workspace), NAME)
    except RefusedFileError as problem:
        await hook.tell(f"{NAME} is not followed: it {problem}.", level="warning")
        return
    if text and text.strip():
        hook.later(_follow(hook, text.strip()))


async def _follow(hook: Hook, text: str) -> None:
    """Let the agent follow `text`, and show its reply."""
    reply = await hook.run(PROMPT.format(text=text), session=SESSION)
    if line := " ".join(reply.split()):
        await hook.tell(f"{NAME}: {line}")
