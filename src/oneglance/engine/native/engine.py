"""The native engine: packed weights, a cache in half precision, the same bits always.

Contract C2 holds because every float operation of the kernels has one fixed place in one fixed
order, whatever the batch, the tree, the number of threads or the instruction set.
"""

from __future__ import annotations

from oneglance import _native
from oneglance.checkpoints.base import ModelWeights
from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import PassOutput
from oneglance.engine.cached import CachedEngine
from oneglance.engine.native.cache import NativeCache
from oneglance.engine.native.description import describe_pass
from oneglance.engine.native.fitness import why_unfit
from oneglance.engine.native.model import NativeModel
from oneglance.engine.native.threads import num_usable_cpus
from oneglance.engine.native.weights import pack_model
from oneglance.engine.pass_plan import PassPlan
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.types import EngineInfo, ProgressCallback


class NativeEngine(CachedEngine):
    """A decoder of the Llama family on packed weights and compiled kernels.

    Attributes:
        isa: name of the instruction set in use.
        runtime: what the kernels run on; a head that drafts uses the same threads.
        weights: packed.
        num_threads: how many threads a pass uses.
        weight_bytes: memory that the packed matrices take.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        engine_config: EngineConfig = EngineConfig(),
        progress: ProgressCallback | None = None,
        isa: str | None = None,
    ) -> None:
        """Packs the weights.

        Args:
            config: shape of the model.
            weights: as the file has them.
            engine_config: size and type of the cache's pages, number of threads, form of weights
                that are floats in the file.
            progress: called with ("load weights", units done, units in all).
            isa: instruction set to use; None: the best that this CPU runs.

        Raises:
            CheckpointError: weights and configuration do not fit together.
            ParameterError: the instruction set or the number of threads cannot be had.
            UnsupportedError: the model's shape or its weights' types are not for this engine.
        """
        reason = why_unfit(config, weights)
        if reason is not None:
            raise UnsupportedError(
                f"The native engine cannot run this model: {reason}; use the reference engine."
            )
        self._cache = NativeCache(config, engine_config)
        super().__init__(config, engine_config, self._cache)
        runtime = _make_runtime(engine_config.num_threads, isa)
        packed = pack_model(config, weights, runtime.num_threads, engine_config.weights, progress)
        self.runtime = runtime
        self.weights = packed
        self.isa = runtime.isa
        self.num_threads = runtime.num_threads
        self.weight_bytes = packed.num_bytes
        self._is_tied = weights.head is weights.embedding
        self._model = NativeModel(config, packed, runtime)

    @property
    def info(self) -> EngineInfo:
        """Which engine this is, for reports."""
        return EngineInfo("native", self.isa, self.num_threads, self.engine_config.weights)

    @property
    def pass_bytes(self) -> int:
        """What a pass reads of the packed matrices.

        All but an embedding that is not the head as well, of which it reads a row for each token.
        """
        return self.weight_bytes - (0 if self._is_tied else self.weights.embedding.num_bytes)

    def _evaluate(self, plan: PassPlan) -> PassOutput:
        cache = self._cache
        pages = [cache.pages(tree.tree.sequence) for tree in plan.trees]
        description = describe_pass(plan, pages, cache.page_size)
        return self._model.evaluate(plan, description, cache.storage)


def _make_runtime(num_threads: int | None, isa: str | None) -> _native.Runtime:
    if isa is not None and isa not in _native.available_isas():
        raise ParameterError(
            f"The instruction set {isa!r} cannot be used here; choose one of: "
            f"{', '.join(_native.available_isas())}."
        )
    return _native.Runtime(isa or "", num_usable_cpus() if num_threads is None else num_threads)
