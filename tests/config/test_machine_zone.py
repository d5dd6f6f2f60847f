"""A zone in TZ that nobody knows is told, since days would be those of UTC without a word."""

from __future__ import annotations

import pytest

from clawbot.config.load import load_settings, zone_problem
from clawbot.config.paths import Paths, find_home


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "UTC",
        "Europe/Berlin",
        ":Europe/Berlin",
        "America/Argentina/Buenos_Aires",
        "EST5EDT",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<+0330>-3:30",
        "UTC0",
        __file__,
    ],
)
def test_zones_that_can_be_understood(zone: str) -> None:
    assert zone_problem({"TZ": zone}) == ""
    assert zone_problem({}) == ""


@pytest.mark.parametrize("zone", ["Foo/Bar", "Europe/Berln", "../../etc/passwd", "/nowhere/at/all", "柏林", "Berlin"])
def test_zones_that_nobody_knows(zone: str) -> None:
    problem = zone_problem({"TZ": zone})
    assert problem.startswith(f"TZ={zone} is not a time zone known to this machine")
    assert "agents.defaults.timezone" in problem


def test_what_was_meant_is_named() -> None:
    assert "did you mean Europe/Berlin?" in zone_problem({"TZ": "Europe/Berln"})


def test_it_is_told_with_the_settings_unless_these_name_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Foo/Bar")
    paths = Paths(find_home())
    [notice] = load_settings(paths).notices
    assert notice.startswith("TZ=Foo/Bar")
    assert load_settings(paths, overrides={"agents.defaults.timezone": "Europe/Berlin"}).notices == ()
