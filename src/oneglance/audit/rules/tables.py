"""Tiny targets and drafters given by tables, and the exact joint law that a rule makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oneglance.sampling.noise import Noise
from oneglance.testing import total_variation
from oneglance.types import ROOT, Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.enumeration import enumerate_outcomes
from oneglance.verify.residual import without

Prefix = tuple[int, ...]
JointLaw = dict[Prefix, float]
Rule = Callable[[Proposal, TargetLaw, Noise], Acceptance]
Kind = Literal["dense", "zeros", "one_hot"]


class Table:
    """A law of the next token for every prefix, fixed by a seed."""

    def __init__(self, vocab_size: int, seed: int, kind: Kind = "dense") -> None:
        """Takes the vocabulary's size, which table, and what its laws look like."""
        self.vocab_size = vocab_size
        self._seed = seed
        self._kind = kind
        self._laws: dict[Prefix, Float64Array] = {}

    def __call__(self, prefix: Prefix) -> Float64Array:
        """[V] the law after a prefix."""
        if prefix not in self._laws:
            self._laws[prefix] = self._make(prefix)
        return self._laws[prefix]

    def _make(self, prefix: Prefix) -> Float64Array:
        rng = np.random.default_rng([self._seed, len(prefix), *prefix])
        weights = rng.dirichlet(np.ones(self.vocab_size))
        if self._kind == "zeros":
            weights[rng.permutation(self.vocab_size)[: rng.integers(1, self.vocab_size)]] = 0.0
        if self._kind == "one_hot":
            weights = np.eye(self.vocab_size)[rng.integers(self.vocab_size)]
        law: Float64Array = weights / weights.sum()
        return law


class PartlyEqualTable(Table):
    """Agrees with another table at prefixes of even length and not elsewhere."""

    def __init__(self, other: Table, seed: int) -> None:
        """Takes the table to agree with, and a seed for the rest."""
        super().__init__(other.vocab_size, seed)
        self._other = other

    def _make(self, prefix: Prefix) -> Float64Array:
        return self._other(prefix) if len(prefix) % 2 == 0 else super()._make(prefix)


def table_pairs(vocab_size: int, seed: int) -> dict[str, tuple[Table, Table]]:
    """Targets and drafters: unrelated, with zeros, one-hot on either side, equal, partly equal."""
    dense = Table(vocab_size, seed)
    return {
        "dense": (dense, Table(vocab_size, seed + 1)),
        "zeros": (Table(vocab_size, seed, "zeros"), Table(vocab_size, seed + 1, "zeros")),
        "zeros in target": (Table(vocab_size, seed, "zeros"), Table(vocab_size, seed + 1)),
        "one-hot target": (Table(vocab_size, seed, "one_hot"), Table(vocab_size, seed + 1)),
        "one-hot draft": (dense, Table(vocab_size, seed + 1, "one_hot")),
        "equal": (dense, dense),
        "partly equal": (dense, PartlyEqualTable(dense, seed + 1)),
    }


class TableLaw(TargetLaw):
    """The target's law over a proposal, looked up in a table."""

    def __init__(
        self, table: Table, proposal: Proposal, is_greedy: bool = False, prefix: Prefix = ()
    ) -> None:
        """Takes the table, the proposal, and what was delivered before the proposal's root."""
        self.vocab_size = table.vocab_size
        self.is_greedy = is_greedy
        self.position = len(prefix)
        self._table = table
        self._proposal = proposal
        self._prefix = prefix

    def probs(self, node: int) -> Float64Array:
        """[V] the law after a node."""
        return self._table(self._prefix + tokens_to(self._proposal, node))

    def logits(self, node: int) -> Float64Array:
        """[V] log-probabilities after a node."""
        with np.errstate(divide="ignore"):
            logits: Float64Array = np.log(self.probs(node))
        return logits

    def argmax(self, node: int) -> int:
        """The most probable token after a node."""
        return int(np.argmax(self.probs(node)))


def tokens_to(proposal: Proposal, node: int) -> Prefix:
    """The draft tokens from the first level down to a node."""
    return tuple(int(proposal.tokens[step]) for step in proposal.path_to(node))


def drawn_chain(noise: Noise, draft: Table, length: int) -> Proposal:
    """Draws a chain as an honest drafter would."""
    return drawn_tree(noise, draft, range(-1, length - 1), with_replacement=False)


def drawn_tree(
    noise: Noise,
    draft: Table,
    shape: range | tuple[int, ...],
    with_replacement: bool,
    fills_up: bool = False,
) -> Proposal:
    """Draws a tree of the given parents, level by level as an honest drafter would.

    Without replacement a law can run out of tokens: such a child is left out together with its
    descendants, or, with `fills_up`, becomes the lowest token that is not yet a sibling.
    """
    tokens: list[int] = []
    parents: list[int] = []
    laws: list[Float64Array] = []
    paths: dict[int, Prefix] = {ROOT: ()}
    index_of = {ROOT: ROOT}
    for slot, parent in enumerate(shape):
        if parent not in index_of:
            continue
        siblings = [tokens[i] for i in range(len(tokens)) if parents[i] == index_of[parent]]
        law = draft(paths[parent])
        remaining = law
        for sibling in () if with_replacement else siblings:
            remaining = without(remaining, sibling)
        if remaining.any():
            token = noise.draw(remaining)
        elif fills_up:
            token = min(set(range(draft.vocab_size)) - set(siblings))
        else:
            continue
        index_of[slot] = len(tokens)
        paths[slot] = (*paths[parent], token)
        tokens.append(token)
        parents.append(index_of[parent])
        laws.append(law)
    return Proposal(
        np.array(tokens, dtype=np.int64),
        np.array(parents, dtype=np.int64),
        draft_probs=tuple(laws),
        with_replacement=with_replacement,
    )


def fixed_tree(shape: range | tuple[int, ...], vocab_size: int, seed: int) -> Proposal:
    """A tree without randomness: distinct siblings, no laws."""
    rng = np.random.default_rng(seed)
    orders = {parent: rng.permutation(vocab_size) for parent in sorted(set(shape))}
    ranks = [list(shape[:slot]).count(parent) for slot, parent in enumerate(shape)]
    tokens = [int(orders[parent][rank]) for parent, rank in zip(shape, ranks, strict=True)]
    return Proposal(np.array(tokens, dtype=np.int64), np.array(shape, dtype=np.int64))


def depth_of(shape: range | tuple[int, ...]) -> int:
    """Length of the longest path of a tree of these parents."""
    parents = np.array(shape, dtype=np.int64)
    return int(Proposal(np.zeros_like(parents), parents).depths().max(initial=0))


@dataclass(frozen=True)
class Exactness:
    """Distance of the joint law from the target's, and the mean number of kept draft tokens."""

    total_variation: float
    mean_accepted: float


def measure(
    rule: Rule, propose: Callable[[Noise], Proposal], target: Table, length: int
) -> Exactness:
    """Enumerates drafts and rule together; extends outputs with the target to `length` tokens."""

    def run(noise: Noise) -> Prefix:
        proposal = propose(noise)
        outcome = rule(proposal, TableLaw(target, proposal), noise)
        return delivered(proposal, outcome)

    outputs = enumerate_outcomes(run)
    mean_accepted = math.fsum(mass * (len(tokens) - 1) for tokens, mass in outputs.items())
    made = extended(outputs, target, length)
    wanted = extended({(): 1.0}, target, length)
    return Exactness(total_variation(made, wanted), mean_accepted)


def delivered(proposal: Proposal, outcome: Acceptance) -> Prefix:
    """Tokens that a pass delivers, once path and kind are seen to be consistent."""
    last = outcome.path[-1] if outcome.path else ROOT
    assert list(outcome.path) == proposal.path_to(last)
    has_children = bool(proposal.children(last))
    assert outcome.kind == ("recovered" if has_children else "bonus" if len(proposal) else "plain")
    return (*tokens_to(proposal, last), outcome.next_token)


def extended(outputs: JointLaw, target: Table, length: int) -> JointLaw:
    """Lets the target continue each output up to `length` tokens, in exact products."""
    joint: dict[Prefix, float] = dict(outputs)
    for size in range(length):
        for prefix in [tokens for tokens in joint if len(tokens) == size]:
            mass = joint.pop(prefix)
            for token in range(target.vocab_size):
                longer = (*prefix, token)
                joint[longer] = joint.get(longer, 0.0) + mass * float(target(prefix)[token])
    assert all(len(tokens) == length for tokens in joint)
    return joint
