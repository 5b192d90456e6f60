"""What a drafter is: start, propose, observe, close.

A drafter serves many requests; what it knows of one lives in a session object of its own. It
guesses in any way it likes: exactness asks only that a token which was drawn at random carries
the law it was drawn from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oneglance.config import SamplingParams
from oneglance.engine.base import SequenceId
from oneglance.errors import ParameterError
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import Float32Array, Proposal


@dataclass(frozen=True)
class DraftHints:
    """What a user can tell about a request that helps to guess, and changes no token of it.

    Attributes:
        prediction: token ids of what the answer will probably be; empty: none is given.
        tenant: whose request it is. Neither past answers that a drafter remembers nor kept
            prefixes of one tenant serve another, since even the time that an answer takes would
            tell of them.
        remembers: whether past answers may help with this one, and it with later ones; a race that
            answers one prompt several times must not draft from its own earlier rounds.
    """

    prediction: tuple[int, ...] = ()
    tenant: str = ""
    remembers: bool = True


@dataclass(frozen=True)
class DraftContext:
    """What a drafter is told when a request starts.

    Attributes:
        prompt: the prompt's token ids.
        params: the request's sampling parameters; a sampled drafter applies the same warps.
        noise: the request's randomness. Under `KeyedNoise` (a seed) a sampled drafter draws with
            the target's own noise for each position, so that they agree as often as possible.
        eos_ids: end-of-text tokens, as the target knows them.
        hints: what else the user has told.
        sequence: the request's sequence in the target's engine, for drafters that run parts of
            the target on its own cache; None where there is none to use. Whoever adds to it takes
            that away again before `propose` returns.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    noise: Noise | KeyedNoise
    eos_ids: frozenset[int] = frozenset()
    hints: DraftHints = DraftHints()
    sequence: SequenceId | None = None


Session = TypeVar("Session")


@dataclass(frozen=True)
class DraftRequest(Generic[Session]):
    """One sequence's wish in a call of `propose`.

    Attributes:
        session: the request's state.
        num_draft_tokens: K, the most tokens on any path that is meant to be accepted; 0: draft
            nothing.
        num_tree_nodes: most tokens in all, on all branches together; None: the drafter's own
            shape, a chain unless its method is a tree.
        num_branches: where there is no such limit, tokens that may be added beside the longest
            path, if they are point masses, cost nothing to draft, and the proposal says how likely
            each is (`Proposal.reaches`): what is not worth its rows is left out afterwards.
        room: no token may lie deeper than this, since it could not be delivered or would not fit
            the context; None: as for `num_draft_tokens`. At least that.
    """

    session: Session
    num_draft_tokens: int
    num_tree_nodes: int | None = None
    room: int | None = None
    num_branches: int = 0

    @property
    def max_depth(self) -> int:
        """Depth that no token may exceed."""
        return self.num_draft_tokens if self.room is None else self.room


class Drafter(ABC, Generic[Session]):
    """Guesses the next tokens of sequences. `Session` is its per-request state.

    Attributes:
        name: shown with its tokens.
        chooses_length: it judges by itself how much to draft; where the length is left open it is
            asked for the most there can be.
        uses_prediction: it can make use of a prediction of the answer.
        reaches_further: some of its tokens are there to learn from, not to be accepted; they may
            lie deeper than K, and there may be more than K of them without a node budget.
        num_further: how many more at most; 0 unless it reaches further.
        is_plain: it stands for decoding without drafts, so that not even those tokens are drafted
            which a constraint leaves no choice about.
        hidden_layers: of which layers of the target it reads hidden states, as
            `Batch.hidden_layers` counts them; none: `see_hidden` is never called.
        own_bytes: of weights that one pass of the model that drafts reads; 0: there is none. What
            a draft costs is expected of it until drafts have been timed.
    """

    name: str
    chooses_length: bool = False
    uses_prediction: bool = False
    reaches_further: bool = False
    num_further: int = 0
    is_plain: bool = False
    hidden_layers: tuple[int, ...] = ()
    own_bytes: float = 0.0

    def check(self, hints: DraftHints) -> None:
        """Refuses a request that this drafter cannot serve, before any work starts.

        Raises:
            ParameterError: a hint that the drafter needs is missing, or one it ignores is given.
        """
        if hints.prediction and not self.uses_prediction:
            raise ParameterError(
                f"The drafter {self.name} makes no use of a prediction; choose the drafter "
                "predicted, or leave the prediction out."
            )

    @abstractmethod
    def start(self, context: DraftContext) -> Session:
        """Begins a request; the session holds whatever the drafter needs to know of it."""

    @abstractmethod
    def propose(self, requests: Sequence[DraftRequest[Session]]) -> list[Proposal]:
        """Drafts for several sequences at once.

        Returns:
            One proposal per request, within the request's limits; an empty one where the drafter
            has nothing to say or must not go on (its own context is full, say).
        """

    def see(self, session: Session, proposal: Proposal, logits: Float32Array) -> None:
        """Shows what the target says after each token of a proposal; then comes `observe`.

        For drafters that learn from rows that were not accepted. Most need not look. Not called
        where a part of the draft was left out because a constraint forbids it.

        Args:
            session: the request's state.
            proposal: what this drafter had proposed.
            logits: [N + 1, V] of the target, unwarped: after the last decided token, then after
                each of the N tokens of the proposal. Valid during the call only.
        """

    def first_unseen(self, session: Session) -> int:  # noqa: ARG002
        """From which position of the prompt on a session needs hidden states.

        Asked once, when a request has started, of drafters with `hidden_layers`. What a kept prefix
        spares the target to evaluate has none; from this position on it is evaluated again. A
        drafter that keeps what it made of a prefix says so here.
        """
        return 0

    def see_hidden(self, session: Session, start: int, hidden: Mapping[int, Float32Array]) -> None:
        """Shows hidden states of the target at decided tokens, in order of position.

        Called for the prompt, all but its last token, in pieces, before the first `propose`; then
        in each pass, before `observe`, for the last token that was decided before the pass and the
        draft tokens that were accepted. An answer that ends within these is told fewer tokens.

        Args:
            session: the request's state.
            start: position of the first row in the sequence; rows may have been seen before.
            hidden: for each of `hidden_layers` the states [rows, width of the target].
        """

    @abstractmethod
    def observe(self, session: Session, tokens: Sequence[int]) -> None:
        """Tells a session which tokens were decided since the last call, in order."""

    @abstractmethod
    def close(self, session: Session) -> None:
        """Ends a request and frees what its session holds."""

    def shutdown(self) -> None:
        """Ends the drafter's own life, when all its sessions are closed; called once.

        For drafters that keep something beyond it. One that is made of others passes it on.
        """


class RewindingDrafter(Drafter[Session]):
    """A drafter that can take back what it was told, as one that drafts for a draft model must.

    What the draft model decides is not decided yet for the target.
    """

    @abstractmethod
    def rewind(self, session: Session, num_tokens: int) -> None:
        """Makes a session as though it had not observed the last tokens.

        Args:
            session: of a request; it has observed at least `num_tokens`.
            num_tokens: how many to take back; may be 0.
        """
