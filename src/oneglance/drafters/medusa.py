"""Medusa: heads on the target's last state guess the next few tokens at once, each by itself.

Cai et al., arXiv:2401.10774. The state from which the target has just chosen a token also says a
lot about the tokens after it. Head k reads it and guesses the token k + 1 places after the chosen
one: one product of small matrices drafts all places, with no draft model and no cache of its own.
The heads do not hear what the others say, so their guesses are combined to a tree
(`medusa_tree.py`), or their best ones to a chain.

Greedy requests get point masses. Sampled ones are drawn from the heads' laws under the request's
own warps; with a seed the target's noise draws them, so that the two agree as often as possible.
The paper's "typical acceptance" changes the law and is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.choice import (
    NUM_COMPARED,
    Choice,
    best_siblings,
    siblings,
    takes_argmax,
)
from oneglance.drafters.medusa_calibration import MAX_RANKS, Calibration
from oneglance.drafters.medusa_tree import GrowthLimits, GuessedTree, shape_for
from oneglance.engine.base import TopTokens
from oneglance.errors import ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise
from oneglance.types import Float32Array, Proposal

MIN_REACH = 0.1
"""Nothing hangs off a node that is less likely to be accepted: on a CPU a row more costs a pass
about a tenth, and a node's children are rarer still."""

WIDTH = max(MAX_RANKS, NUM_COMPARED)
"""Most guesses for one place."""


class Heads(Protocol):
    """What the drafter must know of trained heads; see `engine/native/medusa.py`."""

    @property
    def num_heads(self) -> int:
        """H, places that can be guessed."""

    def top(self, features: Float32Array, num_heads: int, num_top: int) -> list[TopTokens]:
        """The best tokens of the first heads.

        Args:
            features: [R, D] the target's final normalised states.
            num_heads: 1 to H.
            num_top: how many of each; fewer where there are no more.

        Returns:
            For each feature those of its heads, [num_heads, num_top].
        """

    def logits(self, features: Float32Array, num_heads: int) -> Float32Array:
        """Logits [R, num_heads, V] over the target's vocabulary, −inf of what no head drafts."""


@dataclass
class MedusaSession:
    """One request: its text, the state that its next draft starts from, and the draft in flight.

    Attributes:
        feature: [D] the target's final state at the token before the last decided one; None where
            no pass has shown it.
        guessed: the draft in flight.
    """

    context: DraftContext
    history: TokenHistory
    calibration: Calibration
    feature: Float32Array | None = None
    guessed: GuessedTree | None = None


@dataclass
class _Guesser:
    """What the heads say for one request.

    Attributes:
        session: of the request.
        depth: places that may be drafted.
        top: the best tokens, where those are what is asked for.
        rows: [depth, V] logits otherwise.
    """

    session: MedusaSession
    depth: int
    top: TopTokens | None = None
    rows: Float32Array | None = None
    known: dict[int, list[Choice]] = field(default_factory=dict)

    def guess(self, path: Sequence[int], count: int) -> list[Choice]:
        """The tokens that may follow a path; the same after all paths where none has a say.

        Drawn tokens too: an answer takes one path, and on each the draws are independent.
        """
        depth, context = len(path), self.session.context
        if depth in self.known and count <= len(self.known[depth]):
            return self.known[depth][:count]
        if self.top is not None:
            found = best_siblings(self.top, depth, count) or []
        else:
            assert self.rows is not None, "the heads were not asked"
            found = siblings(self.rows[depth], context, self.session.history, path, count)
        if self.top is not None or context.params.keeps_logits:
            self.known[depth] = found
        return found


class MedusaDrafter(Drafter[MedusaSession]):
    """Asks the heads once for each draft, for all requests of a pass together."""

    def __init__(
        self,
        heads: Heads,
        layer: int,
        name: str = "medusa",
        calibration: Calibration | None = None,
        min_reach: float = MIN_REACH,
    ) -> None:
        """Takes trained heads.

        Args:
            heads: over the target's vocabulary.
            layer: whose hidden states they read, as `Batch.hidden_layers` counts them: the number
                of the target's layers is the final normalised state.
            name: shown as the drafter of its tokens.
            calibration: what is known of their guesses for greedy requests; each request learns on
                from it by itself. None: nothing.
            min_reach: 0 to 1; 0: drafts are as large as they may be.

        Raises:
            ParameterError: `min_reach` is not 0 to 1.
        """
        if not 0 <= min_reach <= 1:
            raise ParameterError(
                f"min_reach = {min_reach!r} cannot be used; it must be 0 (off) to 1."
            )
        self.name = name
        self.hidden_layers = (layer,)
        self._heads = heads
        self._calibration = calibration or Calibration.fresh(heads.num_heads)
        self._min_reach = min_reach

    def start(self, context: DraftContext) -> MedusaSession:
        """Begins a request; nothing is computed for its prompt."""
        is_greedy = context.params.is_greedy
        calibration = (
            self._calibration.copy() if is_greedy else Calibration.fresh(self._heads.num_heads)
        )
        return MedusaSession(context, TokenHistory(context.prompt), calibration)

    def propose(self, requests: Sequence[DraftRequest[MedusaSession]]) -> list[Proposal]:
        """Drafts a chain or, with a node budget, a tree per request, at most H tokens deep.

        Nothing where the target's state is not known, as before the first pass of a request whose
        prompt came from the cache.
        """
        guessers = [self._begin(request) for request in requests]
        active = [guesser for guesser in guessers if guesser is not None]
        self._ask([guesser for guesser in active if _takes_argmax(guesser.session)], True)
        self._ask([guesser for guesser in active if not _takes_argmax(guesser.session)], False)
        return [
            Proposal.empty(self.name) if guesser is None else self._grow(request, guesser)
            for request, guesser in zip(requests, guessers, strict=True)
        ]

    def first_unseen(self, session: MedusaSession) -> int:
        """The last token of the prompt that is evaluated before the first pass."""
        return max(0, len(session.context.prompt) - 2)

    def see_hidden(
        self, session: MedusaSession, start: int, hidden: Mapping[int, Float32Array]
    ) -> None:
        """Keeps the last state: the one that the target's next token was chosen from."""
        del start
        (states,) = hidden.values()
        session.feature = states[-1].copy()

    def observe(self, session: MedusaSession, tokens: Sequence[int]) -> None:
        """Learns what the guesses came to."""
        for token in tokens:
            session.history.append(token)
        if session.guessed is not None:
            session.guessed.learn(tokens)
            session.guessed = None

    def close(self, session: MedusaSession) -> None:
        """Forgets the request."""
        session.feature, session.guessed = None, None

    def _begin(self, request: DraftRequest[MedusaSession]) -> _Guesser | None:
        """None where nothing can be drafted."""
        depth = min(request.num_draft_tokens, self._heads.num_heads)
        if request.session.feature is None or depth <= 0 or request.num_tree_nodes == 0:
            return None
        return _Guesser(request.session, depth)

    def _ask(self, guessers: Sequence[_Guesser], takes_argmax: bool) -> None:
        """Lets the heads speak for several requests at once."""
        if not guessers:
            return
        features = np.stack([_known(guesser.session) for guesser in guessers])
        depth = max(guesser.depth for guesser in guessers)
        if takes_argmax:
            every_top = self._heads.top(features, depth, WIDTH)
            for guesser, top in zip(guessers, every_top, strict=True):
                guesser.top = top
        else:
            for guesser, rows in zip(guessers, self._heads.logits(features, depth), strict=True):
                guesser.rows = rows

    def _grow(self, request: DraftRequest[MedusaSession], guesser: _Guesser) -> Proposal:
        session, num_nodes = guesser.session, request.num_tree_nodes
        limits = GrowthLimits(
            num_nodes=guesser.depth if num_nodes is None else num_nodes,
            max_depth=guesser.depth,
            width=1 if num_nodes is None else WIDTH,
            min_reach=self._min_reach,
        )
        guessed = GuessedTree(guesser.guess, session.calibration, session.context.eos_ids)
        if _is_drawn(session.context):
            nodes = guessed.grow_shape(shape_for(session.calibration, limits), limits)
        else:
            nodes = guessed.grow_best(limits)
        session.guessed = guessed
        return guessed.tree.proposal(nodes, self.name)


def _known(session: MedusaSession) -> Float32Array:
    assert session.feature is not None, "the target's state is not known"
    return session.feature


def _is_drawn(context: DraftContext) -> bool:
    """Whether tokens are drawn at random, and must be kept whatever they are."""
    return not context.params.is_greedy and not isinstance(context.noise, KeyedNoise)


def _takes_argmax(session: MedusaSession) -> bool:
    return takes_argmax(session.context, session.history, ())
