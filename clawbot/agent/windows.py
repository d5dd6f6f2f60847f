"""How large the windows of models are: what is known of them, less what providers' errors taught."""

from __future__ import annotations

from clawbot.context.budget import Window, window_of
from clawbot.llm.protocol import ModelInfo

# A smaller window than this is no window that a model has: a limit that an error names below it was misread.
LEAST_WINDOW = 2_000
LEARNT = "from an error of the provider"


class Windows:
    """The windows, in tokens. `cap` is `context_tokens` of the settings."""

    def __init__(self, cap: int | None) -> None:
        self._cap = cap
        self._learnt: dict[str, int] = {}

    def of(self, model: ModelInfo) -> Window:
        """The window of `model`: its own, or less where the settings or an error say so."""
        known = window_of(model, self._cap)
        learnt = self._learnt.get(model.ref)
        return Window(learnt, LEARNT, assumed=False) if learnt and learnt < known.tokens else known

    def learn(self, model: ModelInfo, limit: int | None) -> bool:
        """The provider refused a request because the window has `limit` tokens (None: it did not say). Whether that is
        less than was known."""
        if limit is None or not LEAST_WINDOW <= limit < self.of(model).tokens:
            return False
        self._learnt[model.ref] = limit
        return True
