"""Trees of a draft model: best first where they are point masses, a fixed shape where drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.control.length import Control
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftRequest
from oneglance.drafters.choice import Choice
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.draft_tree import BestFirst, DraftTree, best_shape, chain_shape
from oneglance.drafters.none import NoDrafter
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SeededNoise, SequentialNoise
from oneglance.testing import (
    ScriptedEngine,
    answer_law,
    check_drafter,
    random_script,
    total_variation,
)
from oneglance.types import ROOT, Proposal
from tests.drafters.scripted_drafts import GREEDY, PROMPT, Recorder, V, begin, peaked, propose

SAMPLED = SamplingParams(temperature=1.0)
DRAFT = random_script(V, 2)


def new_drafter(engine: ScriptedEngine, min_confidence: float = 0.0) -> DraftModelDrafter:
    return DraftModelDrafter(engine, V, min_confidence=min_confidence)


def share(path: Sequence[int]) -> float:
    """The draft's probability of a path: over five tokens, the share is the probability."""
    total = 1.0
    for depth, token in enumerate(path):
        weights = np.exp(DRAFT((*PROMPT, *path[:depth])).astype(np.float64))
        total *= float(weights[token] / weights.sum())
    return total


def paths(proposal: Proposal) -> list[tuple[int, ...]]:
    return [
        tuple(int(proposal.tokens[node]) for node in proposal.path_to(end))
        for end in range(len(proposal))
    ]


@pytest.mark.parametrize("num_nodes", [17, 20, 29])
def test_a_greedy_tree_has_the_most_probable_paths(num_nodes: int) -> None:
    """Of all paths up to the depth, where every node may have every child."""
    drafter = new_drafter(Recorder())
    proposal = propose(drafter, begin(drafter), 2, num_nodes)
    every = [path for depth in (1, 2) for path in product(range(V), repeat=depth)]
    best = sorted(every, key=lambda path: -share(path))[:num_nodes]
    assert set(paths(proposal)) == set(best)
    assert proposal.draft_probs is None
    assert proposal.expected == pytest.approx(sum(share(path) for path in best))


def test_a_tree_is_pruned_to_the_nodes_that_matter() -> None:
    tree = DraftTree()
    first = tree.add(ROOT, [Choice(0, confidence=0.6), Choice(1, confidence=0.3)])
    growth = BestFirst(3)
    assert growth.choose(tree, first) == first
    second = tree.add(0, [Choice(2, confidence=0.9), Choice(3, confidence=0.1)])
    second += tree.add(1, [Choice(2, confidence=1.0), Choice(3, confidence=0.0)])
    # 0.6, 0.3, 0.54, 0.06, 0.3, 0: a child as probable as its parent comes after it.
    assert growth.choose(tree, second) == [2]
    assert growth.proposed(tree) == [0, 1, 2]
    assert BestFirst(4).proposed(tree) == [0, 1, 2, 4]
    proposal = tree.proposal([0, 1, 2, 4], "x")
    assert proposal.parents.tolist() == [ROOT, ROOT, 0, 1]
    assert proposal.tokens.tolist() == [0, 1, 2, 2]
    assert proposal.expected == pytest.approx(1.74)


def with_branches(drafter: DraftModelDrafter, session: Any, depth: int, count: int) -> Proposal:
    return drafter.propose([DraftRequest(session, depth, num_branches=count)])[0]


@pytest.mark.parametrize("num_branches", [1, 4, 6])
def test_a_chain_has_the_next_likely_tokens_beside_it(num_branches: int) -> None:
    """They cost no pass; of more than fit, the likeliest are proposed."""
    engine = Recorder()
    drafter = new_drafter(engine)
    chain = propose(drafter, begin(drafter), 3).tokens.tolist()
    calls = list(engine.calls)
    engine.calls.clear()
    proposal = with_branches(drafter, begin(drafter), 3, num_branches)
    assert engine.calls == calls, "the same rows as for the chain alone"
    family = [(*chain[:depth], token) for depth in range(3) for token in range(V)]
    ranked = {
        depth: sorted((p for p in family if len(p) == depth + 1), key=lambda p: -share(p))[:3]
        for depth in range(3)
    }
    possible = [path for each in ranked.values() for path in each]
    best = sorted(possible, key=lambda path: -share(path))[: 3 + num_branches]
    assert set(paths(proposal)) == set(best)
    assert proposal.reaches == pytest.approx([share(path) for path in paths(proposal)])
    assert proposal.may_be_cut


def test_what_is_drawn_at_random_has_no_branches() -> None:
    drafter = new_drafter(Recorder())
    proposal = with_branches(drafter, begin(drafter, SAMPLED, SequentialNoise(1)), 3, 4)
    assert proposal.is_chain
    assert proposal.draft_probs is not None
    assert not proposal.may_be_cut
    seeded = with_branches(drafter, begin(drafter, SAMPLED, SeededNoise(7)), 3, 4)
    assert len(seeded) == 7
    assert seeded.may_be_cut


@pytest.mark.parametrize("tree_nodes", [None, 9], ids=["branches", "tree"])
@pytest.mark.parametrize("row_share", [0.0, 0.06])
def test_what_is_cut_by_its_worth_changes_no_answer(
    row_share: float, tree_nodes: int | None
) -> None:
    """Where rows are dear some nodes are left out; whichever they are, the law is the target's."""
    target = ScriptedEngine(random_script(V, 4, spread=1.0), V)
    vocabulary = Vocabulary(V, frozenset(), lambda _: b"x")
    plain = Decoder(target, vocabulary, NoDrafter())
    drafter = new_drafter(ScriptedEngine(random_script(V, 4, spread=1.2), V))
    control = Control.without_a_clock(row_share)
    drafted = Decoder(target, vocabulary, drafter, "auto", tree_nodes, control=control)
    shapes = set()
    for params in (
        SamplingParams(max_tokens=24),
        *(SamplingParams(max_tokens=24, temperature=1.0, seed=seed) for seed in range(4)),
    ):
        found = []
        for decoder in (plain, drafted):
            sequences = {i: s for i, s, _ in decoder.run([PROMPT, PROMPT[:2]], [params] * 2)}
            found.append([sequences[i].history.output for i in range(2)])
            shapes |= {p.parents for s in sequences.values() for p in s.trace}
        assert found[0] == found[1]
    num_forks = sum(len(set(parents)) < len(parents) for parents in shapes)
    assert num_forks > 2, "branches were verified"
    sampled = SamplingParams(max_tokens=2, temperature=0.9)
    laws = [answer_law(decoder, PROMPT, sampled) for decoder in (plain, drafted)]
    assert total_variation(*laws) < 1e-12


def test_each_level_is_one_pass_of_its_new_rows() -> None:
    engine = Recorder()
    drafter = new_drafter(engine)
    proposal = propose(drafter, begin(drafter), 3, 9)
    assert proposal.max_depth == 3
    assert len(engine.calls) == 3
    # The prompt, then up to three nodes of each level but the last.
    assert engine.calls[0] == [(0, list(PROMPT))]
    assert all(len(rows) <= 3 for [(_, rows)] in engine.calls[1:])
    assert engine.calls[2][0][0] == 4 + len(engine.calls[1][0][1])


def test_a_confident_draft_is_a_chain() -> None:
    drafter = new_drafter(peaked(0, 1, 2, share=0.999))
    proposal = propose(drafter, begin(drafter), 3, 3)
    assert proposal.is_chain
    assert proposal.tokens.tolist() == [0, 1, 2]


def test_what_was_accepted_of_a_tree_stays_in_the_cache() -> None:
    engine = Recorder()
    drafter = new_drafter(engine)
    session = begin(drafter)
    proposal = propose(drafter, session, 3, 9)
    evaluated = [token for [(_, rows)] in engine.calls[1:] for token in rows]
    second = int(proposal.tokens[1])  # the second best child of the root
    assert second in evaluated
    drafter.observe(session, [second, 0])
    assert session.cache.cached == (*PROMPT, second)
    engine.calls.clear()
    again = propose(drafter, session, 1)
    assert engine.calls == [[(5, [0])]]
    assert int(again.tokens[0]) == int(np.argmax(DRAFT((*PROMPT, second, 0))))


@pytest.mark.parametrize("tree_nodes", [None, 6])
def test_a_batch_is_drafted_as_each_alone(tree_nodes: int | None) -> None:
    drafter = new_drafter(Recorder())
    prompts = [(0,), (1, 2), (3, 3, 3), (4, 0), (2,)]
    counts = [3, 1, 0, 2, 4]
    sessions = [begin(drafter, prompt=prompt) for prompt in prompts]
    requests = [DraftRequest(s, c, tree_nodes) for s, c in zip(sessions, counts, strict=True)]
    for prompt, count, proposal in zip(prompts, counts, drafter.propose(requests), strict=True):
        single = new_drafter(Recorder())
        alone = propose(single, begin(single, prompt=prompt), count, tree_nodes)
        np.testing.assert_array_equal(proposal.tokens, alone.tokens)
        np.testing.assert_array_equal(proposal.parents, alone.parents)


def test_seeded_siblings_are_the_best_with_the_targets_noise() -> None:
    noise = SeededNoise(7)
    drafter = new_drafter(Recorder())
    proposal = propose(drafter, begin(drafter, SAMPLED, noise), 2, 25)
    assert proposal.draft_probs is None
    assert len(proposal) == 25
    for node in (ROOT, *proposal.children(ROOT)):
        path = tuple(int(proposal.tokens[each]) for each in proposal.path_to(node))
        logits = DRAFT((*PROMPT, *path)).astype(np.float64)
        best = noise.sample_distinct(logits, len(path), V)
        found = [int(proposal.tokens[child]) for child in proposal.children(node)]
        assert found == best[: len(found)]


def test_sampled_siblings_share_the_law_that_they_were_drawn_from() -> None:
    drafter = new_drafter(Recorder())
    proposal = propose(drafter, begin(drafter, SAMPLED), 3, 9)
    assert proposal.draft_probs is not None
    assert len(proposal) == 9
    assert len(proposal.children(ROOT)) > 1
    for node in (ROOT, *range(9)):
        path = tuple(int(proposal.tokens[each]) for each in proposal.path_to(node))
        weights = np.exp(DRAFT((*PROMPT, *path)).astype(np.float64))
        children = proposal.children(node)
        assert len({int(proposal.tokens[child]) for child in children}) == len(children)
        for child in children:
            law = proposal.draft_probs[child]
            assert law is proposal.draft_probs[children[0]]
            np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-12)


def test_a_drawn_tree_has_the_same_shape_whatever_was_drawn() -> None:
    shapes = set()
    for seed in range(20):
        drafter = new_drafter(Recorder())
        session = begin(drafter, SAMPLED, SequentialNoise(seed))
        shapes.add(tuple(propose(drafter, session, 3, 8).parents.tolist()))
    assert len(shapes) == 1


def test_a_law_of_few_tokens_gives_few_siblings() -> None:
    for params, noise in (
        (SamplingParams(temperature=1.0, top_k=2), SequentialNoise(0)),
        (SamplingParams(temperature=1.0, top_k=2), SeededNoise(0)),
        (SamplingParams(banned_tokens=(0, 1, 2)), SequentialNoise(0)),
    ):
        drafter = new_drafter(Recorder())
        proposal = propose(drafter, begin(drafter, params, noise), 1, 9)
        assert len(proposal) == 2


@pytest.mark.parametrize("max_depth", [1, 2, 4])
@pytest.mark.parametrize("num_nodes", [1, 2, 5, 12])
def test_the_fixed_shape_is_the_best_of_all(num_nodes: int, max_depth: int) -> None:
    def value(shape: Sequence[Sequence[int]], place: int, depth: int) -> float:
        assert depth <= max_depth
        total = 0.0
        for rank, child in enumerate(shape[place]):
            chance = 0.7 if rank == 0 else 0.3 / 2**rank
            total += chance * (1 + value(shape, child, depth + 1))
        return total

    def best(nodes: int, depth: int, rank: int) -> float:
        """The most that this many nodes are worth as children from this rank on, by recursion."""
        if nodes == 0 or depth == 0:
            return 0.0
        chance = 0.7 if rank == 0 else 0.3 / 2**rank
        return max(
            chance * (1 + best(below, depth - 1, 0)) + best(nodes - 1 - below, depth, rank + 1)
            for below in range(nodes)
        )

    shape = best_shape(num_nodes, max_depth)
    assert sum(map(len, shape)) == num_nodes
    assert value(shape, 0, 0) == pytest.approx(best(num_nodes, max_depth, 0))


def test_a_chain_is_a_shape() -> None:
    assert chain_shape(3) == [[1], [2], [3], []]
    assert best_shape(3, 3) == chain_shape(3)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_nothing_hangs_off_an_end_of_text(params: SamplingParams) -> None:
    drafter = new_drafter(Recorder())
    eos_ids = frozenset({0, 1})
    proposal = propose(drafter, begin(drafter, params, eos_ids=eos_ids), 4, 20)
    ends = [node for node in range(len(proposal)) if int(proposal.tokens[node]) in eos_ids]
    assert ends
    assert len(proposal) > len(ends)
    assert not any(proposal.children(node) for node in ends)


@pytest.mark.parametrize(("context_length", "depth"), [(4, 1), (5, 2), (6, 3), (3, 0)])
def test_the_drafts_context_bounds_the_depth(context_length: int, depth: int) -> None:
    drafter = new_drafter(Recorder(context_length=context_length))
    assert propose(drafter, begin(drafter), 3, 9).max_depth == depth


@pytest.mark.parametrize(("count", "tree_nodes"), [(0, 9), (3, 0), (0, None)])
def test_a_budget_of_nothing_costs_nothing(count: int, tree_nodes: int | None) -> None:
    engine = Recorder()
    drafter = new_drafter(engine)
    assert len(propose(drafter, begin(drafter), count, tree_nodes)) == 0
    assert engine.calls == []


def test_a_draft_stops_where_its_confidence_falls_and_keeps_the_token() -> None:
    for threshold, expected in ((0.0, 5), (0.8, 3), (0.82, 2), (1.0, 1)):
        drafter = new_drafter(peaked(0, 1), threshold)
        proposal = propose(drafter, begin(drafter), 5)
        # 0.9, 0.81, 0.729, ...: the first token below the threshold is the last.
        assert proposal.tokens.tolist() == [0, 1, 0, 1, 0][:expected]
        assert proposal.expected == pytest.approx(sum(0.9**n for n in range(1, expected + 1)))


def test_a_drawn_token_counts_as_more_likely_than_its_share() -> None:
    drafter = new_drafter(peaked(0, 1), 0.9)
    for noise in (SequentialNoise(1), SeededNoise(1)):
        proposal = propose(drafter, begin(drafter, SAMPLED, noise), 5)
        reach, expected = 1.0, 0.0
        for depth, token in enumerate(proposal.tokens.tolist()):
            assert reach >= 0.9
            probability = 0.9 if token == depth % 2 else 0.025
            reach *= (1 + probability) / 2
            expected += reach
        assert reach < 0.9
        assert proposal.expected == pytest.approx(expected)


def test_a_tree_stops_where_all_its_ends_are_unlikely() -> None:
    engine = Recorder()
    for threshold in (0.0, 0.3, 0.6, 1.0):
        drafter = new_drafter(engine, threshold)
        engine.calls.clear()
        propose(drafter, begin(drafter), 6, 16)
        depth = len(engine.calls)
        assert depth == {0.0: 6, 1.0: 1}.get(threshold, depth)
        if threshold == 0.3:
            deeper = depth
        if threshold == 0.6:
            assert 1 <= depth < deeper


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_confidence_that_is_no_probability_is_refused(value: float) -> None:
    with pytest.raises(ParameterError, match="min_confidence = "):
        new_drafter(Recorder(), value)


def test_what_was_observed_can_be_taken_back() -> None:
    engine = Recorder()
    drafter = new_drafter(engine)
    session = begin(drafter)
    first = propose(drafter, session, 3).tokens.tolist()
    drafter.observe(session, [*first, 4])
    propose(drafter, session, 2)
    drafter.rewind(session, 3)
    assert session.tokens == [*PROMPT, first[0]]
    assert session.history.output == (first[0],)
    drafter.observe(session, [2])
    proposal = propose(drafter, session, 1)
    assert int(proposal.tokens[0]) == int(np.argmax(DRAFT((*PROMPT, first[0], 2))))


# Exactness.


@pytest.mark.parametrize("tree_nodes", [None, 5])
def test_exact(tree_nodes: int | None) -> None:
    engine = ScriptedEngine(random_script(3, 9), 3)
    check_drafter(
        lambda: DraftModelDrafter(engine, 3, min_confidence=0.6), seeds=(0,), tree_nodes=tree_nodes
    )


@pytest.mark.parametrize("tree_nodes", [None, 4])
def test_exact_where_the_law_is_cut_and_the_text_ends(tree_nodes: int | None) -> None:
    """The shape then depends on the laws, and on drawn tokens where those have ended."""
    vocabulary = Vocabulary(3, frozenset({2}), lambda _: b"x")
    params = SamplingParams(max_tokens=3, temperature=1.2, top_p=0.8, min_tokens=1)

    def law(drafter: Any) -> dict[tuple[int, ...], float]:
        target = ScriptedEngine(random_script(3, 4), 3)
        decoder = Decoder(target, vocabulary, drafter, k=2, tree_nodes=tree_nodes)
        return answer_law(decoder, (0, 1), params)

    drafter = DraftModelDrafter(ScriptedEngine(random_script(3, 5), 3), 3)
    assert total_variation(law(NoDrafter()), law(drafter)) < 1e-12


class Dropping(DraftModelDrafter):
    """Takes back the last token where it is not sure of it."""

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        return [self._without_the_unsure(proposal) for proposal in super().propose(requests)]

    def _without_the_unsure(self, proposal: Proposal) -> Proposal:
        laws = proposal.draft_probs
        if laws is None or not len(proposal) or laws[-1][proposal.tokens[-1]] >= 0.5:
            return proposal
        return Proposal.chain(proposal.tokens[:-1].tolist(), laws[:-1])


class Pruning(DraftModelDrafter):
    """Drops the leaf that it is least sure of."""

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        return [self._pruned(proposal) for proposal in super().propose(requests)]

    def _pruned(self, proposal: Proposal) -> Proposal:
        laws = proposal.draft_probs
        if laws is None or len(proposal) < 2:
            return proposal
        leaves = [node for node in range(len(proposal)) if not proposal.children(node)]
        worst = min(leaves, key=lambda node: laws[node][proposal.tokens[node]])
        kept = [node for node in range(len(proposal)) if node != worst]
        index_of = {ROOT: ROOT} | {node: index for index, node in enumerate(kept)}
        return Proposal(
            proposal.tokens[kept],
            np.array([index_of[int(proposal.parents[node])] for node in kept], dtype=np.int64),
            tuple(laws[node] for node in kept),
        )


@pytest.mark.parametrize(("faulty", "tree_nodes"), [(Dropping, None), (Pruning, 4)])
def test_dropping_what_was_drawn_is_caught(
    faulty: type[DraftModelDrafter], tree_nodes: int | None
) -> None:
    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(
            lambda: faulty(ScriptedEngine(random_script(3, 9), 3), 3, min_confidence=0.0),
            seeds=(0,),
            tree_nodes=tree_nodes,
        )
