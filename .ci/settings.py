"""Writes `config.yaml` and `docs/configuration.md` from the schema; a test checks that they are current.

python .ci/settings.py, which is part of `make pages`
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

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


# A default of more characters, and those of a section with more keys, are left to config.yaml.
_LONG = 40
_MANY = 20


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
    """Return the text of `docs/configuration.md`: settings.md with the tables of the schema."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return text.replace("<!-- sections -->", "\n".join(_groups()).rstrip())


def _groups() -> Iterator[str]:
    """Yield a table for each top section: a row for each section in it, with its keys and their defaults."""
    for key in keys(Settings):
        top = f"{key.name}.{DEFAULTS}" if key.named else key.name
        yield f"## {key.name}\n\n| below `{top}` | keys and defaults |\n|---|---|"
        alike: dict[str, list[str]] = {}
        for path, listed in _rows(key.nested or key.named, ""):
            alike.setdefault(listed, []).append(path)
        yield from (f"| {', '.join(paths)} | {listed} |" for listed, paths in alike.items())
        yield ""


def _rows(section: type[SettingsSection] | None, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the keys of `section`, then of the sections in it."""
    if section is None:
        return
    found = list(keys(section))
    own = [key for key in found if not key.nested and not key.named]
    if own:
        yield path, ", ".join(_default_of(key) if len(own) <= _MANY else f"`{key.name}`" for key in own)
    prefix = f"{path}." if path else ""
    for key in found:
        yield from _rows(key.nested or key.named, f"{prefix}{key.name}" + (f".{DEFAULTS}" if key.named else ""))
    yield from _rows(section_of(extras_of(section)), f"{prefix}NAME")


def _default_of(key: Key) -> str:
    """Return the name of a key, and its default unless it is null, empty or long."""
    text = key.default if isinstance(key.default, str) else json.dumps(key.default, ensure_ascii=False)
    return f"`{key.name}`" + (f" {text}" if key.default not in (None, [], {}, "") and len(text) < _LONG else "")


def main() -> None:
    """Write both files of the checkout."""
    (CHECKOUT / "config.yaml").write_text(shipped_yaml(), encoding="utf-8")
    (CHECKOUT / "docs" / "configuration.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
