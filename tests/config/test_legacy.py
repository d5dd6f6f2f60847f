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
    moved, *unused = loaded.notices
    assert moved.count(" → ") == 4
    assert [notice.partition("one-agent.yaml:")[2].partition(" has no effect")[0] for notice in unused] == [
        "8: agents.main.memory.chunkSize",
        "9: agents.main.memory.chunkOverlap",
    ]
    assert "chunk" not in moved


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
        (
            "agents: {defaults: {model: offline, memorySearch: {experimental: {sessionMemory: true}}}}",
            "agents: {defaults: {model: offline, memory_search: {sources: [memory, sessions]}}}",
        ),
        (
            "agents: {main: {memorySearch: {experimental: {sessionMemory: false}, sources: [memory, sessions]}}}",
            "agents: {main: {memory_search: {sources: [memory]}}}",
        ),
        (
            "agents: {defaults: {memorySearch: {sources: [sessions]}}, work: {memorySearch: {experimental: "
            "{sessionMemory: true}}}}",
            "agents: {defaults: {memory_search: {sources: [sessions]}}, work: {memory_search: {sources: "
            "[memory, sessions]}}}",
        ),
        (
            "agents: {defaults: {memorySearch: {provider: local, local: {modelPath: 'hf:x/y.gguf'}}}}",
            "agents: {defaults: {memory_search: {provider: offline}}}",
        ),
        (
            "agents: {main: {memory: {embeddingProvider: local}}}",
            "agents: {main: {memory_search: {provider: offline}}}",
        ),
        (
            "session: {resetByType: {dm: {mode: idle, idleMinutes: 240}, thread: {mode: daily, atHour: 5}}}",
            "session: {reset_by_type: {direct: {mode: idle, idle_minutes: 240}, thread: {mode: daily, at: '05:00'}}}",
        ),
        (
            "session: {idleMinutes: 30, resetByType: {group: {mode: none}}}",
            "session: {reset: {idle_minutes: 30}, reset_by_type: {group: {mode: none}}}",
        ),
        (
            "agents: {defaults: {heartbeat: {every: 1h, prompt: look, session: main, activeHours: {start: '08:00', "
            "end: '24:00'}}}}",
            "schedule: {heartbeat: {enabled: true, every: 1h, prompt: look, session: main, active_hours: "
            "'08:00-24:00'}}",
        ),
        ("agents: {defaults: {heartbeat: {every: 45}}}", "schedule: {heartbeat: {enabled: true, every: 45m}}"),
        (
            "agents: {list: [{id: work, heartbeat: {every: 2h, target: none}}]}",
            "{agents: {work: {}}, schedule: {heartbeat: {enabled: true, every: 2h, agent: work}}}",
        ),
        (
            "agents: {defaults: {model: offline, heartbeat: {every: 0m}}}",
            "{agents: {defaults: {model: offline}}, schedule: {heartbeat: {enabled: false}}}",
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
        ("agents: {main: {memory: {embeddingProvidr: x}}}", "agents.main.memory: unknown key"),
        ("agent: hello", "agents.defaults: expected keys with values"),
        ("{agent: {heartbeat: {every: 5m}}, schedule: {heartbeat: {every: 9m}}}", "means the same as"),
        ("agent: {heartbeat: often}", "heartbeat: unknown key; did you mean schedule.heartbeat?"),
        ("agent: {heartbeat: {every: often}}", "schedule.heartbeat.every: expected a duration"),
        ("session: {resetByType: {group: {atHour: 24}}}", "expected an hour from 0 to 23"),
        ("tools: {allow: [exec]}", "deny the others with agents.defaults.tools.deny: [append, edit, grep,"),
        ("agents: {main: {tools: {allow: [exec]}}}", "agents.main.tools.allow: unknown key"),
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


def test_patterns_of_allowed_commands_are_told_as_what_they_mean() -> None:
    allowed = '[make test, "git status*", "npm run *", "npm run test:*", "*", git log <reading>, rm <anything>]'
    notices = load(f"agents: {{defaults: {{tools: {{shell: {{allow: {allowed}}}}}}}}}").notices
    meaning = "covers what only reads, and of other commands its own words. Write"
    place = "c.yaml:1: agents.defaults.tools.shell.allow"
    assert [notice[notice.index("c.yaml") :] for notice in notices] == [
        f"{place}[1]: `git status*` {meaning} `git status <reading>`, or `git status <anything>` for every argument",
        f"{place}[2]: `npm run *` {meaning} `npm run <reading>`, or `npm run <anything>` for every argument",
        f"{place}[3]: `npm run test:*` {meaning} `npm run <reading>`, or `npm run <anything>` for every argument",
        f"{place}[4]: `*` {meaning} `<reading>`",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("agents: {defaults: {memorySearch: {store: {path: x.sqlite, vector: {enabled: true}}}}}", "store"),
        ("agents: {defaults: {memorySearch: {fallback: openai}}}", "fallback"),
        ("agents: {defaults: {memorySearch: {local: {modelPath: x}}}}", "local"),
        ("agents: {main: {memorySearch: {remote: {batch: {enabled: true, wait: true}}}}}", "batch"),
        ("agents: {main: {memorySearch: {experimental: {other: 1}}}}", "experimental"),
        ("memory: {qmd: {limits: {maxInjectedChars: 4000}}}", "maxInjectedChars"),
        ("memory: {qmd: {scope: {default: deny, rules: []}}}", "scope"),
        ("session: {resetTriggers: [/new, /fresh]}", "resetTriggers"),
        ("session: {scope: per-sender}", "scope"),
        ("session: {mainKey: main}", "mainKey"),
        ("gateway: {port: 18789, auth: {mode: token, token: abc}}", "gateway"),
        ("plugins: {slots: {memory: memory-core}}", "plugins"),
        ("updates: {url: https://example.org/v}", "updates"),
        ("updates: null", "updates"),
        ("agents: {main: {compaction: {mode: safeguard}}}", "mode"),
        ("hooks: {internal: {handlers: []}}", "hooks.internal"),
        ("tools: {exec: {ask: off}}", "tools.exec"),
    ],
)
def test_what_has_no_counterpart_is_ignored_with_one_notice(text: str, key: str) -> None:
    loaded = load(text)
    assert loaded.settings == load("{}").settings
    (notice,) = loaded.notices
    assert notice.partition("c.yaml:")[2].startswith("1: ")
    assert f"{key} is ignored: " in notice
    assert "abc" not in notice


def test_one_agent_has_the_heartbeat_and_keys_of_channels_are_named_together() -> None:
    loaded = load(
        "agents:\n  list:\n    - {id: main, heartbeat: {every: 5m, target: last, ackMaxChars: 300}}\n"
        "    - {id: work, heartbeat: {every: 9m}}\n"
    )
    assert loaded.settings.agent_ids == ["main", "work"]
    assert (loaded.settings.schedule.heartbeat.every, loaded.settings.schedule.heartbeat.agent) == (300, "main")
    moved, ignored = loaded.notices
    assert moved.endswith(
        "c.yaml: 3 keys of other programs have another name here: agents.list[0] → agents.main, agents.list[1] → "
        "agents.work, agents.main.heartbeat → schedule.heartbeat"
    )
    assert ignored.endswith(
        "c.yaml: 3 keys of other programs have no effect here: agents.work.heartbeat (there is one heartbeat; let "
        "others have jobs of their own in `schedule`); agents.main.heartbeat.target, agents.main.heartbeat.ackMaxChars "
        "(it has no counterpart here)"
    )


def test_a_file_of_the_other_program_as_its_setup_writes_it_is_read() -> None:
    file = Path("openclaw.json")
    file.write_text(
        "// written by hand\n{\n  agents: {\n    defaults: {\n      workspace: '~/clawd', // with a comment\n"
        '      memorySearch: { provider: "local", "fallback": "none", },\n    },\n  },\n'
        '  /* two\n     lines */\n  gateway: { port: 18789, url: "http://127.0.0.1:1//x" },\n'
        "  session: { resetTriggers: ['/new', \"/reset\"], },\n}\n"
    )
    loaded = load_file(file)
    main = loaded.settings.agent("main")
    assert (main.workspace, main.memory_search.provider) == (Path.home() / "clawd", "offline")
    ignored, local = loaded.notices
    assert "gateway (" in ignored
    assert "session.resetTriggers (" in ignored
    assert local.endswith("json:6: agents.defaults.memorySearch.provider: local is read as offline")
