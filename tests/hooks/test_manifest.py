"""HOOK.md is read in both spellings, and what is wrong with it is said with its place."""

from __future__ import annotations

from typing import get_args

import pytest

from clawbot.extensions.manifest import ManifestError, Requires
from clawbot.hooks import AnyEvent
from clawbot.hooks.discovery import TOPICS, Manifest, parse_manifest
from tests.tables import load_table


def read(head: str, folder: str = "greeter") -> Manifest:
    return parse_manifest(f"---\n{head}\n---\n# Words for people\n---\nmore\n", folder)


def test_everything_that_a_head_may_say() -> None:
    manifest = read(
        """
name: my-hook
description: 把会话存下来
events: [command:new, session]
requires: {bins: [gh, jq], any_bins: rg, env: TOKEN, os: [linux], python: [requests]}
timeout: 2.5
order: 7
homepage: https://example.org
emoji: 🪝
always: true
idleWithout: paths
"""
    )
    assert manifest == Manifest(
        name="my-hook",
        description="把会话存下来",
        events=("command:new", "session"),
        requires=Requires(bins=("gh", "jq"), any_bins=("rg",), env=("TOKEN",), os=("linux",), python=("requests",)),
        timeout=2.5,
        order=7,
        homepage="https://example.org",
        emoji="🪝",
        always=True,
        idle_without=("paths",),
    )


def test_the_folder_names_a_hook_that_gives_no_name() -> None:
    assert read("events: command:new").name == "greeter"


def test_the_familys_spelling_is_read() -> None:
    manifest = read(
        """
name: theirs
homepage: https://example.org
metadata:
  openclaw:
    emoji: 💾
    events: ["command:new"]
    os: [darwin, linux]
    always: true
    requires: {bins: [node], anyBins: [rg, grep], env: [TOKEN], config: [workspace.dir]}
    install: [{id: bundled, kind: bundled}]
"""
    )
    assert manifest.events == ("command:new",)
    assert manifest.requires == Requires(
        bins=("node",), any_bins=("rg", "grep"), env=("TOKEN",), os=("darwin", "linux")
    )
    assert (manifest.emoji, manifest.always, manifest.homepage) == ("💾", True, "https://example.org")


def test_keys_of_the_head_itself_win_over_the_familys() -> None:
    manifest = read("events: tool\nrequires: {bins: a}\nmetadata: {openclaw: {events: [command], requires: {bins: b}}}")
    assert (manifest.events, manifest.requires.bins) == (("tool",), ("a",))


def test_windows_line_ends_and_a_mark_of_utf_8() -> None:
    assert parse_manifest("\ufeff---\r\nevents: command\r\n---\r\n", "a").events == ("command",)


@pytest.mark.parametrize(
    ("head", "problem"),
    load_table(__file__, "what_is_wrong_is_said"),
)
def test_what_is_wrong_is_said(head: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(head)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "problem"), [("# Title", "line 1"), ("", "line 1"), ("---\nevents: a\n", "no end")])
def test_a_file_without_a_head(text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        parse_manifest(text, "a")


def test_topics_and_families_are_valid_and_a_job_may_name_any_event() -> None:
    tags = {event.__struct_config__.tag for event in get_args(AnyEvent)}
    assert tags | {"command", "session", "context:compact"} <= set(TOPICS)
    for topic in (*TOPICS, "schedule:morgens"):
        assert read(f"events: {topic}").events == (topic,)


@pytest.mark.parametrize(
    ("event", "topic", "wanted"),
    load_table(__file__, "a_family_hears_all_of_its_topics"),
)
def test_a_family_hears_all_of_its_topics(event: str, topic: str, wanted: bool) -> None:
    assert Manifest(name="a", events=(event,)).wants(topic) is wanted
