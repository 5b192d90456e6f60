"""Trees made one: every path of both is there, no path twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.drafters.merge import Merged, merge
from oneglance.drafters.paths import PathTree
from oneglance.types import ROOT, Proposal


@st.composite
def trees(draw: st.DrawFn) -> Proposal:
    """Random trees of tokens 0 to 2 with distinct siblings."""
    tokens: list[int] = []
    parents: list[int] = []
    for _ in range(draw(st.integers(0, 8))):
        parent = draw(st.integers(ROOT, len(tokens) - 1))
        token = draw(st.integers(0, 2))
        if (parent, token) not in zip(parents, tokens, strict=True):
            tokens.append(token)
            parents.append(parent)
    return Proposal(np.array(tokens, np.int64), np.array(parents, np.int64))


def paths(proposal: Proposal) -> list[tuple[int, ...]]:
    return [
        tuple(int(proposal.tokens[each]) for each in proposal.path_to(node))
        for node in range(len(proposal))
    ]


@given(trees(), trees())
@settings(deadline=None)
def test_all_paths_once(first: Proposal, second: Proposal) -> None:
    result = merge(Merged.only(first), second, max_nodes=100)
    assert sorted(paths(result.proposal)) == sorted({*paths(first), *paths(second)})
    common = set(paths(first)) & set(paths(second))
    assert result.shared_depth == max(map(len, common), default=0)
    everything = paths(result.proposal)
    for tree, places in zip((first, second), result.places, strict=True):
        assert [everything[place] for place in places] == paths(tree)


@given(trees(), trees(), st.integers(0, 6))
@settings(deadline=None)
def test_the_first_is_kept_whole_and_the_rest_as_far_as_it_fits(
    first: Proposal, second: Proposal, room: int
) -> None:
    limit = len(first) + room
    result = merge(Merged.only(first), second, limit)
    assert len(result.proposal) <= limit
    assert paths(result.proposal)[: len(first)] == paths(first)
    everything = paths(result.proposal)
    for path, place in zip(paths(second), result.places[1].tolist(), strict=True):
        assert place == ROOT or everything[place] == path
    num_missing = result.places[1].tolist().count(ROOT)
    assert num_missing == 0 or len(result.proposal) == limit


@given(trees(), st.lists(st.integers(0, 2), max_size=6))
@settings(deadline=None)
def test_matching_follows_the_paths(proposal: Proposal, tokens: list[int]) -> None:
    expected = 0
    while expected < len(tokens) and tuple(tokens[: expected + 1]) in paths(proposal):
        expected += 1
    assert PathTree.of(proposal).num_matched(tokens) == expected


def test_three_trees() -> None:
    first, second, third = Proposal.chain([1, 2]), Proposal.chain([1, 3]), Proposal.chain([4])
    result = merge(merge(Merged.only(first), second, 10), third, 10)
    assert sorted(paths(result.proposal)) == [(1,), (1, 2), (1, 3), (4,)]
    assert [places.tolist() for places in result.places] == [[0, 1], [0, 2], [3]]


def test_every_node_has_its_maker() -> None:
    """Of what two trees have in common, the first made it; names pass through further merges."""
    first = Proposal.chain([0, 1], drafter="first")
    second = Proposal.chain([0, 2, 1], drafter="second")
    third = Proposal.chain([1], drafter="third")
    two = merge(Merged.only(first), second, max_nodes=4)
    three = merge(two, third, max_nodes=5)
    assert three.proposal.tokens.tolist() == [0, 1, 2, 1, 1]
    makers = [three.proposal.maker(node) for node in range(5)]
    assert makers == ["first", "first", "second", "second", "third"]
    assert three.proposal.drafter == "first+second+third"


def test_a_node_that_did_not_fit_has_no_maker() -> None:
    first, second = (
        Proposal.chain([0, 1], drafter="first"),
        Proposal.chain([2, 1], drafter="second"),
    )
    result = merge(Merged.only(first), second, max_nodes=3)
    assert result.proposal.makers == ("first", "first", "second")
