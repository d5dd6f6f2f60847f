"""What an agent is built of: values and collaborators that `ground.py` puts together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from clawbot.agent.hook_services import RunPrompt
from clawbot.agent.views import AgentInfo
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.hooks.dispatch import Dispatcher
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.store import SessionStore
from clawbot.tools.memory import Recall
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox


class AgentParts(Struct, frozen=True):
    """What an agent is built of; `open_model` resolves a reference as the user writes it,
    `find_models` lists what can be used here; `usual_model` answers in sessions for which no other was chosen. `recall`
    is the memory index, None when it is switched off; `citations` is `memory.citations`. `hooks` runs the hooks, None
    when there are none, and the end waits `hooks_patience` seconds for them; `home` is the state folder; `agents` are
    those of the settings; `run_prompt` takes a turn in another session; `reset` says when sessions end by the
    clock."""

    agent_id: str
    settings: AgentSettings
    workspace: Path
    store: SessionStore
    tools: Toolbox
    clock: Clock
    open_model: Callable[[str], Awaitable[ChatModel]]
    find_models: Callable[[], Awaitable[list[ModelInfo]]]
    usual_model: str
    interactive: bool = True
    recall: Recall | None = None
    citations: Citations = "auto"
    hooks: Dispatcher | None = None
    hooks_patience: float = 0.0
    home: Path = Path()
    agents: tuple[AgentInfo, ...] = ()
    run_prompt: RunPrompt | None = None
    reset: ResetPolicy = ResetPolicy(daily_at=None, idle_minutes=None)
