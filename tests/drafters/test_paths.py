"""Paths of draft tokens as one tree: shared beginnings, distinct siblings, a limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oneglance.drafters.paths import PathTree, until_end
from oneglance.types import ROOT

PATHS = st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=6)


@given(PATHS, st.none() | st.integers(0, 12))
def test_the_tree_holds_the_paths_once_and_within_its_limit(
    paths: list[list[int]], limit: int | None
) -> None:
    tree = PathTree(limit)
    ends = [tree.add(path) for path in paths]
    proposal = tree.proposal("test", 1.5)
    assert (proposal.drafter, proposal.expected, proposal.draft_probs) == ("test", 1.5, None)
    assert len(proposal) == len(tree)
    assert limit is None or len(tree) <= limit
    held = [
        tuple(int(proposal.tokens[each]) for each in proposal.path_to(node))
        for node in range(len(proposal))
    ]
    assert len(set(held)) == len(held), "a path has two nodes"
    beginnings = {tuple(path[: n + 1]) for path in paths for n in range(len(path))}
    assert set(held) <= beginnings
    if limit is None:
        assert set(held) == beginnings
    for path, end in zip(paths, ends, strict=True):
        if end is None:
            assert not tree.has_room
        else:
            assert end == ROOT if not path else held[end] == tuple(path)


def test_a_path_that_does_not_fit_is_there_as_far_as_it_does() -> None:
    tree = PathTree(limit=3)
    assert tree.add([1, 2]) == 1
    assert tree.add([1, 3, 4]) is None
    assert tree.proposal("test").tokens.tolist() == [1, 2, 3]
    assert tree.add([1, 3]) == 2, "what is there needs no room"


def test_how_much_of_a_text_is_in_the_tree() -> None:
    tree = PathTree()
    tree.add([1, 2, 3])
    tree.add([1, 4])
    assert [tree.num_matched(text) for text in ([], [2], [1, 4, 3], [1, 2, 3, 5])] == [0, 0, 2, 3]


def test_a_path_is_cut_after_end_of_text() -> None:
    assert until_end([1, 0, 2, 0], {0}) == [1, 0]
    assert until_end([1, 2], {0}) == [1, 2]
    assert until_end([], {0}) == []
