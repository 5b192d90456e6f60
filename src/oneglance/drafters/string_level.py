"""A draft model of another vocabulary writes text, which the target's tokenizer cuts into tokens.

String-level exact match (SLEM), Timor et al., arXiv:2502.05202. The draft model writes greedily;
what it writes is a function of the text so far, so its tokens are verified as point masses, greedy
or sampled, and any fault at a seam costs speed only.

Three things keep seams from costing much. Text is encoded together with what stands before it.
The last target token of a draft is held back, since more text might make it a longer one; the
text stays, though, and is there when the next draft begins. And where decided text ends in a token
that the draft model itself would have taken longer (a line end before an indentation), it may do
so, if the target's tokens stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp

from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.other_vocabulary_text import DraftText, TextCache
from oneglance.drafters.other_vocabulary_tokens import continue_tokens
from oneglance.drafters.text_drafter import TextDrafter
from oneglance.engine.base import Batch, TopTokens, TreeRows
from oneglance.types import Proposal

NUM_CANDIDATES = 16
"""Best tokens of the draft among which one is sought that begins with decided text."""

LOWEST_CONFIDENCE = 0.4
"""A draft ends where it is less probable than this that all of it is right."""


@dataclass
class StringLevelSession:
    """One request: its text, and the draft model's cache of it."""

    eos_ids: frozenset[int]
    text: DraftText
    cache: TextCache


@dataclass
class _Draft:
    """A draft in the making.

    Attributes:
        session: the request.
        limit: most target tokens.
        num_passes: how many more tokens the draft model may write.
        tokens: target tokens of the draft so far, those that are held back left out.
        rows: tokens of the draft model to be evaluated next.
        confidence: how probable it is that all of the text is right.
        is_ended: nothing more is to be written.
    """

    session: StringLevelSession
    limit: int
    num_passes: int
    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    confidence: float = 1.0
    is_ended: bool = False


class StringLevelDrafter(TextDrafter[StringLevelSession]):
    """Runs the draft model until its text makes K target tokens, for all requests together."""

    def start(self, context: DraftContext) -> StringLevelSession:
        """Encodes the prompt for the draft model; it is fed with the first draft."""
        text, cache = self._open(context)
        return StringLevelSession(context.eos_ids, text, cache)

    def propose(self, requests: Sequence[DraftRequest[StringLevelSession]]) -> list[Proposal]:
        """Drafts a chain per request, shorter where the draft model is unsure or has no room."""
        drafts = [self._begin(request) for request in requests]
        while active := [draft for draft in drafts if not draft.is_ended]:
            self._advance(active)
        return [self._proposal(draft) for draft in drafts]

    def observe(self, session: StringLevelSession, tokens: Sequence[int]) -> None:
        """Keeps of the draft what agrees with the decided tokens."""
        session.text.observe(tokens)

    def close(self, session: StringLevelSession) -> None:
        """Ends a request; the draft's cache of it may serve the next one."""
        session.cache.close()

    def _begin(self, request: DraftRequest[StringLevelSession]) -> _Draft:
        session, limit = request.session, request.num_draft_tokens
        if request.num_tree_nodes is not None:
            limit = min(limit, request.num_tree_nodes)
        text = session.text
        if text.ahead and self._continue(text) is None:
            text.drop_ahead()
        # The last token that is written is not fed, hence one position less than is needed.
        room = self._engine.config.context_length - len(text.tokens) + 1
        draft = _Draft(session, limit, num_passes=max(0, min(2 * limit + 4, room)))
        draft.is_ended = limit == 0 or not text.tokens
        for _, confidence in text.ahead_confidences:
            draft.confidence *= confidence
        if not draft.is_ended:
            self._update(draft)
        if not draft.is_ended:
            may_lengthen = text.is_encoded and not text.ahead and not text.pending and text.last
            draft.rows = session.cache.rows(2 if may_lengthen else 1)
        return draft

    def _advance(self, drafts: Sequence[_Draft]) -> None:
        """One pass of the draft model: each draft gains one of its tokens, or ends."""
        trees = tuple(TreeRows.chain(each.session.cache.sequence, each.rows) for each in drafts)
        num_top = max(self._num_top(draft) for draft in drafts)
        known = min(self._engine.config.vocab_size, self._pair.draft.vocab_size)
        output = self._engine.forward(Batch(trees, num_top=num_top, top_vocab_size=known))
        for draft, top in zip(drafts, output.top, strict=True):
            self._write(draft, top)

    def _num_top(self, draft: _Draft) -> int:
        """The best token and, to see how sure it is, the second; more where not all will do."""
        return NUM_CANDIDATES if len(draft.rows) > 1 or draft.session.text.pending else 2

    def _write(self, draft: _Draft, top: TopTokens) -> None:
        text, cache = draft.session.text, draft.session.cache
        draft.num_passes -= 1
        if len(draft.rows) > 1 and (longer := self._longer(text, top)) is not None:
            cache.keep(draft.rows[:1])
            text.pop()
        else:
            cache.keep(draft.rows)
            longer = self._beginning_with(text.pending, top)
        if longer is None:
            draft.is_ended = True
            return
        token, confidence = longer
        if not self._pair.draft_bytes(token):
            self._end(draft, token)
            return
        text.append(token, confidence)
        draft.confidence *= confidence
        draft.rows = [token]
        self._update(draft)

    def _longer(self, text: DraftText, top: TopTokens) -> tuple[int, float] | None:
        """A longer token that the draft model would have taken for the last one, if it fits."""
        last = text.last
        for place, token in enumerate(top.ids[0].tolist()):
            data = self._pair.draft_bytes(token)
            if data == last:
                return None
            if data.startswith(last):
                ids = continue_tokens(
                    self._pair.target, text.behind, data[len(last) :], self._pair.target_bytes
                )
                if ids is not None:
                    return token, _confidence(top, 0, place)
        return None

    def _beginning_with(self, pending: bytes, top: TopTokens) -> tuple[int, float] | None:
        """The best token that goes on from decided bytes of a character; any, if there are none."""
        row = len(top.ids) - 1
        for place, token in enumerate(top.ids[row].tolist()):
            data = self._pair.draft_bytes(token)
            if not pending or (data and (data.startswith(pending) or pending.startswith(data))):
                return token, _confidence(top, row, place)
        return None

    def _end(self, draft: _Draft, token: int) -> None:
        """The draft model ends its text: nothing need be held back."""
        draft.is_ended = True
        tokens = self._continue(draft.session.text)
        end = self._pair.control_for_target(token)
        if tokens is not None and not draft.session.text.pending:
            draft.tokens = tokens if end is None else [*tokens, end]

    def _update(self, draft: _Draft) -> None:
        """Cuts the text into target tokens and decides whether there is enough of it."""
        tokens = self._continue(draft.session.text, stays_apart=True)
        if tokens is None:
            draft.is_ended = True
            return
        draft.tokens = tokens[:-1]
        draft.is_ended = (
            len(draft.tokens) >= draft.limit
            or draft.num_passes <= 0
            or bool(draft.tokens and draft.confidence < LOWEST_CONFIDENCE)
        )

    def _continue(self, text: DraftText, stays_apart: bool = False) -> list[int] | None:
        pair = self._pair
        return continue_tokens(pair.target, text.behind, text.ahead, pair.target_bytes, stays_apart)

    def _proposal(self, draft: _Draft) -> Proposal:
        tokens = draft.tokens[: draft.limit]
        for index, token in enumerate(tokens):
            if token in draft.session.eos_ids:  # nothing that follows it can be delivered
                del tokens[index + 1 :]
        expected = self._expected(draft.session.text, tokens)
        return Proposal.chain(tokens, drafter=self.name, expected=expected)

    def _expected(self, text: DraftText, tokens: Sequence[int]) -> float:
        """Each token is as probable as all of the text through its end."""
        written = iter(text.ahead_confidences)
        size = reach = 0
        confidence, expected = 1.0, 0.0
        for token in tokens:
            size += len(self._pair.target_bytes(token))
            while reach < size and (step := next(written, None)):
                reach, confidence = step[0], confidence * step[1]
            expected += confidence
        return expected


def _confidence(top: TopTokens, row: int, place: int) -> float:
    """Share of a token among the best two of its row, or of the best and itself."""
    logits = top.logits[row]
    best, other = float(logits[place]), float(logits[1 if place == 0 else 0])
    return 1 / (1 + exp(min(other - best, 700.0)))
