"""Records the passes of a running answer, as a watcher of the decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneglance.checkpoints.base import Tokenizer
from oneglance.decode.watch import SeenPass
from oneglance.show.trace import Considered, DraftNode, Fate, OwnToken, Pass, Seconds
from oneglance.show.visible import TokenText, token_text
from oneglance.types import ROOT, PassTrace, Proposal
from oneglance.verify.warped_law import WarpedLaw

NUM_CONSIDERED = 5


@dataclass(frozen=True)
class _Seen:
    """What must be read off a pass while its law can be read.

    Attributes:
        seen: the pass; its law is not looked at any more.
        probs: the target's own probability of each drafted token, then of the token that ends it.
        law_probs: the same in the warped law; None where the rule did not get.
        considered: after the root, then after each node.
    """

    seen: SeenPass
    probs: tuple[float, ...]
    law_probs: tuple[float | None, ...]
    considered: tuple[tuple[Considered, ...], ...]


class Recorder:
    """Watches one answer; give it to `LLM.stream`, and each piece's trace to `record`.

    The answer stays the same tokens: the recorder reads laws and decides nothing.
    """

    def __init__(self, tokenizer: Tokenizer, num_considered: int = NUM_CONSIDERED) -> None:
        """Begins an answer.

        Args:
            tokenizer: of the target.
            num_considered: how many of the target's most probable tokens to keep at each place.
        """
        self.passes: list[Pass] = []
        self._tokenizer = tokenizer
        self._num_considered = num_considered
        self._seen: _Seen | None = None
        self._seconds: Seconds | None = None
        self._pending = b""

    def see(self, seen: SeenPass) -> None:
        """Reads probabilities off a pass."""
        proposal, law, path = seen.proposal, seen.law, seen.acceptance.path
        last = path[-1] if path else ROOT
        places = [*zip(proposal.parents.tolist(), proposal.tokens.tolist(), strict=True)]
        places.append((last, seen.acceptance.next_token))
        walked = {ROOT, *path}
        nodes = range(ROOT, len(proposal))
        self._seen = _Seen(
            seen,
            tuple(math.exp(law.logprob(parent, token)) for parent, token in places),
            tuple(_law_prob(law, parent, token, walked) for parent, token in places),
            tuple(self._considered(law, node) for node in nodes),
        )

    def note_seconds(self, draft: float, verify: float, accept: float) -> None:
        """Keeps the times of that pass."""
        self._seconds = Seconds(draft, verify, accept)

    def record(self, trace: PassTrace) -> Pass:
        """The pass that was seen last, with what was delivered of it; also kept in `passes`."""
        assert self._seen is not None, "the recorder was not shown this pass"
        assert self._seconds is not None, "the recorder was not told the time of this pass"
        read, seconds = self._seen, self._seconds
        self._seen = self._seconds = None
        texts = self._texts(read.seen.proposal)
        own = self._own(trace, read, texts)
        found = Pass(
            context=read.seen.context,
            drafter=trace.drafter,
            num_asked=read.seen.num_asked,
            num_made=read.seen.num_made,
            nodes=_nodes(trace, read, texts),
            considered=read.considered[0],
            accepted=trace.accepted,
            own=own,
            seconds=seconds,
        )
        self.passes.append(found)
        return found

    def _considered(self, law: WarpedLaw, node: int) -> tuple[Considered, ...]:
        best = law.top_logprobs(node, self._num_considered)
        shown = [token_text(self._tokenizer, token).shown for token, _ in best]
        return tuple(
            Considered(token, text, math.exp(logprob))
            for (token, logprob), text in zip(best, shown, strict=True)
        )

    def _texts(self, proposal: Proposal) -> list[TokenText]:
        """What each node adds to the text that leads to it."""
        texts: list[TokenText] = []
        for token, parent in zip(proposal.tokens.tolist(), proposal.parents.tolist(), strict=True):
            pending = self._pending if parent == ROOT else texts[parent].pending
            texts.append(token_text(self._tokenizer, token, pending))
        return texts

    def _own(self, trace: PassTrace, read: _Seen, texts: list[TokenText]) -> OwnToken | None:
        if trace.accepted:
            self._pending = texts[trace.accepted[-1]].pending
        if trace.next_token is None:
            return None
        text = token_text(self._tokenizer, trace.next_token, self._pending)
        self._pending = text.pending
        return OwnToken(
            token=trace.next_token,
            text=text.text,
            shown=text.shown,
            kind=trace.kind,
            target_prob=read.probs[-1],
            law_prob=read.law_probs[-1],
        )


def _law_prob(law: WarpedLaw, parent: int, token: int, walked: set[int]) -> float | None:
    """Only where the rule has asked for the law itself: elsewhere reading it would warp a row."""
    if law.is_greedy or parent not in walked:
        return None
    return float(law.probs(parent)[token])


def _nodes(trace: PassTrace, read: _Seen, texts: list[TokenText]) -> tuple[DraftNode, ...]:
    proposal = read.seen.proposal
    laws, depths = proposal.draft_probs, proposal.depths().tolist()
    return tuple(
        DraftNode(
            token=token,
            text=texts[node].text,
            shown=texts[node].shown,
            parent=trace.parents[node],
            depth=depths[node],
            drafter=proposal.maker(node),
            fate=_fate(trace, node),
            draft_prob=None if laws is None else float(laws[node][token]),
            target_prob=read.probs[node],
            law_prob=read.law_probs[node],
            considered=read.considered[node + 1],
        )
        for node, token in enumerate(trace.draft_tokens)
    )


def _fate(trace: PassTrace, node: int) -> Fate:
    if node in trace.accepted:
        return "kept"
    last = trace.accepted[-1] if trace.accepted else ROOT
    if trace.next_token is None:  # the answer ended within the draft
        return "unused"
    return "wrong" if trace.parents[node] == last else "behind"
