"""An EAGLE head that drafts several tokens in one pass, so that its weights are read once.

P-EAGLE, arXiv:2602.01469: behind the last known row stand rows that all have the embedding of a
mask token and one learned feature; the i-th of them predicts the token i places further on. What
is predicted at a place does not depend on the tokens that are chosen before it, so every node of a
tree at one depth has the same children.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oneglance.checkpoints.base import Tensor
from oneglance.engine.base import Batch, PassOutput, SequenceId, TopTokens, TreeRows
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.top_tokens import top_tokens
from oneglance.heads.eagle_files import EagleHead
from oneglance.types import Float32Array, IntArray


@dataclass(frozen=True)
class _Said:
    """What a pass said of one sequence's next tokens, one row for each place.

    Attributes:
        num_known: rows of the tree whose features were known; the last one predicts place 0.
        logits: [places, V], or None where only the best tokens were asked for.
        top: best tokens of each place, or None.
    """

    num_known: int
    logits: Float32Array | None
    top: TopTokens | None


class ParallelEagleEngine(EagleEngine):
    """Evaluates all places in the pass of the known rows; later passes of a tree look them up."""

    def __init__(
        self, head: EagleHead, target: NativeEngine, target_head: Tensor, num_ids: int
    ) -> None:
        """Packs the head; arguments as for `EagleEngine`."""
        super().__init__(head, target, target_head, num_ids)
        mask = self._weights.mask_feature
        assert mask is not None, "a parallel head has a mask feature"
        self._mask_hidden = self._fuse(mask[None])[0]
        self._num_places: dict[SequenceId, int] = {}
        self._said: dict[SequenceId, _Said] = {}

    def expect(self, sequence: SequenceId, num_places: int) -> None:
        """Says how many tokens the next draft of a sequence may be long, at least 1."""
        self._num_places[sequence] = num_places

    def forward(self, batch: Batch) -> PassOutput:
        """Evaluates known rows, or looks up what was said; as `EagleEngine.forward`."""
        if not any(tree.wants_logits.any() for tree in batch.trees):
            return super().forward(batch)
        if batch.trees[0].num_kept == 0:
            self._predict(batch)
        return self._look_up(batch)

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages.

        Raises:
            ParameterError: the sequence is not open.
        """
        super().close(sequence)
        self._num_places.pop(sequence, None)
        self._said.pop(sequence, None)

    def _predict(self, batch: Batch) -> None:
        trees = [self._with_places(tree) for tree in batch.trees]
        output = super().forward(replace(batch, trees=tuple(trees)))
        for index, tree in enumerate(batch.trees):
            self._said[tree.sequence] = _Said(
                num_known=len(tree.tokens),
                logits=None if batch.num_top is not None else output.logits[index],
                top=None if batch.num_top is None else output.top[index],
            )

    def _with_places(self, tree: TreeRows) -> TreeRows:
        """The known rows, and a masked one for each place but the first."""
        assert tree.num_kept == 0, "drafts of one pass begin together"
        num_known, num_places = len(tree.tokens), self._num_places[tree.sequence]
        masks = np.full(num_places - 1, self.head_config.mask_token_id, dtype=np.int64)
        tokens = np.concatenate([tree.tokens, masks])
        rows = np.arange(len(tokens))
        return TreeRows(tree.sequence, tokens, rows - 1, rows >= num_known - 1)

    def _look_up(self, batch: Batch) -> PassOutput:
        wanted = [self._wanted_places(tree) for tree in batch.trees]
        said = [self._said[tree.sequence] for tree in batch.trees]
        if batch.num_top is None:
            return PassOutput(
                tuple(_logits(each, places) for each, places in zip(said, wanted, strict=True))
            )
        num_ids = batch.top_vocab_size or self.config.vocab_size
        num_top = min(batch.num_top, num_ids)
        top = [
            _top(each, places, num_top, num_ids) for each, places in zip(said, wanted, strict=True)
        ]
        return PassOutput((), top=tuple(top))

    def _wanted_places(self, tree: TreeRows) -> IntArray:
        """Which place follows each row that wants logits."""
        last_known = self._said[tree.sequence].num_known - 1
        places = np.zeros(len(tree.tokens), dtype=np.int64)
        for row in range(last_known + 1, len(places)):
            places[row] = places[tree.parents[row]] + 1
        return places[tree.wants_logits]

    def _fill_guesses(self, rows: Float32Array) -> None:
        rows[:] = self._mask_hidden


def _logits(said: _Said, places: IntArray) -> Float32Array:
    assert said.logits is not None, "only the best tokens were asked for"
    return said.logits[places]


def _top(said: _Said, places: IntArray, num_top: int, num_ids: int) -> TopTokens:
    if said.top is not None:
        return TopTokens(said.top.ids[places], said.top.logits[places])
    return top_tokens(_logits(said, places)[:, :num_ids], num_top)
