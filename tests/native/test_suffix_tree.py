"""The compiled suffix tree against its definition: counts of all runs, drafts by the pseudo-code.

Hypothesis appends to several sequences in turn and removes them in any order.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.engine.native import is_available, why_unavailable

if not is_available():
    pytest.skip(str(why_unavailable()), allow_module_level=True)

from oneglance import _native

DEPTH = 6
ALPHABET = 3


@dataclass
class Limits:
    """As `_native.DraftLimits`, readable."""

    max_tokens: int
    max_nodes: int = -1
    factor: float = 1.0
    offset: float = 0.0
    min_prob: float = 0.1
    ends: list[int] = field(default_factory=list)

    def native(self) -> _native.DraftLimits:
        return _native.DraftLimits(
            self.max_tokens, self.max_nodes, self.factor, self.offset, self.min_prob, self.ends
        )


@dataclass
class Draft:
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    score: float = 0.0
    match_length: int = 0


class SlowTree:
    """Looks everything up in the sequences themselves."""

    def __init__(self, max_depth: int = DEPTH) -> None:
        self.max_depth = max_depth
        self.sequences: dict[int, list[int]] = {}

    def occurrences(self, run: Sequence[int]) -> list[tuple[int, int]]:
        """Sequence and end of each, the latest last."""
        length = len(run)
        return [
            (number, start + length)
            for number, tokens in sorted(self.sequences.items())
            for start in range(len(tokens) - length + 1)
            if tokens[start : start + length] == list(run)
        ]

    def followers(self, run: Sequence[int]) -> list[tuple[int, int]]:
        """Token and count of each, best first."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        if len(run) < self.max_depth:
            for number, end in self.occurrences(run):
                if end < len(self.sequences[number]):
                    found[self.sequences[number][end]].append((number, end))
        ranked = sorted(found, key=lambda token: (len(found[token]), found[token][-1]))
        return [(token, len(found[token])) for token in reversed(ranked)]

    def draft(self, text: Sequence[int], is_in_tree: bool, limits: Limits) -> Draft:
        best = Draft()
        for length in range(1, min(len(text), self.max_depth - 1) + 1):
            run = list(text[-length:])
            count = len(self.occurrences(run))
            if count <= is_in_tree:
                break
            cap = limits.max_tokens if limits.max_nodes < 0 else limits.max_nodes
            budget = min(cap, math.floor(limits.factor * length + limits.offset))
            found = self.draft_after(run, count + (not is_in_tree), budget, limits)
            if found.tokens and found.score >= best.score:
                best = found
        return best

    def draft_after(self, run: list[int], count: int, budget: int, limits: Limits) -> Draft:
        draft = Draft(match_length=len(run))
        order = itertools.count()
        waiting: list[tuple[float, int, int, int, list[int], int]] = []

        def offer(path: list[int], prob: float, count: int, parent: int) -> None:
            if len(path) == limits.max_tokens or (path and path[-1] in limits.ends):
                return
            for token, times in self.followers([*run, *path])[
                : 1 if limits.max_nodes < 0 else None
            ]:
                share = prob * (times / count)
                if share >= limits.min_prob:
                    heapq.heappush(
                        waiting, (-share, next(order), token, parent, [*path, token], times)
                    )

        offer([], 1.0, count, -1)
        while waiting and len(draft.tokens) < budget:
            negative, _, token, parent, path, times = heapq.heappop(waiting)
            draft.tokens.append(token)
            draft.parents.append(parent)
            draft.probs.append(-negative)
            draft.score += -negative
            offer(path, -negative, times, len(draft.tokens) - 1)
        return draft


def all_runs(max_length: int) -> Iterator[list[int]]:
    for length in range(1, max_length + 1):
        for run in itertools.product(range(ALPHABET), repeat=length):
            yield list(run)


def seen_runs(slow: SlowTree) -> Iterator[list[int]]:
    for tokens in slow.sequences.values():
        for start in range(len(tokens)):
            for length in range(1, slow.max_depth + 1):
                if start + length <= len(tokens):
                    yield tokens[start : start + length]


def as_draft(draft: _native.SuffixDraft) -> Draft:
    return Draft(draft.tokens, draft.parents, draft.probs, draft.score, draft.match_length)


tokens_of = st.lists(st.integers(0, ALPHABET - 1), max_size=12)
repeats = st.builds(lambda tokens, times: tokens * times, tokens_of, st.integers(1, 4))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9), repeats),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just([])),
        st.tuples(st.just("start"), st.just(0), repeats),
    ),
    min_size=1,
    max_size=14,
)
limits_of = st.builds(
    Limits,
    max_tokens=st.integers(0, 5),
    max_nodes=st.sampled_from([-1, 0, 1, 2, 4, 8]),
    factor=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    offset=st.sampled_from([0.0, 1.0, 2.5, -1.0]),
    min_prob=st.sampled_from([0.0, 0.1, 0.3, 0.5]),
    ends=st.sampled_from([[], [0], [1, 2]]),
)


class Pair:
    """The compiled tree and the slow one, told the same."""

    def __init__(self) -> None:
        self.tree = _native.SuffixTree(DEPTH)
        self.slow = SlowTree()

    def do(self, kind: str, choice: int, tokens: list[int]) -> None:
        live = sorted(self.slow.sequences)
        if kind == "start" or not live:
            number = self.tree.start()
            assert number not in self.slow.sequences
            self.slow.sequences[number] = []
        else:
            number = live[choice % len(live)]
        if kind == "remove":
            self.tree.remove(number)
            del self.slow.sequences[number]
        else:
            self.tree.append(number, tokens)
            self.slow.sequences[number].extend(tokens)


@given(steps)
@settings(deadline=None, max_examples=200)
def test_counts_are_those_of_a_scan(steps: list[tuple[str, int, list[int]]]) -> None:
    pair = Pair()
    for step in steps:
        pair.do(*step)
    slow = pair.slow
    counts: dict[tuple[int, ...], int] = defaultdict(int)
    for run in seen_runs(slow):
        counts[tuple(run)] += 1
    for run in [*all_runs(3), *map(list, counts)]:
        assert pair.tree.count(run) == counts[tuple(run)]
    num_tokens = sum(map(len, slow.sequences.values()))
    assert pair.tree.num_tokens == num_tokens
    assert pair.tree.num_nodes <= 2 * num_tokens + 1
    for number in sorted(slow.sequences, reverse=True):
        pair.tree.remove(number)
    assert pair.tree.num_nodes == 1, "something of what was removed is still there"


@given(steps, limits_of, tokens_of)
@settings(deadline=None, max_examples=300)
def test_drafts_are_those_of_the_pseudo_code(
    steps: list[tuple[str, int, list[int]]], limits: Limits, text: list[int]
) -> None:
    pair = Pair()
    for step in steps:
        pair.do(*step)
        for number, tokens in pair.slow.sequences.items():
            found = as_draft(pair.tree.draft_after(number, limits.native()))
            assert found == pair.slow.draft(tokens, True, limits)
        found = as_draft(pair.tree.draft_of(text, limits.native()))
        assert found == pair.slow.draft(text, False, limits)


def test_token_by_token_is_as_all_at_once() -> None:
    tokens = [1, 2, 1, 2, 0, 1, 2, 1, 1, 1, 1, 2, 0, 0, 1] * 3
    one, other = _native.SuffixTree(DEPTH), _native.SuffixTree(DEPTH)
    one.append(one.start(), tokens)
    number = other.start()
    for token in tokens:
        other.append(number, [token])
    assert one.num_nodes == other.num_nodes
    for run in all_runs(4):
        assert one.count(run) == other.count(run)


def test_the_first_to_come_may_go_first_for_ever() -> None:
    """Nothing grows: neither nodes nor bytes."""
    tree = _native.SuffixTree(16)
    numbers = []
    sizes = []
    for round_ in range(200):
        numbers.append(tree.start())
        tree.append(numbers[-1], [(round_ * step) % 17 for step in range(40)])
        if len(numbers) > 5:
            tree.remove(numbers.pop(0))
        sizes.append(tree.num_bytes)
    assert tree.num_tokens == 200
    assert sizes[-1] == max(sizes[:100])


def test_a_removed_sequence_is_not_found_and_its_number_not_given_again() -> None:
    tree = _native.SuffixTree()
    first = tree.start()
    tree.append(first, [1, 2, 3])
    tree.remove(first)
    assert tree.start() != first
    for use in (tree.remove, lambda number: tree.append(number, [1])):
        with pytest.raises(IndexError, match=f"there is no sequence {first}"):
            use(first)


@pytest.mark.parametrize("depth", [-1, 0, 1, 1025])
def test_impossible_depths(depth: int) -> None:
    with pytest.raises(ValueError, match="max_depth must be from 2 to 1024"):
        _native.SuffixTree(depth)


def test_bad_tokens_change_nothing() -> None:
    tree = _native.SuffixTree(4)
    number = tree.start()
    with pytest.raises(ValueError, match="must not be negative"):
        tree.append(number, [1, -1])
    with pytest.raises(TypeError):
        tree.append(number, [2**31])
    assert tree.num_tokens == 0
    with pytest.raises(ValueError, match="more tokens than the tree is deep"):
        tree.count([1, 2, 3, 4, 5])
