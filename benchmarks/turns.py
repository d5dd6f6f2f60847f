"""What a turn costs beside the model's own time, and how long the event loop stalls while litellm loads.

Run: .venv/bin/python benchmarks/turns.py [--turns N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from opening import open_with

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.factory import open_model
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.testing.fixture import ScriptedModel

SCRIPT = """
turns:
  - reply: All is well.
    repeat: forever
"""
TICK = 0.005  # seconds between two looks at the loop


async def turn_overhead(turns: int) -> list[float]:
    """Milliseconds of `turns` turns with a model that answers at once: transcript, prompt, events, index."""
    runtime = await open_with(ScriptedModel(ScriptEngine(parse_script(SCRIPT, Path("benchmark.yaml")))))
    spent = []
    for _ in range(turns):
        began = time.perf_counter()
        async for _ in runtime.agent.submit("how are you?"):
            pass
        spent.append((time.perf_counter() - began) * 1000)
    await runtime.close()
    return spent


async def stall_while_loading() -> tuple[float, float]:
    """The longest and the 99th percentile of the loop's delays in milliseconds, from `warm` until litellm is loaded."""
    model = await open_model("openai/gpt-4o", AgentSettings(), clock=SystemClock())
    loading = asyncio.create_task(model.warm())
    delays = []
    while not loading.done():
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        delays.append((time.perf_counter() - began - TICK) * 1000)
    await model.aclose()
    return max(delays), statistics.quantiles(delays, n=100)[98]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAWBOT_HOME"] = home
        spent = asyncio.run(turn_overhead(turns))
        longest, most = asyncio.run(stall_while_loading())
    rows = [
        ("overhead of a turn, median", f"{statistics.median(spent):.1f} ms", "20 ms"),
        ("overhead of a turn, 95th percentile", f"{statistics.quantiles(spent, n=20)[18]:.1f} ms", "-"),
        ("longest stall while litellm loads", f"{longest:.0f} ms", "100 ms"),
        ("99th percentile of the same", f"{most:.0f} ms", "-"),
    ]
    print(f"{'':40} {'measured':>10} {'at most':>10}")
    for name, value, limit in rows:
        print(f"{name:40} {value:>10} {limit:>10}")


if __name__ == "__main__":
    main()
