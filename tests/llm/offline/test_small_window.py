"""The offline model in a whole agent with a window of 7,000 tokens: turns that are compacted in their middle."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import CompactionFinished, Event, MessageFinished, ToolFinished
from clawbot.clock import SystemClock
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatRequest, StreamPart
from clawbot.messages import OFFLINE
from tests.agent.gate_host import House, PurposeModel, compactions, ended, talk

WINDOW = 5_000
NOISE = ("append", "/model", "remember that …", "记住:……", "AGENTS.md", "MEMORY.md", "USER.md")


class Offline(PurposeModel):
    """The offline model, in a window that `House` sets."""

    def __init__(self) -> None:
        super().__init__()
        self._model = OfflineModel(SystemClock())

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        self.requests.append(request)
        async for part in self._model.stream(request):
            yield part


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def _answer(events: Sequence[Event]) -> str:
    """The last words of the turn, which was compacted before them."""
    steps = [event for event in events if isinstance(event, ToolFinished | CompactionFinished | MessageFinished)]
    tool, compaction, answer = steps[-3:]
    assert isinstance(tool, ToolFinished)
    assert isinstance(compaction, CompactionFinished)
    assert isinstance(answer, MessageFinished)
    assert ended(events).status == "done"
    return answer.text


def _request(agent: Agent) -> str:
    details = compactions(agent)[-1]["details"]
    assert isinstance(details["request"], str)
    return details["request"]


@pytest.mark.parametrize("wish", ["show memory/2026-01-01.md", "读一下 memory/2026-01-01.md"], ids=["en", "zh"])
async def test_a_wish_is_answered_from_what_was_read(house: House, wish: str) -> None:
    agent = house.open(Offline(), ref=OFFLINE, window=WINDOW)
    for _ in range(3):
        await talk(agent, "about the weather: " + "rain " * 640)
    (house.workspace / "memory").mkdir(exist_ok=True)
    notes = "".join(f"- the gate of quay {n} opens at {n}:00, whatever the weather is\n" for n in range(150))
    (house.workspace / "memory" / "2026-01-01.md").write_text(notes)
    answer = _answer(await talk(agent, wish))
    assert _request(agent) == wish
    assert answer.startswith(("`memory/2026-01-01.md`:", "`memory/2026-01-01.md`："))
    await agent.close()


@pytest.mark.parametrize(
    ("keep", "fact", "said"),
    [
        (
            "remember that ",
            "the gate of harbour seven opens at noon. " + "The water is deep. " * 190,
            "I did not do it",
        ),
        ("记住:", "港口的大门每天早上八点打开并且晚上十点关闭。" + "这里码头的水很深。" * 110, "没有重复执行"),
    ],
    ids=["en", "zh"],
)
async def test_a_write_is_told_and_made_once(house: House, keep: str, fact: str, said: str) -> None:
    agent = house.open(Offline(), ref=OFFLINE, window=WINDOW)
    (house.workspace / "memory").mkdir(exist_ok=True)
    like = fact[:220] if keep.isascii() else fact[:21] + ",不过有时会晚一点"
    (house.workspace / "memory" / "2026-01-01.md").write_text("".join(f"- {like} {n}\n" for n in range(45)))
    await talk(agent, "about the weather: " + "rain " * 800)
    events = await talk(agent, keep + fact)
    answer = _answer(events)
    assert [event.name for event in events if isinstance(event, ToolFinished)].count("append") == 1
    assert said in answer
    assert f"`append` `memory/{house.daily.name}`" in answer
    assert fact[:30] in house.daily.read_text()
    await agent.close()


async def test_names_outlive_three_compactions(house: House) -> None:
    agent = house.open(Offline(), ref=OFFLINE, window=WINDOW)
    await talk(agent, "We decided that staging is alpha.example.org, its port is 8443, see conf/proxy/main.yaml.")
    await talk(agent, "我们决定测试机用 beta.example.org,端口是 8444。")
    await talk(agent, "remember that I prefer tabs")
    for turn in range(30):
        await talk(agent, f"step {turn} took {turn + 10} min: " + "rain " * 320)
        if len(compactions(agent)) == 3:
            break
    section = compactions(agent)[2]["summary"].partition("## Exact identifiers\n")[2].partition("\n## ")[0]
    for name in ("alpha.example.org", "port is 8443", "conf/proxy/main.yaml", "beta.example.org", "端口是 8444"):
        assert f"- {name}\n" in f"{section}\n"
    assert not [noise for noise in NOISE if f"- {noise}\n" in f"{section}\n"]
    await agent.close()


async def test_a_fact_that_stood_in_a_search_is_kept_by_the_flush(house: House) -> None:
    brain = Offline()
    agent = house.open(brain, ref=OFFLINE, window=WINDOW)
    await talk(agent, "I prefer tabs over spaces. What is the weather?")
    await talk(agent, "我喜欢喝乌龙茶。今天天气怎么样?")
    for _ in range(3):
        await talk(agent, "about the weather: " + "rain " * 640)
    assert any(call.purpose == "flush" for call in brain.requests)
    await agent.close()
    assert "- I prefer tabs over spaces.\n" in house.daily.read_text()
    assert "- 我喜欢喝乌龙茶。\n" in house.daily.read_text()
