"""What the enumeration runs: each rule with the drafts it is for, and what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oneglance.audit.rules.deterministic import (
    Decide,
    coupled_drawing_anew,
    coupled_with_noise_of_the_pass,
    greedy,
    greedy_with_a_stale_row,
    greedy_with_lenience,
)
from oneglance.audit.rules.mutations import (
    argmax_passed_off_as_drawn,
    block_breaking_early,
    block_with_running_product,
    resampling_from_target,
    tree_in_sorted_order,
    tree_without_update,
    truncated_reported_raw,
    with_stale_bonus,
    without_bonus,
)
from oneglance.audit.rules.tables import (
    Rule,
    Table,
    depth_of,
    drawn_chain,
    drawn_tree,
    fixed_tree,
)
from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.block import accept_block
from oneglance.verify.chain import accept_chain
from oneglance.verify.coupled import accept_coupled
from oneglance.verify.point_mass import accept_point_mass
from oneglance.verify.tree import accept_tree

Propose = Callable[[Noise], Proposal]
Draft = Callable[[Table], Propose]
"""Given the draft's table, draws a proposal."""

CHAINS = (1, 2, 3)
SHAPES = ((-1, -1), (-1, 0, 0), (-1, -1, 0, 1), (-1, -1, -1, 0))


@dataclass(frozen=True)
class DraftKind:
    """A way to draft: how to draw it, and how many tokens the joint law must be compared over."""

    name: str
    draft: Draft
    length: int


@dataclass(frozen=True)
class Mutant:
    """A rule, or what it is told of the draft, broken on purpose.

    Attributes:
        name: what is wrong.
        rule: the broken rule, or the right one where the draft lies.
        drafts: what to run it on.
        shortens: it delivers fewer tokens instead of others, so that its law is right.
    """

    name: str
    rule: Rule
    drafts: tuple[DraftKind, ...]
    shortens: bool = False


@dataclass(frozen=True)
class Subject:
    """A rule with random choices, the drafts it must be exact for, and its mutants."""

    name: str
    rule: Rule
    drafts: tuple[DraftKind, ...]
    mutants: tuple[Mutant, ...]


@dataclass(frozen=True)
class FixedSubject:
    """A rule whose tokens must be those of plain decoding, and broken forms of it."""

    name: str
    decide: Decide
    is_seeded: bool
    mutants: tuple[tuple[str, Decide], ...]


def _chain(length: int) -> DraftKind:
    return DraftKind(
        f"chain of {length}",
        lambda draft: lambda noise: drawn_chain(noise, draft, length),
        length + 1,
    )


def _tree(shape: tuple[int, ...], with_replacement: bool, fills_up: bool = False) -> DraftKind:
    return DraftKind(
        f"tree {shape}",
        lambda draft: lambda noise: drawn_tree(noise, draft, shape, with_replacement, fills_up),
        depth_of(shape) + 1,
    )


def _points(shape: tuple[int, ...], seed: int) -> DraftKind:
    def draft(table: Table) -> Propose:
        tree = fixed_tree(shape, table.vocab_size, seed)
        return lambda _noise: tree

    return DraftKind(f"point masses {shape}", draft, depth_of(shape) + 1)


def _lying(propose: Callable[[Table, int], Propose]) -> tuple[DraftKind, ...]:
    return (DraftKind("chain of 3", lambda draft: propose(draft, 3), 4),)


def _last_draws(rule: Rule, drafts: tuple[DraftKind, ...]) -> tuple[Mutant, ...]:
    return (
        Mutant("draws from the full law after a rejection", resampling_from_target(rule), drafts),
        Mutant("draws the bonus token from the row before", with_stale_bonus(rule), drafts),
        Mutant("delivers no bonus token", without_bonus(rule), drafts, shortens=True),
    )


def _lies(rule: Rule) -> tuple[Mutant, ...]:
    return (
        Mutant("an argmax draft passed off as drawn", rule, _lying(argmax_passed_off_as_drawn)),
        Mutant("a truncated draft reported untruncated", rule, _lying(truncated_reported_raw)),
    )


def subjects() -> tuple[Subject, ...]:
    """The rules that draw, each with its mutants."""
    chains = tuple(_chain(length) for length in CHAINS)
    replaced = tuple(_tree(shape, True) for shape in SHAPES)
    distinct = tuple(_tree(shape, False) for shape in SHAPES)
    filled = tuple(_tree(shape, False, fills_up=True) for shape in SHAPES)
    points = tuple(_points(shape, seed) for seed, shape in enumerate(((-1, 0, 1), *SHAPES)))
    block_mutants = (
        Mutant("stops at the first coin that fails", block_breaking_early, chains),
        Mutant("weights min(1, product of all ratios)", block_with_running_product, chains),
    )
    tree_mutants = (
        Mutant("treats siblings as independent", tree_without_update, distinct),
        Mutant("tests siblings in sorted order", tree_in_sorted_order, distinct),
    )
    return (
        Subject(
            "token-wise chain",
            accept_chain,
            chains,
            (*_last_draws(accept_chain, chains), *_lies(accept_chain)),
        ),
        Subject(
            "block",
            accept_block,
            chains,
            (*_last_draws(accept_block, chains), *block_mutants, *_lies(accept_block)),
        ),
        Subject(
            "tree, independent siblings", accept_tree, replaced, _last_draws(accept_tree, replaced)
        ),
        Subject(
            "tree, distinct siblings",
            accept_tree,
            (*distinct, *filled),
            (*_last_draws(accept_tree, distinct), *tree_mutants, *_lies(accept_tree)),
        ),
        Subject("point masses", accept_point_mass, points, _last_draws(accept_point_mass, points)),
    )


def fixed_subjects() -> tuple[FixedSubject, ...]:
    """The rules that draw nothing of their own, each with its mutants."""
    return (
        FixedSubject(
            "greedy",
            greedy,
            False,
            (
                ("keeps whatever is probable enough", greedy_with_lenience),
                ("takes the bonus token from the row before", greedy_with_a_stale_row),
            ),
        ),
        FixedSubject(
            "coupled",
            accept_coupled,
            True,
            (
                ("one position's noise for the whole pass", coupled_with_noise_of_the_pass),
                ("new noise after a rejection", coupled_drawing_anew),
            ),
        ),
    )
