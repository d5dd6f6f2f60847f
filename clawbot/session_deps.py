"""The tools and the other dependencies of one session, made of the services that sessions share."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps, CurrentModel, FrontEnd, MemoryAccess, RunPrompt, SessionRules
from clawbot.agent.status import AgentInfo, Profile
from clawbot.agent.summary import Compaction, open_compaction
from clawbot.attachments.reading import Attachments
from clawbot.authors import Author
from clawbot.context.skill_list import shown_path
from clawbot.memory.values import TRANSCRIPTS
from clawbot.services import RuntimeOptions, SharedServices
from clawbot.sessions.reset import policy_of, type_of
from clawbot.subagents import SubagentRunner
from clawbot.tools.changing import AskedFiles
from clawbot.tools.memory import Current
from clawbot.tools.paths import Fence, agent_fence, hook_paths
from clawbot.tools.protocol import AnyTool
from clawbot.tools.registry import Toolbox, build_toolbox
from clawbot.tools.skills import FEW_SKILLS, SkillsSearchTool


def _fence(services: SharedServices) -> Fence:
    file = services.options.config_file
    return agent_fence(
        services.loaded.settings,
        services.agent_id,
        services.paths,
        functools.partial(_hook_folders, services),
        skill_folders=services.skills.folders,
        config_file=file.absolute() if file is not None else None,
        model=services.options.model,
    )


def _hook_folders(services: SharedServices) -> list[Path]:
    """The folders with the code of enabled hooks, and the hook folders of the last read settings."""
    if services.hooks is None:
        return []
    paths = hook_paths(services.hook_settings, services.workspace)
    return [*(hook.folder for hook in services.hooks.hooks if hook.enabled or hook.off_because), *paths]


def toolbox(
    services: SharedServices,
    current: Current,
    asked: AskedFiles | None = None,
    more: Sequence[AnyTool] = (),
) -> Toolbox:
    """The tools of the agent, also for calls outside a conversation. `current` and `asked` are those of the running
    one, which has `more` besides. Imports extensions: blocks."""
    box = build_toolbox(
        services.workspace,
        services.agent_settings,
        services.clock,
        services.paths,
        (*services.memories.tools(current), *_skill_tools(services), *more),
        fence=_fence(services),
        asked=asked,
    )
    if services.mcp is not None:
        services.mcp.attach(box, services.agent_settings.tools.deny)
    return box


def _skill_tools(services: SharedServices) -> tuple[AnyTool, ...]:
    """The search in skills where there are more than a few: the prompt may have no room for them. Blocks."""
    if len(services.skills.scan()) <= FEW_SKILLS:
        return ()
    return (SkillsSearchTool(services.skills.scan, lambda skill: shown_path(skill, services.workspace, Path.home())),)


async def _forget(services: SharedServices, words: str, sure: bool) -> list[str]:
    # Needed in few conversations.
    from clawbot.forget import Forgetting, Request

    request = Request(text=words, dry_run=not sure)
    forgetting = Forgetting(services.loaded.settings, services.paths, services.agent_id, request)
    return list((await asyncio.to_thread(forgetting.run)).lines())


async def _undo(services: SharedServices, author: Author) -> str:
    # Needed in few conversations.
    from clawbot.history.output import undone_text

    return "\n\n".join(map(undone_text, await asyncio.to_thread(services.history.undo_last, author)))


def _front_end(services: SharedServices, options: RuntimeOptions, asked: AskedFiles, run_prompt: RunPrompt) -> FrontEnd:
    attachments, wanted, state = None, services.agent_settings.attachments, services.paths.home
    if options.mentions:
        attachments = Attachments(services.workspace, wanted, state=state, fence=_fence(services))
    return FrontEnd(
        approvals=options.approvals,
        approved=options.approved,
        client=options.client,
        flush_at_end=options.flush_at_end,
        estimates=options.estimates,
        titles=options.titles and services.loaded.settings.session.titles == "auto",
        attachments=attachments,
        asked=asked,
        run_prompt=run_prompt,
    )


def _deps(
    services: SharedServices,
    options: RuntimeOptions,
    conversation: Conversation,
    model: CurrentModel,
    run_prompt: RunPrompt,
    *,
    compaction: Compaction,
    more: Sequence[AnyTool] = (),
) -> AgentDeps:
    """What the agent of `conversation` works with. `run_prompt` takes a turn in another session; `more` are tools
    of this one. Imports extensions: blocks."""
    settings, workspace, own = services.loaded.settings, services.workspace, services.agent_settings
    agents = [(agent_id, settings.agent(agent_id)) for agent_id in settings.agent_ids]
    infos = tuple(AgentInfo(name, each.workspace, each.model, name == services.agent_id) for name, each in agents)
    asked = AskedFiles(workspace, own.tools.files.ask)
    tools = toolbox(services, lambda: f"{TRANSCRIPTS}{conversation.session.transcript.path.name}", asked, more)
    if options.mode is not None:
        tools.permissions.mode = options.mode
    forget = functools.partial(_forget, services) if options.approvals else None
    reset = policy_of(settings.session.reset_of(type_of(conversation.session.record.key)))
    mcp = services.mcp.status if services.mcp is not None else tuple
    return AgentDeps(
        profile=Profile(services.agent_id, services.paths.home, infos, mcp, services.loaded.origins),
        settings=own,
        workspace=workspace,
        store=services.store,
        tools=tools,
        clock=services.clock,
        model=model,
        front=_front_end(services, options, asked, run_prompt),
        memory=MemoryAccess(
            services.memory, settings.memory, forget, services.history, functools.partial(_undo, services)
        ),
        rules=SessionRules(compaction, reset, settings.hooks.quit_timeout),
        skills=services.skills,
        hooks=services.hooks,
    )


async def open_agent(
    services: SharedServices,
    options: RuntimeOptions,
    conversation: Conversation,
    model: CurrentModel,
    run_prompt: RunPrompt,
) -> tuple[Agent, list[str]]:
    """Open the agent of `conversation`; also returns the problems of packages. `run_prompt` takes a turn in another
    session."""
    subagents = SubagentRunner(services.agent_settings.subagents)
    compaction, problem = await asyncio.to_thread(open_compaction, services.agent_settings.compaction.strategy)
    assemble = functools.partial(_deps, compaction=compaction, more=subagents.tools)
    deps = await asyncio.to_thread(assemble, services, options, conversation, model, run_prompt)
    agent = Agent(deps, conversation)
    subagents.serve(deps, conversation, agent.notify)
    return agent, [*deps.tools.warnings, *([problem] if problem else ())]
