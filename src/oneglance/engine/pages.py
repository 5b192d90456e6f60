"""Who holds which page of the key-value cache: pure bookkeeping, without any array.

A slot is one position's place in the cache; `page_size` slots make a page. A sequence holds the
pages of its committed prefix and, behind it, of the rows in flight. Prefixes are shared by
counting the holders of a page. A page that others hold too is never written: whoever wants to
append to a shared page that is partly filled gets a copy of it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from oneglance.engine.base import SequenceId
from oneglance.errors import CapacityError, ParameterError
from oneglance.types import IntArray

PageId = int


class PagePool:
    """Pages and how many sequences hold each; a page that nobody holds is free."""

    def __init__(self, limit: int | None = None) -> None:
        """Creates a pool of at most `limit` pages; None: as many as are asked for."""
        self._limit = limit
        self._num_holders: list[int] = []
        self._free: list[PageId] = []

    @property
    def num_created(self) -> int:
        """Pages that have ever been handed out; their ids are 0 to this, exclusive."""
        return len(self._num_holders)

    @property
    def limit(self) -> int | None:
        """Most pages there may be; None: no limit."""
        return self._limit

    @property
    def free_pages(self) -> frozenset[PageId]:
        """Created pages that nobody holds."""
        return frozenset(self._free)

    @property
    def num_used(self) -> int:
        """Pages that somebody holds."""
        return self.num_created - len(self._free)

    def num_available(self) -> int | None:
        """Pages that can still be taken; None: no limit."""
        if self._limit is None:
            return None
        return self._limit - self.num_created + len(self._free)

    def num_holders(self, page: PageId) -> int:
        """How many sequences hold a page."""
        return self._num_holders[page]

    def take(self) -> PageId:
        """Hands out a page that nobody holds; the caller has checked that there is one."""
        if self._free:
            page = self._free.pop()
        else:
            assert self._limit is None or self.num_created < self._limit, "no page left"
            page = self.num_created
            self._num_holders.append(0)
        self._num_holders[page] = 1
        return page

    def hold(self, page: PageId) -> None:
        """Counts one more holder."""
        assert self._num_holders[page] >= 1, "a free page cannot be shared"
        self._num_holders[page] += 1

    def release(self, page: PageId) -> None:
        """Counts one holder less; the last one frees the page."""
        assert self._num_holders[page] >= 1, "a free page was released"
        self._num_holders[page] -= 1
        if self._num_holders[page] == 0:
            self._free.append(page)


@dataclass
class _SequencePages:
    pages: list[PageId] = field(default_factory=list)
    length: int = 0
    num_in_flight: int = 0


@dataclass(frozen=True)
class PageCopy:
    """A page whose content must be copied before the next write to `target`."""

    source: PageId
    target: PageId


class PageTable:
    """The pages, committed length and rows in flight of every open sequence."""

    def __init__(self, page_size: int, pool: PagePool) -> None:
        """Creates an empty table over a pool whose pages have `page_size` slots."""
        self.page_size = page_size
        self.pool = pool
        self._sequences: dict[SequenceId, _SequencePages] = {}
        self._next_id = 0

    def open(self) -> SequenceId:
        """Starts an empty sequence; ids are never used twice."""
        return self._register(_SequencePages())

    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence that shares the pages of another's committed prefix."""
        source = self._find(sequence)
        shared = source.pages[: self._num_pages_for(source.length)]
        for page in shared:
            self.pool.hold(page)
        return self._register(_SequencePages(shared, source.length))

    def length(self, sequence: SequenceId) -> int:
        """Number of committed slots."""
        return self._find(sequence).length

    def num_in_flight(self, sequence: SequenceId) -> int:
        """Number of slots behind the prefix that are reserved for rows in flight."""
        return self._find(sequence).num_in_flight

    def pages(self, sequence: SequenceId) -> tuple[PageId, ...]:
        """The pages that a sequence holds, in order of position."""
        return tuple(self._find(sequence).pages)

    def open_sequences(self) -> tuple[SequenceId, ...]:
        """Every open sequence."""
        return tuple(self._sequences)

    def slots(self, sequence: SequenceId, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """(page, offset in the page) of the slots `start` to `stop` of a sequence."""
        indices = np.arange(start, stop, dtype=np.int64)
        pages = np.asarray(self._find(sequence).pages, dtype=np.int64)
        return pages[indices // self.page_size], indices % self.page_size

    def reserve(
        self,
        num_rows: Mapping[SequenceId, int],
        num_kept: Mapping[SequenceId, int] = MappingProxyType({}),
    ) -> list[PageCopy]:
        """Gives sequences slots for new rows in flight, instead of those they had.

        Args:
            num_rows: for each sequence, how many slots it needs behind its prefix.
            num_kept: how many of them, the first ones, are in flight already and keep their
                content; 0 for sequences that are not named.

        Returns:
            Copies to make before the slots are written, in this order.

        Raises:
            CapacityError: there are too few pages; nothing has changed.
            ParameterError: a sequence is not open; nothing has changed.
        """
        self._check_pages(num_rows)
        for sequence in num_rows:
            self._drop_in_flight(self._find(sequence), num_kept.get(sequence, 0))
        copies: list[PageCopy] = []
        for sequence, count in num_rows.items():
            entry = self._find(sequence)
            if self._must_copy_last(entry, Counter()):
                copies.append(self._replace_last(entry))
            while len(entry.pages) < self._num_pages_for(entry.length + count):
                entry.pages.append(self.pool.take())
            entry.num_in_flight = count
        return copies

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Makes rows in flight part of the prefix and drops the others.

        The caller has moved the content of slot length + rows[i] to slot length + i, in order of
        i (rows ascend, so that nothing is overwritten before it is moved).
        """
        entry = self._find(sequence)
        assert all(0 <= row < entry.num_in_flight for row in rows), "a row is not in flight"
        assert all(a < b for a, b in pairwise(rows)), "rows must ascend"
        entry.length += len(rows)
        self._drop_in_flight(entry)

    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops rows in flight and every committed slot from `length` on.

        Raises:
            ParameterError: `length` is negative or beyond the committed length.
        """
        entry = self._find(sequence)
        if not 0 <= length <= entry.length:
            raise ParameterError(
                f"length = {length} cannot be used to truncate sequence {sequence}; "
                f"it must be 0 to {entry.length}, the committed length."
            )
        entry.length = length
        self._drop_in_flight(entry)

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages."""
        for page in self._find(sequence).pages:
            self.pool.release(page)
        del self._sequences[sequence]

    def _register(self, entry: _SequencePages) -> SequenceId:
        sequence = self._next_id
        self._next_id += 1
        self._sequences[sequence] = entry
        return sequence

    def _find(self, sequence: SequenceId) -> _SequencePages:
        entry = self._sequences.get(sequence)
        if entry is None:
            raise ParameterError(
                f"Sequence {sequence} is not open; use an id that open or fork returned and that "
                "has not been closed."
            )
        return entry

    def _num_pages_for(self, num_slots: int) -> int:
        return -(-num_slots // self.page_size)

    def _drop_in_flight(self, entry: _SequencePages, num_kept: int = 0) -> None:
        assert num_kept <= entry.num_in_flight, "more rows are kept than are in flight"
        keep = self._num_pages_for(entry.length + num_kept)
        for page in entry.pages[keep:]:
            self.pool.release(page)
        del entry.pages[keep:]
        entry.num_in_flight = num_kept

    def _must_copy_last(self, entry: _SequencePages, given_up: Counter[PageId]) -> bool:
        """Whether the page of the last committed slot, if it has room, is held by others too.

        The first row in flight lies in it. A fork may have come to share it since then.
        `given_up` counts holders that will have left a page by then.
        """
        if entry.length % self.page_size == 0:
            return False
        last = entry.pages[self._num_pages_for(entry.length) - 1]
        return self.pool.num_holders(last) - given_up[last] > 1

    def _replace_last(self, entry: _SequencePages) -> PageCopy:
        last = self._num_pages_for(entry.length) - 1
        source, target = entry.pages[last], self.pool.take()
        entry.pages[last] = target
        self.pool.release(source)
        return PageCopy(source, target)

    def num_needed(self, num_rows: Mapping[SequenceId, int]) -> int:
        """How many free pages `reserve` would take; counts exactly what it will do.

        Args:
            num_rows: as for `reserve`.

        Returns:
            Negative where it would free more than it takes.
        """
        needed = 0
        given_up: Counter[PageId] = Counter()
        for sequence, count in num_rows.items():
            entry = self._find(sequence)
            needed += self._num_pages_for(entry.length + count) - len(entry.pages)
            if self._must_copy_last(entry, given_up):
                needed += 1
                given_up[entry.pages[self._num_pages_for(entry.length) - 1]] += 1
        return needed

    def _check_pages(self, num_rows: Mapping[SequenceId, int]) -> None:
        """Raises CapacityError unless `reserve` can succeed."""
        needed = self.num_needed(num_rows)
        available = self.pool.num_available()
        if available is not None and needed > available:
            raise CapacityError(
                f"The pass needs {needed} more pages of {self.page_size} positions, but only "
                f"{available} of the cache's {self.pool.limit} are free; close sequences, "
                "evaluate fewer rows at once or raise num_pages."
            )
