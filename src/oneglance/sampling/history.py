"""The tokens of one request so far, in the forms that penalties need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from oneglance.types import IntArray


class TokenHistory:
    """Prompt and output ids of one request, with counts of the distinct ids only.

    Nothing here is as long as the vocabulary. Every view takes a `path`: further output tokens
    (the drafted ones on the way to a node), seen as though they had been appended.
    """

    def __init__(self, prompt: Iterable[int], output: Iterable[int] = ()) -> None:
        """Starts from a prompt and, where a request is resumed, the output it already has."""
        self._prompt = tuple(int(token) for token in prompt)
        self._prompt_set = frozenset(self._prompt)
        self._prompt_ids = np.array(sorted(self._prompt_set), dtype=np.int64)
        self._output: list[int] = []
        self._counts: Counter[int] = Counter()
        for token in output:
            self.append(token)

    def append(self, token: int) -> None:
        """Adds a delivered token to the output."""
        assert token >= 0, "a token id is negative"
        self._output.append(int(token))
        self._counts[int(token)] += 1

    def truncate(self, num_output: int) -> None:
        """Takes back all output but the first `num_output` tokens."""
        assert 0 <= num_output <= len(self._output), "the output is shorter than that"
        self._counts -= Counter(self._output[num_output:])  # drops what is left of none
        del self._output[num_output:]

    @property
    def num_output(self) -> int:
        """How many tokens the output has: the position of the next one."""
        return len(self._output)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt's ids."""
        return self._prompt

    @property
    def output(self) -> tuple[int, ...]:
        """The output's ids, a copy."""
        return tuple(self._output)

    def tokens(self, path: Sequence[int] = ()) -> tuple[int, ...]:
        """Prompt, output and path in order."""
        return (*self._prompt, *self._output, *path)

    def output_counts(self, path: Sequence[int] = ()) -> tuple[IntArray, IntArray]:
        """Distinct ids of output and path, and how often each occurs there: two arrays [D]."""
        counts = self._counts
        if path:
            counts = self._counts.copy()
            counts.update(path)
        size = len(counts)
        ids = np.fromiter(counts.keys(), dtype=np.int64, count=size)
        return ids, np.fromiter(counts.values(), dtype=np.int64, count=size)

    def seen_ids(self, path: Sequence[int] = ()) -> IntArray:
        """Distinct ids of prompt, output and path: [D], each once, in no particular order."""
        later = (self._counts.keys() | set(path)) - self._prompt_set
        new_ids = np.fromiter(later, dtype=np.int64, count=len(later))
        return np.concatenate([self._prompt_ids, new_ids])
