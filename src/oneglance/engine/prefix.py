"""Prefixes that stay in the cache after an answer, so that the next prompt need not repeat them.

A chat turn begins with the whole conversation before it. By contract C2 a key or value is the
same bits whether it was kept or computed again, so keeping changes nothing but time.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.engine.base import Engine, SequenceId


class PrefixStore:
    """The most recent sequences of an engine, with the tokens that their cache holds."""

    def __init__(self, engine: Engine, capacity: int) -> None:
        """Keeps up to `capacity` sequences of `engine`; 0 keeps none."""
        self._engine = engine
        self._capacity = capacity
        self._kept: list[tuple[SequenceId, tuple[int, ...]]] = []

    def open(self, prompt: Sequence[int]) -> SequenceId:
        """Starts a sequence that already holds the longest kept beginning of `prompt`.

        The last token of the prompt is left out, since the first pass evaluates it.
        """
        longest = 0
        best: SequenceId | None = None
        for handle, tokens in self._kept:
            length = common_length(tokens, prompt[:-1])
            if length > longest:
                longest, best = length, handle
        if best is None:
            return self._engine.open()
        sequence = self._engine.fork(best)
        self._engine.truncate(sequence, longest)
        return sequence

    def keep(self, sequence: SequenceId, tokens: Sequence[int]) -> None:
        """Takes over a sequence whose answer has ended.

        What the new one begins with need not be kept any more; of the rest the oldest goes if
        there are too many.

        Args:
            sequence: an open sequence; the store closes it in time.
            tokens: prompt and answer. Rows beyond them (drafts after the end of the answer) are
                dropped.
        """
        length = min(self._engine.length(sequence), len(tokens))
        self._engine.truncate(sequence, length)
        kept = tuple(tokens[:length])
        for older in [entry for entry in self._kept if entry[1] == kept[: len(entry[1])]]:
            self._kept.remove(older)
            self._engine.close(older[0])
        self._kept.append((sequence, kept))
        while len(self._kept) > self._capacity:
            self._engine.close(self._kept.pop(0)[0])

    def clear(self) -> None:
        """Lets go of everything."""
        for handle, _ in self._kept:
            self._engine.close(handle)
        self._kept.clear()


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
