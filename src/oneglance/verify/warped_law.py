"""The target's law over a proposal, warped row by row where a rule asks for it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from oneglance.config import SamplingParams
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.selection import ranked
from oneglance.sampling.softmax import log_normalizer, softmax
from oneglance.sampling.warp import warp
from oneglance.types import Float32Array, Float64Array, Proposal
from oneglance.verify.base import TargetLaw


class WarpedLaw(TargetLaw):
    """Logits of one pass for one sequence, turned into laws.

    A rule looks at the nodes on its walk only, so each row is warped when it is first asked for,
    with the state of its own position: the history followed by the tokens on the way to it.
    """

    def __init__(
        self,
        logits: Float32Array,
        proposal: Proposal,
        params: SamplingParams,
        history: TokenHistory,
        eos_ids: Collection[int] = frozenset(),
    ) -> None:
        """Wraps the rows of a pass.

        Args:
            logits: [N + 1, V] raw logits: row 0 after the root, row i + 1 after node i.
            proposal: the N draft tokens.
            params: the request's parameters.
            history: prompt and output up to the root, included; it must not change while this
                object is in use.
            eos_ids: end-of-text tokens.
        """
        assert logits.ndim == 2, "logits must be rows over the vocabulary"
        assert len(logits) == len(proposal) + 1, "one row for the root and one for each draft token"
        self.vocab_size = logits.shape[1]
        self.is_greedy = params.is_greedy
        self.position = history.num_output
        self._rows = logits
        self._proposal = proposal
        self._params = params
        self._history = history
        self._eos_ids = eos_ids
        self._logits: dict[int, Float64Array] = {}
        self._probs: dict[int, Float64Array] = {}
        self._normalizers: dict[int, float] = {}

    def logits(self, node: int) -> Float64Array:
        """[V] warped logits after `node`, read-only; greedy: the scores that the argmax is of.

        Raises:
            ParameterError: as `warp`.
        """
        if node not in self._logits:
            path = [int(self._proposal.tokens[step]) for step in self._proposal.path_to(node)]
            warped = warp(
                self._rows[node + 1], self._params, self._history, path, eos_ids=self._eos_ids
            )
            warped.setflags(write=False)
            self._logits[node] = warped
        return self._logits[node]

    def probs(self, node: int) -> Float64Array:
        """[V] the law after `node`, read-only; one-hot if greedy."""
        if node not in self._probs:
            if self.is_greedy:
                law = np.zeros(self.vocab_size)
                law[self.argmax(node)] = 1.0
            else:
                law = softmax(self.logits(node))
            law.setflags(write=False)
            self._probs[node] = law
        return self._probs[node]

    def argmax(self, node: int) -> int:
        """The most probable token after `node`; ties go to the lowest id."""
        return int(np.argmax(self.logits(node)))

    def logprob(self, node: int, token: int) -> float:
        """Natural log of the model's own probability of `token` after `node`, before any warp."""
        return float(self._rows[node + 1, token]) - self._normalizer(node)

    def top_logprobs(self, node: int, count: int) -> tuple[tuple[int, float], ...]:
        """The `count` most probable (token, log-probability) after `node`, before any warp.

        Best first, ties by lowest id; the whole vocabulary if `count` exceeds it.
        """
        if count == 0:
            return ()
        row = self._rows[node + 1].astype(np.float64)
        return tuple((int(token), self.logprob(node, token)) for token in ranked(row, count))

    def _normalizer(self, node: int) -> float:
        if node not in self._normalizers:
            self._normalizers[node] = log_normalizer(self._rows[node + 1].astype(np.float64))
        return self._normalizers[node]
