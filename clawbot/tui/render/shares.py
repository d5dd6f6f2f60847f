"""A bar of cells shared out in proportion: every share that is anything gets a cell, and none gets lost."""

from __future__ import annotations

from collections.abc import Sequence


def share_out(amounts: Sequence[int], cells: int) -> list[int]:
    """How many of `cells` each of `amounts` (0 or more) gets. The cells sum up to `cells` as long as there is an amount
    and a cell for each that is not 0; what is rounded goes to where most was lost."""
    total = sum(amounts)
    if not total:
        return [0] * len(amounts)
    exact = [amount * cells / total for amount in amounts]
    given = [max(1, int(share)) if amount else 0 for amount, share in zip(amounts, exact, strict=True)]
    while sum(given) < cells:
        given[max(range(len(given)), key=lambda n: exact[n] - given[n] if amounts[n] else -1.0)] += 1
    while sum(given) > cells and max(given) > 1:
        given[max((n for n in range(len(given)) if given[n] > 1), key=lambda n: given[n] - exact[n])] -= 1
    return given
