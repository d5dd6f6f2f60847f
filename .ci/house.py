"""Measure the house and compare it with the limits in house.toml, which only go down.

python .ci/house.py             compare, a part of `make check`
python .ci/house.py --lower     write the lower limits that are reached today (`make house`)
python .ci/house.py --init      set every limit to today's figure; a raised one still needs a reason
python .ci/house.py --growth    print how many lines the change adds, net
python .ci/house.py --words     print how often each banned word occurs

--trace                         also run benchmarks/trace.py for the path of a turn and of a search
--base REF                      the commit to compare with, instead of the merge base or the parent
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
LIMITS = ".ci/house.toml"
CODE, TESTS = ("clawbot", "hooks"), ("tests",)
# Folders that may hold Chinese words, and that the banned words are not counted in.
LANGUAGES = ("clawbot/languages/", "clawbot/locale/")
# Classes of values: what derives from one of these only holds its fields.
VALUES = {"BaseModel", "Enum", "Exception", "IntEnum", "NamedTuple", "StrEnum", "Struct", "TypedDict"}
# A struct of values with so many fields that act (callables, services) is a struct of dependencies.
MIN_ACTING = 3
HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# The keys of a table that only a tighter value may replace without a reason.
FREE = {"limit", "of", "goal", "reason"}

Limits = dict[str, dict[str, Any]]
"""house.toml: figure -> its table."""


@dataclass
class Class:
    """A class of the program: the names in its bases and in the type of each field."""

    name: str
    key: str
    bases: set[str]
    fields: list[set[str]]


@dataclass
class House:
    """The figures: figure -> item -> number; "" is the item of a sum. `where` names the files that make up a sum;
    `words` are the banned ones."""

    figures: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    where: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    words: Counter[str] = field(default_factory=Counter)
    classes: list[Class] = field(default_factory=list)
    callables: set[str] = field(default_factory=lambda: {"Callable"})


# -- measuring ---------------------------------------------------------------------------------------------------------


def statements(nodes: list[Any], scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield every statement below `nodes` with the dotted name of the scope that it is in."""
    for node in nodes:
        yield scope, node
        named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            if inner := getattr(node, part, None):
                yield from statements(inner, f"{scope}{node.name}." if named else scope)


def names_in(node: ast.AST) -> set[str]:
    """Return the names and attributes in an expression."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def imported(node: ast.AST, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the program that a statement imports."""
    match node:
        case ast.Import(names):
            yield from (each.name for each in names if each.name in modules)
        case ast.ImportFrom(str(module), names):
            inner = {f"{module}.{each.name}" for each in names} & modules
            yield from inner
            if len(inner) < len(names) and module in modules:
                yield module


def class_of(node: ast.ClassDef, key: str) -> Class:
    """Return the bases and the field types of a class; class variables are no fields."""
    marks = {name for each in (*node.bases, *node.decorator_list) for name in names_in(each)}
    types = [names_in(each.annotation) for each in node.body if isinstance(each, ast.AnnAssign)]
    return Class(node.name, key, marks, [each for each in types if "ClassVar" not in each])


def read_module(house: House, name: str, text: str, modules: set[str]) -> tuple[int, int]:
    """Add a module's figures to the house; return its functions and those of one statement."""
    targets: set[str] = set()
    functions = short = 0
    for scope, node in statements(ast.parse(text, name).body):
        targets.update(imported(node, modules))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            house.figures["function_lines"][f"{name}:{scope}{node.name}"] = (node.end_lineno or 0) - node.lineno + 1
            functions += 1
            short += len(node.body) - (ast.get_docstring(node, clean=False) is not None) == 1
        elif isinstance(node, ast.ClassDef):
            house.classes.append(class_of(node, f"{name}:{scope}{node.name}"))
        elif isinstance(node, ast.Assign) and not scope and names_in(node.value) & {"Callable"}:
            house.callables.update(each.id for each in node.targets if isinstance(each, ast.Name))
    house.figures["fan_out"][name] = len(targets)
    return functions, short


def count_dependencies(house: House) -> None:
    """Add the number of fields of each struct of dependencies: a value class in which several fields act."""
    found = house.figures["dependency_fields"]
    values = VALUES | {"dataclass"}
    while more := {each.name for each in house.classes if each.bases & values} - values:
        values |= more
    acting = ({each.name for each in house.classes} - values) | house.callables
    for each in house.classes:
        if each.bases & values and sum(bool(types & acting) for types in each.fields) >= MIN_ACTING:
            found[each.key] = len(each.fields)


def banned_words(text: str, rules: Mapping[str, Any]) -> Counter[str]:
    """Return the banned words in a text: in names, prose and messages alike."""
    text = re.sub("|".join(rules["allowed"]) or "(?!)", " ", text)
    found = Counter(word.lower() for word in WORD.findall(text))
    phrases = re.findall("|".join(rules["patterns"]) or "(?!)", text.lower())
    return Counter({word: found[word] for word in rules["words"].split() if found[word]}) + Counter(phrases)


def package(name: str) -> str:
    """Return the package of a file: the folder below `clawbot`, or `hooks`."""
    top, *rest = name.split("/")
    return f"{top}/{rest[0]}" if top == "clawbot" and len(rest) > 1 else top


def python_files(root: Path, folders: tuple[str, ...]) -> dict[str, str]:
    """Return the text of every Python file in the folders, by its path below the root."""
    files = (file for folder in folders for file in sorted((root / folder).rglob("*.py")))
    return {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}


def measure(root: Path, limits: Limits) -> House:
    """Return every figure of the tree below `root` but those of the trace."""
    house, code = House(), python_files(root, CODE)
    modules = {re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".") for name in code}
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    functions = short = 0
    for name, text in code.items():
        size = text.count("\n")
        house.figures["file_lines"][name] = size
        lines[package(name)] += size
        files[package(name)] += 1
        found = read_module(house, name, text, modules)
        functions, short = functions + found[0], short + found[1]
        house.where["callables"][name] = text.count("Callable[")
        if not name.startswith(LANGUAGES):
            words = banned_words(text, limits["words"])
            house.where["words"][name] = words.total()
            house.words.update(words)
            house.figures["han"][name] = len(HAN.findall(text))
    count_dependencies(house)
    figures, total = house.figures, lines.total()
    for figure in ("words", "callables"):
        figures[figure][""] = 1000 * house.where[figure].total() / max(total, 1)
    figures["one_statement"][""] = 100 * short / max(functions, 1)
    figures["package_lines"], figures["package_files"] = dict(lines), dict(files)
    figures["all_lines"][""], figures["all_files"][""] = total, len(code)
    figures["core_lines"][""] = total - lines["clawbot/plugins"]
    tests = python_files(root, TESTS)
    figures["test_lines"][""] = sum(text.count("\n") for text in tests.values())
    figures["test_files"][""] = len(tests)
    return house


def traced(root: Path) -> dict[str, dict[str, float]]:
    """Run the trace of a turn and of a search; return its figures."""
    argv = [sys.executable, str(root / "benchmarks/trace.py"), "--json"]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return {figure: {"": number} for figure, number in found.items()}


# -- limits ------------------------------------------------------------------------------------------------------------


def limit_of(table: Mapping[str, Any], item: str) -> float:
    """Return the limit of an item: its own, or the one of the figure. Nothing is allowed without a table."""
    return float(table.get("of", {}).get(item, table.get("limit", 0)))


def named(figure: str, item: str) -> str:
    """Return what a line is about: the figure, and the file, function or package."""
    return f"{figure}: {item}" if item else figure


def shown(number: float) -> str:
    """Return a number without more digits than it needs."""
    return f"{number:,.0f}" if number == round(number) else f"{number:,.2f}"


def too_much(house: House, limits: Limits, changed: Collection[str] = ()) -> Iterator[str]:
    """Yield one line for each item above its limit; a sum names the files with most of it, `changed` ones first."""
    for figure, items in house.figures.items():
        table, counts = limits.get(figure, {}), house.where[figure]
        largest = sorted(
            (name for name in counts if counts[name]), key=lambda name: (name not in changed, -counts[name])
        )
        most = f" (most: {', '.join(f'{name} {counts[name]}' for name in largest[:3])})" if largest else ""
        for item, number in items.items():
            limit = limit_of(table, item) * (1 + table.get("tolerance", 0))
            if number > limit:
                over = f"{shown(number)}, {shown(number - limit)} above the limit of {shown(limit)}"
                yield f"{named(figure, item)}: {over}{most}"


def better(house: House, limits: Limits) -> Iterator[str]:
    """Yield one line for each limit that can be lowered."""
    for figure, table in lowered(house, limits).items():
        for item in ("", *limits[figure].get("of", {})):
            old, new = limit_of(limits[figure], item), limit_of(table, item)
            if new < old:
                yield f"{named(figure, item)}: lower the limit of {shown(old)} to {shown(new)}: make house"


def rounded(table: Mapping[str, Any], number: float) -> float:
    """Return the number, rounded up to the step of its figure."""
    step = table.get("step", 1)
    up = round(math.ceil(round(number / step, 6)) * step, 6)
    return int(up) if isinstance(step, int) else up


def lowered(house: House, limits: Limits) -> Limits:
    """Return the tables whose limits can be lowered, by two steps at least, or since an item needs none of its own."""
    found = {}
    for figure in (each for each in limits if each in house.figures):
        table, items = limits[figure], house.figures[figure]
        near = 2 * table.get("step", 1)
        if "" not in items:
            kept = {item: limit for item, limit in table["of"].items() if items.get(item, 0) > table["limit"]}
            of = {item: n if n - items[item] < near else rounded(table, items[item]) for item, n in kept.items()}
            new = table | {"of": of}
        elif table["limit"] - items[""] >= near:
            new = table | {"limit": rounded(table, items[""])}
        else:
            continue
        if new != table:
            found[figure] = new
    return found


def of_today(house: House, limits: Limits) -> Limits:
    """Return the tables with today's figures as limits: the sums, and the items above the limit of their figure."""
    found = {}
    for figure in (each for each in limits if each in house.figures):
        table, items = limits[figure], house.figures[figure]
        if "" in items:
            found[figure] = table | {"limit": rounded(table, items[""])}
        else:
            above = {item: rounded(table, n) for item, n in sorted(items.items()) if n > table["limit"]}
            found[figure] = table | {"of": above}
    return found


def rewritten(text: str, changed: Limits) -> str:
    """Return the text of house.toml with the changed limits; comments, goals and reasons stay."""
    blocks = re.split(r"(?m)^(?=\[)", text)
    for index, block in enumerate(blocks):
        figure, _, part = (block[1 : block.index("]")] if block.startswith("[") else "").partition(".")
        if figure in changed and part == "of":
            header, rest = block.split("\n", 1)
            lines = "".join(f'"{item}" = {number}\n' for item, number in changed[figure]["of"].items())
            blocks[index] = f"{header}\n{lines}" + re.sub(r'(?m)^".*\n', "", rest)
        elif figure in changed:
            blocks[index] = re.sub(r"(?m)^limit = [\d.]+", f"limit = {changed[figure]['limit']}", block)
    return "".join(blocks)


# -- what changed against another commit -------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None where it fails or there is no git."""
    program = shutil.which("git")
    if program is None:
        return None
    done = subprocess.run([program, "-C", str(root), *arguments], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base_commit(root: Path, wanted: str | None) -> str | None:
    """Return the commit that a change is compared with, None without: the merge base with `wanted` or with main, or the
    parent of a commit on main."""
    head = git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    for branch in (wanted, "origin/main", "main"):
        merge_base = git(root, "merge-base", "HEAD", branch) if branch else None
        if merge_base and merge_base != head:
            return merge_base
    return git(root, "rev-parse", "--verify", "--quiet", "HEAD~1") or head


def raised(limits: Limits, before: Limits) -> Iterator[str]:
    """Yield one line for each limit or rule of `before` that was loosened without a new reason."""
    for figure, old in before.items():
        new = limits.get(figure)
        if new is None:
            yield f"{figure}: was removed"
        elif not new.get("reason") or new["reason"] == old.get("reason"):
            for item in dict.fromkeys(("", *new.get("of", {}), *old.get("of", {}))):
                was, now = limit_of(old, item), limit_of(new, item)
                if now > was:
                    yield f"{named(figure, item)}: the limit was raised from {shown(was)} to {shown(now)}"
            for key in sorted((new.keys() | old.keys()) - FREE):
                if new.get(key) != old.get(key):
                    yield f"{figure}: {key} was changed"


def growth(root: Path, base: str) -> str:
    """Return one line: how many lines the tree adds and removes against `base`, in the program and in the tests."""
    parts = []
    for label, folders in ((" + ".join(CODE), CODE), (" + ".join(TESTS), TESTS)):
        table = git(root, "diff", "--numstat", base, "--", *(f"{folder}/*.py" for folder in folders)) or ""
        rows = [line.split("\t") for line in table.splitlines()]
        added, removed = (sum(int(row[column]) for row in rows) for column in (0, 1))
        parts.append(f"{label} {added - removed:+,} (+{added:,} −{removed:,})")
    return f"net growth against {base[:9]}: {', '.join(parts)}: {git(root, 'log', '-1', '--no-merges', '--format=%s')}"


def compare(root: Path, house: House, limits: Limits, base: str | None) -> Iterator[str]:
    """Yield one line for each item above its limit, and for each limit that was raised without a reason."""
    changed = git(root, "diff", "--name-only", base) if base else None
    yield from too_much(house, limits, (changed or "").split())
    before = git(root, "show", f"{base}:./{LIMITS}") if base else None
    for line in raised(limits, tomllib.loads(before or "")):
        yield f'{line}: its table needs a new reason = "…"'


def main(argv: list[str] | None = None, root: Path = CHECKOUT) -> int:
    """Compare or write the limits; return 1 where a limit is exceeded, or raised without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--lower", "--init", "--growth", "--words", "--trace"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--base", default=os.environ.get("HOUSE_BASE"))
    chosen = parser.parse_args(argv)
    base = base_commit(root, chosen.base)
    if chosen.growth:
        sys.stdout.write(f"{growth(root, base) if base else 'net growth: unknown, since there is no commit before'}\n")
        return 0
    text = (root / LIMITS).read_text(encoding="utf-8")
    limits: Limits = tomllib.loads(text)
    house = measure(root, limits)
    if chosen.trace:
        house.figures |= traced(root)
    if chosen.words:
        sys.stdout.writelines(f"{count:6,}  {word}\n" for word, count in house.words.most_common())
        return 0
    if chosen.lower or chosen.init:
        changed = of_today(house, limits) if chosen.init else lowered(house, limits)
        (root / LIMITS).write_text(rewritten(text, changed), encoding="utf-8")
        return 0
    problems = list(compare(root, house, limits, base))
    sys.stdout.writelines(f"{line}\n" for line in problems)
    sys.stdout.writelines(f"{line}\n" for line in better(house, limits))
    return bool(problems)


if __name__ == "__main__":
    gc.disable()  # Trees of code have no circles, and the collector would walk them again and again.
    sys.exit(main())
