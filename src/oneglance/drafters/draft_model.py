"""A smaller model of the same vocabulary, or a part of the target, drafts for the target.

Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. How its tokens are chosen is in
`choice.py`, where its keys and values live in `draft_cache.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.choice import Choice, choose, fit, takes_argmax
from oneglance.drafters.draft_cache import DraftCache, OwnCache
from oneglance.engine.base import Batch, Engine, PassLayers, TopTokens, TreeRows
from oneglance.engine.prefix import PrefixStore
from oneglance.sampling.history import TokenHistory
from oneglance.types import Float64Array, Proposal


@dataclass
class DraftModelSession:
    """One request as the draft model sees it: what was decided, and its cache."""

    context: DraftContext
    cache: DraftCache
    history: TokenHistory
    tokens: list[int]


@dataclass
class _Draft:
    """A draft in the making."""

    session: DraftModelSession
    limit: int
    pending: list[int]
    tokens: list[int] = field(default_factory=list)
    laws: list[Float64Array] = field(default_factory=list)

    def choose(self, row: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Choice | None:
        return choose(row, self.session.context, self.session.history, self.tokens)

    def takes_argmax(self) -> bool:
        return takes_argmax(self.session.context, self.session.history, self.tokens)


class DraftModelDrafter(Drafter[DraftModelSession]):
    """Runs the draft model K times, for all requests of a pass together."""

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        name: str = "draft",
        engine_config: EngineConfig = EngineConfig(),
        layers: PassLayers = PassLayers(),
    ) -> None:
        """Takes an engine for the draft model.

        Args:
            engine: holds the draft model; the drafter opens and closes sequences in it.
            vocab_size: width of the target's law. The draft's rows are cut or padded to it, so
                that both speak of the same tokens whatever the padding of their matrices.
            name: shown as the drafter of its tokens.
            engine_config: `prefill_chunk` and `num_kept_prefixes` are read.
            layers: which layers of the draft model every pass evaluates.
        """
        self.name = name
        self._engine = engine
        self._vocab_size = vocab_size
        self._prefill_chunk = engine_config.prefill_chunk
        self._layers = layers
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)

    def start(self, context: DraftContext) -> DraftModelSession:
        """Opens a sequence in the draft's cache; the prompt is fed with the first draft."""
        history = TokenHistory(context.prompt)
        return DraftModelSession(context, self._open(context), history, list(context.prompt))

    def propose(self, requests: Sequence[DraftRequest[DraftModelSession]]) -> list[Proposal]:
        """Drafts a chain per request, fewer tokens where the draft's own context ends."""
        drafts = [self._begin(request) for request in requests]
        while active := [draft for draft in drafts if len(draft.tokens) < draft.limit]:
            for draft, choice in zip(active, self._next_choices(active), strict=True):
                self._extend(draft, choice)
        for draft in drafts:
            if draft.limit > 0:
                draft.session.cache.end_draft()
        return [
            Proposal.chain(draft.tokens, draft.laws if draft.laws else None, self.name)
            for draft in drafts
        ]

    def observe(self, session: DraftModelSession, tokens: Sequence[int]) -> None:
        """Keeps of the draft's cache what agrees with the decided tokens."""
        session.tokens.extend(tokens)
        for token in tokens:
            session.history.append(token)
        session.cache.settle(session.tokens)

    def close(self, session: DraftModelSession) -> None:
        """Ends a request; the draft's cache of it may serve the next one."""
        session.cache.close()

    def _open(self, context: DraftContext) -> DraftCache:
        """The cache of a new request; a drafter that is a part of the target overrides this."""
        return OwnCache(
            self._engine, self._prefixes, context.prompt, self._prefill_chunk, self._layers
        )

    def _begin(self, request: DraftRequest[DraftModelSession]) -> _Draft:
        session = request.session
        # The last of K draft tokens is not fed, hence one position less than K is needed.
        room = self._engine.config.context_length - len(session.tokens) + 1
        limit = max(0, min(request.num_draft_tokens, room))
        pending = session.cache.catch_up(session.tokens) if limit > 0 else []
        return _Draft(session, limit, pending)

    def _next_choices(self, drafts: Sequence[_Draft]) -> list[Choice | None]:
        """Evaluates and keeps the pending rows; None where no token may follow."""
        trees = tuple(TreeRows.chain(each.session.cache.sequence, each.pending) for each in drafts)
        has_argmax = all(draft.takes_argmax() for draft in drafts)
        if has_argmax:
            known = min(self._vocab_size, self._engine.config.vocab_size)
            batch = Batch.through(self._layers, trees, num_top=1, top_vocab_size=known)
        else:
            batch = Batch.through(self._layers, trees)
        output = self._engine.forward(batch)
        for draft in drafts:
            cache = draft.session.cache
            self._engine.commit(cache.sequence, range(len(draft.pending)))
            cache.extend(draft.pending)
        if has_argmax:
            return [self._best(*pair) for pair in zip(drafts, output.top, strict=True)]
        return [
            draft.choose(fit(logits[0], self._vocab_size))
            for draft, logits in zip(drafts, output.logits, strict=True)
        ]

    def _best(self, draft: _Draft, top: TopTokens) -> Choice | None:
        token, logit = int(top.ids[0, 0]), top.logits[0, 0]
        if np.isfinite(logit):
            return Choice(token)
        # Broken logits, or none that is allowed: the law says which, and refuses them by name.
        row = np.full(self._vocab_size, -np.inf, dtype=np.float32)
        row[token] = logit
        return draft.choose(row)

    def _extend(self, draft: _Draft, choice: Choice | None) -> None:
        if choice is None:
            draft.limit = len(draft.tokens)
            return
        draft.tokens.append(choice.token)
        if choice.law is not None:
            draft.laws.append(choice.law)
        draft.pending = [choice.token]
        if choice.token in draft.session.context.eos_ids:
            draft.limit = len(draft.tokens)
