"""An EAGLE head drafts for its target, from what the target's own passes show of it.

Li et al., arXiv:2401.15077 (EAGLE), arXiv:2406.16858 (EAGLE-2: trees), arXiv:2503.01840 (EAGLE-3);
P-EAGLE, arXiv:2602.01469 (several tokens in one pass). Drafts grow as those of a draft model do:
chains, drawn under the request's own warps where it samples, and trees, best first where tokens are
point masses. The head's rows are in `eagle_cache.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.choice import NUM_COMPARED, Choice, drawn_siblings, draws_from_logits
from oneglance.drafters.draft_cache import DraftCache
from oneglance.drafters.draft_model import Draft, DraftModelSession, ModelDrafter
from oneglance.drafters.draft_tree import ChainWithBranches, FixedShape
from oneglance.drafters.eagle_cache import EagleCache
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_chain import Chain, ChainNoise, ChainPlace
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.sampling.noise import SeededNoise
from oneglance.types import ROOT, Float32Array

MIN_CONFIDENCE = 0.25
"""Where a draft stops unless told otherwise: a pass of a head takes a small part of the target's
time, so it goes on for longer than a draft model does."""


class EagleDrafter(ModelDrafter):
    """Runs a head for all requests of a pass together: once for each level, or once in all."""

    def __init__(
        self,
        engine: EagleEngine,
        vocab_size: int,
        name: str = "eagle",
        engine_config: EngineConfig = EngineConfig(),
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        """Takes the engine of the head.

        Args:
            engine: holds the head, made for the engine of the target.
            vocab_size: width of the target's law.
            name: shown as the drafter of its tokens.
            engine_config: as for `DraftModelDrafter`.
            min_confidence: as for `DraftModelDrafter`.

        Raises:
            ParameterError: `min_confidence` is not 0 to 1.
        """
        super().__init__(engine, vocab_size, name, engine_config, min_confidence=min_confidence)
        self.hidden_layers = engine.head_config.feature_layers
        self._head = engine

    def first_unseen(self, session: DraftModelSession) -> int:
        """The first position that no row of a kept prefix stands for."""
        return _rows_of(session).num_seen

    def see_hidden(
        self, session: DraftModelSession, start: int, hidden: Mapping[int, Float32Array]
    ) -> None:
        """Takes features; those of a long prompt are fed to the head at once."""
        features = np.concatenate([hidden[layer] for layer in self.hidden_layers], axis=1)
        _rows_of(session).take(start, features, session.tokens)

    def _open(self, context: DraftContext) -> DraftCache:
        prompt, tenant = context.prompt, context.hints.tenant
        return EagleCache(self._head, self._prefixes, prompt, self._prefill_chunk, tenant)

    def _grow(self, drafts: Sequence[Draft]) -> None:
        """Makes chains of point masses whole in one call, with branches; others get one level."""
        end_ids = drafts[0].session.context.eos_ids
        if not all(self._can_chain(draft, end_ids) for draft in drafts):
            super()._grow(drafts)
            return
        chains = [
            Chain(draft.session.cache.sequence, tuple(draft.rows), draft.max_depth, _noise(draft))
            for draft in drafts
        ]
        num_drawn = max(draft.growth.num_children(ROOT) for draft in drafts)
        grown = self._head.grow_chains(
            chains, self._min_confidence, end_ids, NUM_COMPARED, num_drawn
        )
        for draft, places in zip(drafts, grown, strict=True):
            for place in places:
                if draft.frontier:
                    draft.extend([self._choices(draft, place)], self._min_confidence)
            draft.frontier = []

    def _can_chain(self, draft: Draft, end_ids: frozenset[int]) -> bool:
        """Whether the draft may come from one call; trees grow best first."""
        is_new = draft.num_evaluated == 0 and draft.session.context.eos_ids == end_ids
        is_chain = isinstance(draft.growth, FixedShape | ChainWithBranches)
        if not (self._head.has_chains and is_new and is_chain):
            return False
        return self._takes_argmax(draft) or _noise(draft) is not None

    def _choices(self, draft: Draft, place: ChainPlace) -> list[Choice]:
        if place.drawn is None:
            return self._best(draft, 0, place.top)
        count = draft.growth.num_children(draft.frontier[0])
        temperature = draft.session.context.params.temperature
        choices = drawn_siblings(place.top, place.drawn, 0, count, temperature)
        # Broken logits are for `siblings` to complain of.
        return self._best(draft, 0, place.top) if choices is None else choices

    def _begin(self, request: DraftRequest[DraftModelSession]) -> Draft | None:
        if isinstance(self._head, ParallelEagleEngine):
            session = request.session
            # The first place lies behind the last known row, the others in rows of their own.
            room = self._head.config.context_length - len(session.tokens) + 1
            most = min(request.num_draft_tokens, self._head.head_config.num_slots, room)
            self._head.expect(_rows_of(session).sequence, max(1, most))
            request = replace(request, num_draft_tokens=most)
        return super()._begin(request)


def _noise(draft: Draft) -> ChainNoise | None:
    """What its tokens are drawn with from the head's own logits; None: they are not."""
    context, history = draft.session.context, draft.session.history
    noise = context.noise
    if not (draws_from_logits(context, history, ()) and isinstance(noise, SeededNoise)):
        return None
    temperature = context.params.temperature
    return ChainNoise(temperature, noise.seed, noise.choice, history.num_output)


def _rows_of(session: DraftModelSession) -> EagleCache:
    assert isinstance(session.cache, EagleCache), "a session of another drafter"
    return session.cache
