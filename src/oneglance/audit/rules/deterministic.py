"""Greedy and coupled decoding on tables: which tokens come out, whatever was drafted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from oneglance.audit.rules.tables import Prefix, Table, TableLaw, delivered
from oneglance.sampling.noise import KeyedNoise, SeededNoise
from oneglance.types import ROOT, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.coupled import accept_coupled
from oneglance.verify.descent import descend
from oneglance.verify.greedy import accept_greedy

Decide = Callable[[Proposal, TargetLaw, KeyedNoise], Acceptance]
"""A rule whose outcome is fixed by the target and the noise of each position."""

LENGTH = 12


def greedy(proposal: Proposal, target: TargetLaw, noise: KeyedNoise) -> Acceptance:
    """The greedy rule; takes noise like the others and ignores it."""
    del noise
    return accept_greedy(proposal, target)


def greedy_with_lenience(proposal: Proposal, target: TargetLaw, noise: KeyedNoise) -> Acceptance:
    """Keeps a draft that is probable enough, as typical acceptance does: not exact."""
    del noise

    def choose(node: int, _depth: int) -> int:
        probs = target.probs(node)
        for child in proposal.children(node):
            token = int(proposal.tokens[child])
            if probs[token] > 0.3:
                return token
        return target.argmax(node)

    return descend(proposal, choose)


def greedy_with_a_stale_row(proposal: Proposal, target: TargetLaw, noise: KeyedNoise) -> Acceptance:
    """Takes the token after a whole path from the row before the one that follows it."""
    del noise
    outcome = accept_greedy(proposal, target)
    if outcome.kind != "bonus":
        return outcome
    return replace(outcome, next_token=target.argmax(int(proposal.parents[outcome.path[-1]])))


def coupled_with_noise_of_the_pass(
    proposal: Proposal, target: TargetLaw, noise: KeyedNoise
) -> Acceptance:
    """Uses one position's noise for the whole pass, so that the tokens depend on the draft."""
    return descend(proposal, lambda node, _depth: target.sample(node, 0, noise))


def coupled_drawing_anew(proposal: Proposal, target: TargetLaw, noise: KeyedNoise) -> Acceptance:
    """After a rejection draws with noise that plain decoding would not use."""
    outcome = accept_coupled(proposal, target, noise)
    if outcome.kind != "recovered":
        return outcome
    last = outcome.path[-1] if outcome.path else ROOT
    return replace(outcome, next_token=target.sample(last, len(outcome.path) + LENGTH, noise))


def plain(table: Table, noise: SeededNoise | None, length: int = LENGTH) -> Prefix:
    """Tokens of plain decoding: the argmax without noise, the Gumbel-max sample with it."""
    tokens: Prefix = ()
    for position in range(length):
        with np.errstate(divide="ignore"):
            logits = np.log(table(tokens))
        token = noise.sample(logits, position) if noise else int(np.argmax(logits))
        tokens = (*tokens, token)
    return tokens


def count_changed(decide: Decide, is_seeded: bool, num_tables: int, seed: int) -> tuple[int, int]:
    """Runs a rule on random tables with random trees, half right and half wrong.

    Returns:
        Tokens compared with plain decoding, and answers of them that differ from it.
    """
    num_tokens = num_changed = 0
    for index in range(num_tables):
        generator = np.random.default_rng([seed, index])
        table = Table(3, seed + index, "zeros" if index % 2 else "dense")
        noise = SeededNoise(seed + index)
        right = plain(table, noise if is_seeded else None, 2 * LENGTH)
        tokens: Prefix = ()
        while len(tokens) < LENGTH:
            proposal = _random_tree(generator, right, len(tokens))
            law = TableLaw(table, proposal, is_greedy=not is_seeded, prefix=tokens)
            tokens += delivered(proposal, decide(proposal, law, noise))
        num_tokens += LENGTH
        num_changed += tokens[:LENGTH] != right[:LENGTH]
    return num_tokens, num_changed


def _random_tree(generator: np.random.Generator, right: Prefix, start: int) -> Proposal:
    """A tree of up to eight tokens, each right for its depth with an even chance."""
    size = int(generator.integers(0, 9))
    parents = [int(generator.integers(-1, slot)) for slot in range(size)]
    depths: list[int] = []
    tokens: list[int] = []
    for parent in parents:
        depths.append(0 if parent == ROOT else depths[parent] + 1)
        is_right = generator.random() < 0.5
        tokens.append(right[start + depths[-1]] if is_right else int(generator.integers(3)))
    return Proposal(np.array(tokens, dtype=np.int64), np.array(parents, dtype=np.int64))
