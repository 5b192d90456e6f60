"""A draft model that is itself drafted for, by something cheaper.

Vertical cascades of Chen et al., arXiv:2312.11462. The middle model verifies what the inner drafter
proposes with the accept rules that the target uses, against its own law under the request's warps.
So its tokens are those that it would have drawn alone, one pass each: with a seed and greedy the
very same ones, otherwise of the same law, which is attached to each of them. All that it decides
goes to the target up to the length asked for, tokens of its own in place of rejected ones included:
the accepted ones alone would not have that law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import (
    DraftContext,
    Drafter,
    DraftHints,
    DraftRequest,
    RewindingDrafter,
)
from oneglance.drafters.choice import MIN_CONFIDENCE, check_min_confidence, fit
from oneglance.drafters.draft_cache import OwnCache
from oneglance.drafters.middle_law import MiddleLaw
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.prefix import PrefixStore, common_length
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import Noise
from oneglance.types import ROOT, Float32Array, Float64Array, Proposal
from oneglance.verify.base import Acceptance
from oneglance.verify.select import accept


@dataclass
class CascadeSession:
    """One request.

    Attributes:
        context: of the request.
        cache: of the middle model.
        history: what the target has decided.
        tokens: prompt and what the target has decided.
        inner: the inner drafter's session.
        guessed: what that was told beyond `tokens`: the middle model has decided it, not the
            target.
    """

    context: DraftContext
    cache: OwnCache
    history: TokenHistory
    tokens: list[int]
    inner: Any
    guessed: list[int] = field(default_factory=list)


@dataclass
class _Draft:
    """A draft in the making.

    Attributes:
        session: of the request.
        limit: how many tokens it may have.
        min_confidence: where it stops.
        pending: tokens that the middle model's next pass evaluates, decided by it or the target.
        tokens: those that the middle model has decided.
        laws: what each was drawn from, where they were drawn.
        reaches: how likely each is to be accepted together with those before it.
        is_complete: whether no token is to follow.
    """

    session: CascadeSession
    limit: int
    min_confidence: float
    pending: list[int]
    tokens: list[int] = field(default_factory=list)
    laws: list[Float64Array] = field(default_factory=list)
    reaches: list[float] = field(default_factory=list)
    is_complete: bool = False

    def rows(self, proposal: Proposal) -> TreeRows:
        """What the middle model evaluates: pending tokens, and a proposal off the last of them."""
        last = len(self.pending) - 1
        count = len(self.pending) + len(proposal)
        parents = np.where(proposal.parents == ROOT, last, proposal.parents + len(self.pending))
        return TreeRows(
            sequence=self.session.cache.sequence,
            tokens=np.concatenate([np.array(self.pending, dtype=np.int64), proposal.tokens]),
            parents=np.concatenate([np.arange(-1, last, dtype=np.int64), parents]),
            wants_logits=np.arange(count) >= last,
        )

    def extend(self, proposal: Proposal, acceptance: Acceptance, law: MiddleLaw) -> None:
        """Takes what a pass of the middle model decided, up to where the draft ends."""
        path = acceptance.path
        num_before = len(self.tokens)
        decided = [*(int(proposal.tokens[node]) for node in path), acceptance.next_token]
        for node, token in zip((ROOT, *path), decided, strict=True):
            if not self.is_complete:
                self._take(node, token, law)
        num_path = min(len(path), len(self.tokens) - num_before)
        rows = [*range(len(self.pending)), *(len(self.pending) + node for node in path[:num_path])]
        self.session.cache.commit(rows, [*self.pending, *decided[:num_path]])
        self.pending = decided[num_path:]

    def _take(self, node: int, token: int, law: MiddleLaw) -> None:
        context = self.session.context
        if law.is_dead(node):
            self.is_complete = True
            return
        reach = self.reaches[-1] if self.reaches else 1.0
        self.tokens.append(token)
        self.reaches.append(reach * law.confidence(node, token))
        if isinstance(context.noise, Noise) and not law.is_greedy:
            self.laws.append(law.probs(node))
        # The token is kept even where the draft ends because of it.
        is_end = token in context.eos_ids or self.reaches[-1] < self.min_confidence
        self.is_complete = is_end or len(self.tokens) == self.limit

    def proposal(self, drafter: str) -> Proposal:
        """The middle model's tokens as a chain."""
        laws = self.laws or None
        return Proposal.chain(self.tokens, laws, drafter, expected=sum(self.reaches))


class CascadeDrafter(RewindingDrafter[CascadeSession]):
    """Decodes with a draft model and a drafter of its own, and proposes what that decides."""

    def __init__(
        self,
        inner: Drafter[Any],
        engine: Engine,
        vocab_size: int,
        name: str = "cascade",
        engine_config: EngineConfig = EngineConfig(),
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        """Takes a drafter and an engine for the middle model.

        Args:
            inner: drafts for the middle model. If it cannot rewind, it is begun anew after a
                rejection of what it was told.
            engine: holds the middle model.
            vocab_size: width of the target's law, as for `DraftModelDrafter`.
            name: shown as the drafter of its tokens.
            engine_config: `prefill_chunk` and `num_kept_prefixes` are read.
            min_confidence: where a draft stops, as for `DraftModelDrafter`.

        Raises:
            ParameterError: `min_confidence` is not 0 to 1.
        """
        check_min_confidence(min_confidence)
        self.name = name
        self.own_bytes = engine.pass_bytes
        self._inner = inner
        self._engine = engine
        self._vocab_size = vocab_size
        self._prefill_chunk = engine_config.prefill_chunk
        self._min_confidence = min_confidence
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)

    def check(self, hints: DraftHints) -> None:
        """Refuses what the inner drafter refuses.

        Raises:
            ParameterError: as that says.
        """
        self._inner.check(hints)

    def start(self, context: DraftContext) -> CascadeSession:
        """Begins with both; the prompt is fed to the middle model with the first draft."""
        inner = self._inner.start(_inner_context(context))
        cache = OwnCache(
            self._engine,
            self._prefixes,
            context.prompt,
            self._prefill_chunk,
            tenant=context.hints.tenant,
        )
        return CascadeSession(
            context, cache, TokenHistory(context.prompt), list(context.prompt), inner
        )

    def propose(self, requests: Sequence[DraftRequest[CascadeSession]]) -> list[Proposal]:
        """Decodes with the middle model, all requests in common passes; proposes chains."""
        drafts = [self._begin(request) for request in requests]
        begun = [draft for draft in drafts if draft is not None]
        while active := [draft for draft in begun if not draft.is_complete]:
            self._step(active)
        for draft in begun:
            history = draft.session.history
            history.truncate(len(draft.session.tokens) - len(history.prompt))
        return [
            Proposal.empty(self.name) if draft is None else draft.proposal(self.name)
            for draft in drafts
        ]

    def observe(self, session: CascadeSession, tokens: Sequence[int]) -> None:
        """Takes back from the inner drafter what the target has not decided, and tells the rest."""
        num_agreed = common_length(session.guessed, tokens)
        self._take_back(session, len(session.guessed) - num_agreed)
        if len(tokens) > num_agreed:
            self._inner.observe(session.inner, tokens[num_agreed:])
        session.guessed = []
        session.tokens.extend(tokens)
        for token in tokens:
            session.history.append(token)
        session.cache.settle(session.tokens)

    def rewind(self, session: CascadeSession, num_tokens: int) -> None:
        """Forgets the last tokens, in the inner drafter and in the middle model's cache too."""
        self._take_back(session, len(session.guessed) + num_tokens)
        session.guessed = []
        del session.tokens[len(session.tokens) - num_tokens :]
        session.history.truncate(session.history.num_output - num_tokens)
        session.cache.settle(session.tokens)

    def close(self, session: CascadeSession) -> None:
        """Ends a request with both; the middle model's cache of it may serve the next one."""
        try:
            self._inner.close(session.inner)
        finally:
            session.cache.close()

    def shutdown(self) -> None:
        """Ends the inner drafter."""
        self._inner.shutdown()

    def _begin(self, request: DraftRequest[CascadeSession]) -> _Draft | None:
        """None where nothing can be drafted."""
        session, num_nodes = request.session, request.num_tree_nodes
        room = self._engine.config.context_length - len(session.tokens) + 1
        limit = min(request.num_draft_tokens, room)
        if num_nodes is not None:
            limit = min(limit, num_nodes)
        if limit <= 0:
            return None
        pending = session.cache.catch_up(session.tokens)
        return _Draft(session, limit, self._min_confidence, pending)

    def _step(self, drafts: Sequence[_Draft]) -> None:
        """One pass of the middle model: propose, verify, accept, commit."""
        proposals = self._inner.propose([self._inner_request(draft) for draft in drafts])
        pairs = list(zip(drafts, proposals, strict=True))
        output = self._engine.forward(Batch(tuple(d.rows(p) for d, p in pairs)))
        for (draft, proposal), logits in zip(pairs, output.logits, strict=True):
            self._accept(draft, proposal, fit(logits, self._vocab_size))

    def _inner_request(self, draft: _Draft) -> DraftRequest[Any]:
        """Tells the inner drafter what was decided since, and asks for what may still be used."""
        session = draft.session
        untold = draft.tokens[len(session.guessed) :]
        if untold:
            self._inner.observe(session.inner, untold)
            session.guessed.extend(untold)
        return DraftRequest(session.inner, draft.limit - len(draft.tokens) - 1)

    def _accept(self, draft: _Draft, proposal: Proposal, rows: Float32Array) -> None:
        session, context = draft.session, draft.session.context
        law = MiddleLaw(rows, proposal, context.params, session.history, context.eos_ids)
        num_before = len(draft.tokens)
        draft.extend(proposal, accept(proposal, law, context.noise), law)
        self._inner.see(session.inner, proposal, rows)
        for token in draft.tokens[num_before:]:
            session.history.append(token)

    def _take_back(self, session: CascadeSession, num_tokens: int) -> None:
        """Makes the inner drafter forget the last tokens that it was told."""
        if num_tokens == 0:
            return
        if isinstance(self._inner, RewindingDrafter):
            self._inner.rewind(session.inner, num_tokens)
            return
        told = [*session.tokens, *session.guessed]
        output = told[len(session.context.prompt) : len(told) - num_tokens]
        self._inner.close(session.inner)
        session.inner = self._inner.start(_inner_context(session.context))
        if output:
            self._inner.observe(session.inner, output)


def _inner_context(context: DraftContext) -> DraftContext:
    """The request without the target's cache, which is none of the inner drafter's."""
    return replace(context, sequence=None)
