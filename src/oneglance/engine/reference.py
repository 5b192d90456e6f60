"""The reference engine: the model in float32 numpy, slow and obvious, the oracle of all others.

Contract C2 holds by construction. Every row is evaluated on its own: each sum has a shape and an
order that only the model and the row's position decide, never the batch, the tree around the
row, the chunking of the prompt, or the pages that hold its prefix. It uses one thread.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from oneglance.checkpoints.base import ModelWeights
from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.arithmetic import project, rms_norm, softmax, swiglu
from oneglance.engine.base import PassOutput
from oneglance.engine.cached import CachedEngine
from oneglance.engine.float_weights import FloatLayer, dequantize_model
from oneglance.engine.kv_cache import KVCache
from oneglance.engine.pass_plan import PassPlan, TreePlan
from oneglance.engine.rope import RopeTable
from oneglance.engine.top_tokens import top_tokens
from oneglance.types import EngineInfo, Float32Array, ProgressCallback


class ReferenceEngine(CachedEngine):
    """A decoder of the Llama family on dequantised weights, 4 bytes of memory per weight."""

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        engine_config: EngineConfig = EngineConfig(),
        progress: ProgressCallback | None = None,
    ) -> None:
        """Dequantises the weights.

        Args:
            config: shape of the model.
            weights: as the file has them.
            engine_config: size of the cache's pages and how many there may be, form of weights
                that are floats in the file; what it says of threads and of the cache's type is for
                the native engine.
            progress: called with ("load weights", units done, units in all).

        Raises:
            CheckpointError: weights and configuration do not fit together.
        """
        self._cache = KVCache(config, engine_config)
        super().__init__(config, engine_config, self._cache)
        self._weights = dequantize_model(config, weights, engine_config.weights, progress)
        self._rope = RopeTable(config)
        self._blas = ThreadpoolController()

    @property
    def info(self) -> EngineInfo:
        """Which engine this is, for reports."""
        return EngineInfo("reference", weights=self.engine_config.weights)

    def _evaluate(self, plan: PassPlan) -> PassOutput:
        # A BLAS with several threads may split a sum between them; with one it cannot.
        # Weights that are not finite give logits that are not finite, without warnings.
        with (
            self._blas.limit(limits=1, user_api="blas"),
            np.errstate(over="ignore", invalid="ignore"),
        ):
            return self._run_layers(plan)

    def _run_layers(self, plan: PassPlan) -> PassOutput:
        stream = self._weights.embedding[plan.tokens]  # [R, D]
        hidden: dict[int, Float32Array] = {}
        for index, layer in enumerate(self._weights.layers[: plan.layers.num_layers]):
            if index in plan.hidden_layers:
                hidden[index] = stream
            if index in plan.layers.skipped:
                continue
            stream = stream + self._attention(plan, index, layer, stream)
            stream = stream + self._feed_forward(layer, stream)
        final = rms_norm(stream, self._weights.final_norm, self.config.rms_norm_eps)
        if plan.layers.num_layers in plan.hidden_layers:
            hidden[plan.layers.num_layers] = final
        every_hidden = {
            layer: tuple(hidden[layer][tree.rows].copy() for tree in plan.trees)
            for layer in plan.hidden_layers
        }
        logits = project(self._weights.head, final[plan.wanted])
        parts = tuple(np.split(logits, plan.wanted_ends))
        if plan.top is None:
            return PassOutput(parts, every_hidden)
        top = tuple(top_tokens(part[:, : plan.top.num_ids], plan.top.num_top) for part in parts)
        return PassOutput((), every_hidden, top)

    def _feed_forward(self, layer: FloatLayer, stream: Float32Array) -> Float32Array:
        normed = rms_norm(stream, layer.post_attention_norm, self.config.rms_norm_eps)
        gate, up = np.split(project(layer.gate_up, normed), 2, axis=1)
        return project(layer.down_proj, swiglu(gate, up))

    def _attention(
        self, plan: PassPlan, index: int, layer: FloatLayer, stream: Float32Array
    ) -> Float32Array:
        normed = rms_norm(stream, layer.input_norm, self.config.rms_norm_eps)
        queries, keys, values = self._queries_keys_values(layer, normed)
        queries = self._rope.rotate(queries, plan.positions)
        keys = self._rope.rotate(keys, plan.positions)
        mixed = np.empty((len(stream), layer.o_proj.shape[1]), dtype=np.float32)
        for tree in plan.trees:
            rows = tree.rows
            self._cache.write(index, tree.tree.sequence, keys[rows], values[rows])
            self._attend_tree(index, tree, queries[rows], mixed[rows])
        return project(layer.o_proj, mixed)

    def _queries_keys_values(
        self, layer: FloatLayer, normed: Float32Array
    ) -> tuple[Float32Array, Float32Array, Float32Array]:
        """[R, heads, head_dim] queries and [R, kv_heads, head_dim] keys and values, unrotated."""
        config = self.config
        qkv = project(layer.qkv, normed)
        if layer.qkv_bias is not None:
            qkv += layer.qkv_bias
        heads = qkv.reshape(len(normed), -1, config.head_dim)
        first_value = config.num_heads + config.num_kv_heads
        queries, keys = heads[:, : config.num_heads], heads[:, config.num_heads : first_value]
        if layer.q_norm is not None and layer.k_norm is not None:
            queries = rms_norm(queries, layer.q_norm, config.rms_norm_eps)
            keys = rms_norm(keys, layer.k_norm, config.rms_norm_eps)
        return queries, keys, heads[:, first_value:]

    def _attend_tree(
        self,
        index: int,
        plan: TreePlan,
        queries: Float32Array,
        mixed: Float32Array,
    ) -> None:
        """Attention of each evaluated row of a tree over the prefix, its ancestors and itself.

        The keys and values that a row sees are laid out in order of position, as if its path
        were the only one, so that siblings and order of rows leave no trace.

        Args:
            index: of the layer.
            plan: of the tree.
            queries: [N - num_kept, heads, head_dim], rotated.
            mixed: [N - num_kept, heads · head_dim], receives the weighted sums of values.
        """
        config, num_kept = self.config, plan.tree.num_kept
        keys, values = self._cache.read_in_flight(index, plan.tree.sequence)
        deepest = max(path.num_kept + len(path.rows) for path in plan.paths)
        shape = (config.num_kv_heads, plan.prefix_length + deepest, config.head_dim)
        seen_keys, seen_values = np.empty(shape, np.float32), np.empty(shape, np.float32)
        self._cache.read_prefix(index, plan.tree.sequence, seen_keys, seen_values)
        scale = np.float32(config.head_dim**-0.5)
        for row, path in enumerate(plan.paths):
            start = plan.prefix_length + path.num_kept
            stop = start + len(path.rows)
            new = list(path.rows)
            seen_keys[:, start:stop] = keys[new].swapaxes(0, 1)
            seen_values[:, start:stop] = values[new].swapaxes(0, 1)
            if row < num_kept:
                continue
            # [kv_heads, queries per kv head, head_dim]: consecutive query heads share a kv head.
            grouped = (queries[row - num_kept] * scale).reshape(
                config.num_kv_heads, -1, config.head_dim
            )
            weights = softmax(grouped @ seen_keys[:, :stop].swapaxes(1, 2))
            mixed[row - num_kept] = (weights @ seen_values[:, :stop]).reshape(-1)
