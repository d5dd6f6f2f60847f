"""Files that users of this family of programs bring along."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import Settings
from tests.tables import load_table

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
    load_table(__file__, "an_older_key_means_the_newer_one_and_says_so"),
)
def test_an_older_key_means_the_newer_one_and_says_so(old: str, new: str) -> None:
    before, after = load(old), load(new)
    assert before.settings == after.settings != Settings()
    assert before.notices
    changed = {key for key, origin in before.origins.items() if origin != "default"}
    assert changed >= {key for key, origin in after.origins.items() if origin != "default"} - {"session.reset.mode"}


@pytest.mark.parametrize(
    ("text", "said"),
    load_table(__file__, "what_is_not_clear_is_named"),
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
    load_table(__file__, "what_has_no_counterpart_is_ignored_with_one_notice"),
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
