"""A prediction that is right but for some tokens, made of the answer itself."""

from __future__ import annotations

import random
from collections.abc import Sequence

SHARE_CHANGED = 0.05
"""Of the tokens of a prediction that is "95 % right"."""


def nearly_right(tokens: Sequence[int], seed: int, share: float = SHARE_CHANGED) -> list[int]:
    """The tokens of an answer, some of them replaced by other tokens of the same answer.

    The same arguments give the same result on every machine. What replaces a token is taken from
    the answer, so that a prediction looks like text of its kind.

    Args:
        tokens: the answer.
        seed: another seed, other tokens.
        share: of the tokens that are replaced; rounded to whole tokens, at least one.
    """
    changed = list(tokens)
    if len(set(tokens)) < 2:
        return changed  # there is no other token to put in
    choices = random.Random(seed)
    count = max(1, round(share * len(tokens)))
    for position in sorted(choices.sample(range(len(tokens)), count)):
        others = sorted(set(tokens) - {tokens[position]})
        changed[position] = choices.choice(others)
    return changed
