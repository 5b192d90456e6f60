"""An EAGLE head as an engine: what drafts from it need not know that it is no whole model.

A row of the head at position i pairs the target's feature of token i with token i + 1. Rows whose
features are known are offered (`offer`) before the pass that evaluates them; they are the first
rows of a tree. Any row behind them is a guess on a guess: its feature is the output of its parent
(EAGLE-1, arXiv:2401.15077; EAGLE-3, arXiv:2503.01840). Heads that guess in parallel are in
`eagle_parallel.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from oneglance import _native
from oneglance.checkpoints.base import Tensor
from oneglance.engine.base import PassOutput, SequenceId, TopTokens
from oneglance.engine.cached import CachedEngine
from oneglance.engine.native.cache import NativeCache
from oneglance.engine.native.description import Int32Array, describe_pass
from oneglance.engine.native.eagle_chain import (
    Chain,
    ChainPlace,
    ChainRows,
    ChainRules,
    grow_chains,
    make_chain_head,
)
from oneglance.engine.native.eagle_weights import pack_eagle
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.pass_plan import EvaluatedLayers, PassPlan, TopPlan
from oneglance.engine.rope import RopeTable
from oneglance.heads.eagle_files import EagleHead
from oneglance.types import EngineInfo, Float32Array, IntArray


class EagleEngine(CachedEngine):
    """A head on the kernels and the threads of its target, with a cache of its own.

    Attributes:
        head_config: shape of the head.
        weight_bytes: memory of what is not the target's.
    """

    def __init__(
        self, head: EagleHead, target: NativeEngine, target_head: Tensor, num_ids: int
    ) -> None:
        """Packs the head.

        Args:
            head: as its file has it, read for this target.
            target: the engine of the model that it drafts for.
            target_head: that model's output matrix as its file has it.
            num_ids: tokens of the target's vocabulary.

        Raises:
            CheckpointError: a weight cannot be packed.
        """
        config = head.config.as_model(target.config.context_length)
        self._cache = NativeCache(config, target.engine_config)
        super().__init__(config, target.engine_config, self._cache)
        self.head_config = head.config
        self._target = target
        self._runtime = target.runtime
        self._weights = pack_eagle(
            head,
            target.weights,
            target_head,
            num_ids,
            target.num_threads,
            target.engine_config.weights,
        )
        self.weight_bytes = self._weights.num_bytes
        rope = RopeTable(config)
        self._workspace = _native.Workspace(self._runtime, rope.cos, rope.sin)
        self._chains = make_chain_head(self._weights, head.config, num_ids)
        self._offered: dict[SequenceId, Float32Array] = {}
        self._outputs: dict[SequenceId, Float32Array] = {}

    @property
    def info(self) -> EngineInfo:
        """Which engine this is, for reports: the target's."""
        return self._target.info

    @property
    def pass_bytes(self) -> int:
        """What a pass reads of the packed matrices."""
        return self._weights.pass_bytes

    def offer(self, sequence: SequenceId, features: Float32Array) -> None:
        """Gives the target's features for the first rows of a sequence's next tree.

        Args:
            sequence: an open sequence.
            features: [rows, F] joined in the order of `EagleConfig.feature_layers`.
        """
        self._offered[sequence] = features

    @property
    def has_chains(self) -> bool:
        """Whether `grow_chains` can be used."""
        return self._chains is not None

    def grow_chains(
        self,
        chains: Sequence[Chain],
        min_confidence: float,
        end_ids: AbstractSet[int],
        num_top: int,
        num_drawn: int = 1,
    ) -> list[list[ChainPlace]]:
        """Drafts whole chains in one call, each token the best one after those before it.

        Where a chain has noise, the best one with that noise.

        Leaves the rows in flight, as a pass would; nothing can be kept of them in a later pass.

        Args:
            chains: of different sequences, whose known rows' features were offered.
            min_confidence: a chain ends where the chance of its last token falls below it.
            end_ids: tokens after which a chain ends.
            num_top: best tokens of a place.
            num_drawn: best ones with noise, of chains that have some; at least 1.

        Returns:
            For each chain what was found for its places, at least one.

        Raises:
            CapacityError: there are too few pages; nothing has changed.
        """
        assert self._chains is not None, "this head has no chains"
        layers = EvaluatedLayers(self.config.num_layers, frozenset())
        self._book.begin_pass([chain.rows() for chain in chains], layers)
        features = [self._offered.pop(chain.sequence) for chain in chains]
        pages = [self._cache.pages(chain.sequence) for chain in chains]
        positions = [self.length(chain.sequence) for chain in chains]
        rows = ChainRows(np.concatenate(features), positions, pages)
        return grow_chains(
            self._chains,
            chains,
            rows,
            ChainRules(min_confidence, end_ids, num_top, num_drawn),
            self._cache.storage,
            self._workspace,
        )

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages.

        Raises:
            ParameterError: the sequence is not open.
        """
        super().close(sequence)
        self._offered.pop(sequence, None)
        self._outputs.pop(sequence, None)

    def _evaluate(self, plan: PassPlan) -> PassOutput:
        assert not plan.hidden_layers, "a head has no hidden states to show"
        stream = self._run(plan, self._inputs(plan))
        for tree in plan.trees:
            kept = self._outputs.get(tree.tree.sequence, stream)[: tree.tree.num_kept]
            self._outputs[tree.tree.sequence] = np.concatenate([kept, stream[tree.rows]])
        rows = np.flatnonzero(plan.wanted).astype(np.int32)
        if plan.top is None:
            return PassOutput(tuple(np.split(self._logits(stream, rows), plan.wanted_ends)))
        ids, logits = self._top(plan.top, stream, rows)
        ends = plan.wanted_ends
        parts = zip(np.split(ids, ends), np.split(logits, ends), strict=True)
        return PassOutput((), top=tuple(TopTokens(*part) for part in parts))

    def _inputs(self, plan: PassPlan) -> Float32Array:
        """[R, D] what enters the head beside the embedding, of each row."""
        hidden = np.empty((len(plan.tokens), self.config.hidden_size), dtype=np.float32)
        is_known = np.zeros(len(hidden), dtype=np.bool_)
        features: list[Float32Array] = []
        for tree in plan.trees:
            num_kept, sequence = tree.tree.num_kept, tree.tree.sequence
            if num_kept > 0:
                hidden[tree.rows] = self._outputs[sequence][tree.tree.parents[num_kept:]]
            else:
                features.append(self._offered.pop(sequence))
                is_known[tree.rows.start : tree.rows.start + len(features[-1])] = True
                self._fill_guesses(hidden[tree.rows.start + len(features[-1]) : tree.rows.stop])
        if features:
            hidden[is_known] = self._fuse(np.concatenate(features))
        return hidden

    def _fill_guesses(self, rows: Float32Array) -> None:
        """Sets what enters rows behind the known ones in one pass; there are none in this class."""
        assert len(rows) == 0, "a row has no feature"

    def _fuse(self, features: Float32Array) -> Float32Array:
        """[rows, F] to [rows, D]; in "eagle1" the matrix takes the embedding too, and later."""
        if self.head_config.kind == "eagle1":
            return features
        return self._join(features)

    def _join(self, inputs: Float32Array) -> Float32Array:
        product = _native.matmul(self._runtime, self._weights.fc, np.ascontiguousarray(inputs))
        bias = self._weights.fc_bias
        joined: Float32Array = product if bias is None else product + bias
        return joined

    def _run(self, plan: PassPlan, hidden: Float32Array) -> Float32Array:
        """[R, D] the outputs of the last layer."""
        weights, eps = self._weights, self.head_config.rms_norm_eps
        embedded = _native.embed(self._runtime, weights.embedding, plan.tokens.astype(np.int32))
        if weights.embedding_norm is None or weights.feature_norm is None:
            stream = self._join(np.concatenate([embedded, hidden], axis=1))
            inputs = stream.copy()
        else:
            normed = _native.rms_norm(self._runtime, hidden, weights.feature_norm, eps)
            stream = normed.copy() if self.head_config.norm_before_residual else hidden
            other = _native.rms_norm(self._runtime, embedded, weights.embedding_norm, eps)
            inputs = np.concatenate([other, normed], axis=1)
        pages = [self._cache.pages(tree.tree.sequence) for tree in plan.trees]
        description = describe_pass(plan, pages, self._cache.page_size)
        for index, layer in enumerate(weights.layers):
            given = inputs if index == 0 else None
            _native.attention_block(
                layer, description, self._cache.storage, self._workspace, stream, given
            )
            _native.mlp_block(layer, self._workspace, stream)
        return stream

    def _logits(self, stream: Float32Array, rows: Int32Array) -> Float32Array:
        """[rows, V] of the target's vocabulary; −inf for what the head cannot draft."""
        ids = self._weights.target_ids
        width = self._weights.num_outputs
        logits = np.empty((len(rows), width), dtype=np.float32)
        if len(rows) > 0:
            _native.head(self._weights.head, self._workspace, stream, rows, logits)
        if ids is None:
            return logits
        spread = np.full((len(rows), self.config.vocab_size), -np.inf, dtype=np.float32)
        spread[:, ids] = logits
        return spread

    def _top(
        self, top: TopPlan, stream: Float32Array, rows: Int32Array
    ) -> tuple[IntArray, Float32Array]:
        """The best tokens of the target's vocabulary and their logits, [rows, k] each."""
        target_ids = self._weights.target_ids
        num_ids = top.num_ids if target_ids is None else len(target_ids)
        num_ids = min(num_ids, self._weights.num_outputs)
        ids = np.empty((len(rows), min(top.num_top, num_ids)), dtype=np.int64)
        logits = np.empty(ids.shape, dtype=np.float32)
        if len(rows) > 0:
            _native.head_top(
                self._weights.head, self._workspace, stream, rows, num_ids, ids, logits
            )
        return (ids if target_ids is None else target_ids[ids]), logits
