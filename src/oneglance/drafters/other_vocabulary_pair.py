"""What the vocabularies of a target and of a draft model have in common."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np

from oneglance.checkpoints.base import Tokenizer
from oneglance.errors import ParameterError
from oneglance.types import IntArray

PROBE = string.ascii_letters + string.digits + string.punctuation + " "
"""Text that both must be able to express, since answers consist of its like."""


class VocabularyPair:
    """Two tokenizers, the bytes of their tokens, and the tokens that mean the same to both.

    Ordinary tokens mean the same where their bytes are the same; control tokens have no bytes and
    mean the same where their names are ("<|im_end|>"). A name that only one of them has means
    nothing to the other, with one exception: where the target has a single token that ends an
    answer, each end token of the draft stands for it.
    """

    def __init__(self, target: Tokenizer, draft: Tokenizer) -> None:
        """Takes the target's tokenizer and the draft model's."""
        self.target = target
        self.draft = draft
        self.target_bytes = cache(target.token_bytes)
        self.draft_bytes = cache(draft.token_bytes)
        names = {draft.token_label(token): token for token in sorted(draft.special_ids)}
        self._controls = {
            token: names[label]
            for token in target.special_ids
            if (label := target.token_label(token)) in names
        }
        self._ends = {draft_id: token for token, draft_id in self._controls.items()}
        if len(target.eos_ids) == 1:
            (end,) = target.eos_ids
            self._ends = dict.fromkeys(draft.eos_ids, end) | self._ends

    def refusal(self) -> str | None:
        """Why text cannot pass between the two; None if it can."""
        for tokenizer, role in ((self.target, "target"), (self.draft, "draft model")):
            try:
                tokenizer.encode(PROBE)
            except ParameterError:
                missing = next(c for c in PROBE if not _expresses(tokenizer, c))
                return f"the vocabulary of the {role} has no token for {missing!r}"
        return None

    def control_for_draft(self, token: int) -> int | None:
        """The draft's control token of the same name as one of the target's; None: it has none."""
        return self._controls.get(token)

    def control_for_target(self, token: int) -> int | None:
        """The target's control token that a control token of the draft stands for; None: none."""
        return self._ends.get(token)

    @cached_property
    def shared(self) -> tuple[IntArray, IntArray]:
        """[N] ids of the target and [N] ids of the draft that mean the same, one to one."""
        ids = {self.draft_bytes(t): t for t in range(self.draft.vocab_size - 1, -1, -1)}
        ids.pop(b"", None)
        pairs: dict[int, int] = {}
        for token in range(self.target.vocab_size):
            draft_id = ids.pop(self.target_bytes(token), None)
            if draft_id is not None:
                pairs[token] = draft_id
        for draft_id, token in sorted(self._ends.items()):
            pairs.setdefault(token, draft_id)
        ordered = sorted(pairs.items())
        targets, drafts = zip(*ordered, strict=True) if ordered else ((), ())
        return np.array(targets, dtype=np.int64), np.array(drafts, dtype=np.int64)

    def shared_share(self, tokens: Sequence[int]) -> float:
        """Share of these tokens of the target that both vocabularies have; 1 if there are none."""
        return float(np.isin(tokens, self.shared[0]).mean()) if tokens else 1.0

    def shared_for_draft(self, token: int) -> int:
        """The draft's id of one of the target's tokens that both have."""
        targets, drafts = self.shared
        return int(drafts[np.searchsorted(targets, token)])


def _expresses(tokenizer: Tokenizer, text: str) -> bool:
    try:
        tokenizer.encode(text)
    except ParameterError:
        return False
    return True
