"""A smaller model of the same vocabulary drafts for the target.

Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. Greedy requests get the draft's
argmax (a point mass). Sampled ones get a draw from the draft's law under the request's own warps,
and that law is reported. With a seed, the draw uses the target's noise of the same position
(`verify/coupled.py`), so that the two agree as often as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.engine.base import Batch, Engine, SequenceId, TopTokens, TreeRows
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import DeadEndError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise
from oneglance.sampling.warp import greedy_token, log_law
from oneglance.types import Float32Array, Float64Array, Proposal


@dataclass
class DraftModelSession:
    """One request as the draft model sees it.

    The draft's cache holds `cached`, which agrees with the decided tokens up to the last
    rejection; what differs is dropped before the next draft, what is missing is fed then. So a
    token whose key and value were never computed (the last one of a draft that was accepted
    whole) is made up for like any other.
    """

    context: DraftContext
    sequence: SequenceId
    history: TokenHistory
    tokens: list[int]
    cached: list[int]


@dataclass
class _Draft:
    """A draft in the making."""

    session: DraftModelSession
    limit: int
    pending: list[int]
    tokens: list[int] = field(default_factory=list)
    laws: list[Float64Array] = field(default_factory=list)


class DraftModelDrafter(Drafter[DraftModelSession]):
    """Runs the draft model K times, for all requests of a pass together."""

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        name: str = "draft",
        engine_config: EngineConfig = EngineConfig(),
    ) -> None:
        """Takes an engine for the draft model.

        Args:
            engine: holds the draft model; the drafter opens and closes sequences in it.
            vocab_size: width of the target's law. The draft's rows are cut or padded to it, so
                that both speak of the same tokens whatever the padding of their matrices.
            name: shown as the drafter of its tokens.
            engine_config: `prefill_chunk` and `num_kept_prefixes` are read.
        """
        self.name = name
        self._engine = engine
        self._vocab_size = vocab_size
        self._prefill_chunk = engine_config.prefill_chunk
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)

    def start(self, context: DraftContext) -> DraftModelSession:
        """Opens a sequence in the draft's cache; the prompt is fed with the first draft."""
        history = TokenHistory(context.prompt)
        sequence = self._prefixes.open(context.prompt)
        cached = list(context.prompt[: self._engine.length(sequence)])
        return DraftModelSession(context, sequence, history, list(context.prompt), cached)

    def propose(self, requests: Sequence[DraftRequest[DraftModelSession]]) -> list[Proposal]:
        """Drafts a chain per request, fewer tokens where the draft's own context ends."""
        drafts = [self._begin(request) for request in requests]
        while active := [draft for draft in drafts if len(draft.tokens) < draft.limit]:
            for draft, token in zip(active, self._next_tokens(active), strict=True):
                self._extend(draft, token)
        return [
            Proposal.chain(draft.tokens, draft.laws if draft.laws else None, self.name)
            for draft in drafts
        ]

    def observe(self, session: DraftModelSession, tokens: Sequence[int]) -> None:
        """Keeps of the draft's cache what agrees with the decided tokens."""
        start = len(session.tokens)
        session.tokens.extend(tokens)
        for token in tokens:
            session.history.append(token)
        num_valid = min(start, len(session.cached))
        while num_valid < min(len(session.cached), len(session.tokens) - 1) and (
            session.cached[num_valid] == session.tokens[num_valid]
        ):
            num_valid += 1
        if num_valid < len(session.cached):
            self._engine.truncate(session.sequence, num_valid)
            del session.cached[num_valid:]

    def close(self, session: DraftModelSession) -> None:
        """Ends a request; the draft's cache of it may serve the next one."""
        if session.cached:
            self._prefixes.keep(session.sequence, session.cached)
        else:  # nothing was drafted: it must not take the place of what is worth keeping
            self._engine.close(session.sequence)

    def _begin(self, request: DraftRequest[DraftModelSession]) -> _Draft:
        session = request.session
        # The last of K draft tokens is not fed, hence one position less than K is needed.
        room = self._engine.config.context_length - len(session.tokens) + 1
        limit = max(0, min(request.num_draft_tokens, room))
        pending = session.tokens[len(session.cached) :]
        if limit > 0 and len(pending) > 1:
            prefill(self._engine, session.sequence, pending[:-1], self._prefill_chunk)
            session.cached.extend(pending[:-1])
        return _Draft(session, limit, pending[-1:])

    def _next_tokens(self, drafts: Sequence[_Draft]) -> list[int | None]:
        """Evaluates and keeps the pending rows; None where no token may follow."""
        trees = tuple(TreeRows.chain(draft.session.sequence, draft.pending) for draft in drafts)
        has_argmax = all(_takes_argmax(draft) for draft in drafts)
        if has_argmax:
            known = min(self._vocab_size, self._engine.config.vocab_size)
            output = self._engine.forward(Batch(trees, num_top=1, top_vocab_size=known))
        else:
            output = self._engine.forward(Batch(trees))
        for draft in drafts:
            self._engine.commit(draft.session.sequence, range(len(draft.pending)))
            draft.session.cached.extend(draft.pending)
        if has_argmax:
            return [self._best(*pair) for pair in zip(drafts, output.top, strict=True)]
        return [
            _choose(draft, _fit(logits[0], self._vocab_size))
            for draft, logits in zip(drafts, output.logits, strict=True)
        ]

    def _best(self, draft: _Draft, top: TopTokens) -> int | None:
        token, logit = int(top.ids[0, 0]), top.logits[0, 0]
        if np.isfinite(logit):
            return token
        # Broken logits, or none that is allowed: the law says which, and refuses them by name.
        row = np.full(self._vocab_size, -np.inf, dtype=np.float32)
        row[token] = logit
        return _choose(draft, row)

    def _extend(self, draft: _Draft, token: int | None) -> None:
        if token is None:
            draft.limit = len(draft.tokens)
            return
        draft.tokens.append(token)
        draft.pending = [token]
        if token in draft.session.context.eos_ids:
            draft.limit = len(draft.tokens)


def _takes_argmax(draft: _Draft) -> bool:
    """Whether the next token is the argmax of the model's own logits."""
    context = draft.session.context
    params = context.params
    is_end_allowed = (
        not context.eos_ids or params.ignore_eos or _position(draft) >= params.min_tokens
    )
    return params.is_greedy and params.keeps_logits and is_end_allowed


def _position(draft: _Draft) -> int:
    return draft.session.history.num_output + len(draft.tokens)


def _choose(draft: _Draft, row: Float32Array) -> int | None:
    """The next draft token from a row of logits [V]; a sampled one notes its law.

    Returns:
        None where the draft led where nothing is allowed; the target need not go there.
    """
    context, history = draft.session.context, draft.session.history
    params, noise = context.params, context.noise
    try:
        if params.is_greedy:
            return greedy_token(row, params, history, draft.tokens, eos_ids=context.eos_ids)
        law = log_law(row, params, history, draft.tokens, eos_ids=context.eos_ids)
    except DeadEndError:
        return None
    if isinstance(noise, KeyedNoise):
        return noise.sample_from(law, _position(draft))
    probs = law.probs()
    draft.laws.append(probs)
    return noise.draw(probs)


def _fit(logits: Float32Array, vocab_size: int) -> Float32Array:
    """Cuts a row to the target's vocabulary, or pads it with tokens that are never drawn."""
    if len(logits) >= vocab_size:
        return logits[:vocab_size]
    padding = np.full(vocab_size - len(logits), -np.inf, dtype=np.float32)
    return np.concatenate([logits, padding])
