"""What a constraint does to drafts: forbidden tokens are left out, certain ones are added.

Where a constraint leaves one token only, that token is certain, whoever drafts. Such tokens ride
in the pass behind the drafter's own, and cost a row where they would have cost a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oneglance.constraints import TokenMask
from oneglance.errors import DeadEndError
from oneglance.types import ROOT, Float64Array, Proposal

GRAMMAR = "grammar"
"""Who is said to have drafted a certain token."""

MAX_CERTAIN = 32
"""Most certain tokens that are added to a pass: its rows need memory and time."""


@dataclass(frozen=True)
class GuidedDraft:
    """What of a draft is verified.

    Attributes:
        proposal: the drafter's tokens, then those that are certain.
        num_drafted: how many are the drafter's.
        is_whole: none of the drafter's was left out.
    """

    proposal: Proposal
    num_drafted: int
    is_whole: bool = True

    @property
    def num_certain(self) -> int:
        """How many are not the drafter's."""
        return len(self.proposal) - self.num_drafted


@dataclass(frozen=True)
class Guide:
    """Guides the drafts of one request.

    Attributes:
        mask: its constraint.
        eos_ids: tokens that end the answer.
        vocab_size: V, the width of laws.
        cuts: whether tokens of the drafter may be left out.
    """

    mask: TokenMask
    eos_ids: Collection[int]
    vocab_size: int
    cuts: bool = True

    def apply(self, draft: Proposal, output: tuple[int, ...], room: int) -> GuidedDraft:
        """What to verify of a draft.

        Args:
            draft: the drafter's.
            output: tokens of the answer so far.
            room: depth that no token may exceed.
        """
        kept = self._without_forbidden(draft, output) if self.cuts else draft
        goes_on = self.cuts and kept.is_chain
        start = (*output, *kept.tokens.tolist()) if goes_on else output
        most = min(MAX_CERTAIN, room - len(kept) if goes_on else room)
        node = len(kept) - 1 if goes_on else ROOT  # which is ROOT again where nothing was drafted
        proposal = self._with_certain(kept, node, self._certain(start, most))
        return GuidedDraft(proposal, len(kept), len(kept) == len(draft))

    def _without_forbidden(self, draft: Proposal, output: tuple[int, ...]) -> Proposal:
        """The tokens that can be accepted.

        One that was drawn from a law stays where it is forbidden, as that it was drawn says
        something about what else may come (it is rejected, and then the residual is drawn from);
        what hangs off it goes in any case. So does what hangs off an end of text, and what hangs
        off a token behind which nothing may come: that is an error only where an answer gets there.
        """
        outputs = {ROOT: output}
        kept: list[int] = []
        edges = zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True)
        for node, (token, parent) in enumerate(edges):
            if parent not in outputs:
                continue
            try:
                allowed = self.mask.allowed(outputs[parent])
            except DeadEndError:
                continue
            may_come = allowed is None or (0 <= token < len(allowed) and bool(allowed[token]))
            if may_come or draft.draft_probs is not None:
                kept.append(node)
            if may_come and token not in self.eos_ids:
                outputs[node] = (*outputs[parent], token)
        return draft if len(kept) == len(draft) else draft.part(kept)

    def _certain(self, output: tuple[int, ...], most: int) -> list[int]:
        """The tokens that must follow an output, at most so many.

        Not the end of text: the pass yields it without a row.
        """
        certain: list[int] = []
        while len(certain) < most:
            try:
                allowed = self.mask.allowed((*output, *certain))
            except DeadEndError:  # plain decoding says so if it gets there
                break
            if allowed is None or np.count_nonzero(allowed) != 1:
                break
            token = int(allowed.argmax())
            if token in self.eos_ids:
                break
            certain.append(token)
        return certain

    def _with_certain(self, draft: Proposal, node: int, certain: Sequence[int]) -> Proposal:
        """Adds a chain behind a node, as far as it is not there yet."""
        num_there = 0
        while num_there < len(certain):
            children = draft.children(node)
            child = next((c for c in children if draft.tokens[c] == certain[num_there]), None)
            if child is None:
                # Siblings of what was drawn from a law would have to be drawn from it too.
                if children and draft.draft_probs is not None:
                    return draft
                break
            node, num_there = child, num_there + 1
        missing = certain[num_there:]
        return _appended(draft, node, missing, self.vocab_size) if missing else draft


def _appended(draft: Proposal, node: int, tokens: Sequence[int], vocab_size: int) -> Proposal:
    """A draft with a chain of certain tokens behind one of its nodes."""
    first = len(draft)
    parents = [node, *range(first, first + len(tokens) - 1)]
    laws = None
    if draft.draft_probs is not None and first > 0:
        laws = (*draft.draft_probs, *(_one_hot(token, vocab_size) for token in tokens))
    return replace(
        draft,
        tokens=np.concatenate([draft.tokens, np.asarray(tokens, dtype=np.int64)]),
        parents=np.concatenate([draft.parents, np.asarray(parents, dtype=np.int64)]),
        draft_probs=laws,
        drafter=draft.drafter if first > 0 else GRAMMAR,
        makers=(*map(draft.maker, range(first)), *(GRAMMAR for _ in tokens)),
        reaches=None,
    )


def _one_hot(token: int, vocab_size: int) -> Float64Array:
    law = np.zeros(vocab_size)
    law[token] = 1.0
    return law
