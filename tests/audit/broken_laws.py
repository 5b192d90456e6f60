"""Servers whose sampled answers follow another law than the target's (faults 1 to 3 and 21)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oneglance.audit.model.broken import BrokenDecoder
from oneglance.audit.rules.tables import Rule
from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.drafters.base import DraftRequest
from oneglance.sampling.noise import Noise
from oneglance.testing import ScriptedDrafter, ScriptedEngine, ScriptedSession
from oneglance.types import Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.residual import acceptance_ratio
from tests.audit.scripted_server import (
    CONTEXT,
    VOCABULARY,
    Generated,
    ScriptedServer,
    V,
    draft_law,
    generated,
)


class LyingDrafter(ScriptedDrafter):
    """Draws from one law and reports another."""

    def __init__(self, drawn_from: Any) -> None:
        super().__init__(lambda prefix: drawn_from(draft_law(prefix)))

    def propose(self, requests: Any) -> list[Proposal]:
        return [
            self._with_other_laws(request, proposal)
            for request, proposal in zip(requests, super().propose(requests), strict=True)
        ]

    def _with_other_laws(
        self, request: DraftRequest[ScriptedSession], proposal: Proposal
    ) -> Proposal:
        if proposal.draft_probs is None:
            return proposal
        known = request.session.tokens
        prefixes = [(*known, *proposal.tokens[:depth].tolist()) for depth in range(len(proposal))]
        return replace(proposal, draft_probs=tuple(draft_law(prefix) for prefix in prefixes))


def flat_law(prefix: tuple[int, ...]) -> Float64Array:
    """A law that knows little of the target's, so that many drafts are rejected."""
    law = draft_law(prefix) ** 0.4
    return law / np.sum(law)


def two_best(law: Float64Array) -> Float64Array:
    kept: Float64Array = np.where(law >= np.sort(law)[-2], law, 0.0)
    return kept / np.sum(kept)


def coarse(law: Float64Array) -> Float64Array:
    """A law in a number format with few bits, as one that was added up in too small a type."""
    kept: Float64Array = np.floor(law * 16) / 16
    return kept / np.sum(kept) if kept.any() else law


def shifted(law: Float64Array) -> Float64Array:
    """The ids of a vocabulary that is padded at its other end: all are off by one."""
    return np.roll(law, 1)


def accept_by_another_token(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """Compares the draft's probability of its token with the target's of its best one."""
    path: list[int] = []
    for node, law in enumerate(proposal.draft_probs or ()):
        probs = target.probs(node - 1)
        if not noise.coin(acceptance_ratio(float(probs.max()), float(law[proposal.tokens[node]]))):
            break
        path.append(node)
    last = path[-1] if path else -1
    return Acceptance.after(proposal, path, noise.draw(target.probs(last)))


@dataclass
class WithRule(ScriptedServer):
    """Accepts by a broken rule, or for a lying drafter."""

    rule: Rule | None = None
    drafter: ScriptedDrafter | None = None

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        if params.temperature == 0 or params.seed is not None:
            return super().generate(prompts, params)
        engine = ScriptedEngine(self.script, V, CONTEXT)
        drafter = self.drafter or ScriptedDrafter(flat_law)
        decoder = Decoder(engine, VOCABULARY, drafter, k=4)
        if self.rule is not None:
            decoder = BrokenDecoder(engine, VOCABULARY, drafter, k=4, rule=self.rule)
        found = [
            (index, sequence)
            for index, sequence, delivery in decoder.run(prompts, [params] * len(prompts))
            if delivery.ending is not None
        ]
        return [generated(sequence) for _, sequence in sorted(found, key=lambda pair: pair[0])]
