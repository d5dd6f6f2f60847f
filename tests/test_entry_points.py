"""What installed packages offer is found by their metadata alone, and a broken one is a value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clawbot.entry_points import BrokenExtension, installed
from tests.packages import install

GROUP = "clawbot.tools"


def test_extensions_are_listed_by_name_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path,
        "acme_list",
        f"[{GROUP}]\nzoom = acme_list:ZOOM\ndial = acme_list:DIAL\n[other]\nx = y\n[clawbot.memory_backends]\nqmd = y",
        "DIAL = 7\n",
    )
    install(tmp_path, "bolt_list", f"[{GROUP}]\nzoom = bolt_list\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = installed(GROUP)
    assert [(each.name, each.distribution) for each in found] == [
        ("dial", "acme_list"),
        ("zoom", "acme_list"),
        ("zoom", "bolt_list"),
    ]
    assert "acme_list" not in sys.modules
    assert found[0].load() == 7
    assert installed("clawbot.compactions") == []
    owners = [each.distribution for each in installed("clawbot.memory_backends") if each.name == "qmd"]
    assert owners == ["clawbot-agent", "acme_list"]


def test_what_cannot_be_loaded_is_a_value_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "acme_wrong", f"[{GROUP}]\nabsent = acme_wrong:NOTHING\nends = acme_ends\n")
    tmp_path.joinpath("acme_ends.py").write_text("raise SystemExit('no\\nlicence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    absent, ends = (each.load() for each in installed(GROUP))
    assert isinstance(absent, BrokenExtension)
    assert absent.problem.startswith("acme_wrong:NOTHING of the package acme_wrong can't be used: AttributeError")
    assert ends == BrokenExtension("ends", "acme_ends of the package acme_wrong can't be used: SystemExit: no licence")


def test_damaged_metadata_of_one_package_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "acme_damaged", f"[{GROUP}]\nthis is no entry point\n")
    install(tmp_path, "bolt_whole", f"[{GROUP}]\ndrill = bolt_whole:DRILL\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [each.name for each in installed(GROUP)] == ["drill"]
    assert "can't be read" in caplog.text
