"""A part of the target drafts for it, on the target's own cache.

Early exit (LayerSkip, Elhoushi et al., arXiv:2404.16710): the first layers, then the final norm
and the head. Skipped layers (Draft & Verify, Zhang et al., arXiv:2309.08168): the model without
some of its layers. Neither needs weights or a cache of its own: a part reads the keys and values
that the whole model left in the same layers, and its own rows are taken out after each draft.

LayerSkip also reuses the first layers' activations of the draft when it verifies. That is left
out: it would change no token, and where a pass is bound by memory it saves nothing, since the
weights of all layers are read once for all rows of the pass either way.
"""

from __future__ import annotations

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext
from oneglance.drafters.draft_cache import DraftCache, TargetCache
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.engine.base import Engine, PassLayers

MIN_CONFIDENCE = 0.7
"""Where a draft stops: a pass of a part takes some two thirds of the target's time."""


class PartDrafter(DraftModelDrafter):
    """Runs some layers of the target's engine."""

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        layers: PassLayers,
        name: str = "self",
        engine_config: EngineConfig = EngineConfig(),
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        """Takes the target's engine.

        Args:
            engine: the target's.
            vocab_size: width of the target's law.
            layers: which ones the drafting passes evaluate.
            name: shown as the drafter of its tokens.
            engine_config: as for `DraftModelDrafter`.
            min_confidence: as for `DraftModelDrafter`.
        """
        super().__init__(engine, vocab_size, name, engine_config, layers, min_confidence)

    def _open(self, context: DraftContext) -> DraftCache:
        """The target's own sequence; where a request has none, a sequence of the part's own."""
        if context.sequence is None:
            return super()._open(context)
        return TargetCache(self._engine, context.sequence)
