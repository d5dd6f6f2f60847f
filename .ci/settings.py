"""Writes `config.yaml` and `docs/configuration.md` from the schema; a test checks that they are current.

python .ci/settings.py, which is part of `make pages`
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from clawbot.config.keys import ACTIONS, KeyMap
from clawbot.config.legacy import tables
from clawbot.config.paths import DEFAULTS, MAIN_AGENT
from clawbot.config.schema import Settings
from clawbot.config.source import WIDTH, scalar
from clawbot.config.spelling import extras_of, items_of, section_of
from clawbot.config.values import SettingsSection

CHECKOUT = Path(__file__).parents[1]
_YAML_HEAD = """\
# The settings of clawbot: every key with its default. The program loads this file first; what your own file
# ($CLAWBOT_HOME/config.yaml, see `clawbot config path`) says goes over it, and command-line options over both.
# So write only what you want to change. snake_case and camelCase are the same key. Durations: 30s, 5m, 1h30m;
# sizes: 64kb, 2mb. Made from the schema by `make pages`; see docs/configuration.md.
"""


class Key(NamedTuple):
    """One key of a section: its name in files, meaning, default as written in files, and what is nested below it."""

    name: str
    text: str
    default: Any
    nested: type[SettingsSection] | None
    named: type[SettingsSection] | None


def keys(section: type[SettingsSection]) -> Iterator[Key]:
    """The keys of `section`, in order."""
    texts = _texts(section)
    for name, field in section.model_fields.items():
        named = section_of(items_of(field.annotation, dict))
        yield Key(field.alias or name, texts[name], _default(field), section_of(field.annotation), named)


def _texts(section: type[SettingsSection]) -> dict[str, str]:
    """The docstrings of the fields of `section`, including inherited ones."""
    base = section.__base__
    texts = _texts(base) if base and base is not SettingsSection and issubclass(base, SettingsSection) else {}
    tree = ast.parse(inspect.getsource(section))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    for field, note in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(note, ast.Expr):
            texts[field.target.id] = " ".join(str(ast.literal_eval(note.value)).split())
    return texts


def _default(field: FieldInfo) -> Any:
    annotation: Any = field.annotation
    for part in field.metadata:
        annotation = Annotated[annotation, part]
    default = field.get_default(call_default_factory=True, validated_data={})
    return TypeAdapter(annotation).dump_python(default, mode="json", by_alias=True)


def shipped_yaml() -> str:
    """The whole text of `config.yaml`."""
    return "\n".join([_YAML_HEAD, *_yaml(Settings, "")]) + "\n"


def _yaml(section: type[SettingsSection], indent: str) -> Iterator[str]:
    deeper = f"{indent}  "
    for key in keys(section):
        yield from textwrap.wrap(key.text, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if key.nested and key.nested.model_fields:
            yield f"{indent}{key.name}:"
            yield from _yaml(key.nested, deeper)
        elif key.named:
            yield from (f"{indent}{key.name}:", f"{deeper}{DEFAULTS}:")
            yield from _yaml(key.named, f"{deeper}  ")
            yield f"{deeper}{MAIN_AGENT}: {{}}"
        else:
            yield f"{indent}{key.name}: {scalar(key.default, indent)}"


def reference() -> str:
    """The whole text of `docs/configuration.md`: settings.md with what the schema and the tables say."""
    listed = ((", ".join(f"`{key}`" for key in keys.split()), why) for why, keys in tables()["ignored"].items())
    parts = {
        "sections": _tables(Settings, ""),
        "actions": (f"| `{each.name}` | {KeyMap().shown(each.name)} | {each.meaning} |" for each in ACTIONS),
        "moved": (f"| `{old}` | `{new}` |".replace("*", "<agent>") for old, new in tables()["moved"].items()),
        "ignored": (f"| {places.replace('*', '<agent>')} | {why} |" for places, why in listed),
    }
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return re.sub(r"<!-- (\w+) -->", lambda found: "\n".join(parts[found[1]]).rstrip(), text)


def _tables(section: type[SettingsSection], path: str) -> Iterator[str]:
    found = list(keys(section))
    plain = [key for key in found if not key.nested and not key.named]
    if plain:
        rows = [f"| `{key.name}` | {_cell(key.default)} | {key.text} |" for key in plain]
        head = f"## {path}\n\n{inspect.getdoc(section)}\n\n| key | default | meaning |\n|---|---|---|\n"
        yield head + "\n".join(rows) + "\n"
    for key in found:
        below = key.nested or key.named
        if below:
            place = f"{path}.{key.name}".removeprefix(".")
            yield from _tables(below, f"{place}.{DEFAULTS}" if key.named else place)
    own = section_of(extras_of(section))
    if own:
        yield from _tables(own, f"{path}.NAME")


def _cell(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False) if not isinstance(default, str) else default
    return f"`{text}`" if len(text) < WIDTH // 2 else "see config.yaml"


def main() -> None:
    """Write both files of the checkout."""
    (CHECKOUT / "config.yaml").write_text(shipped_yaml(), encoding="utf-8")
    (CHECKOUT / "docs" / "configuration.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
