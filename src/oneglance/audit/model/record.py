"""Turns what a drafter is shown of the target's laws into samples with a known distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneglance.audit.statistics import rank_transform
from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.sampling.softmax import softmax
from oneglance.types import ROOT, BoolArray, Float32Array, Float64Array, Proposal


@dataclass
class Samples:
    """Numbers that are uniform on [0, 1] and independent if tokens follow the target's law.

    Attributes:
        tokens: for each answer, one number per token: its law in order of falling probability.
        favoured: where there was a draft, whether the token is one that the draft favours, and the
            target's probability of that. A rule that makes up badly for rejected drafts delivers
            such tokens too often.
        heads: probability of the likeliest token, at each position.
    """

    tokens: list[list[float]] = field(default_factory=list)
    favoured: list[tuple[bool, float]] = field(default_factory=list)
    heads: list[float] = field(default_factory=list)

    def pooled(self) -> Float64Array:
        """[n] of all tokens."""
        return np.array([value for answer in self.tokens for value in answer])

    def pairs(self) -> Float64Array:
        """[2 m] of neighbours, each token in one pair at most."""
        return np.array(
            [
                value
                for answer in self.tokens
                for pair in zip(answer[::2], answer[1::2], strict=False)
                for value in pair
            ]
        )


@dataclass
class _Session:
    inner: Any
    answer: list[float]
    proposal: Proposal | None = None
    logits: Float32Array | None = None


class RecordingDrafter(Drafter[_Session]):
    """Another drafter, with a record of the tokens that the target decided, under its own law.

    For requests at temperature 1 without any other warp. The law is the one that the pass itself
    computed; that it is that of plain decoding is another check's business.
    """

    def __init__(self, inner: Drafter[Any], vocab_size: int, seed: int) -> None:
        """Takes the drafter, the number of tokens with a meaning, and a seed for the record."""
        self.name = inner.name
        self.chooses_length = inner.chooses_length
        self.uses_prediction = inner.uses_prediction
        self.reaches_further = inner.reaches_further
        self.num_further = inner.num_further
        self.is_plain = inner.is_plain
        self.hidden_layers = inner.hidden_layers
        self.own_bytes = inner.own_bytes
        self.samples = Samples()
        self._inner = inner
        self._vocab_size = vocab_size
        self._generator = np.random.default_rng([seed, 5])

    def check(self, hints: DraftHints) -> None:
        """As the drafter itself."""
        self._inner.check(hints)

    def start(self, context: DraftContext) -> _Session:
        """Begins a request and its record."""
        self.samples.tokens.append([])
        return _Session(self._inner.start(context), self.samples.tokens[-1])

    def propose(self, requests: Sequence[DraftRequest[_Session]]) -> list[Proposal]:
        """As the drafter itself."""
        return self._inner.propose(
            [
                DraftRequest(
                    request.session.inner,
                    request.num_draft_tokens,
                    request.num_tree_nodes,
                    request.room,
                )
                for request in requests
            ]
        )

    def see(self, session: _Session, proposal: Proposal, logits: Float32Array) -> None:
        """Keeps the laws of a pass until it is known which tokens it decided."""
        session.proposal, session.logits = proposal, logits[:, : self._vocab_size].copy()
        self._inner.see(session.inner, proposal, logits)

    def first_unseen(self, session: _Session) -> int:
        """As the drafter itself."""
        return self._inner.first_unseen(session.inner)

    def see_hidden(self, session: _Session, start: int, hidden: Mapping[int, Float32Array]) -> None:
        """As the drafter itself."""
        self._inner.see_hidden(session.inner, start, hidden)

    def observe(self, session: _Session, tokens: Sequence[int]) -> None:
        """Records the tokens of a pass."""
        proposal, logits = session.proposal, session.logits
        if proposal is not None and logits is not None:
            node = ROOT
            for depth, token in enumerate(tokens):
                probs = softmax(logits[node + 1].astype(np.float64))
                uniform = float(self._generator.random())
                session.answer.append(rank_transform(probs, token, uniform))
                self.samples.heads.append(float(probs.max()))
                children = proposal.children(node)
                # Of drafts with laws only the first position of a pass: whether a pass gets
                # further depends on tokens that come later.
                if children and (depth == 0 or proposal.draft_probs is None):
                    is_favoured = favoured_tokens(proposal, children, probs)
                    chance = float(probs[is_favoured].sum())
                    self.samples.favoured.append((bool(is_favoured[token]), chance))
                node = next((each for each in children if proposal.tokens[each] == token), ROOT)
            session.proposal = session.logits = None
        self._inner.observe(session.inner, tokens)

    def close(self, session: _Session) -> None:
        """Ends the request."""
        self._inner.close(session.inner)

    def shutdown(self) -> None:
        """As the drafter itself."""
        self._inner.shutdown()


def favoured_tokens(
    proposal: Proposal, children: Sequence[int], target_probs: Float64Array
) -> BoolArray:
    """[V] whether the draft makes a token more probable than the target does.

    Of a draft with a law only the law may be used, since the drafted token takes part in the
    choice; drafted point masses are independent of what the target draws.
    """
    if proposal.draft_probs is not None:
        return proposal.draft_probs[children[0]] > target_probs
    is_favoured = np.zeros(len(target_probs), dtype=np.bool_)
    is_favoured[proposal.tokens[list(children)]] = True
    return is_favoured
