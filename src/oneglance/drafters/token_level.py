"""A draft model of another vocabulary drafts those tokens that both vocabularies have.

Token-level intersection (TLI), Timor et al., arXiv:2502.05202, algorithm 4. The draft's law is
restricted to the tokens that mean the same to both and mapped to the target's ids, under the
request's own warps; tokens are drawn from it and it is reported, so the usual accept rules hold.
Tokens that only the target has are never drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.choice import choose, fit
from oneglance.drafters.other_vocabulary_text import DraftText, TextCache
from oneglance.drafters.text_drafter import TextDrafter
from oneglance.engine.base import Batch, TreeRows
from oneglance.sampling.history import TokenHistory
from oneglance.types import Float32Array, Float64Array, Proposal


@dataclass
class TokenLevelSession:
    """One request: what was decided, in the target's tokens and in the draft's, and the cache."""

    context: DraftContext
    history: TokenHistory
    text: DraftText
    cache: TextCache


@dataclass
class _Draft:
    """A draft in the making."""

    session: TokenLevelSession
    limit: int
    rows: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    laws: list[Float64Array] = field(default_factory=list)


class TokenLevelDrafter(TextDrafter[TokenLevelSession]):
    """Runs the draft model K times, for all requests of a pass together."""

    def start(self, context: DraftContext) -> TokenLevelSession:
        """Encodes the prompt for the draft model; it is fed with the first draft."""
        text, cache = self._open(context)
        return TokenLevelSession(context, TokenHistory(context.prompt), text, cache)

    def propose(self, requests: Sequence[DraftRequest[TokenLevelSession]]) -> list[Proposal]:
        """Drafts a chain per request, fewer tokens where the draft's own context ends."""
        drafts = [self._begin(request) for request in requests]
        while active := [draft for draft in drafts if len(draft.tokens) < draft.limit]:
            self._advance(active)
        return [
            Proposal.chain(draft.tokens, draft.laws if draft.laws else None, self.name)
            for draft in drafts
        ]

    def observe(self, session: TokenLevelSession, tokens: Sequence[int]) -> None:
        """Keeps of the draft's cache what agrees with the decided tokens."""
        session.text.observe(tokens)
        for token in tokens:
            session.history.append(token)

    def close(self, session: TokenLevelSession) -> None:
        """Ends a request; the draft's cache of it may serve the next one."""
        session.cache.close()

    def _begin(self, request: DraftRequest[TokenLevelSession]) -> _Draft:
        text = request.session.text
        # A draft is drawn anew each time: what was drawn and not decided must not come back.
        text.drop_ahead()
        limit = request.num_draft_tokens
        if request.num_tree_nodes is not None:
            limit = min(limit, request.num_tree_nodes)
        room = self._engine.config.context_length - len(text.tokens) + 1
        is_idle = not text.tokens or bool(text.pending)
        draft = _Draft(request.session, 0 if is_idle else max(0, min(limit, room)))
        if draft.limit > 0:
            draft.rows = draft.session.cache.rows(1)
        return draft

    def _advance(self, drafts: Sequence[_Draft]) -> None:
        """One pass of the draft model: each draft gains a token, or ends."""
        trees = tuple(TreeRows.chain(each.session.cache.sequence, each.rows) for each in drafts)
        output = self._engine.forward(Batch(trees))
        for draft, logits in zip(drafts, output.logits, strict=True):
            session = draft.session
            session.cache.keep(draft.rows)
            row = self._mapped(logits[0])
            choice = choose(row, session.context, session.history, draft.tokens)
            if choice is None:
                draft.limit = len(draft.tokens)
                continue
            draft.tokens.append(choice.token)
            if choice.law is not None:
                draft.laws.append(choice.law)
            if self._pair.target_bytes(choice.token):
                draft.rows = [self._pair.shared_for_draft(choice.token)]
                session.text.append(draft.rows[0], 1.0)
            else:  # a control token ends the text
                draft.limit = len(draft.tokens)

    def _mapped(self, logits: Float32Array) -> Float32Array:
        """[V] of the target: the draft's logits of the tokens that both have."""
        targets, drafts = self._pair.shared
        row = np.full(self._pair.target.vocab_size, -np.inf, dtype=np.float32)
        row[targets] = fit(logits, self._pair.draft.vocab_size)[drafts]
        return row
