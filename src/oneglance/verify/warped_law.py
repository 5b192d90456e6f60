"""The target's law over a proposal, warped row by row where a rule asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import numpy as np

from oneglance.config import SamplingParams
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.sampling.row_kernels import contiguous, row_kernels
from oneglance.sampling.softmax import log_normalizer
from oneglance.sampling.warp import greedy_token, log_law, warp
from oneglance.types import ROOT, Float32Array, Float64Array, Proposal, RowSummaries
from oneglance.verify.base import TargetLaw

Result = TypeVar("Result")


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
        summaries: RowSummaries | None = None,
    ) -> None:
        """Wraps the rows of a pass.

        Args:
            logits: [N + 1, V] raw logits: row 0 after the root, row i + 1 after node i.
            proposal: the N draft tokens.
            params: the request's parameters.
            history: prompt and output up to the root, included; it must not change while this
                object is in use.
            eos_ids: end-of-text tokens.
            summaries: of the rows, if the engine has made them.
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
        self._summaries = summaries
        self._paths: dict[int, tuple[int, ...]] = {ROOT: ()}
        self._choices: dict[int, int] = {}
        self._laws: dict[int, LogLaw] = {}
        self._logits: dict[int, Float64Array] = {}
        self._probs: dict[int, Float64Array] = {}
        self._normalizers: dict[int, float] = {}

    def logits(self, node: int) -> Float64Array:
        """[V] warped logits after `node`, read-only; greedy: the scores that the argmax is of.

        Raises:
            ParameterError: as `warp`.
        """
        if node not in self._logits:
            warped = self._warp(warp, node) if self.is_greedy else self.log_law(node).logits()
            warped.setflags(write=False)
            self._logits[node] = warped
        return self._logits[node]

    def log_law(self, node: int) -> LogLaw:
        """The law after `node`, in the form that costs least; not for greedy requests.

        Raises:
            ParameterError: as `warp`.
        """
        assert not self.is_greedy, "a greedy request has no temperature to divide by"
        if node not in self._laws:
            self._laws[node] = self._warp(log_law, node)
        return self._laws[node]

    def probs(self, node: int) -> Float64Array:
        """[V] the law after `node`, read-only; one-hot if greedy."""
        if node not in self._probs:
            if self.is_greedy:
                law = np.zeros(self.vocab_size)
                law[self.argmax(node)] = 1.0
            else:
                law = self.log_law(node).probs()
            law.setflags(write=False)
            self._probs[node] = law
        return self._probs[node]

    def argmax(self, node: int) -> int:
        """The most probable token after `node`; ties go to the lowest id."""
        if not self.is_greedy:
            return row_kernels().argmax(self.logits(node))
        if node not in self._choices:
            self._choices[node] = self._warp(greedy_token, node)
        return self._choices[node]

    def draw(self, node: int, noise: Noise) -> int:
        """A token drawn from the law after `node`, computed for the tokens that may follow."""
        return noise.draw_from(self.log_law(node))

    def sample(self, node: int, depth: int, noise: KeyedNoise) -> int:
        """The Gumbel-max sample after `node`, which lies `depth` levels below the root."""
        return noise.sample_from(self.log_law(node), self.position + depth)

    def logprob(self, node: int, token: int) -> float:
        """Natural log of the model's own probability of `token` after `node`, before any warp."""
        return float(self._rows[node + 1, token]) - self._normalizer(node)

    def top_logprobs(self, node: int, count: int) -> tuple[tuple[int, float], ...]:
        """The `count` most probable (token, log-probability) after `node`, before any warp.

        Best first, ties by lowest id; the whole vocabulary if `count` exceeds it.
        """
        if count == 0:
            return ()
        best = row_kernels().ranked(contiguous(self._rows[node + 1]), count)
        return tuple((token, self.logprob(node, token)) for token in best.tolist())

    def _warp(self, function: Callable[..., Result], node: int) -> Result:
        """Applies one of the forms of the warp to a row, with the state of its position."""
        row = self._rows[node + 1]
        path = self._tokens_to(node)
        best = None if self._summaries is None else int(self._summaries.best[node + 1])
        result = function(row, self._params, self._history, path, eos_ids=self._eos_ids, best=best)
        # The token after this node will be asked for its logprob. Now the row is in the cache; once
        # the walk has read the others it is not.
        if self._summaries is None:
            self._normalizer(node)
        return result

    def _normalizer(self, node: int) -> float:
        """What to subtract from a logit after `node` to make it a logprob."""
        if self._summaries is not None:
            return float(self._summaries.log_normalizers[node + 1])
        if node not in self._normalizers:
            self._normalizers[node] = log_normalizer(self._rows[node + 1])
        return self._normalizers[node]

    def _tokens_to(self, node: int) -> tuple[int, ...]:
        """The draft tokens from the first level down to `node`."""
        if node not in self._paths:
            before = self._tokens_to(int(self._proposal.parents[node]))
            self._paths[node] = (*before, int(self._proposal.tokens[node]))
        return self._paths[node]
