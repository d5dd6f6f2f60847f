"""The words of the first start."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from clawbot.llm.protocol import ModelInfo
from clawbot.tui.screens.help import welcome_text

HOME = Path("/home/ada")
WORKSPACE = HOME / ".clawbot" / "workspace"
OFFLINE = ModelInfo(ref="offline", reason="no key and no local server was found")
GPT = ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set")
LOCAL = [ModelInfo(ref=f"ollama/m{number}") for number in range(5)]


def text(model: ModelInfo, found: list[ModelInfo], workspace: Path = WORKSPACE) -> str:
    return welcome_text(model, found, workspace, keys_looked_for=9, home=HOME)


def test_with_nothing_it_runs_offline_and_says_what_was_looked_for() -> None:
    assert text(OFFLINE, [OFFLINE]) == snapshot("""\
**Welcome.** I keep what we talk about in plain Markdown, here: `~/.clawbot/workspace`

No model key was found, so I run offline: I remember, find and quote your notes, and read files.

- To talk to a language model: `/model` (found on this machine: none · keys looked for: 9)
- To run one on this machine, without a key: press `f3`
- Try: `remember that I prefer tabs over spaces`\
""")


def test_with_a_key_it_names_the_model_and_why() -> None:
    assert text(GPT, [GPT, OFFLINE]) == snapshot("""\
**Welcome.** I keep what we talk about in plain Markdown, here: `~/.clawbot/workspace`

`openai/gpt-5` answers: OPENAI_API_KEY is set.

- Another model: `/model` (also found on this machine: none · keys looked for: 9)
- Try: `remember that I prefer tabs over spaces`\
""")


def test_offline_by_choice_names_what_else_is_there() -> None:
    chosen = ModelInfo(ref="offline", reason="chosen in config.yaml")
    card = text(chosen, [*LOCAL, OFFLINE])
    assert "I run offline (chosen in config.yaml): I remember" in card
    assert "(found on this machine: `ollama/m0`, `ollama/m1`, `ollama/m2` and 2 more · keys looked for: 9)" in card


def test_a_model_that_lies_here_is_one_key_away() -> None:
    here = ModelInfo(ref="local/qwen3-4b")
    assert "press `f3`" in text(OFFLINE, [here, OFFLINE])
    assert "press `f3`" not in text(OFFLINE, [here, *LOCAL, OFFLINE])


def test_odd_signs_in_names_stay_code() -> None:
    card = text(OFFLINE, [OFFLINE], Path("/data/``odd` *x*\x1b[0m"))
    assert "``` /data/``odd` *x* ```" in card
