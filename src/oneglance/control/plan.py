"""What speculation is worth on a machine: the arithmetic that `oneglance plan` prints.

Costs are in passes of the target with one row: c for each token that is drafted, v(n) for a pass
of n rows. Acceptance a is the probability that a drafted token is kept, given that those before it
were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Verify = Callable[[int], float]
"""Cost of a pass by its rows of all sequences together, in passes of one row."""

MAX_PLANNED = 16
"""Longest draft that is considered."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def expected_tokens(acceptance: float, num_draft_tokens: int) -> float:
    """(1 − a^(K+1)) / (1 − a): tokens that a pass delivers with K drafted ones.

    Leviathan et al., arXiv:2211.17192, equation 1.

    Args:
        acceptance: a, 0 to 1.
        num_draft_tokens: K.
    """
    if acceptance >= 1.0:
        return num_draft_tokens + 1.0
    return float((1.0 - acceptance ** (num_draft_tokens + 1)) / (1.0 - acceptance))


@dataclass(frozen=True)
class Draft:
    """A drafter as the arithmetic sees it.

    Attributes:
        name: shown.
        acceptance: a.
        cost: c, of a drafted token of one sequence.
        coverage: share of the passes in which it has something to say at all.
    """

    name: str
    acceptance: float
    cost: float
    coverage: float = 1.0


def speedup(draft: Draft, num_draft_tokens: int, verify: Verify, batch: int = 1) -> float:
    """Tokens a second over those of plain decoding: S_K · v(B) / (B c K + v(B (K + 1))).

    Leviathan et al., theorem 3.8, with a measured cost of the pass instead of a constant one.
    Passes in which the drafter has nothing to say are plain ones.

    Args:
        draft: the drafter.
        num_draft_tokens: K; 0 is plain decoding.
        verify: cost of a pass.
        batch: B, sequences in each pass; each has K tokens drafted for it.
    """
    if num_draft_tokens == 0:
        return 1.0
    plain, share = verify(batch), draft.coverage
    drafted = batch * draft.cost * num_draft_tokens + verify(batch * (num_draft_tokens + 1))
    tokens = 1.0 - share + share * expected_tokens(draft.acceptance, num_draft_tokens)
    return tokens * plain / ((1.0 - share) * plain + share * drafted)


def best_length(draft: Draft, verify: Verify, batch: int = 1) -> int:
    """The K of greatest speedup; 0 where drafting loses. Arguments as for `speedup`."""
    lengths = range(MAX_PLANNED + 1)
    return max(lengths, key=lambda k: speedup(draft, k, verify, batch))


def break_even_acceptance(draft: Draft, verify: Verify, batch: int = 1) -> float | None:
    """The least acceptance at which some length still pays, by bisection.

    Args:
        draft: the drafter; its own acceptance is not looked at.
        verify: cost of a pass.
        batch: sequences in each pass.

    Returns:
        None where not even perfect drafts pay.
    """

    def pays(acceptance: float) -> bool:
        return best_length(replace(draft, acceptance=acceptance), verify, batch) > 0

    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def last_paying_batch(draft: Draft, verify: Verify, batches: Sequence[int] = BATCHES) -> int | None:
    """The greatest of some batch sizes up to which speculation pays; None: not even for the first.

    Args:
        draft: the drafter.
        verify: cost of a pass.
        batches: in ascending order.
    """
    last = None
    for batch in batches:
        if best_length(draft, verify, batch) == 0:
            break
        last = batch
    return last


def bigger_draft(draft: Draft) -> Draft:
    """A draft model four times as dear that leaves a third of the rejections: 70 % → 90 %."""
    better = 1.0 - (1.0 - draft.acceptance) / 3.0
    name = f"{draft.name}, bigger"
    return Draft(name, better, 4.0 * draft.cost, draft.coverage)
