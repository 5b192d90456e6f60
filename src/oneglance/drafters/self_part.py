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

from oneglance.drafters.base import DraftContext
from oneglance.drafters.draft_cache import DraftCache, TargetCache
from oneglance.drafters.draft_model import DraftModelDrafter


class PartDrafter(DraftModelDrafter):
    """Runs some layers of the target's engine; `layers` of the constructor says which."""

    def _open(self, context: DraftContext) -> DraftCache:
        """The target's own sequence; where a request has none, a sequence of the part's own."""
        if context.sequence is None:
            return super()._open(context)
        return TargetCache(self._engine, context.sequence)
