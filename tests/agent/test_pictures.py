"""Pictures of a conversation that goes on with a model that takes none."""

from __future__ import annotations

from msgspec import structs

from clawbot.agent.events import Notice
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import ImageBlock, TextBlock, UserMessage
from tests.agent.fakes import FakeModel, says
from tests.agent.gate_host import House, talk

PICTURE = ImageBlock("aGk=", "image/png", attached="shot.png · 1 kB")


def pictures(request: ChatRequest) -> list[ImageBlock]:
    contents = [message.content for message in request.messages if isinstance(message, UserMessage)]
    return [block for content in contents if not isinstance(content, str) for block in content if block == PICTURE]


async def test_a_model_without_vision_gets_a_line_and_the_user_is_told_once(house: House) -> None:
    model = FakeModel(says("a cat"), says("I saw none"), says("still none"), says("a cat again"))
    agent = house.open(model)
    await agent.conversation.add_user(UserMessage([TextBlock("what is this?"), PICTURE]))
    seeing = model.info = structs.replace(model.info, supports_images=True)
    await talk(agent, "is it a cat?")
    assert pictures(model.requests[-1])

    model.info = structs.replace(seeing, ref="fake/blind", supports_images=False)
    told = await talk(agent, "and its colour?")
    assert not pictures(model.requests[-1])
    assert "[picture shot.png · 1 kB: not shown" in str(model.requests[-1].messages[0])
    assert [event.text for event in told if isinstance(event, Notice)] == [
        "fake/blind takes no pictures: those of this conversation are left out. /model chooses another."
    ]
    assert not [event for event in await talk(agent, "why?") if isinstance(event, Notice)]

    model.info = seeing
    await talk(agent, "look again")
    assert pictures(model.requests[-1])
