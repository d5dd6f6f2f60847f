"""Generates `config.yaml` and `docs/configuration.md` from the schema.

`python -m clawbot.config.document` updates both in a checkout; a test checks that they are current.
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

import yaml
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from clawbot.config.keys import ACTIONS, KeyMap
from clawbot.config.legacy import tables
from clawbot.config.paths import DEFAULTS, MAIN_AGENT
from clawbot.config.schema import Settings
from clawbot.config.spelling import extras_of, items_of, section_of
from clawbot.config.values import SettingsSection
from clawbot.files import write_atomic

_WIDTH = 116
_YAML_HEAD = """\
# The settings of clawbot: every key with its default. The program loads this file first; what your own file
# ($CLAWBOT_HOME/config.yaml, see `clawbot config path`) says goes over it, and command-line options over both.
# So write only what you want to change. snake_case and camelCase are the same key. Durations: 30s, 5m, 1h30m;
# sizes: 64kb, 2mb. Made from the schema by `python -m clawbot.config.document`; see docs/configuration.md.
"""
_MARKDOWN_HEAD = """\
# Configuration

Made from the schema by `python -m clawbot.config.document`; every key with its default also stands in `config.yaml`.

## Where settings come from

Three layers, each over the one before:

1. `config.yaml` as shipped: every key with its default.
2. Your own file: `$CLAWBOT_HOME/config.yaml` (`~/.clawbot/config.yaml` unless `CLAWBOT_HOME` says otherwise), or the
   file of `--config FILE` in its place. YAML or JSON (also JSON5: comments, trailing commas, bare keys), in UTF-8.
   Write only what you want to change.
3. Options of the command line.

Mappings are joined key by key, lists and everything else are replaced. `clawbot config show` prints the result with
the origin of each value, `clawbot config check [FILE]` every mistake with file, line and key, `clawbot config path`
where your file is or would be.

Short commands keep what was checked in `config.yaml.snapshot` beside your file (mode 0600) and read it as long as the
files above, the home folder and the program are the same to the byte. Settings that hold a key in clear are never kept
there: name a variable (`api_key_env`), and `clawbot memory search` takes 0.15 s less. The file can be deleted.

Keys of models may stand in `$CLAWBOT_HOME/.env` (`OPENAI_API_KEY=...`); what the environment has already wins. A line
that is no `NAME=value` is left out, and named without its text.

## How values are written

- **Keys**: `snake_case`; the `camelCase` spelling is the same key. Agent ids and the names of hooks and jobs are
  names: they stay as they are.
- **Durations**: `500ms`, `30s`, `5m`, `1h30m`, `2d`. A bare number counts seconds, but minutes in
  `context_pruning.ttl`, as in the programs where that key comes from (`600` is ten hours; a notice says so).
- **Sizes**: `64kb`, `2mb`, `1gb` (of 1024), or a number of bytes.
- **Switches**: `true` and `false`, also `yes`, `no`, `on`, `off`.
- **Paths**: `~` is your home folder. `~/.clawbot` always means the state folder, wherever `CLAWBOT_HOME` puts it.
- **Variables**: `${NAME}`, `${NAME:-default}` and `$NAME` are replaced in every text, and so are the spellings of
  other programs: `${env:NAME}`, `{env:NAME}`, `os.environ/NAME`. One that is not set is a mistake, and so is what
  another program fills in (`${input:key}`). `$$` is a plain `$`. In prompts `$NAME` stays as it is, and commands
  (`allow`, `ask`, `deny`, `network`) stay to the byte. Settings with a reference are not kept in the snapshot; name
  keys by `api_key_env`.
- **YAML** is read by the rules of version 1.2: `off` and `04:00` are text. A key written twice is an error.

## Commands that run without asking

An entry of `tools.shell.allow` is one of three:

- a whole command: `make test` allows that, to the byte, and nothing else;
- words and `<reading>`: `git log <reading>` allows `git log` with the options that only read, and `<reading>` alone
  every command of that list: git's reading subcommands, `ls`, `cat`, `grep`, `find`, `wc`, `diff`, `jq` and so on
  (`clawbot/tools/shell_reading.toml`). Options that write or run something, options that are not on the list or are
  abbreviated, paths outside the workspace (also by a link), names where secrets lie (`.env`, `.ssh`), and git where the
  workspace is not the top of a repository or that repository's settings name programs are asked about;
- words and `<anything>`: `npm run <anything>` allows every command that begins with these words, whatever it does. It
  has to be one command: with `;`, `|`, `>`, `$` and the like you are asked.

The answer "always" allows a reading command as `<reading>` does, and any other one in its exact form, until the program
ends. Patterns of older settings (`git status*`, `npm run *`) count as `<reading>`; a notice says so.

```yaml
agents:
  defaults: {tools: {shell: {allow: [make test, git log <reading>, npm run <anything>]}}}
```

## Agents

`agents.defaults` holds what all agents share. Every other entry of `agents` is an agent (an id of a-z, 0-9, `_`, `-`)
and holds what it has of its own; `main` is always there. An agent other than `main` that names no `workspace` has
`workspace-<id>` in the state folder, so that no two agents share one by accident.

```yaml
agents:
  defaults: {model: anthropic/claude-sonnet-4-5, timezone: Europe/Berlin}
  work: {workspace: ~/work/notes, context_tokens: 100000}
```
"""
_KEYS_HEAD = """\
### tui.keys

The actions of the conversation. A key is written as `ctrl+o`, `alt+x`, `alt+shift+x`, `f5`, `ctrl+/`, `esc`, `pgup`;
several as a list. No two actions have the same key, so one that takes the key of another needs two entries:

```yaml
tui:
  keys:
    unfold: ctrl+b             # ctrl+o is free now
    memory: [ctrl+k, f7]
    recall: none               # still in the palette
    models: ctrl+r
    sessions: ctrl+l
```

Enter, Tab, Ctrl+C, Ctrl+Q, what types and what moves the cursor stay as they are. Terminals have no Ctrl+I, Ctrl+M,
Ctrl+H and Ctrl+[ (they are Tab, Enter, Backspace and Esc), and only few have keys such as Ctrl+Shift+O: `clawbot config
check` says so. Keys that edit the line (Ctrl+A, Ctrl+K) can be taken.

| action | keys | what it does |
|---|---|---|
"""
_VI = """\
### tui.vi

Each message begins in the mode insert; the status line shows the mode. Esc goes to normal. From there, with no command
begun, it does what it does without vi: it stops the running turn, and twice it goes back to an earlier message. Enter
sends in every mode. `k` in the first line and `j` in the last one bring earlier inputs.

- motions, with counts: `h j k l w b e W B E 0 ^ $ gg G f F t T ; ,` and the arrow keys
- operators `d c y` with a motion, doubled for lines, and with `iw aw iW aW`
- `x X s S D C Y r ~ J p P u ctrl+r .`, inserting by `i a I A o O`, selecting by `v V` (there also `o`)

A word is what ctrl+left takes for one: a run of letters, digits and Chinese; a run of other signs is a word as well.
There is one register, and nothing of `:`, `/`, marks and macros.
"""
_LEGACY_HEAD = """\
## Files of other programs

`openclaw.json` (also of its older names) and LiteLLM's `config.yaml` can be given as they are, with `--config` or as
your own file. Keys are moved to their place here, or ignored with one notice that names them. `models.providers` gives
the agents that use it `api_base` and the key, by the name of its variable where it has one; an agent has one address,
so fallbacks of another provider are left out. Of `model_list` the first chat model and those in its group are taken.

**What restricts is kept, or refuses the start** with the place to write it here: `tools.deny` becomes
`agents.<agent>.tools.deny` with our names (`exec` is `shell`), and `exec.security: deny` is
`tools.shell.approval: deny`. Lists of the only tools (`tools.allow`, most profiles), lists of the only commands,
sandboxes, `byProvider` and `$include` have no exact counterpart. A key that nobody knows is ignored in such a file,
unless its name speaks of a restriction.

These keys are read as what they mean here. `<agent>` is `defaults` or an agent. Beside them,
`agents.list` (with an `id` in each item) is read as one entry for each id, `session.reset.at_hour: 4` as `at: "04:00"`
(also in `session.reset_by_type`), and `session.idle_minutes` without `session.reset` as the mode `idle`. The provider
`local` is `offline`. `memory_search.experimental.session_memory` puts `sessions` among the sources or takes it out.
`agents.<agent>.heartbeat` is `schedule.heartbeat`, switched on unless `every` is `0m`.

| older key | read as |
|---|---|
"""

_IGNORED_HEAD = """\
### Ignored

Keys of the same family that have no counterpart here do not stop the program: one notice names them. Neither does a
mistake in `memory.backend` or in the section of a backend: the builtin index answers then. Any other unknown key is an
error.

| key | why |
|---|---|
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
        yield from textwrap.wrap(key.text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if key.nested and key.nested.model_fields:
            yield f"{indent}{key.name}:"
            yield from _yaml(key.nested, deeper)
        elif key.named:
            yield from (f"{indent}{key.name}:", f"{deeper}{DEFAULTS}:")
            yield from _yaml(key.named, f"{deeper}  ")
            yield f"{deeper}{MAIN_AGENT}: {{}}"
        else:
            yield f"{indent}{key.name}: {scalar(key.default, indent)}"


def scalar(value: Any, indent: str = "") -> str:
    """`value` as YAML after its key; long text as a folded block."""
    line = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9)
    line = line.removesuffix("...\n").strip()
    if not isinstance(value, str) or len(line) + len(indent) < _WIDTH or "\n" in value or "  " in value:
        return line
    wrapped = textwrap.wrap(value, _WIDTH, initial_indent=f"{indent}  ", subsequent_indent=f"{indent}  ")
    return "\n".join([">-", *wrapped])


def reference() -> str:
    """The whole text of `docs/configuration.md`."""
    parts = [_MARKDOWN_HEAD, *_tables(Settings, "")]
    rows = (f"| `{action.name}` | {KeyMap().shown(action.name)} | {action.meaning} |\n" for action in ACTIONS)
    parts += [_KEYS_HEAD + "".join(rows), _VI]
    moved = "".join(f"| `{old}` | `{new}` |\n" for old, new in tables()["moved"].items())
    parts.append(_LEGACY_HEAD + moved.replace("*", "<agent>"))
    listed = ((", ".join(f"`{key}`" for key in keys.split()), why) for why, keys in tables()["ignored"].items())
    ignored = ((keys.replace("*", "<agent>"), why) for keys, why in listed)
    parts.append(_IGNORED_HEAD + "".join(f"| {places} | {why} |\n" for places, why in ignored))
    return "\n".join(parts)


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
    return f"`{text}`" if len(text) < _WIDTH // 2 else "see config.yaml"


def main() -> None:
    """Write both files of the checkout. Raises SystemExit elsewhere."""
    top = Path(__file__).parents[2]
    if not (top / "pyproject.toml").exists():
        raise SystemExit("These files can only be generated in a checkout.")
    for path, text in ((top / "config.yaml", shipped_yaml()), (top / "docs" / "configuration.md", reference())):
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, text.encode(), mode=0o644)


if __name__ == "__main__":
    main()
