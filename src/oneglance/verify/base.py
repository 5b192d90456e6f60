"""What an accept rule sees and returns.

A rule walks the proposal from the root, decides which draft tokens stay, and adds one token of
the target's own. It is a pure function of the proposal, the target's law and the outcomes of the
random choices it asks for, so that a test can enumerate it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import ROOT, Float64Array, Proposal, TokenKind


@dataclass(frozen=True)
class Acceptance:
    """Outcome of a rule.

    Attributes:
        path: indices of the kept draft tokens, from the first level down; may be empty.
        next_token: the target's own token after the path.
        kind: "bonus" if the path ended at a leaf, "recovered" if draft tokens after it were
            rejected, "plain" if nothing was proposed.
    """

    path: tuple[int, ...]
    next_token: int
    kind: TokenKind

    @classmethod
    def after(cls, proposal: Proposal, path: list[int], next_token: int) -> Acceptance:
        """The outcome of a walk that kept `path` and then emitted `next_token`."""
        last = path[-1] if path else ROOT
        kind: TokenKind = "bonus"
        if not len(proposal):
            kind = "plain"
        elif proposal.children(last):
            kind = "recovered"
        return cls(path=tuple(path), next_token=next_token, kind=kind)


class TargetLaw(ABC):
    """The target's warped law after each node of a proposal, computed only where it is asked for.

    Nodes are numbered as in the proposal; `ROOT` is the last decided token.
    """

    vocab_size: int
    is_greedy: bool
    position: int
    """Index, among the generated tokens, of the token that follows the root."""

    @abstractmethod
    def logits(self, node: int) -> Float64Array:
        """[V] warped logits after `node`: log-probabilities up to a constant, −inf = forbidden."""

    @abstractmethod
    def probs(self, node: int) -> Float64Array:
        """[V] the law after `node`: softmax of `logits(node)`; one-hot if greedy."""

    @abstractmethod
    def argmax(self, node: int) -> int:
        """The most probable token after `node`; ties go to the lowest id."""

    def draw(self, node: int, noise: Noise) -> int:
        """A token drawn from the law after `node`: what `noise.draw(self.probs(node))` draws.

        A law that knows its tokens in a cheaper form need not compute the probability of all.
        """
        return noise.draw(self.probs(node))

    def sample(self, node: int, depth: int, noise: KeyedNoise) -> int:
        """The Gumbel-max sample after `node`, which lies `depth` levels below the root."""
        return noise.sample(self.logits(node), self.position + depth)
