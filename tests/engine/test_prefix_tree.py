"""The radix tree of kept prefixes against a model that lists every prefix."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.config import EngineConfig
from oneglance.engine.base import SequenceId
from oneglance.engine.pages import PagePool, PageTable
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore
from oneglance.engine.reference import ReferenceEngine
from oneglance.testing import ScriptedEngine, random_script
from tests.engine.random_models import random_model
from tests.scheduler.stage import PagedEngine

V = 5
Tokens = tuple[int, ...]


@dataclass
class NaiveStore:
    """Where edges end, in every group, and when each end was used; no tree."""

    max_tokens: int
    used: dict[tuple[str, Tokens], int] = field(default_factory=dict)
    time: int = 0

    def match(self, tokens: Tokens, group: str) -> int:
        """Length of the longest beginning that is kept; where it lies in an edge, that is split."""
        self.time += 1
        length = max(n for n in range(len(tokens) + 1) if self._is_kept(tokens[:n], group))
        if length:
            self.used[group, tokens[:length]] = self.time
        for g, end in self.used:
            if g == group and end == tokens[: len(end)]:
                self.used[g, end] = self.time
        return length

    def keep(self, tokens: Tokens, group: str) -> None:
        self.match(tokens, group)
        if tokens:
            self.used[group, tokens] = self.time
        while self.num_tokens > self.max_tokens:
            del self.used[min(self._leaves(), key=lambda end: self.used[end])]

    @property
    def num_tokens(self) -> int:
        return len({(g, end[:n]) for g, end in self.used for n in range(1, len(end) + 1)})

    def _is_kept(self, tokens: Tokens, group: str) -> bool:
        return not tokens or any(
            g == group and end[: len(tokens)] == tokens for g, end in self.used
        )

    def _leaves(self) -> list[tuple[str, Tokens]]:
        return [
            (g, end)
            for g, end in self.used
            if not any(
                g == other and longer != end and longer[: len(end)] == end
                for other, longer in self.used
            )
        ]


TEXTS = st.lists(st.integers(0, 2), max_size=7).map(tuple)
CALLS = st.lists(
    st.tuples(st.sampled_from(["open", "keep"]), TEXTS, st.sampled_from(["", "b"])), max_size=40
)


@settings(max_examples=150, deadline=None)
@given(calls=CALLS, max_tokens=st.integers(0, 25))
def test_every_match_and_every_eviction_is_that_of_the_naive_store(
    calls: list[tuple[str, Tokens, str]], max_tokens: int
) -> None:
    engine = ScriptedEngine(random_script(V, 0), V)
    store = PrefixStore(engine, None, max_tokens)
    naive = NaiveStore(max_tokens)
    for call, tokens, group in calls:
        if call == "open":
            sequence = store.open((*tokens, 4), group)
            assert engine.length(sequence) == naive.match(tokens, group)
            assert tuple(engine._sequences[sequence].committed) == tokens[: engine.length(sequence)]
            engine.close(sequence)
        else:
            sequence = engine.open()
            prefill(engine, sequence, tokens, chunk=100)
            store.keep(sequence, tokens, group)
            naive.keep(tokens, group)
        assert store.num_tokens == naive.num_tokens <= max_tokens
        assert engine.num_open == len(naive._leaves())
    while store.evict():
        pass
    assert engine.num_open == store.num_tokens == 0


def fed(engine: PagedEngine, tokens: list[int]) -> SequenceId:
    sequence = engine.open()
    prefill(engine, sequence, tokens, chunk=100)
    return sequence


def test_a_shared_beginning_takes_its_pages_once_and_outlives_what_followed_it() -> None:
    engine = PagedEngine(page_size=4)
    store = PrefixStore(engine, None)
    system = [1, 2, 3, 4, 1, 2, 3, 4]
    store.keep(fed(engine, [*system, 0, 0, 0, 0]), [*system, 0, 0, 0, 0])
    for answer in (1, 2):
        prompt = [*system, answer, answer, answer, answer]
        sequence = store.open(prompt)
        prefill(engine, sequence, prompt[8:], chunk=100)
        store.keep(sequence, prompt)
    assert store.num_tokens == 8 + 3 * 4
    assert engine.page_use.num_used == 2 + 3
    for num_pages in (2 + 2, 2 + 1, 2, 0):
        assert store.evict()
        assert engine.page_use.num_used == num_pages


def test_groups_never_begin_with_each_others_prefixes() -> None:
    engine = PagedEngine()
    store = PrefixStore(engine, None)
    store.keep(fed(engine, [1, 2, 3]), [1, 2, 3], "a")
    assert engine.length(store.open([1, 2, 3, 4], "a")) == 3
    assert engine.length(store.open([1, 2, 3, 4], "b")) == 0
    assert engine.length(store.open([1, 2, 3, 4])) == 0


def test_pages_of_a_real_cache_are_all_given_back() -> None:
    config, weights = random_model(seed=3)
    engine = ReferenceEngine(config, weights, EngineConfig(page_size=4, num_pages=40))
    store = PrefixStore(engine, None, max_tokens=40)
    for start in range(12):
        prompt = [1, 2, 3, start % 5, *range(start, start + 9)]
        sequence = store.open(prompt)
        prefill(engine, sequence, prompt[engine.length(sequence) :], chunk=3)
        store.keep(sequence, prompt)
    assert 0 < store.num_tokens <= 40
    store.clear()
    assert engine.page_use.num_used == 0


def test_what_a_pass_needs_is_what_it_takes() -> None:
    """`num_needed` says beforehand how many free pages a pass takes, copies included."""
    pool = PagePool(10)
    table = PageTable(4, pool)
    first = table.open()
    table.reserve({first: 6})
    table.commit(first, range(6))
    second = table.fork(first)
    for rows in ({first: 1}, {first: 3, second: 3}, {second: 9}):
        before = pool.num_used
        needed = table.num_needed(rows)
        table.reserve(rows)
        assert pool.num_used - before == needed
