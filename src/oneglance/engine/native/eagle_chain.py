"""Chains of an EAGLE-3 head whose further levels the kernels evaluate in one call.

Passes of a single row take a head less time than their preparation takes Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from oneglance import _native
from oneglance.engine.base import SequenceId, TopTokens, TreeRows
from oneglance.engine.native.eagle_weights import EagleWeights
from oneglance.engine.pages import PageId
from oneglance.heads.eagle_config import EagleConfig
from oneglance.types import Float32Array


@dataclass(frozen=True)
class Chain:
    """A chain in the making.

    Attributes:
        sequence: an open sequence of the head.
        tokens: of its rows; all but the last one are in flight, the last one was drafted.
        most: levels to add at most, at least 1.
        reach: how likely the last token is to be accepted.
    """

    sequence: SequenceId
    tokens: tuple[int, ...]
    most: int
    reach: float

    def rows(self) -> TreeRows:
        """Rows in flight, the new ones with any tokens: as many as the chain can come to have."""
        tokens = np.zeros(len(self.tokens) + self.most - 1, dtype=np.int64)
        tokens[: len(self.tokens)] = self.tokens
        return TreeRows(
            sequence=self.sequence,
            tokens=tokens,
            parents=np.arange(-1, len(tokens) - 1, dtype=np.int64),
            wants_logits=np.zeros(len(tokens), dtype=np.bool_),
            num_kept=len(self.tokens) - 1,
        )


@dataclass(frozen=True)
class ChainRows:
    """Where chains go on, in their order.

    Attributes:
        hidden: [chains, D] the outputs that drafted their last tokens.
        positions: of these tokens' rows.
        pages: of their sequences, with room for all levels.
    """

    hidden: Float32Array
    positions: Sequence[int]
    pages: Sequence[Sequence[PageId]]


@dataclass(frozen=True)
class ChainRules:
    """Where chains end, and what is wanted of them; see `EagleEngine.grow_chains`."""

    min_confidence: float
    end_ids: AbstractSet[int]
    num_top: int


def make_chain_head(
    weights: EagleWeights, config: EagleConfig, num_ids: int
) -> _native.ChainHead | None:
    """The parts of a head as the kernels want them.

    Args:
        weights: packed.
        config: shape of the head.
        num_ids: tokens of the target's vocabulary.

    Returns:
        None for heads that do not draft in this way: EAGLE-1, and those that draft in one pass.
    """
    if weights.embedding_norm is None or weights.feature_norm is None or config.num_slots > 1:
        return None
    ids = weights.target_ids
    if ids is None:
        ids = np.arange(min(num_ids, weights.num_outputs))
    return _native.ChainHead(
        embedding=weights.embedding,
        eps=config.rms_norm_eps,
        embedding_norm=weights.embedding_norm,
        feature_norm=weights.feature_norm,
        norm_before_residual=config.norm_before_residual,
        layers=weights.layers,
        head=weights.head,
        target_ids=ids.astype(np.int32),
    )


def grow_chains(
    head: _native.ChainHead,
    chains: Sequence[Chain],
    rows: ChainRows,
    rules: ChainRules,
    storage: _native.KvCache,
    workspace: _native.Workspace,
) -> list[list[TopTokens]]:
    """Evaluates all further levels of some chains, see `EagleEngine.grow_chains`."""
    num_top = min(rules.num_top, head.num_ids)
    shape = (len(chains), max(chain.most for chain in chains), num_top)
    ids, logits = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
    counts = _native.grow_chains(
        head,
        tokens=np.asarray([each.tokens[-1] for each in chains], dtype=np.int32),
        positions=np.asarray(rows.positions, dtype=np.int32),
        most=np.asarray([each.most for each in chains], dtype=np.int32),
        reaches=np.asarray([each.reach for each in chains], dtype=np.float64),
        page_starts=np.asarray([0, *accumulate(map(len, rows.pages))], dtype=np.int32),
        pages=np.asarray(list(chain.from_iterable(rows.pages)), dtype=np.int32),
        hidden=rows.hidden,
        cache=storage,
        workspace=workspace,
        min_confidence=rules.min_confidence,
        end_ids=np.asarray(sorted(rules.end_ids), dtype=np.int32),
        ids=ids,
        logits=logits,
    )
    return [
        [TopTokens(ids[i, level, None], logits[i, level, None]) for level in range(count)]
        for i, count in enumerate(counts)
    ]
