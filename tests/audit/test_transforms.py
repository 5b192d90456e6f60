"""Sampled tokens as uniform numbers, whatever a server lists beside the likeliest tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oneglance.audit.endpoint.answer import Answer, TokenInfo
from oneglance.audit.endpoint.sampling import transforms
from oneglance.audit.statistics import uniform_p
from oneglance.types import Float64Array

NUM_TOP = 5


def drawn(law: Float64Array, count: int, lists_drawn: bool, twin: bool = False) -> list[Answer]:
    """Answers of two tokens, with the likeliest listed; `twin`: two of them are written alike."""
    generator = np.random.default_rng(1)
    names = [f"t{token}" for token in range(len(law))]
    if twin:
        names[2] = names[1]

    def token() -> TokenInfo:
        chosen = int(generator.choice(len(law), p=law))
        top = {names[other]: math.log(law[other]) for other in reversed(range(NUM_TOP))}
        if lists_drawn:
            top.setdefault(names[chosen], math.log(law[chosen]))
        ranked = tuple(sorted(top.items(), key=lambda pair: -pair[1]))
        return TokenInfo(names[chosen], math.log(law[chosen]), ranked)

    return [Answer("", "length", (token(), token()), 2, 1) for _ in range(count)]


@pytest.mark.parametrize("lists_drawn", [False, True])
def test_a_drawn_token_of_the_rest_may_be_listed(lists_drawn: bool) -> None:
    """Half of the law is in its long rest; OpenAI's completions list a token drawn from there."""
    law = np.concatenate([np.full(NUM_TOP, 0.1), np.full(50, 0.01)])
    found = transforms(drawn(law, 2000, lists_drawn), NUM_TOP, seed=0)
    assert uniform_p(found.first, 1) > 1e-3
    assert uniform_p(found.later, 2) > 1e-3
    # Power: taken as they are listed, tokens of the rest would all lie at its beginning.
    assert uniform_p(np.where(found.first > 0.5, 0.5 + found.first / 50, found.first), 3) < 1e-3


def test_of_tokens_that_are_written_alike_one_is_listed() -> None:
    """Then a token of the rest is among as many as are listed, and still has no place."""
    law = np.concatenate([[0.2, 0.1, 1e-6, 0.1, 0.1 - 1e-6], np.full(50, 0.01)])
    found = transforms(drawn(law, 2000, True, twin=True), NUM_TOP, seed=0)
    assert uniform_p(found.first, 1) > 1e-3
