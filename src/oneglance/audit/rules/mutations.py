"""Rules and drafters broken in the ways seen in the wild; the exactness tests must object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from oneglance.audit.rules.tables import Rule, Table, drawn_chain
from oneglance.sampling.noise import Noise
from oneglance.types import ROOT, Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.block import block_chance, block_weights
from oneglance.verify.residual import excess, normalized
from oneglance.verify.tree import accept_tree


def resampling_from_target(rule: Rule) -> Rule:
    """After a rejection, draws from the full target law instead of the residual."""

    def mutant(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
        outcome = rule(proposal, target, noise)
        if outcome.kind != "recovered":
            return outcome
        last = outcome.path[-1] if outcome.path else ROOT
        return replace(outcome, next_token=noise.draw(target.probs(last)))

    return mutant


def with_stale_bonus(rule: Rule) -> Rule:
    """Draws the bonus token from the row before the one that follows the path."""

    def mutant(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
        outcome = rule(proposal, target, noise)
        if outcome.kind != "bonus":
            return outcome
        row_before = int(proposal.parents[outcome.path[-1]])
        return replace(outcome, next_token=noise.draw(target.probs(row_before)))

    return mutant


def without_bonus(rule: Rule) -> Rule:
    """After full acceptance, ends with the last draft token: unbiased, but one token short."""

    def mutant(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
        outcome = rule(proposal, target, noise)
        if outcome.kind != "bonus":
            return outcome
        *path, last = outcome.path
        return Acceptance(tuple(path), int(proposal.tokens[last]), "recovered")

    return mutant


def block_breaking_early(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Block verification that stops at the first coin that does not land."""
    assert proposal.draft_probs is not None
    weights = block_weights(proposal, target)
    num_kept = 0
    while num_kept < len(proposal):
        size = num_kept + 1
        chance = weights[size]
        if size < len(proposal):
            residual = excess(weights[size] * target.probs(size - 1), proposal.draft_probs[size])
            chance = block_chance(weights[size], float(residual.sum()))
        if not noise.coin(chance):
            break
        num_kept = size
    return _finish_block(proposal, target, noise, weights, num_kept)


def block_with_running_product(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Block verification with weights min(1, product of all ratios)."""
    assert proposal.draft_probs is not None
    weights = [1.0]
    product = 1.0
    for node, law in enumerate(proposal.draft_probs):
        token = proposal.tokens[node]
        product *= float(target.probs(node - 1)[token] / law[token])
        weights.append(min(1.0, product))
    num_kept = len(proposal)
    is_kept = noise.coin(weights[num_kept])
    while not is_kept:
        num_kept -= 1
        scaled = weights[num_kept] * target.probs(num_kept - 1)
        mass = float(excess(scaled, proposal.draft_probs[num_kept]).sum())
        is_kept = num_kept == 0 or noise.coin(block_chance(weights[num_kept], mass))
    return _finish_block(proposal, target, noise, weights, num_kept)


def _finish_block(
    proposal: Proposal, target: TargetLaw, noise: Noise, weights: list[float], num_kept: int
) -> Acceptance:
    assert proposal.draft_probs is not None
    law = target.probs(num_kept - 1)
    if num_kept < len(proposal):
        residual = excess(weights[num_kept] * law, proposal.draft_probs[num_kept])
        law = normalized(residual, fallback=law)
    return Acceptance.after(proposal, list(range(num_kept)), noise.draw(law))


def tree_without_update(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Treats siblings drawn without replacement as though they were independent."""
    return accept_tree(replace(proposal, with_replacement=True), target, noise)


class _SortedChildren(Proposal):
    """Lists siblings by falling draft probability instead of the order of drawing."""

    def children(self, node: int) -> list[int]:
        """Indices of the children of a node, the likeliest first."""
        assert self.draft_probs is not None
        laws, tokens = self.draft_probs, self.tokens
        return sorted(super().children(node), key=lambda child: -laws[child][tokens[child]])


def tree_in_sorted_order(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Tests siblings in the order of their draft probability."""
    resorted = _SortedChildren(
        proposal.tokens, proposal.parents, proposal.draft_probs, proposal.with_replacement
    )
    return accept_tree(resorted, target, noise)


def argmax_passed_off_as_drawn(draft: Table, length: int) -> Callable[[Noise], Proposal]:
    """A drafter that takes its argmax and reports its full law."""

    def propose(_noise: Noise) -> Proposal:
        tokens: list[int] = []
        for _ in range(length):
            tokens.append(int(np.argmax(draft(tuple(tokens)))))
        return Proposal.chain(tokens, [draft(tuple(tokens[:i])) for i in range(length)])

    return propose


def truncated_reported_raw(draft: Table, length: int) -> Callable[[Noise], Proposal]:
    """A drafter that draws from its two most probable tokens and reports its full law."""

    def propose(noise: Noise) -> Proposal:
        drawn = drawn_chain(noise, _TopTwo(draft), length)
        laws = [draft(tuple(int(token) for token in drawn.tokens[:i])) for i in range(length)]
        return Proposal.chain([int(token) for token in drawn.tokens], laws)

    return propose


class _TopTwo(Table):
    """The two most probable tokens of another table."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.vocab_size, seed=0)
        self._table = table

    def _make(self, prefix: tuple[int, ...]) -> Float64Array:
        law = self._table(prefix).copy()
        law[np.argsort(law)[:-2]] = 0.0
        truncated: Float64Array = law / law.sum()
        return truncated
