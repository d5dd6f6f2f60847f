"""Pictures of a conversation, for a model that takes none: a line stands in the place of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from clawbot.context.counting import Kept
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import ImageBlock, Message, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.text.interface import _


class Pictures:
    """Leaves the pictures of a conversation out for models that take none; each message is looked at once."""

    def __init__(self) -> None:
        self._without = Kept[ContextItem, ContextItem](without_pictures)
        self._told = ("", "")

    def shown(self, items: Sequence[ContextItem], model: ModelInfo) -> list[ContextItem]:
        """`items` as `model` can take them."""
        return list(items) if model.supports_images else self._without.of(items)

    def left_out(self, session: str, items: Sequence[ContextItem], model: ModelInfo) -> str:
        """What the user is told of the pictures in `items` that `model` will not see: once for a session and a model,
        else ""."""
        place = (session, model.ref)
        if model.supports_images or place == self._told or not any(has_pictures(item.message) for item in items):
            return ""
        self._told = place
        said = _("{model} takes no pictures: those of this conversation are left out. /model chooses another.")
        return said.format(model=model.ref)


def has_pictures(message: Message) -> bool:
    """Whether `message` holds any."""
    if not isinstance(message, UserMessage | ToolResultMessage) or isinstance(message.content, str):
        return False
    return any(isinstance(block, ImageBlock) for block in message.content)


def without_pictures(item: ContextItem) -> ContextItem:
    """`item` with a line for each of its pictures, which says that it is not shown; itself if it has none."""
    message = item.message
    if not isinstance(message, UserMessage | ToolResultMessage) or not has_pictures(message):
        return item
    content = [_told(block) if isinstance(block, ImageBlock) else block for block in message.content]
    return structs.replace(item, message=structs.replace(message, content=content))


def _told(block: ImageBlock) -> TextBlock:
    name = f" {block.attached}" if block.attached else ""
    return TextBlock(f"[picture{name}: not shown, since this model takes no pictures]", attached=block.attached)
