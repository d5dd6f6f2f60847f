"""Checks of the program and of the setup: Python, libraries, the terminal, the sandbox; configuration, keys, agents,
hooks, the model and local model servers."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import locale
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clawbot import __version__
from clawbot.cli.doctor_storage import Finding, Findings, Here, quoted
from clawbot.cli.extensions import fixes
from clawbot.cli.output import counted
from clawbot.config.env import read_env
from clawbot.config.schema import Settings
from clawbot.deadline import deadline
from clawbot.distribution import DISTRIBUTION, pip_install, requirements, version_of
from clawbot.entry_points import GROUPS, BrokenExtension, Extension, installed
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.hooks.discovery import GROUP as HOOKS
from clawbot.hooks.discovery import find_hooks, trusted_hooks
from clawbot.hooks.dispatch import Dispatcher
from clawbot.importing.habits import expected_in
from clawbot.importing.ledger import found_homes
from clawbot.llm.errors import ModelError
from clawbot.llm.factory import open_model
from clawbot.llm.models import find_models, skipped_fallbacks
from clawbot.llm.protocol import ChatModel, ChatRequest, LoadingPart, RetryPart
from clawbot.llm.providers import KEYS, local_server
from clawbot.llm.worker_reuse import reusable_worker
from clawbot.local_model.store import LOCAL
from clawbot.mcp.client import MISSING, McpClient
from clawbot.messages import ToolSpec, UserMessage
from clawbot.tools.sandbox.bwrap import Backend, Missing, probe


async def sandbox(here: Here) -> Findings:
    """Return whether a sandbox is available, and wanted."""
    wanted = here.settings.tools.shell.sandbox
    if wanted == "off":
        message = "tools.shell.sandbox is off: commands can do whatever you can"
        return [Finding("sandbox", "ok", message, "set it to auto")]
    return [judged(await probe(), required=wanted == "required")]


def judged(found: Backend | Missing, *, required: bool) -> Finding:
    """The finding about the available sandbox; `required`: no command runs without it."""
    if isinstance(found, Backend):
        weaker = found.kind == "bubblewrap" and not found.nesting_off
        note = " (older than 0.8: namespaces inside can't be forbidden)" if weaker else ""
        return Finding("sandbox", "ok", f"shell commands run in {found.kind} ({found.program}){note}")
    if required:
        message = f"no shell command runs: tools.shell.sandbox is required, and {found.reason}"
        return Finding("sandbox", "problem", message, found.remedy)
    return Finding("sandbox", "warning", f"shell commands run without a sandbox: {found.reason}", found.remedy)


def terminal(here: Here) -> Findings:
    """Type, colours, encoding, and clipboard access."""
    return check_terminal(here.environ, locale.getencoding())


def check_terminal(environ: Mapping[str, str], encoding: str) -> Findings:
    """Return the findings for an environment and the encoding of the locale."""
    return [_kind(environ), _encoding(encoding), *_clipboard(environ)]


def _kind(environ: Mapping[str, str]) -> Finding:
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        message = f"TERM is {term or 'not set'}: the chat comes in lines, without a screen"
        return Finding("terminal", "warning", message, "export TERM=xterm-256color")
    return Finding("terminal", "ok", f"{term}, {_colours(environ, term)}")


def _colours(environ: Mapping[str, str], term: str) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in term else "16 colours"


def _encoding(encoding: str) -> Finding:
    if encoding.lower().replace("-", "") == "utf8":
        return Finding("locale", "ok", "UTF-8")
    message = f"the locale's encoding is {encoding}: anything beyond it is shown wrong"
    return Finding("locale", "warning", message, "export LC_ALL=C.UTF-8")


def _clipboard(environ: Mapping[str, str]) -> Findings:
    found = []
    if environ.get("TMUX"):
        message = "tmux: copying out of the screen needs its clipboard to be on"
        found.append(Finding("clipboard", "ok", message, "tmux set -g set-clipboard on"))
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        message = "ssh: copying goes through the terminal at your end (OSC 52), which must allow it"
        found.append(Finding("clipboard", "ok", message))
    return found


OLDEST = (3, 11)
EXTENSION = "sqlite_vec"
_TESTED = "Programming Language :: Python :: 3."


def python(here: Here) -> Findings:
    """Return the interpreter: 3.11 or newer, and whether the tests run on its version."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < OLDEST:
        wanted = ".".join(str(part) for part in OLDEST)
        message = f"Python {version} is too old: {wanted} or newer is needed"
        return [Finding("python", "problem", message, f"install Python {wanted}, then clawbot again")]
    message = f"clawbot {__version__} on Python {version} ({sys.executable})"
    tested = tested_versions()
    if tested and version.rpartition(".")[0] not in tested:
        return [Finding("python", "ok", f"{message}, which it is not tested on: that is {', '.join(tested)}")]
    return [Finding("python", "ok", f"{message}, tested on {', '.join(tested)}" if tested else message)]


def tested_versions() -> list[str]:
    """The versions of Python that the tests run on, by the package's classifiers; none where it is not installed."""
    try:
        classifiers = importlib.metadata.metadata(DISTRIBUTION).get_all("Classifier") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [each.rpartition(" ")[2] for each in classifiers if each.startswith(_TESTED)]


def packages(here: Here) -> Findings:
    """Return whether every library that clawbot requires is installed."""
    if not (wanted := requirements()):
        fix = pip_install("-e", str(Path(__file__).parents[2]))
        return [Finding("packages", "warning", "clawbot runs without being installed", fix)]
    if missing := {line: name for line, name in wanted.items() if not version_of(name)}:
        message = f"not installed: {', '.join(missing.values())}"
        return [Finding("packages", "problem", message, pip_install(*missing))]
    return [Finding("packages", "ok", f"all {len(wanted)} libraries are installed")]


def extensions(here: Here) -> Findings:
    """Import what installed packages add, except hooks, as the program does; silent if nothing is added."""
    fix = "upgrade or remove that package"
    found: list[Finding] = []
    loaded: list[Extension] = []
    offered = [each for group in GROUPS if group != HOOKS for each in installed(group)]
    for each in (each for each in offered if each.distribution != DISTRIBUTION):
        if isinstance(broken := each.load(), BrokenExtension):
            found.append(Finding("extensions", "problem", f"{broken.name}: {broken.problem}", fix))
        else:
            loaded.append(each)
    if loaded:
        named = ", ".join(f"{each.name} ({each.distribution})" for each in loaded)
        found.append(Finding("extensions", "ok", f"loaded from packages: {named}"))
    return found


def sqlite(here: Here) -> Findings:
    """SQLite as bundled with apsw, with full-text search."""
    again = pip_install("--force-reinstall", "--only-binary", ":all:", "apsw")
    try:
        apsw: Any = importlib.import_module("apsw")
    except ImportError as error:
        return [Finding("sqlite", "problem", f"apsw can't be imported ({error})", again)]
    found = f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except apsw.Error as error:
        return [Finding("sqlite", "problem", f"{found} lacks full-text search: {error}", again)]
    return [Finding("sqlite", "ok", f"{found} with full-text search (FTS5)"), _vectors(apsw)]


def _vectors(apsw: Any) -> Finding:
    library = _extension_file()
    if library is None:
        return Finding("sqlite-vec", "problem", "the vector extension is not installed", pip_install("sqlite-vec"))
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            connection.enable_load_extension(True)
            connection.load_extension(str(library))
            version = connection.execute("SELECT vec_version()").fetchone()[0]
    except apsw.Error as error:
        message = f"the vector extension {library} can't be loaded: {error}"
        return Finding("sqlite-vec", "problem", message, pip_install("--force-reinstall", "sqlite-vec", "apsw"))
    return Finding("sqlite-vec", "ok", f"sqlite-vec {version}")


def _extension_file() -> Path | None:
    """Return the library in the package, located without importing it (which would import numpy)."""
    spec = importlib.util.find_spec(EXTENSION)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [file for folder in folders for file in sorted(folder.glob("vec0.*"))]
    return next((file for file in files if file.suffix in {".so", ".dylib", ".dll"}), None)


def other_programs(here: Here) -> Findings:
    """Conversations of other programs that could be imported."""
    return [
        Finding("import", "ok", f"{counted(home.count, 'conversation')} of {home.label} found", home.command)
        for home in found_homes(here.paths)
    ]


def expected_elsewhere(here: Here) -> Findings:
    """What other programs would read in this workspace, and is not read here: a line for each kind."""
    return [Finding("workspace", "warning", *each) for each in expected_in(here.settings)]


def agents(here: Here) -> Findings:
    """Return the agents, nested workspaces, and shared ones."""
    settings = here.all_settings
    ids = settings.agent_ids
    if len(ids) == 1 or here.config_error is not None:
        return []
    real = {agent_id: Path(os.path.realpath(settings.agent(agent_id).workspace)) for agent_id in ids}
    nested = list(_nested(settings, real))
    shared = list(_shared(real))
    if nested or shared:
        return [*nested, *shared]
    return [Finding("agents", "ok", f"{', '.join(ids)}: each has a workspace of its own")]


def _nested(settings: Settings, real: dict[str, Path]) -> Iterator[Finding]:
    for outer, inner in permutations(real, 2):
        if real[outer] in real[inner].parents and inner not in settings.allowed_agents(outer):
            inside = f"the workspace of {inner} ({real[inner]}) is in that of {outer} ({real[outer]})"
            fix = f"move it and set agents.{inner}.workspace, or allow it: agents.{outer}.tools.agents: [{inner}]"
            yield Finding("agents", "warning", f"{inside}, whose tools and index pass it by", fix)


def _shared(real: dict[str, Path]) -> Iterator[Finding]:
    for folder in dict.fromkeys(real.values()):
        sharing = [agent_id for agent_id, own in real.items() if own == folder]
        if len(sharing) > 1:
            names = ", ".join(sharing)
            message = f"{names} share the workspace {folder}: notes are common, sessions and indexes are not"
            yield Finding("agents", "ok", message)


CHECK_CONFIG = "clawbot config check"
# More problems than anybody reads before fixing the first ones.
MAX_PROBLEMS = 5


def configuration(here: Here) -> Findings:
    """Return whether the settings are valid; each problem with file and line."""
    file = here.config_file
    if here.config_error is not None:
        problems = here.config_error.problems
        found = [Finding("config", "problem", f"{problem}", CHECK_CONFIG) for problem in problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:
            found.append(Finding("config", "problem", f"{len(problems) - MAX_PROBLEMS} more problems", CHECK_CONFIG))
        return found
    notices = [Finding("config", "warning", notice, "clawbot config show") for notice in here.config_notices]
    if not file.exists():
        return [Finding("config", "ok", f"the shipped settings ({file} does not exist)"), *notices]
    return [Finding("config", "ok", f"{file} is valid"), *notices]


def env_file(here: Here) -> Findings:
    """Return whether the `.env` file is readable, and its lines that are no variables."""
    file = here.paths.env_file
    fix = f"{here.environ.get('EDITOR') or 'nano'} {quoted(file)}"
    try:
        left_out = [f"{file}:{line}: expected NAME=value; the line is left out" for line in read_env(here.paths).lines]
    except ClawbotError as error:
        return [Finding("env", "problem", f"{error}", fix)]
    found = [Finding("env", "warning", notice, fix) for notice in left_out]
    return [Finding("env", "ok", f"{file} can be read"), *found] if file.exists() else []


def keys(here: Here) -> Findings:
    """Return the names of available keys, never their values."""
    found = [
        Finding("keys", "ok", f"{name} is set ({KEYS[name].title})")
        if here.environ[name].strip()
        else Finding("keys", "warning", f"{name} is set but empty", f"unset {name}")
        for name in KEYS
        if name in here.environ
    ]
    named = here.settings.api_key_env
    if named and not here.environ.get(named):
        message = f"api_key_env names {named}, which is not set"
        found.append(Finding("keys", "problem", message, f"echo '{named}=…' >> {quoted(here.paths.env_file)}"))
    fix = f"write it to {quoted(here.paths.env_file)}, or take the model out of agents.defaults.fallbacks"
    found += [Finding("keys", "warning", text, fix) for text in skipped_fallbacks(here.settings, here.environ)]
    if here.settings.api_key is not None:
        fix = f"move it to {quoted(here.paths.env_file)} and name it by api_key_env"
        found.append(Finding("keys", "warning", "a key is in the configuration file (api_key)", fix))
    if not found:
        message = f"no key is set ({len(KEYS)} checked); without one clawbot runs offline or on a local server"
        fix = f"clawbot, then /model and ctrl+k; or write OPENAI_API_KEY=… to {quoted(here.paths.env_file)}"
        return [Finding("keys", "ok", message, fix)]
    return found


def client(here: Here) -> Findings:
    """Whether a process that calls models was left by `clawbot chat -p`."""
    process = reusable_worker()
    if process is None:
        return []
    which = f" (process {process})" if process else ""
    message = f"what calls models waits for the next command{which}, {here.settings.keep_client:.0f} s after the last"
    return [Finding("client", "ok", message, "clawbot model stop")]


# The first call loads litellm (3 s of CPU); reasoning models and local ones that load weights take time too.
DEADLINE = 60.0

# As in a chat: without tools some models are called by another protocol.
TOOLS = (ToolSpec("ping", "Ask for a pong.", {"type": "object", "properties": {}}),)
REQUEST = ChatRequest("Answer with one word.", (UserMessage(content="Say: pong"),), tools=TOOLS, max_tokens=16)


async def local_servers(here: Here) -> Findings:
    """Local servers that answer on their default ports, and the models of this machine."""
    found = [
        model
        for model in await find_models(here.settings)
        if model.ref.startswith(LOCAL) or local_server(model.ref) is not None
    ]
    if not found:
        return [Finding("servers", "ok", "no local model server answers (none is needed)")]
    return [Finding("servers", "ok", f"{model.ref}: {model.reason}") for model in found]


def mcp_servers(here: Here) -> Findings:
    """Return the library, and the programs of the servers. None is started."""
    servers = {name: server for name, server in here.all_settings.mcp.named().items() if server.enabled}
    if not servers:
        return []
    if find_spec("mcp") is None:
        return [Finding("mcp", "problem", MISSING.rstrip("."), install_command("mcp"))]
    path = here.environ.get("PATH")
    absent = [
        Finding("mcp", "warning", f"the program of {name} is not there: {server.command}", f"clawbot mcp test {name}")
        for name, server in servers.items()
        if server.command and shutil.which(server.command, path=path) is None
    ]
    odd = [
        Finding("mcp", "warning", f"{server.name}: {warning}", f"clawbot mcp test {server.name}")
        for server in McpClient(here.all_settings.mcp, here.paths, here.clock).status()
        for warning in server.warnings
    ]
    return [*absent, *odd] or [Finding("mcp", "ok", f"{', '.join(servers)} (`clawbot mcp test` tries them)")]


async def hooks(here: Here) -> Findings:
    """Return whether the hooks that the user wants can run; those that don't ship are loaded, each in its process."""
    if here.config_error is not None:
        return []
    settings = here.all_settings.hooks
    trusted = trusted_hooks(here.paths.switches_file, here.all_settings.workspaces)
    dispatcher = Dispatcher(
        lambda: find_hooks(here.paths, settings, here.settings.workspace, trusted), here.clock, timeout=settings.timeout
    )
    try:
        await dispatcher.load()
        await dispatcher.prepare()
    finally:
        await dispatcher.close()
    failed = {name: run.error for name, run in dispatcher.results.items()}
    broken = [
        Finding("hooks", "problem", f"{hook.name} does not run: {hook.reason() or failed[hook.name]}", fix)
        for hook in dispatcher.hooks
        if hook.blocked or hook.off_because or hook.name in failed
        for fix in [next(fixes(hook, here.config_file), f"check {hook.folder}")]
    ]
    ready = ", ".join(hook.name for hook in dispatcher.hooks if hook.ready)
    return broken or [Finding("hooks", "ok", f"ready: {ready or 'none'}")]


async def model(here: Here) -> Findings:
    """Send a tiny request to the configured model; the offline one needs none."""
    ref = here.settings.model
    if here.config_error is not None:
        return [Finding("model", "warning", "not tried: the configuration is not valid", "clawbot config check")]
    if ref.startswith("script:"):
        return [Finding("model", "ok", f"{ref} (a script is not tried)")]
    retries = here.settings.retries.model_copy(update={"attempts": 1})
    once = here.settings.model_copy(update={"retries": retries, "fallbacks": []})
    try:
        opened = await open_model(once.model, once, clock=here.clock, log_path=here.paths.log_file)
    except ModelError as error:
        return [_failed(ref, error)]
    try:
        return [await _ping(opened, here)]
    finally:
        await opened.aclose()


async def _ping(opened: ChatModel, here: Here) -> Finding:
    info = opened.info
    named = f"{info.ref} ({info.reason})" if info.reason else info.ref
    if info.ref == "offline":
        return Finding("model", "ok", f"{named}: answers without any server")
    if not here.ping:
        return Finding("model", "ok", f"{named}: not called (--no-ping)")
    started = here.clock.monotonic()
    stream = opened.stream(REQUEST if info.supports_tools else replace(REQUEST, tools=()))
    try:
        async with deadline(DEADLINE):
            first = await anext(part async for part in stream if not isinstance(part, LoadingPart))
    except TimeoutError:
        fix = "check the network and the server, or choose another model: clawbot, then /model"
        return Finding("model", "problem", f"{named} has not answered within {DEADLINE:.0f} s", fix)
    except ModelError as error:
        return _failed(info.ref, error)
    finally:
        await stream.aclose()
    if isinstance(first, RetryPart):
        return Finding("model", "warning", f"{named}: {first.reason}", "try again in a while")
    return Finding("model", "ok", f"{named} answers after {here.clock.monotonic() - started:.1f} s")


def _failed(ref: str, error: ModelError) -> Finding:
    named = f"{error.provider}: {error.message}" if error.provider else error.message
    return Finding("model", "problem", f"{ref}: {named}", error.hint or "choose another model: clawbot, then /model")
