"""The layers together: what wins, where each value comes from, and every mistake with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.config.errors import ConfigError, ConfigProblem
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.config.schema import DreamSettings, Settings
from clawbot.text.secrets import redact
from tests.tables import load_table


def write(text: str) -> Paths:
    paths = Paths(find_home())
    paths.home.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(text)
    return paths


def load(text: str, **overrides: Any) -> LoadedSettings:
    return load_settings(write(text), overrides=overrides)


def problems(text: str) -> list[str]:
    """The mistakes in `text`, each with its line in place of the file's name."""
    paths = write(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(paths)
    return [str(problem).removeprefix(f"{paths.config_file}:") for problem in caught.value.problems]


def test_without_a_file_of_the_user_the_shipped_one_counts_and_nothing_is_made() -> None:
    paths = Paths(find_home())
    loaded = load_settings(paths)
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.files == ()
    assert not paths.home.exists()


def test_the_users_file_goes_over_the_defaults_and_the_command_line_over_both() -> None:
    loaded = load_settings(
        write("agents:\n  defaults: {model: openai/a, contextTokens: 5}\n  main: {context_tokens: 7}\n"),
        overrides={"agents.main.model": "offline", "tui": {"theme": "dark"}},
    )
    agent = loaded.settings.agent("main")
    assert (agent.model, agent.context_tokens) == ("offline", 7)
    assert loaded.settings.agent("main").bootstrap.max_chars == 20_000
    assert loaded.settings.tui.theme == "dark"
    file = Paths(find_home()).config_file
    assert loaded.files == (file,)
    assert loaded.origins["agents.defaults.context_tokens"] == f"{file}:2"
    assert loaded.origins["agents.main.context_tokens"] == f"{file}:3"
    assert loaded.origins["agents.main.model"] == "command line"
    assert loaded.origins["tui.theme"] == "command line"
    assert loaded.origins["tui.editor"] == "default"


def test_another_file_takes_the_place_of_the_users(tmp_path: Path) -> None:
    paths = write("tui: {theme: light}")
    other = tmp_path / "other.json"
    other.write_text('{"tui": {"editor": "external"}}')
    loaded = load_settings(paths, config_file=other)
    assert (loaded.settings.tui.theme, loaded.settings.tui.editor) == ("auto", "external")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: does not exist"):
        load_settings(Paths(find_home()), config_file=tmp_path / "none.yaml")


def test_both_spellings_are_the_same_key_in_every_section() -> None:
    snake = """
agents: {defaults: {context_pruning: {soft_trim: {head_chars: 9}},
  compaction: {memory_flush: {soft_threshold_tokens: 1}},
  memory_search: {query: {hybrid: {temporal_decay: {half_life_days: 3}, mmr: {lambda: 0.5}}}}}}
session: {reset: {idle_minutes: 4}}
hooks: {entries: {session-memory: {llm_slug: false}}}
"""
    camel = """
agents: {defaults: {contextPruning: {softTrim: {headChars: 9}},
  compaction: {memoryFlush: {softThresholdTokens: 1}},
  memorySearch: {query: {hybrid: {temporalDecay: {halfLifeDays: 3}, mmr: {lambda: 0.5}}}}}}
session: {reset: {idleMinutes: 4}}
hooks: {entries: {session-memory: {llmSlug: false}}}
"""
    assert load(camel).settings == load(snake).settings
    assert load(snake).settings.agent("main").memory_search.query.hybrid.mmr.lambda_ == 0.5
    assert load(snake).settings.hooks.entries.session_memory.llm_slug is False


def test_names_that_users_choose_are_not_respelled() -> None:
    loaded = load("agents: {my_agent: {}}\nhooks: {entries: {myHook: {enabled: false, someKey: {innerKey: 1}}}}\n")
    assert loaded.settings.agent_ids == ["main", "my_agent"]
    entry = (loaded.settings.hooks.entries.model_extra or {})["myHook"]
    assert (entry.enabled, entry.model_extra) == (False, {"someKey": {"innerKey": 1}})


def test_a_section_with_nothing_in_it_changes_nothing() -> None:
    assert load("agents:\n  main:\n  defaults:\nhooks:\n").settings == Settings()


@pytest.mark.parametrize("written", ["auto", "{mode: auto}"])
def test_a_word_is_written_for_the_key_that_a_section_is_mostly_about(written: str) -> None:
    dream = load(f"memory: {{dream: {written}}}").settings.memory.dream
    assert dream == DreamSettings(mode="auto")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "modxyz: x",
            "1: modxyz: unknown key; expected one of agents, session, hooks, skills, schedule, memory, mcp, tui, "
            "serve, logging",
        ),
        ("memory: {dream: maybe}", "1: memory.dream.mode: expected 'off', 'propose' or 'auto', found the text 'maybe'"),
        ("model: offline", "1: model: unknown key; did you mean agents.defaults.model?"),
        # The same last name first.
        *(
            (text, f"unknown key; did you mean {meant}?")
            for text, meant in {
                "agents: {defaults: {memory_flush: {}}}": "agents.defaults.compaction.memory_flush",
                "agents: {main: {memoryFlush: {}}}": "agents.main.compaction.memory_flush",
                "agents: {defaults: {compaction: {memorySearch: {}}}}": "agents.defaults.memory_search",
                "agents: {main: {tools: {allow: [x]}}}": "agents.main.tools.shell.allow",
                "agents: {main: {compaction: {quit_timeout: 5s}}}": "agents.main.compaction.memory_flush.quit_timeout",
                "compaction: {}": "agents.defaults.compaction",
                "timezone: UTC": "agents.defaults.timezone",
                "mcp: {extra_paths: []}": "agents.defaults.memory_search.extra_paths",
                "memory: {provider: openai}": "agents.defaults.memory_search.provider",
                "session: {mode: daily}": "session.reset.mode",
            }.items()
        ),
        # Nothing far.
        *(
            (text, "unknown key; expected one of ")
            for text in (
                "secret: {}",
                "toolset: {}",
                "cronjobs: {}",
                "agents: {main: {prune: 5}}",
                "workspaces: {}",
                "agents: {main: {enabled: 5}}",
            )
        ),
        (
            "tui: {softTrim: {}}",
            "1: tui.softTrim: unknown key; did you mean agents.defaults.context_pruning.soft_trim?",
        ),
        ("tui: {entries: {}}", "1: tui.entries: unknown key; did you mean hooks.entries?"),
        ("agents:\n  defaults:\n    modell: x", "3: agents.defaults.modell: unknown key; did you mean model?"),
        ("agents: {main: {contextToken: 5}}", "1: agents.main.contextToken: unknown key; did you mean context_tokens?"),
        (
            "hooks: {entries: {session-memory: {mesages: 5}}}",
            "1: hooks.entries.session-memory.mesages: unknown key; did you mean messages?",
        ),
        ("tui: {theme: 5}", "1: tui.theme: expected 'auto', 'light', 'dark'"),
        ("tui: [a]", "1: tui: expected keys with values, found a list"),
        ("agents: 5", "1: agents: expected keys with values, found the number 5"),
        ("agents: {main: hello}", "1: agents.main: expected keys with values, found the text 'hello'"),
        ("agents: {defaults: hello}", "1: agents.defaults: expected keys with values, found the text 'hello'"),
        (
            "agents: {main: {fallbacks: openai/x}}",
            "1: agents.main.fallbacks: expected a list, found the text 'openai/x'",
        ),
        (
            "agents: {main: {fallbacks: [openai/x,\n gpt]}}",
            "2: agents.main.fallbacks[1]: expected auto, offline, provider/model (such as openai/gpt-5) or script:FILE,"
            " found the text 'gpt'",
        ),
        ("agents: {main: {bootstrap: {max_chars: 1.5}}}", "expected an integer, found the number 1.5"),
        ("agents: {main: {bootstrap: {max_chars: '5'}}}", "expected an integer, found the text '5'"),
        ("agents: {main: {bootstrap: {max_chars: true}}}", "expected an integer, found true"),
        ("agents: {main: {bootstrap: {max_chars: 0}}}", "expected at least 1, found the number 0"),
        ("agents: {main: {request_timeout: 0}}", "expected more than 0, found the number 0"),
        (
            "agents: {main: {options: {messages: [], top_p: 1}}}",
            "agents.main.options: expected no messages, which other settings decide",
        ),
        ("agents: {main: {temperature: 3}}", "temperature: expected at most 2, found the number 3"),
        ("agents: {main: {tools: {max_rounds: null}}}", "expected an integer, found nothing"),
        ("agents: {main: {context_pruning: {soft_trim_ratio: 1.1}}}", "expected at most 1, found the number 1.1"),
        ("agents: {main: {context_pruning: {mode: cachettl}}}", "found the text 'cachettl'; did you mean cache-ttl?"),
        ("agents: {main: {memory_search: {chunking: {tokens: 9}}}}", "expected an overlap smaller than tokens"),
        ("agents: {main: {memory_search: {extra_paths: [{pattern: x}]}}}", "expected the key path"),
        ("agents: {main: {memory_search: {sources: []}}}", "sources: expected memory, sessions or both"),
        ("agents: {main: {memory_search: {provider: ''}}}", "expected text that is not empty"),
        ("agents: {main: {memory_search: {provider: nosuch}}}", "api_base, found the text 'nosuch'"),
        ("agents: {main: {memory_search: {provider: opnai}}}", "found the text 'opnai'; did you mean openai?"),
        ("agents: {main: {memory_search: {provider: auto/x}}}", "found the text 'auto'; did you mean auto?"),
        ("agents: {main: {timezone: Mars/Base}}", "expected the name of a time zone such as Europe/Berlin"),
        ("agents: {Work: {}}", "1: agents.Work: expected an agent id: a-z, 0-9, _ and -"),
        ("agents: {../x: {}}", "expected an agent id"),
        (
            "agents:\n  main:\n    tools: {agents: [reserch]}\n  research:\n",
            "3: agents.main.tools.agents[0]: expected one of the agents main, research, found the text 'reserch'; did "
            "you mean research?",
        ),
        (
            "agents:\n  research:\n    tools:\n      agents: [main, research]\n",
            "4: agents.research.tools.agents[1]: expected another agent, found the agent research itself",
        ),
        (
            "agents: {defaults: {tools: {agents: [x]}}, research: {}}",
            "1: agents.defaults.tools.agents[0]: expected one",
        ),
        ("session: {reset: {at: 25:00}}", "expected a time of the day from 00:00 to 23:59"),
        ("logging: {max_bytes: 2tb}", "expected a size such as"),
        (
            "tui:\n  keys:\n    unfoldd: ctrl+b",
            "3: tui.keys.unfoldd: expected the name of an action (did you mean unfold?)",
        ),
        (
            "tui:\n  keys:\n    unfold: ctrl+t",
            "3: tui.keys.unfold: ctrl+t is the key of reasoning, too; give reasoning another one, or none",
        ),
        (
            "tui:\n  keys:\n    unfold: f8\n    memory: [ctrl+b, F8]",
            "4: tui.keys.memory: f8 is the key of unfold, too; give unfold another one, or none",
        ),
        ("tui: {keys: {unfold: ctrl+i}}", "1: tui.keys.unfold: expected another key: for ctrl+i terminals send tab"),
        ("tui: {keys: {unfold: 'ctrl+['}}", "expected another key: for ctrl+[ terminals send escape"),
        ("tui: {keys: {unfold: ctrl+pagup}}", "a key such as ctrl+o, alt+x or f5 (did you mean ctrl+pageup?)"),
        ("tui: {keys: {unfold: o}}", "a key that types nothing, such as ctrl+o, alt+x or f5: o is text"),
        ("tui: {keys: {unfold: [f5, enter]}}", "tui.keys.unfold: expected another key: enter sends"),
        ("tui: {keys: {unfold: 5}}", "a key such as ctrl+o, a list of keys, or none, found the number 5"),
        ("tui: {theme: light}\ntui: {theme: dark}", "2: tui: is written twice, first in line 1"),
        ("logging: {max_bytes: 1,\n maxBytes: 2}", "2: logging.max_bytes: is written twice, in both spellings"),
    ],
)
def test_a_mistake_is_named_with_line_key_and_what_was_expected(text: str, said: str) -> None:
    (problem,) = problems(text)
    assert said in problem


def test_an_agent_that_the_defaults_open_to_all_is_not_opened_to_itself() -> None:
    settings = load("agents: {defaults: {tools: {agents: [research]}}, research: {}}").settings
    assert settings.allowed_agents("main") == ["research"]
    assert settings.allowed_agents("research") == []


def test_all_mistakes_are_found_at_once_in_the_order_of_the_file() -> None:
    found = problems(
        "tui: {theme: 1}\nfoo: 1\nagents:\n  defaults: {timezone: 1}\n  a: {}\n  b: {}\nmemory: {backend: x}\n"
    )
    assert [problem.split(":")[0] for problem in found] == ["1", "2", "4", "7"]


def test_the_message_of_several_mistakes_says_how_many_there_are() -> None:
    paths = write("a: 1\nb: 2\nc: 3\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:1: a: .*and 2 more: `clawbot config check` lists them"):
        load_settings(paths)


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "no_error_repeats_a_secret"),
)
def test_no_error_repeats_a_secret(text: str) -> None:
    paths = write(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(paths)
    said = "\n".join(map(str, caught.value.problems)) + str(caught.value)
    assert "hunter22" not in said


def test_keys_in_the_settings_are_kept_out_of_the_log_from_then_on() -> None:
    loaded = load("agents: {work: {memory_search: {remote: {api_key: wholly-unusual-value}}}}")
    assert "wholly-unusual" not in redact("sent wholly-unusual-value")
    assert "wholly-unusual" not in repr(loaded)


def test_an_unknown_override_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match=r"command line: agents\.main\.modell: unknown key"):
        load_settings(Paths(find_home()), overrides={"agents.main.modell": "x"})


@pytest.mark.parametrize("setup", ["folder", "unreadable", "latin"])
def test_a_file_that_cannot_be_read_is_a_clear_error(setup: str) -> None:
    paths = write("")
    paths.config_file.unlink()
    if setup == "folder":
        paths.config_file.mkdir()
    elif setup == "latin":
        paths.config_file.write_bytes(b"tui: {theme: \xfc}")
    else:
        paths.config_file.symlink_to(paths.config_file)  # the one refusal that root meets too
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load_settings(paths)


NAMES = """
    agents defaults main hooks session memory agent internal entries list id search model primary ttl contextPruning
    context_pruning reset atHour idleMinutes memorySearch session-memory extra_paths path remote api_key workspace
    timezone compaction a.b [0]
"""
KEYS = NAMES.split()
WORDS = st.text(max_size=5) | st.sampled_from(["5.", "²", "4:00", "~x/y", "off"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=4))
def test_any_tree_loads_or_is_a_clear_error(tree: dict[str, Any]) -> None:
    paths = write(json.dumps(tree))
    found: tuple[ConfigProblem, ...] = ()
    try:
        loaded = load_settings(paths)
    except ConfigError as error:
        found = error.problems
    else:
        assert loaded.settings.agent("main").workspace.is_absolute()
    assert all(problem.position and problem.text for problem in found)


@pytest.mark.parametrize(
    ("text", "told"),
    load_table(__file__, "a_key_of_one_profile_is_told_once_where_no_agent_has_it"),
)
def test_a_key_of_one_profile_is_told_once_where_no_agent_has_it(text: str, told: list[str]) -> None:
    notices = load(text).notices
    found = [each.partition(" has no effect: only the profile `") for each in notices if "no effect" in each]
    file = Paths(find_home()).config_file
    assert sorted(each.replace(".memory_search", "").removeprefix(f"{file}:") for each, _, _ in found) == sorted(told)
    assert all(re.fullmatch("(classic|lines)` uses it; .+", why) for _, _, why in found)
    keys = [place.rpartition(": ")[2] for place, _, _ in found]
    assert [sum(f"{key} " in notice for notice in notices) for key in keys] == [1] * len(keys)


def test_a_settings_file_with_every_default_has_no_notice() -> None:
    assert load(shipped("config.yaml").read_text(encoding="utf-8")).notices == ()
