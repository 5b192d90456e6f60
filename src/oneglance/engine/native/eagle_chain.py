"""Chains of an EAGLE-3 head, which the kernels draft in one call.

A pass of a head takes less time than Python takes to prepare one.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from oneglance import _native
from oneglance.engine.base import SequenceId, TopTokens, TreeRows
from oneglance.engine.native.description import Int32Array
from oneglance.engine.native.eagle_weights import EagleWeights
from oneglance.engine.pages import PageId
from oneglance.heads.eagle_config import EagleConfig
from oneglance.types import Float32Array, IntArray


@dataclass(frozen=True)
class ChainNoise:
    """What a chain's tokens are drawn with, from the head's own law at a temperature.

    Attributes:
        temperature: above 0.
        seed, choice: as of `SeededNoise`.
        position: of the first token, among the generated ones.
    """

    temperature: float
    seed: int
    choice: int
    position: int


@dataclass(frozen=True)
class Chain:
    """A draft to make.

    Attributes:
        sequence: an open sequence of the head.
        tokens: of the rows whose features were offered.
        most: tokens to draft at most, at least 1.
        noise: its tokens are the best ones with it; None: without any.
    """

    sequence: SequenceId
    tokens: tuple[int, ...]
    most: int
    noise: ChainNoise | None = None

    def rows(self) -> TreeRows:
        """The known rows and, with any tokens, as many more as the draft can come to have."""
        tokens = np.zeros(len(self.tokens) + self.most - 1, dtype=np.int64)
        tokens[: len(self.tokens)] = self.tokens
        return TreeRows.chain(self.sequence, tokens.tolist(), False)


@dataclass(frozen=True)
class ChainRows:
    """What chains begin from, in their order.

    Attributes:
        features: [rows of all chains, F] of the target.
        positions: of each chain's first row.
        pages: of their sequences, with room for all rows.
    """

    features: Float32Array
    positions: Sequence[int]
    pages: Sequence[Sequence[PageId]]


@dataclass(frozen=True)
class ChainRules:
    """Where chains end, and what is wanted of them; see `EagleEngine.grow_chains`."""

    min_confidence: float
    end_ids: AbstractSet[int]
    num_top: int
    num_drawn: int


@dataclass(frozen=True)
class ChainPlace:
    """What was found for one token of a chain; one row of each.

    Attributes:
        top: the best tokens.
        drawn: the best ones with noise, id −1 where there are no more; None: the chain has none.
    """

    top: TopTokens
    drawn: TopTokens | None


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
        fc=weights.fc,
        fc_bias=weights.fc_bias,
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
) -> list[list[ChainPlace]]:
    """Drafts some chains, see `EagleEngine.grow_chains`."""
    shape = (len(chains), max(chain.most for chain in chains))
    ids, logits = _found(*shape, min(rules.num_top, head.num_ids))
    drawn_ids, drawn_logits = _found(*shape, min(rules.num_drawn, head.num_ids))
    counts = _native.grow_chains(
        head,
        row_starts=_starts([each.tokens for each in chains]),
        tokens=_joined([each.tokens for each in chains]),
        positions=np.asarray(rows.positions, dtype=np.int32),
        most=np.asarray([each.most for each in chains], dtype=np.int32),
        page_starts=_starts(rows.pages),
        pages=_joined(rows.pages),
        features=rows.features,
        cache=storage,
        workspace=workspace,
        min_confidence=rules.min_confidence,
        end_ids=np.asarray(sorted(rules.end_ids), dtype=np.int32),
        noises=tuple(_noise(chain.noise) for chain in chains),
        ids=ids,
        logits=logits,
        drawn_ids=drawn_ids,
        drawn_logits=drawn_logits,
    )

    def place(index: int, level: int) -> ChainPlace:
        top = TopTokens(ids[index, level, None], logits[index, level, None])
        if chains[index].noise is None:
            return ChainPlace(top, None)
        return ChainPlace(
            top, TopTokens(drawn_ids[index, level, None], drawn_logits[index, level, None])
        )

    return [[place(index, level) for level in range(n)] for index, n in enumerate(counts)]


def _found(num_chains: int, num_levels: int, count: int) -> tuple[IntArray, Float32Array]:
    shape = (num_chains, num_levels, count)
    return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)


def _noise(noise: ChainNoise | None) -> tuple[float, int, int, int]:
    if noise is None:
        return 0.0, 0, 0, 0
    return noise.temperature, noise.seed, noise.choice, noise.position


def _starts(parts: Sequence[Sequence[int]]) -> Int32Array:
    return np.asarray([0, *accumulate(map(len, parts))], dtype=np.int32)


def _joined(parts: Sequence[Sequence[int]]) -> Int32Array:
    return np.asarray(list(chain.from_iterable(parts)), dtype=np.int32)
