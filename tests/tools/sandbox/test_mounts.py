"""Places that lie in each other, and the command lines that are made of them."""

from __future__ import annotations

import itertools

import pytest

from clawbot.tools.sandbox.bwrap import bubblewrap_arguments, hidden_files, seatbelt_profile
from clawbot.tools.sandbox.mounts import Access, Mount, access_at, arrange

HOME = Mount("/h", "read")


def after(arguments: list[str], *options: str) -> int:
    """Where `options` stand in a row."""
    size = len(options)
    found = [at for at in range(len(arguments)) if tuple(arguments[at : at + size]) == options]
    assert len(found) == 1, (options, arguments)
    return found[0]


def made(*places: Mount, network: bool = False, nesting_off: bool = True) -> list[str]:
    return bubblewrap_arguments(
        arrange(places), folder="/h/w", network=network, nesting_off=nesting_off, scratch_bytes=1024, empty=(7, 8, 9)
    )


@pytest.mark.parametrize(
    ("places", "path", "access"),
    [
        ([], "/x", "read"),
        ([Mount("/h/w", "write")], "/h/w/a", "write"),
        ([Mount("/h/w", "write")], "/h/ww", "read"),
        ([Mount("/h", "hidden"), Mount("/h/w", "write")], "/h/w/a", "write"),
        ([Mount("/h", "hidden"), Mount("/h/w", "write")], "/h/x", "hidden"),
        ([Mount("/h", "write"), Mount("/h/.ssh", "hidden")], "/h/.ssh/id", "hidden"),
        ([Mount("/h/w", "write"), Mount("/h/w", "hidden")], "/h/w", "hidden"),
        ([Mount("/h/w", "write"), Mount("/h/w", "read")], "/h/w", "read"),
        ([Mount("/h/w", "hidden"), Mount("/h/w", "owned")], "/h/w", "owned"),
        ([Mount("/tmp", "scratch"), Mount("/tmp/w", "write")], "/tmp/w/x", "write"),
        ([Mount("/", "write"), Mount("/h", "hidden")], "/x", "write"),
    ],
)
def test_the_innermost_place_counts_and_of_one_path_the_strongest(
    places: list[Mount], path: str, access: Access
) -> None:
    for order in itertools.permutations(places):
        assert access_at(arrange(order), path) == access


def test_what_nobody_could_see_is_not_hidden_once_more() -> None:
    places = [Mount("/h", "hidden"), Mount("/h/.ssh", "hidden"), Mount("/h/w", "write"), Mount("/h/w/.env", "hidden")]
    assert [place.path for place in arrange(places)] == ["/h", "/h/w", "/h/w/.env"]


def test_inner_mounts_come_after_outer_ones_and_closed_folders_are_shut_at_the_end() -> None:
    secret = Mount("/h/w/.env", "hidden", folder=False)
    argv = made(Mount("/h/w/AGENTS.md", "read", folder=False), secret, Mount("/h/w", "write"), Mount("/h", "hidden"))
    order = [
        after(argv, "--ro-bind", "/", "/"),
        after(argv, "--perms", "0111", "--tmpfs", "/h"),
        after(argv, "--bind", "/h/w", "/h/w"),
        after(argv, "--ro-bind-data", "7", "/h/w/.env"),
        after(argv, "--remount-ro", "/h"),
        after(argv, "--chdir", "/h/w", "--"),
    ]
    assert order == sorted(order)
    assert after(argv, "--ro-bind", "/h/w/AGENTS.md", "/h/w/AGENTS.md") > order[2]


def test_the_kernels_settings_are_shut_for_root_too() -> None:
    argv = made(Mount("/", "write"))
    assert after(argv, "--bind", "/", "/") < after(argv, "--proc", "/proc") < after(argv, "--remount-ro", "/proc")
    assert after(argv, "--dev", "/dev") < after(argv, "--remount-ro", "/dev")


@pytest.mark.parametrize(("network", "nesting_off"), itertools.product([True, False], repeat=2))
def test_walls_that_depend(network: bool, nesting_off: bool) -> None:
    argv = made(HOME, network=network, nesting_off=nesting_off)
    assert ("--unshare-net" in argv, "--disable-userns" in argv) == (not network, nesting_off)
    for wall in ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"):
        assert wall in argv
    after(argv, "--cap-drop", "ALL")


def test_each_hidden_file_has_a_descriptor_of_its_own() -> None:
    files = [Mount(f"/h/{name}", "hidden", folder=False) for name in "abc"]
    argv = made(*files)
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "--ro-bind-data"] == ["7", "8", "9"]
    assert hidden_files(files) == 3


@pytest.mark.parametrize("name", ["with blank", "--bind", "zeile\numbruch", "文件", "$HOME", "a'b\"c\\d", "*"])
def test_odd_names_stay_one_word(name: str) -> None:
    path = f"/h/{name}"
    assert after(made(Mount(path, "write")), "--bind", path, path)


def test_a_profile_of_seatbelt_lets_the_innermost_place_have_the_last_word() -> None:
    text = seatbelt_profile(
        arrange(
            [
                Mount('/h/w/a"b\\.env', "hidden", folder=False),
                Mount("/h/w", "write"),
                Mount("/h", "hidden"),
                Mount("/h/w/AGENTS.md", "read", folder=False),
            ]
        ),
        network=False,
    )
    lines = text.splitlines()
    order = [
        "(deny file-write*)",
        '(deny file-read* file-write* (subpath "/h"))',
        '(allow file-read* file-write* (subpath "/h/w"))',
        '(deny file-write* (literal "/h/w/AGENTS.md"))',
        "(deny network*)",
    ]
    assert [lines.index(line) for line in order] == sorted(lines.index(line) for line in order)
    assert '(deny file-read* file-write* (literal "/h/w/a\\"b\\\\.env"))' in lines
    assert text.count("(") == text.count(")")


def test_a_profile_with_the_network_says_nothing_of_it() -> None:
    assert "network" not in seatbelt_profile((), network=True)
