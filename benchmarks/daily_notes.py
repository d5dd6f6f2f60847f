"""Daily notes to measure with: as many as wanted, usually 12 KB each, always the same for one seed; and questions to
them.

Words follow Zipf's law over a made-up vocabulary, between the small words of English; every fifth line is Chinese, and
some carry identifiers, numbers and dates, as the notes of people who program do. Notes with `things` also name ordinary
things, which questions call by other words.
"""

from __future__ import annotations

import itertools
import random
from datetime import date, timedelta
from pathlib import Path

NOTE_BYTES = 12_600
VOCABULARY = 20_000
CHINESE = 0.2  # the share of lines
FIRST_DAY = date(1995, 1, 1)
_ONSETS = "b c d f g h j k l m n p r s t v w br ch cl cr dr fl gr pl pr sh sl sp st th tr"
_NUCLEI = "a e i o u ai ea ee oa ou"
_CODAS = ["", "", "l", "m", "n", "r", "s", "t", "ck", "nd", "nt", "rd", "st"]
_SMALL = "the a of to and in is for on with that it was as at by we i you from this be have not are but"
_CHINESE = (
    "项目 会议 数据 接口 测试 部署 用户 问题 时间 代码 文件 服务 版本 计划 结果 周末 孩子 学校 医院 饭店 "
    "北京 上海 朋友 同事 老板 电影 音乐 跑步 早上 晚上 修改 完成 讨论 决定 提交 发布 回滚 监控 告警 日志"
)
# The first ones are frequent. No note calls them by the second word.
_THINGS = (
    "euro:money movie:film vehicle:car journey:trip manager:boss lake:river jacket:coat bicycle:bike professor:teacher "
    "quiz:exam lease:rent vacation:holiday street:road ocean:sea infant:baby physician:doctor"
)
_ASKED = "what is it that was on when did we do with who said about how many of this the to"
_KINDS = ("frequent", "rare", "other", "slip", "nonsense", "small", "Chinese", "date")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PARTICLES = "的 了 在 和 是 把 就 都 也 要"


class NoteWriter:
    """Writes notes of `note_bytes` and makes questions to them. `seed` decides every word."""

    def __init__(self, seed: int = 7, note_bytes: int = NOTE_BYTES, *, things: bool = False) -> None:
        self._note_bytes = note_bytes
        self._things = dict(each.split(":") for each in _THINGS.split()) if things else {}
        self._random = random.Random(seed)
        self._small = _SMALL.split()
        self._chinese_words = [word + particle for word in _CHINESE.split() for particle in _PARTICLES.split()]
        self._words = self._vocabulary()
        self._weights = list(itertools.accumulate(1 / (rank + 8) for rank in range(len(self._words))))

    def _vocabulary(self) -> list[str]:
        found: dict[str, None] = {}
        onsets, nuclei = _ONSETS.split(), _NUCLEI.split()
        while len(found) < VOCABULARY:
            syllables = self._random.choice((1, 2, 2, 2, 3, 3))
            parts = [
                self._random.choice(onsets) + self._random.choice(nuclei) + self._random.choice(_CODAS)
                for _ in range(syllables)
            ]
            found["".join(parts)] = None
        return list(found)

    def words(self, count: int) -> list[str]:
        """`count` words as often as a language would have them."""
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def _english(self) -> str:
        content = self.words(self._random.randint(6, 16))
        line = [word for one in content for word in (one, self._random.choice(self._small))]
        if self._random.random() < 0.15:
            first, second = self.words(2)
            line.append(self._random.choice((f"{first}_{second}", f"{first}{second.title()}", f"{first}.py")))
        if self._random.random() < 0.15:
            line.append(str(self._random.randint(2, 9999)))
        if self._things and self._random.random() < 0.5:
            line.append(self._random.choices(list(self._things), [1 / n for n in range(1, len(self._things) + 1)])[0])
        return " ".join(line).capitalize() + "."

    def _chinese(self) -> str:
        words = self._random.choices(self._chinese_words, k=self._random.randint(8, 20))
        return "".join(words) + "。"

    def _line(self) -> str:
        return self._chinese() if self._random.random() < CHINESE else self._english()

    def note(self, day: date) -> str:
        """One day: headings with the time, list items, paragraphs, a talk, some code."""
        lines = [f"# {day.isoformat()}", ""]
        size = 0
        hour = 7
        while size < self._note_bytes:
            hour = min(hour + 1, 23)
            block = [f"## {hour:02}:{self._random.randint(0, 59):02} {' '.join(self.words(2))}", ""]
            kind = self._random.random()
            for _ in range(self._random.randint(4, 12)):
                if kind < 0.5:
                    block.append(f"- {self._line()}")
                elif kind < 0.75:
                    block.append(f"{self._random.choice(('User', 'Assistant'))}: {self._line()}")
                else:
                    block += [self._line(), ""]
            if self._random.random() < 0.1:
                block += ["", "```python", f"{self.words(1)[0]} = load({self._random.randint(1, 99)})", "```"]
            lines += [*block, ""]
            size += sum(len(line.encode()) + 1 for line in block)
        return "\n".join(lines) + "\n"

    def write(self, workspace: Path, files: int) -> int:
        """Write `files` notes into `workspace/memory` and return their bytes together."""
        folder = workspace / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        total = 0
        for number in range(files):
            day = FIRST_DAY + timedelta(days=number)
            data = self.note(day).encode()
            (folder / f"{day.isoformat()}.md").write_bytes(data)
            total += len(data)
        return total

    def question(self) -> str:
        """A question of five to eight content words, some of them frequent."""
        return "when did we talk about " + " ".join(self.words(self._random.randint(5, 8))) + "?"

    def any_question(self) -> str:
        """A question of 1 to 60 words: frequent or rare, in no note, misspelt, nonsense, Chinese, dates, mixed."""
        kind = self._random.choice((*_KINDS, "mixed"))
        words = [self._one(kind) for _ in range(self._random.choice((1, 2, 3, 5, 8, 13, 25, 60)))]
        if kind == "Chinese":
            return "".join(words)
        return " ".join(words if self._random.random() < 0.5 else [*self._random.choices(_ASKED.split(), k=4), *words])

    def _one(self, kind: str) -> str:
        """One word of a question, or a period."""
        choose = self._random.choice
        word, letter, at = choose(self._words), choose(_LETTERS), self._random.randrange(9)
        words = {
            "frequent": lambda: self.words(1)[0],
            "rare": lambda: word,
            "other": lambda: choose(list(self._things.values()) or self._words),
            "slip": lambda: word[:at] + letter + word[at + 1 :],
            "nonsense": lambda: "".join(self._random.choices(_LETTERS, k=self._random.randint(3, 12))),
            "small": lambda: choose([*self._small, *_ASKED.split()]),
            "Chinese": lambda: choose(self._chinese_words),
            "date": lambda: choose(("in 1996", "last year", "in March 1995", "on 3 May 1995", "in spring", word)),
        }
        return words[choose(_KINDS) if kind == "mixed" else kind]()
