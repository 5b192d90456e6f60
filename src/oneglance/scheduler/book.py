"""Keeps the counts of `SchedulerStats`: written between passes, read from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from threading import Lock

from oneglance.engine.base import PageUse
from oneglance.scheduler.stats import PassRows, SchedulerStats
from oneglance.types import ROOT, PassTrace


class StatsBook:
    """Counts what happens."""

    def __init__(self) -> None:
        """Begins at zero."""
        self._lock = Lock()
        self._stats = SchedulerStats()

    def snapshot(self) -> SchedulerStats:
        """The state after the last pass; a copy."""
        with self._lock:
            return deepcopy(self._stats)

    def note_submitted(self, count: int) -> None:
        """Requests were accepted."""
        with self._lock:
            self._stats.num_submitted += count

    def note_admitted(self, num_prompt: int, num_cached: int) -> None:
        """A request was admitted for the first time.

        Args:
            num_prompt: tokens of its prompt.
            num_cached: how many of them need not be evaluated.
        """
        with self._lock:
            self._stats.prompt_tokens += num_prompt
            self._stats.cached_prompt_tokens += num_cached
            self._stats.num_prefix_hits += num_cached > 0

    def note_preempted(self) -> None:
        """A request lost its pages."""
        with self._lock:
            self._stats.num_preemptions += 1

    def note_ended(self, how: str) -> None:
        """A request ended, see `SchedulerStats.ended`."""
        with self._lock:
            self._stats.ended[how] += 1

    def note_pass(self, num_prompt_rows: int, traces: Sequence[PassTrace], delivered: int) -> int:
        """A pass was made.

        Args:
            num_prompt_rows: rows of prompts in it.
            traces: what it did for each request that decodes.
            delivered: tokens that were released to users.

        Returns:
            Draft tokens in it.
        """
        drafted = sum(len(trace.draft_tokens) for trace in traces)
        last = PassRows(num_prompt_rows, len(traces), drafted)
        with self._lock:
            stats = self._stats
            stats.num_passes += 1
            stats.last_pass = last
            for name, value in vars(last).items():
                setattr(stats.rows, name, getattr(stats.rows, name) + value)
            stats.delivered_tokens += delivered
            reached = [self._note_trace(trace) for trace in traces]
            if traces:
                stats.mean_k = sum(reached) / len(traces)
        return drafted

    def note_state(
        self, num_waiting: int, num_reading: int, num_decoding: int, num_cached: int
    ) -> None:
        """How many requests are in which state, and how many tokens are kept."""
        with self._lock:
            self._stats.num_waiting = num_waiting
            self._stats.num_reading = num_reading
            self._stats.num_decoding = num_decoding
            self._stats.num_cached_tokens = num_cached

    def note_pages(self, use: PageUse | None) -> None:
        """How full the target's cache is."""
        with self._lock:
            self._stats.pages_total = None if use is None else use.limit
            self._stats.pages_used = None if use is None else use.num_used

    def note_draining(self) -> None:
        """New requests are refused from now on."""
        with self._lock:
            self._stats.is_draining = True

    def _note_trace(self, trace: PassTrace) -> int:
        """Counts the draft of one request; returns its depth."""
        depths: list[int] = []
        for parent in trace.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        depth = max(depths, default=0)
        stats = self._stats
        stats.drafted_by_depth.update(depths)
        stats.accepted_by_depth.update(range(1, len(trace.accepted) + 1))
        stats.accepted_lengths[len(trace.accepted)] += 1
        stats.drafted_lengths[depth] += 1
        return depth
