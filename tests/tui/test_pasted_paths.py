"""A path that is pasted or dragged into the prompt attaches the file; any other text is pasted as it is."""

from __future__ import annotations

from pathlib import Path

from textual.events import Paste

from tests.tui.chat_host import chatting, until
from tests.tui.fake_runtime import FakeRuntime


async def test_the_path_of_a_picture_becomes_a_mention(tmp_path: Path) -> None:
    picture = tmp_path / "my shot.png"
    picture.write_bytes(b"\x89PNG")
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt = app.chat.composer.prompt
        prompt.take("what is this? ")
        prompt.post_message(Paste(f"'{picture}' "))
        await until(pilot, lambda: prompt.text == f'what is this? @"{picture}" ')
        prompt.take("/export ")
        prompt.post_message(Paste(str(picture)))
        await until(pilot, lambda: prompt.text == f"/export {picture}")
        prompt.take("")
        prompt.post_message(Paste(f"{picture} is gone"))
        await until(pilot, lambda: prompt.text == f"{picture} is gone")
