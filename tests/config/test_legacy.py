"""Files that users of this family of programs bring along."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import Settings

SAMPLES = Path(__file__).parent / "samples"


def load_file(file: Path) -> LoadedSettings:
    return load_settings(Paths(find_home()), config_file=file)


def load(text: str) -> LoadedSettings:
    file = Path("c.yaml")
    file.write_text(text)
    return load_file(file)


def test_the_sample_with_defaults_in_json() -> None:
    loaded = load_file(SAMPLES / "defaults.json")
    agent = loaded.settings.agent("main")
    assert agent.compaction.reserve_tokens_floor == 20_000
    assert agent.compaction.memory_flush.prompt.startswith("将持久笔记写入")
    assert (agent.context_pruning.mode, agent.context_pruning.ttl) == ("cache-ttl", 36_000)
    assert loaded.origins["agents.defaults.context_pruning.ttl"].endswith("defaults.json:13")
    (notice,) = loaded.notices
    assert notice.endswith("defaults.json:13: agents.defaults.contextPruning.ttl without a unit counts minutes: 10h")


def test_the_sample_with_memory_settings_on_the_agent() -> None:
    loaded = load_file(SAMPLES / "one-agent.yaml")
    search = loaded.settings.agent("main").memory_search
    assert loaded.settings.agent("main").workspace == Path.home() / "clawd"
    assert (search.provider, search.model) == ("openai", "text-embedding-3-small")
    assert (search.chunking.tokens, search.chunking.overlap) == (400, 80)
    assert (search.query.hybrid.vector_weight, search.query.hybrid.text_weight) == (0.7, 0.3)
    assert loaded.origins["agents.main.memory_search.query.hybrid.text_weight"].endswith("one-agent.yaml:12")
    assert len(loaded.notices) == 6


def test_the_sample_with_the_singular_section_and_a_time_to_live_as_text() -> None:
    loaded = load_file(SAMPLES / "pruning.yaml")
    pruning = loaded.settings.agent("main").context_pruning
    assert (pruning.mode, pruning.ttl, pruning.soft_trim.tail_chars) == ("cache-ttl", 36_000, 1500)
    assert pruning.hard_clear.placeholder == "[旧工具结果内容已清除]"
    assert [notice.partition("pruning.yaml:")[2] for notice in loaded.notices] == [
        "2: agent is read as agents.defaults",
        "5: agents.defaults.contextPruning.ttl without a unit counts minutes: 10h",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("agent: {model: offline}", "agents: {defaults: {model: offline}}"),
        ("agents: {entries: {work: {model: offline}}}", "agents: {work: {model: offline}}"),
        (
            "agents: {list: [{id: work, model: offline}, {id: main, userTimezone: UTC}]}",
            "agents: {work: {model: offline}, main: {timezone: UTC}}",
        ),
        (
            "agent: {model: {primary: openai/a, fallbacks: [openai/b]}, bootstrapMaxChars: 9}",
            "agents: {defaults: {model: openai/a, fallbacks: [openai/b], bootstrap: {max_chars: 9}}}",
        ),
        (
            "agents: {defaults: {memorySearch: {remote: {baseUrl: http://x}, enabled: false}}}",
            "agents: {defaults: {memory_search: {remote: {api_base: http://x}, enabled: false}}}",
        ),
        (
            "agents: {main: {memory: {chunkSize: 99}, memorySearch: {chunking: {overlap: 9}}}}",
            "agents: {main: {memory_search: {chunking: {tokens: 99, overlap: 9}}}}",
        ),
        (
            "memory: {search: {provider: none}, citations: off}",
            "{agent: {memory_search: {provider: none}}, memory: {citations: off}}",
        ),
        (
            "hooks: {internal: {enabled: false, load: {extraDirs: [/x]}, entries: {session-memory: {llmSlug: false}}}}",
            "hooks: {enabled: false, dirs: [/x], entries: {session-memory: {llm_slug: false}}}",
        ),
        ("session: {reset: {atHour: 5, mode: daily}}", 'session: {reset: {at: "05:00"}}'),
        ("session: {idleMinutes: 30}", "session: {reset: {mode: idle, idle_minutes: 30}}"),
        ("session: {idleMinutes: 30, reset: {mode: daily}}", "session: {reset: {mode: daily, idle_minutes: 30}}"),
        (
            "{agent: {model: offline}, agents: {defaults: {fallbacks: []}}}",
            "agents: {defaults: {model: offline, fallbacks: []}}",
        ),
    ],
)
def test_an_older_key_means_the_newer_one_and_says_so(old: str, new: str) -> None:
    before, after = load(old), load(new)
    assert before.settings == after.settings != Settings()
    assert before.notices
    changed = {key for key, origin in before.origins.items() if origin != "default"}
    assert changed >= {key for key, origin in after.origins.items() if origin != "default"} - {"session.reset.mode"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "agent: {model: offline}\nagents: {defaults: {model: auto}}",
            "1: agent.model: means the same as agents.defaults.model, which is written in c.yaml:2",
        ),
        ("session: {reset: {atHour: 24}}", "expected an hour from 0 to 23"),
        ("session: {reset: {atHour: true}}", "expected an hour from 0 to 23"),
        ("agents: {list: [{model: offline}]}", "agents.list: expected keys with values, found a list"),
        ("agents: {list: [{id: work, default: true}]}", "agents.work.default: unknown key"),
        ("agents: {main: {memory: {embeddingProvidr: x}}}", "agents.main.memory: unknown key"),
        ("agent: hello", "agents.defaults: expected keys with values"),
        ("hooks: {internal: {handlers: []}}", "hooks.internal: unknown key"),
    ],
)
def test_what_is_not_clear_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in "\n".join(map(str, caught.value.problems))


def test_shapes_that_no_rule_knows_are_left_alone() -> None:
    for text in ("agents: []", "agents: {list: 5}", "session: [1]", "agents: {main: {memory: 5}}"):
        with pytest.raises(ConfigError):
            load(text)
