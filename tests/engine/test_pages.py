"""Page bookkeeping against a model that writes every slot and reads it back."""

from __future__ import annotations

import copy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oneglance.engine.pages import PageCopy, PagePool, PageTable
from oneglance.errors import CapacityError, ParameterError

PAGE_SIZE, LIMIT = 3, 12


class PageMachine(RuleBasedStateMachine):
    """Every row gets a number of its own, so that a lost or overwritten slot shows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PageTable(PAGE_SIZE, PagePool(LIMIT))
        self.storage: dict[tuple[int, int], int] = {}
        self.committed: dict[int, list[int]] = {}
        self.in_flight: dict[int, list[int]] = {}
        self.next_value = 0

    def _slot(self, sequence: int, index: int) -> tuple[int, int]:
        pages, offsets = self.table.slots(sequence, index, index + 1)
        return int(pages[0]), int(offsets[0])

    def _pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.committed)), label="sequence")

    @rule()
    def open(self) -> None:
        sequence = self.table.open()
        assert sequence not in self.committed
        self.committed[sequence], self.in_flight[sequence] = [], []

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        source = self._pick(data)
        sequence = self.table.fork(source)
        self.committed[sequence], self.in_flight[sequence] = list(self.committed[source]), []

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.committed)), min_size=1))
        request = {s: data.draw(st.integers(1, 8), label="rows") for s in sorted(chosen)}
        kept = {
            s: data.draw(st.integers(0, min(count, len(self.in_flight[s]))), label="kept")
            for s, count in request.items()
        }
        before = copy.deepcopy(vars(self.table))
        unlimited = copy.deepcopy(self.table)
        unlimited.pool._limit = None
        unlimited.reserve(request, kept)
        num_held = unlimited.pool.num_created - len(unlimited.pool.free_pages)
        if num_held > LIMIT:
            with pytest.raises(CapacityError, match=f"of the cache's {LIMIT} are free"):
                self.table.reserve(request, kept)
            assert _state(vars(self.table)) == _state(before)
            return
        for page_copy in self.table.reserve(request, kept):
            for offset in range(PAGE_SIZE):
                if (page_copy.source, offset) in self.storage:
                    value = self.storage[page_copy.source, offset]
                    self.storage[page_copy.target, offset] = value
        for sequence, count in request.items():
            self._write(sequence, count, kept[sequence])

    def _write(self, sequence: int, count: int, num_kept: int) -> None:
        start = len(self.committed[sequence])
        del self.in_flight[sequence][num_kept:]
        for index in range(num_kept, count):
            self.in_flight[sequence].append(self.next_value)
            self.storage[self._slot(sequence, start + index)] = self.next_value
            self.next_value += 1

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        sequence = self._pick(data)
        rows = range(len(self.in_flight[sequence]))
        path = [row for row in rows if data.draw(st.booleans(), label="keep")]
        start = len(self.committed[sequence])
        for index, row in enumerate(path):
            value = self.storage[self._slot(sequence, start + row)]
            self.storage[self._slot(sequence, start + index)] = value
            self.committed[sequence].append(self.in_flight[sequence][row])
        self.table.commit(sequence, path)
        self.in_flight[sequence] = []

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        sequence = self._pick(data)
        length = data.draw(st.integers(0, len(self.committed[sequence])), label="length")
        self.table.truncate(sequence, length)
        del self.committed[sequence][length:]
        self.in_flight[sequence] = []

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        sequence = self._pick(data)
        self.table.close(sequence)
        del self.committed[sequence], self.in_flight[sequence]

    @invariant()
    def a_page_counts_the_sequences_that_hold_it(self) -> None:
        held = [page for s in self.committed for page in self.table.pages(s)]
        for page in range(self.table.pool.num_created):
            assert self.table.pool.num_holders(page) == held.count(page)
            assert (page in self.table.pool.free_pages) == (held.count(page) == 0)
        available = self.table.pool.num_available()
        assert available == LIMIT - len(set(held))

    @invariant()
    def a_sequence_holds_as_many_pages_as_it_needs(self) -> None:
        assert set(self.table.open_sequences()) == set(self.committed)
        for sequence, tokens in self.committed.items():
            assert self.table.length(sequence) == len(tokens)
            assert self.table.num_in_flight(sequence) == len(self.in_flight[sequence])
            pages = self.table.pages(sequence)
            needed = -(-(len(tokens) + len(self.in_flight[sequence])) // PAGE_SIZE)
            assert len(pages) == len(set(pages)) == needed

    @invariant()
    def no_two_sequences_write_one_page(self) -> None:
        written: list[int] = []
        for sequence, rows in self.in_flight.items():
            start = len(self.committed[sequence])
            slots = [self._slot(sequence, start + i) for i in range(len(rows))]
            written += {page for page, _ in slots}
        assert len(written) == len(set(written))

    @invariant()
    def every_slot_reads_back(self) -> None:
        for sequence, tokens in self.committed.items():
            for index, value in enumerate(tokens + self.in_flight[sequence]):
                assert self.storage[self._slot(sequence, index)] == value

    def teardown(self) -> None:
        for sequence in list(self.committed):
            self.table.close(sequence)
        pool = self.table.pool
        assert pool.free_pages == frozenset(range(pool.num_created))


def _state(variables: dict[str, object]) -> tuple[object, object]:
    return vars(variables["pool"]), variables["_sequences"]


TestPages = PageMachine.TestCase
TestPages.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_only_a_shared_and_partly_filled_page_is_copied() -> None:
    table = PageTable(4, PagePool(limit=3))
    trunk = table.open()
    assert table.reserve({trunk: 6}) == []
    table.commit(trunk, range(6))
    branch = table.fork(trunk)
    assert table.pages(branch) == table.pages(trunk) == (0, 1)
    # The first to append copies; the other is then alone with the page and writes it.
    assert table.reserve({branch: 1, trunk: 1}) == [PageCopy(source=1, target=2)]
    assert table.pages(branch) == (0, 2)
    assert table.pages(trunk) == (0, 1)
    table.truncate(branch, 4)
    table.truncate(trunk, 4)
    assert table.reserve({branch: 1, trunk: 1}) == []
    assert table.pool.num_holders(0) == 2


def test_a_page_shared_since_its_rows_came_into_flight_is_copied_with_them() -> None:
    table = PageTable(4, PagePool())
    trunk = table.open()
    table.reserve({trunk: 2})
    table.commit(trunk, range(2))
    table.reserve({trunk: 6})
    branch = table.fork(trunk)
    assert table.reserve({trunk: 7}, {trunk: 5}) == [PageCopy(source=0, target=2)]
    assert table.pages(trunk) == (2, 1, 3)
    assert table.pages(branch) == (0,)
    assert table.reserve({trunk: 5}, {trunk: 4}) == []
    assert table.pages(trunk) == (2, 1)
    with pytest.raises(AssertionError, match="more rows are kept"):
        table.reserve({trunk: 7}, {trunk: 6})


def test_sequences_that_are_not_open_are_refused() -> None:
    table = PageTable(4, PagePool())
    closed = table.open()
    table.close(closed)
    for call in (table.fork, table.close, table.length):
        with pytest.raises(ParameterError, match="Sequence 0 is not open"):
            call(closed)
    with pytest.raises(ParameterError, match="Sequence 7 is not open"):
        table.reserve({table.open(): 1, 7: 1})
    assert table.pool.num_created == 0


def test_truncating_to_what_is_not_there_is_refused() -> None:
    table = PageTable(4, PagePool())
    sequence = table.open()
    for length in (-1, 1):
        with pytest.raises(ParameterError, match=f"length = {length} cannot be used"):
            table.truncate(sequence, length)
