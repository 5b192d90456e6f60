"""Greedy and coupled: the output is the one that plain decoding gives, whatever was drafted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.audit.rules.tables import Prefix, Table, TableLaw, delivered
from oneglance.sampling.noise import SeededNoise
from oneglance.types import Proposal
from oneglance.verify.coupled import accept_coupled
from oneglance.verify.greedy import accept_greedy

LENGTH = 12


@st.composite
def proposals(draw: st.DrawFn, vocab_size: int) -> Proposal:
    """Any tree of up to nine tokens, siblings that carry the same token included."""
    size = draw(st.integers(0, 9))
    parents = [draw(st.integers(-1, slot - 1)) for slot in range(size)]
    tokens = [draw(st.integers(0, vocab_size - 1)) for _ in range(size)]
    return Proposal(np.array(tokens, dtype=np.int64), np.array(parents, dtype=np.int64))


def plain(table: Table, noise: SeededNoise | None) -> Prefix:
    tokens: Prefix = ()
    for position in range(LENGTH):
        with np.errstate(divide="ignore"):
            logits = np.log(table(tokens))
        next_token = noise.sample(logits, position) if noise else int(np.argmax(logits))
        tokens = (*tokens, next_token)
    return tokens


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(0, 9), st.booleans(), st.data())
def test_output_equals_plain_decoding(seed: int, is_seeded: bool, data: st.DataObject) -> None:
    table = Table(3, seed, "zeros" if seed % 2 else "dense")
    noise = SeededNoise(seed) if is_seeded else None
    tokens: Prefix = ()
    while len(tokens) < LENGTH:
        proposal = data.draw(proposals(3))
        law = TableLaw(table, proposal, is_greedy=not is_seeded, prefix=tokens)
        outcome = accept_coupled(proposal, law, noise) if noise else accept_greedy(proposal, law)
        tokens += delivered(proposal, outcome)
    assert tokens[:LENGTH] == plain(table, noise)


@pytest.mark.parametrize("is_seeded", [False, True])
def test_a_right_draft_is_kept_whole(is_seeded: bool) -> None:
    table = Table(4, 3)
    noise = SeededNoise(7) if is_seeded else None
    right = plain(table, noise)
    wrong = tuple((token + 1) % 4 for token in right)
    # Two branches: the first goes wrong at once, the second is right for three tokens.
    tree = Proposal(np.array([wrong[0], *right[:3], wrong[3]]), np.array([-1, -1, 1, 2, 3]))
    law = TableLaw(table, tree, is_greedy=not is_seeded)
    outcome = accept_coupled(tree, law, noise) if noise else accept_greedy(tree, law)
    assert outcome.path == (1, 2, 3)
    assert outcome.next_token == right[3]
    assert outcome.kind == "recovered"


def test_greedy_ties_go_to_the_lowest_id() -> None:
    class Tied(Table):
        def _make(self, prefix: Prefix) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            del prefix
            return np.array([0.2, 0.4, 0.4])

    chain = Proposal.chain([1, 2])
    outcome = accept_greedy(chain, TableLaw(Tied(3, 0), chain, is_greedy=True))
    assert (outcome.path, outcome.next_token, outcome.kind) == ((0,), 1, "recovered")
