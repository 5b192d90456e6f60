"""Which engine a model runs on."""

from __future__ import annotations

import warnings

from oneglance.checkpoints.base import ModelWeights
from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import Engine
from oneglance.engine.native import why_unavailable
from oneglance.engine.reference import ReferenceEngine
from oneglance.environment import read_environment
from oneglance.errors import UnsupportedError
from oneglance.types import ProgressCallback


def make_engine(
    config: ModelConfig,
    weights: ModelWeights,
    engine_config: EngineConfig = EngineConfig(),
    progress: ProgressCallback | None = None,
) -> Engine:
    """Puts a model on the native engine if it can be, else on the reference engine.

    Where the choice was left to this function ("auto"), falling back to the reference engine is
    told by one `RuntimeWarning` that says why.

    Args:
        config: shape of the model.
        weights: as the file has them.
        engine_config: which engine, and how it is sized.
        progress: called with ("load weights", units done, units in all).

    Raises:
        CheckpointError: weights and configuration do not fit together.
        ParameterError: `ONEGLANCE_ISA` or the number of threads cannot be honoured.
        UnsupportedError: the native engine was asked for and cannot run the model.
    """
    if engine_config.kind != "reference":
        reason = why_not_native(config, weights)
        if reason is None:
            from oneglance.engine.native.engine import NativeEngine

            isa = read_environment().isa
            return NativeEngine(config, weights, engine_config, progress, isa)
        if engine_config.kind == "native":
            raise UnsupportedError(
                f"The native engine cannot be used: {reason}; use the reference engine."
            )
        warnings.warn(f"The slow reference engine is used: {reason}.", RuntimeWarning, stacklevel=2)
    return ReferenceEngine(config, weights, engine_config, progress)


def why_not_native(config: ModelConfig, weights: ModelWeights) -> str | None:
    """Why a model cannot run on the native engine of this installation; None if it can."""
    reason = why_unavailable()
    if reason is not None:
        return reason
    from oneglance.engine.native.fitness import why_unfit

    unfit = why_unfit(config, weights)
    return None if unfit is None else f"the native one cannot run this model, {unfit}"
