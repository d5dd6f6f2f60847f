"""Writes down what was said."""

import asyncio
from pathlib import Path

from clawbot.hooks import MessageReceived


async def handle(event: MessageReceived) -> None:
    """Write it into a file of the workspace."""
    await asyncio.to_thread(Path(event.workspace, "heard.md").write_text, event.text, "utf-8")
