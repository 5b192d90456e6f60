"""The n-gram pool of lookahead decoding: what was seen to follow a token, the latest first."""

from __future__ import annotations

from collections import OrderedDict

Gram = tuple[int, ...]


class GramPool:
    """For each key token the `num_guesses` n-grams that followed it last (arXiv:2402.02057)."""

    def __init__(self, num_guesses: int) -> None:
        """`num_guesses` is the paper's G."""
        self._num_guesses = num_guesses
        self._grams: dict[int, OrderedDict[Gram, None]] = {}

    def add(self, key: int, gram: Gram) -> None:
        """Notes that `gram` followed `key`; the one that was not seen for longest makes room."""
        grams = self._grams.setdefault(key, OrderedDict())
        grams[gram] = None
        grams.move_to_end(gram)
        if len(grams) > self._num_guesses:
            grams.popitem(last=False)

    def guesses(self, key: int) -> list[Gram]:
        """What followed `key`, the latest first; at most G."""
        return list(reversed(self._grams.get(key, ())))
