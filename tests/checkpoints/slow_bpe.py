"""Byte-pair encoding by its definition: merge the best pair, look at everything again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def merge_by_rank(symbols: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Merges the leftmost pair of the lowest rank until no pair of neighbours has one."""
    parts = list(symbols)
    while True:
        found = [
            (ranks[pair], index) for index, pair in enumerate(pairwise(parts)) if pair in ranks
        ]
        if not found:
            return parts
        _, index = min(found)
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


def merge_by_score(symbols: Sequence[str], scores: dict[str, float]) -> list[str]:
    """Merges the leftmost neighbours whose joint piece has the best score (SentencePiece)."""
    parts = list(symbols)
    while True:
        found = [
            (-scores[left + right], index)
            for index, (left, right) in enumerate(pairwise(parts))
            if left + right in scores
        ]
        if not found:
            return parts
        _, index = min(found)
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
