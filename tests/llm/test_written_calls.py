"""Calls that a model writes as text are calls, and no other text is."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.llm.calls import MOST_HELD, WrittenCalls
from clawbot.messages import ToolSpec


def tool(name: str, **properties: str) -> ToolSpec:
    fields = {field: {"type": kind} for field, kind in properties.items()}
    return ToolSpec(name, "", {"type": "object", "properties": fields})


TOOLS = [tool("read", path="string", limit="integer"), tool("append", path="string", content="string"), tool("status")]
JSON = '{"name": "read", "arguments": {"path": "A"}}'
READ = ("read", {"path": "A"})
# As model families write them: bare, in a fence, in the tags of their templates.
CALLS: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    (JSON, [READ]),
    (f"  {JSON}\n", [READ]),
    (f"```json\n{JSON}\n```", [READ]),
    (f"```\n{JSON}\n```", [READ]),
    (f"<tool_call>\n{JSON}\n</tool_call>", [READ]),
    (f"<tool_call>{JSON}", [READ]),
    (f"<tool_call>{JSON}</tool_call>\n<tool_call>{JSON}</tool_call>", [READ, READ]),
    (f"[{JSON}, {JSON}]", [READ, READ]),
    (f"{JSON}\n{JSON}", [READ, READ]),
    (f"{JSON}; {JSON}", [READ, READ]),
    ('{"name": "read", "parameters": {"path": "A"}}', [READ]),
    ('{"arguments": {"path": "A"}, "name": "read"}', [READ]),
    ('{"tool": "read", "args": {"path": "A"}}', [READ]),
    ('{"action": "read", "action_input": {"path": "A"}}', [READ]),
    ('{"id": "1", "type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"A\\"}"}}', [READ]),
    ('{"tool_calls": [{"type": "function", "function": {"name": "read", "arguments": {"path": "A"}}}]}', [READ]),
    ('{"name": "functions.read", "arguments": {"path": "A"}}', [READ]),
    ("{'name': 'read', 'arguments': {'path': 'A'}}", [READ]),
    ('{"name": "read", "arguments": {"path": "A",}}', [READ]),
    (
        '{"name": "append", "arguments": {"path": "A", "content": "a\nb"}}',
        [("append", {"path": "A", "content": "a\nb"})],
    ),
    (
        '{"name": "append", "arguments": {"path": "A", "content": "```</tool_call>"}}',
        [("append", {"path": "A", "content": "```</tool_call>"})],
    ),
    ('{"name": "status", "arguments": {}}', [("status", {})]),
    (f"[TOOL_CALLS][{JSON}]", [READ]),
    (f"[TOOL_CALLS] [{JSON}]</s>", [READ]),
    ('[TOOL_CALLS]read[ARGS]{"path": "A"}', [READ]),
    ('[TOOL_CALLS]read[CALL_ID]x1[ARGS]{"path": "A"}', [READ]),
    (f"<|python_tag|>{JSON}", [READ]),
    (f"<|tool_call|>[{JSON}]<|/tool_call|>", [READ]),
    (f"functools[{JSON}]", [READ]),
    (f"<TOOLCALL>[{JSON}]</TOOLCALL>", [READ]),
    (f"<|START_ACTION|>[{JSON}]<|END_ACTION|>", [READ]),
    ("<function=read>\n<parameter=path>\nA\n</parameter>\n</function>", [READ]),
    (
        "<tool_call>\n<function=read>\n<parameter=path>\nA\n</parameter>\n<parameter=limit>\n5\n"
        "</parameter>\n</function>\n</tool_call>",
        [("read", {"path": "A", "limit": "5"})],
    ),
    (
        "<function=append><parameter=path>A</parameter><parameter=content>5</parameter></function>",
        [("append", {"path": "A", "content": "5"})],
    ),
    ('<function=read>{"path": "A"}</function>', [READ]),
    ('<invoke name="read"><parameter name="path">A</parameter></invoke>', [READ]),
    (
        '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">A</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        [READ],
    ),
    ('<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "A"}<|call|>', [READ]),
    ('<|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path": "A"}', [READ]),
    (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{"path": "A"}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [READ],
    ),
    (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "A"}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        [READ],
    ),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0"
        '<|tool_call_argument_begin|>{"path": "A"}<|tool_call_end|><|tool_calls_section_end|>',
        [READ],
    ),
    (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">A'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        [READ],
    ),
    (
        '<|DSML|function_calls><|DSML|invoke name="append"><|DSML|parameter name="content" string="true"><b>x</b>'
        "</|DSML|parameter></|DSML|invoke></|DSML|function_calls>",
        [("append", {"content": "<b>x</b>"})],
    ),
    ('read\n{"path": "A"}', [READ]),
    ('read{"path": "A"}', [READ]),
    ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>A</arg_value>\n</tool_call>", [READ]),
    (
        "<tool_call>append<arg_key>path</arg_key><arg_value>A</arg_value><arg_key>content</arg_key>"
        "<arg_value>a\nb</arg_value></tool_call><tool_call>status</tool_call>",
        [("append", {"path": "A", "content": "a\nb"}), ("status", {})],
    ),
    (
        "<longcat_tool_call>read\n<longcat_arg_key>path</longcat_arg_key>\n<longcat_arg_value>A</longcat_arg_value>\n"
        "</longcat_tool_call>",
        [READ],
    ),
    ("<tool_call>read<tool_sep><arg_key>path</arg_key><arg_value>A</arg_value></tool_call>", [READ]),
    ('<|tool_call>call:read{path:<|"|>A<|"|>}<tool_call|>', [READ]),
    (
        '<|tool_call>call:append{path:<|"|>A<|"|>,content:<|"|>say "x", {y: 1}<|"|>}<tool_call|>',
        [("append", {"path": "A", "content": 'say "x", {y: 1}'})],
    ),
    ("<start_function_call>call:read{path:<escape>A<escape>}<end_function_call>", [READ]),
    (f"[TOOL_REQUEST]\n{JSON}\n[END_TOOL_REQUEST]", [READ]),
    (
        "<seed:tool_call>\n<function=read>\n<parameter=path>A</parameter>\n</function>\n</seed:tool_call>",
        [READ],
    ),
    ("```xml\n<tool_call>\n<function=read>\n<parameter=path>\nA\n</parameter>\n</function>\n</tool_call>\n```", [READ]),
    ('<tool_call name="read">{"path": "A"}</tool_call>', [READ]),
    (f"<tool_call>\n{JSON}}}\n</tool_call>", [READ]),
    (f"\ufeff{JSON}", [READ]),
    ('{"tool": "read", "tool_input": {"path": "A"}}', [READ]),
    ('{"function_call": {"name": "read", "arguments": {"path": "A"}}}', [READ]),
    (f'{{"role": "assistant", "content": null, "tool_calls": [{JSON}]}}', [READ]),
    ('<|channel|>commentary to=functions.read code<|message|>{"path": "A"}<|call|>', [READ]),
    ('<|channel|>analysis to=functions.read code<|message|>{"path": "A"}<|call|>', [READ]),
    # Results that the model made up.
    (f"<tool_call>{JSON}</tool_call>\n<tool_result>hello</tool_result>\nIt says hello.", [READ]),
    (f"{JSON}\n观察：好", [READ]),
    (f"```json\n{JSON}\n```\nTool response: hello", [READ]),
    (f'{JSON}\n{{"provider": "offline", "hits": []}}', [READ]),
    (f'{JSON}\n[{{"path": "A"}}]\nThe file is A.', [READ]),
    (f"{JSON}\n<tool_response>\nhello\n</tool_response>\nIt says hello.", [READ]),
    (f"{JSON}\n{JSON}\nObservation: hello", [READ, READ]),
    (f'{JSON}\n{{"name": "A", "arguments": {{"path": "A"}}}}\n{{"na', [READ]),
    (f'[{JSON}, {{"name": "launch", "arguments": {{}}}}]', [READ]),
]
# Text, and whether a call was tried in it.
TEXTS = [
    ("Yes.", False),
    ("", False),
    ('{"name": "Bob", "age": 3}', False),
    ('{"name": "read"}', False),
    ('{"host": "x", "port": 3}', False),
    ('```json\n{"host": "x"}\n```', False),
    ("[1, 2]", False),
    ("[link](address)", False),
    ("```python\nprint(1)\n```", False),
    ("<p>Hello</p>", False),
    (f"Call it so: {JSON}", False),
    (f"{JSON} reads the file.", False),
    (f"I'll look:\n```json\n{JSON}\n```", False),
    ('{"name": "read", "description": "Reads.", "parameters": {"type": "object"}}', False),
    (f"```\n<tool_call>{JSON}</tool_call>\n```\nis the form.", False),
    ("Write `<tool_call>` around it.", False),
    ("read", False),
    ("read the file {A}", False),
    ('status {"code": 3}', False),
    ("reading is fun", False),
    ('{"role": "user", "content": "hello"}', False),
    ('{"function": "f(x)", "domain": "R"}', False),
    ('{"tool_calls": 3, "model": "m"}', False),
    ('{"action": "buy", "input": 3}', False),
    ('<parameter name="path">A</parameter>', False),
    ("<arg_key>path</arg_key>", False),
    ("<svg:function/>", False),
    ("Result: 3", False),
    ("```xml\n<function/>\n```", False),
    ('{"name": "launch", "arguments": {"speed": 3}}', True),
    ('```json\n{"name": "launch", "arguments": {"speed": 3}}\n```', True),
    ('{"name": "read", "arguments": {"speed": 3}}', True),
    ('{"name": "read", "arguments": "oops"}', True),
    ('I look.\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">', True),
    ('I look.\n\n<|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path": "A"}', True),
    (f"I look.\n[TOOL_REQUEST]\n{JSON}\n[END_TOOL_REQUEST]", True),
    (f"I'll look.\n<tool_call>{JSON}</tool_call>", True),
    ("<tool_call>read A</tool_call>", True),
    ("<function=launch></function>", True),
]


def read(text: str, size: int, tools: list[ToolSpec] = TOOLS, *, whole: bool = True) -> tuple[str, str, list[Any]]:
    written = WrittenCalls(tools)
    shown = "".join(written.feed(text[at : at + size]) for at in range(0, len(text), size))
    rest, calls = written.end(whole=whole)
    return shown, shown + rest, [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("text", "calls"), CALLS)
def test_an_answer_that_is_a_call(text: str, calls: list[Any], size: int) -> None:
    assert read(text, size) == ("", "", calls)


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("text", "tried"), TEXTS)
def test_an_answer_that_is_text(text: str, tried: bool, size: int) -> None:
    _shown, whole, calls = read(text, size)
    assert (whole, calls) == (text, [])
    assert WrittenCalls(TOOLS).resembles_call(text) is tried
    assert not WrittenCalls([]).resembles_call(text)


@pytest.mark.parametrize(("text", "_calls"), CALLS)
def test_without_tools_or_before_the_end_nothing_is_a_call(text: str, _calls: list[Any]) -> None:
    assert read(text, 4, []) == (text, text, [])
    assert read(text, 4, whole=False)[1:] == (text, [])


@pytest.mark.parametrize(
    "text",
    ['{"host"', "[1", "[link]", "```python\nx", "<p>", "Yes", '```json\n{"host":', "<title>", '{\n  "a"', "``` \nx"],
)
def test_what_can_be_no_call_is_shown_at_once(text: str) -> None:
    assert WrittenCalls(TOOLS).feed(text) == text


def test_what_is_held_back_is_bounded() -> None:
    text = '{"name": "append", "arguments": {"path": "A", "content": "' + "x" * MOST_HELD
    assert read(text, 1000)[0] == text
