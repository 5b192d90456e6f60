"""The decoder, layer by layer; each line of the loop is one call into the kernels."""

from __future__ import annotations

import numpy as np

from oneglance import _native
from oneglance.config import ModelConfig
from oneglance.engine.base import PassOutput, TopTokens
from oneglance.engine.native.description import Int32Array
from oneglance.engine.native.weights import NativeWeights
from oneglance.engine.pass_plan import PassPlan, TopPlan
from oneglance.engine.rope import RopeTable
from oneglance.types import Float32Array, RowSummaries


class NativeModel:
    """Evaluates passes over packed weights."""

    def __init__(
        self, config: ModelConfig, weights: NativeWeights, runtime: _native.Runtime
    ) -> None:
        """Takes the weights and what the kernels run on.

        Args:
            config: shape of the model.
            weights: packed.
            runtime: instruction set and threads; they change no bit.
        """
        rope = RopeTable(config)
        self._config = config
        self._weights = weights
        self._runtime = runtime
        self._workspace = _native.Workspace(runtime, rope.cos, rope.sin)

    def evaluate(
        self, plan: PassPlan, description: _native.Pass, cache: _native.KvCache
    ) -> PassOutput:
        """Evaluates a pass and writes its keys and values to the cache.

        Args:
            plan: what to evaluate.
            description: the same for the kernels.
            cache: has the pages that the description names.
        """
        stream = _native.embed(  # [R, D]
            self._runtime, self._weights.embedding, plan.tokens.astype(np.int32)
        )
        hidden: dict[int, Float32Array] = {}
        for index, layer in enumerate(self._weights.layers[: plan.layers.num_layers]):
            if index in plan.hidden_layers:
                hidden[index] = stream.copy()
            if index in plan.layers.skipped:
                continue
            _native.attention_block(layer, description, cache, self._workspace, stream)
            _native.mlp_block(layer, self._workspace, stream)
        if plan.layers.num_layers in plan.hidden_layers:
            hidden[plan.layers.num_layers] = _native.rms_norm(
                self._runtime, stream, self._weights.final_norm, self._config.rms_norm_eps
            )
        every_hidden = {
            layer: tuple(hidden[layer][tree.rows].copy() for tree in plan.trees)
            for layer in plan.hidden_layers
        }
        rows = np.flatnonzero(plan.wanted).astype(np.int32)
        if plan.top is not None:
            return PassOutput((), every_hidden, self._top(plan, plan.top, stream, rows))
        if plan.num_summarized is None:
            return PassOutput(self._logits(plan, stream, rows), every_hidden)
        logits, summaries = self._summarized(plan, plan.num_summarized, stream, rows)
        return PassOutput(logits, every_hidden, summaries=summaries)

    def _logits(
        self, plan: PassPlan, stream: Float32Array, rows: Int32Array
    ) -> tuple[Float32Array, ...]:
        logits = np.empty((len(rows), self._config.vocab_size), dtype=np.float32)
        if len(rows) > 0:
            _native.head(self._weights.head, self._workspace, stream, rows, logits)
        return tuple(np.split(logits, plan.wanted_ends))

    def _summarized(
        self, plan: PassPlan, num_ids: int, stream: Float32Array, rows: Int32Array
    ) -> tuple[tuple[Float32Array, ...], tuple[RowSummaries, ...]]:
        logits = np.empty((len(rows), self._config.vocab_size), dtype=np.float32)
        best = np.empty(len(rows), dtype=np.int64)
        log_normalizers = np.empty(len(rows), dtype=np.float64)
        if len(rows) > 0:
            _native.head_summarized(
                self._weights.head,
                self._workspace,
                stream,
                rows,
                logits,
                num_ids,
                best,
                log_normalizers,
            )
        ends = plan.wanted_ends
        if len(ends) == 0:
            return (logits,), (RowSummaries(best, log_normalizers),)
        parts = zip(np.split(best, ends), np.split(log_normalizers, ends), strict=True)
        return tuple(np.split(logits, ends)), tuple(RowSummaries(*part) for part in parts)

    def _top(
        self, plan: PassPlan, top: TopPlan, stream: Float32Array, rows: Int32Array
    ) -> tuple[TopTokens, ...]:
        ids = np.empty((len(rows), top.num_top), dtype=np.int64)
        logits = np.empty(ids.shape, dtype=np.float32)
        if len(rows) > 0:
            _native.head_top(
                self._weights.head, self._workspace, stream, rows, top.num_ids, ids, logits
            )
        ends = plan.wanted_ends
        parts = zip(np.split(ids, ends), np.split(logits, ends), strict=True)
        return tuple(TopTokens(*part) for part in parts)
