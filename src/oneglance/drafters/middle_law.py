"""The law of a draft model whose own draft is being verified."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import numpy as np

from oneglance.config import SamplingParams
from oneglance.drafters.choice import drawn_confidence
from oneglance.errors import DeadEndError
from oneglance.sampling.history import TokenHistory
from oneglance.types import Float32Array, Proposal
from oneglance.verify.warped_law import WarpedLaw

Result = TypeVar("Result")


class MiddleLaw(WarpedLaw):
    """A law that exists after every node: where everything is forbidden, any law at all.

    A draft may lead where the target will never go, and there the draft model's draft ends with
    what it has. To end it there is exact: whether a law exists is a function of the tokens so far.
    To give up the pass as a whole would not be, once some of it was drawn.
    """

    def __init__(
        self,
        logits: Float32Array,
        proposal: Proposal,
        params: SamplingParams,
        history: TokenHistory,
        eos_ids: Collection[int],
    ) -> None:
        """Wraps the rows of a pass; arguments as for `WarpedLaw`."""
        super().__init__(logits, proposal, params, history, eos_ids)
        self._dead: set[int] = set()

    def is_dead(self, node: int) -> bool:
        """Whether nothing is allowed after a node whose law was asked for."""
        return node in self._dead

    def confidence(self, node: int, token: int) -> float:
        """How likely the token after `node` is to be accepted, as `Choice` has it."""
        prob = float(np.exp(self.logprob(node, token)))
        return prob if self.is_greedy else drawn_confidence(prob)

    def _warp(self, function: Callable[..., Result], node: int) -> Result:
        try:
            return super()._warp(function, node)
        except DeadEndError:
            self._dead.add(node)
            anything = np.zeros(self.vocab_size, dtype=np.float32)
            params = SamplingParams(temperature=self._params.temperature)
            return function(anything, params, TokenHistory(()), (), eos_ids=())
