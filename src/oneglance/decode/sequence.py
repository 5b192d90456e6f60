"""One answer in progress: what is decided, what may still be delivered, and the counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from oneglance.config import LogitsProcessor, SamplingParams
from oneglance.constraints import TokenMask
from oneglance.control.length import MAX_LENGTH, Control, DraftLength, FixedLength
from oneglance.decode.guidance import GRAMMAR, MAX_CERTAIN, Guide, GuidedDraft
from oneglance.decode.stop import Ending, StopTracker
from oneglance.decode.watch import PassWatcher, SeenPass
from oneglance.drafters.base import Drafter, DraftHints, DraftRequest
from oneglance.engine.base import SequenceId, TreeRows
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import (
    ROOT,
    Float64Array,
    PassTrace,
    Proposal,
    RowSummaries,
    SpeculationStats,
    Token,
    TokenKind,
)
from oneglance.verify.base import Acceptance
from oneglance.verify.warped_law import WarpedLaw


@dataclass(frozen=True)
class Vocabulary:
    """What decoding must know of the target's tokens.

    Attributes:
        size: tokens that have a meaning; the model's rows may be wider and are cut to this.
        eos_ids: tokens that end an answer.
        token_bytes: the bytes that a token adds to the text.
    """

    size: int
    eos_ids: frozenset[int]
    token_bytes: Callable[[int], bytes]


@dataclass(frozen=True)
class Delivery:
    """What one pass released to the user.

    Attributes:
        text: text that can no longer change.
        tokens: the tokens released with it.
        trace: what the pass did.
        ending: set by the pass that ended the answer.
    """

    text: str
    tokens: tuple[Token, ...]
    trace: PassTrace
    ending: Ending | None


class DecodingSequence:
    """The state of one request between passes. Created by `Decoder.open`.

    Attributes:
        handle: its sequence in the target's engine.
        drafter: guesses for it; `session` is what the drafter knows of it.
        control: what was learned of this target and this drafter.
        hints: for the drafter.
        draft_length: how much to draft.
        may_draft: nothing is drafted where this is False, such as where the cache has no room.
        watcher: is shown every pass; None: nobody looks on.
        seconds_shown: how long that took in the last pass, which is no part of decoding.
    """

    def __init__(
        self,
        handle: SequenceId,
        drafter: Drafter[Any],
        control: Control,
        prompt: tuple[int, ...],
        params: SamplingParams,
        noise: Noise | KeyedNoise,
        vocabulary: Vocabulary,
        max_new_tokens: int,
        draft_length: DraftLength,
        num_tree_nodes: int | None = None,
        hints: DraftHints = DraftHints(),
    ) -> None:
        """Starts an answer to `prompt` of at most `max_new_tokens` tokens."""
        self.handle = handle
        self.drafter = drafter
        self.control = control
        self.hints = hints
        self.may_draft = True
        self.noise = noise
        self.session: Any = None  # of whatever type the drafter uses
        self.watcher: PassWatcher | None = None
        self.seconds_shown = 0.0
        self.draft_length = draft_length
        self._num_tree_nodes = num_tree_nodes
        self.eos_ids = frozenset() if params.ignore_eos else vocabulary.eos_ids
        self.history = TokenHistory(prompt)
        self.stats = SpeculationStats()
        self.ending: Ending | None = None
        self.tokens: list[Token] = []
        self.text = ""
        self.trace: list[PassTrace] = []
        self.vocab_size = vocabulary.size
        self._last_token = prompt[-1]
        self._stop = StopTracker(params, self.eos_ids, vocabulary.token_bytes, max_new_tokens)
        processors = tuple(self._until_the_end(each) for each in params.logits_processors)
        self.params = replace(params, logits_processors=processors)
        self._num_released = 0

    @property
    def draft_room(self) -> int:
        """Draft tokens in a row that could be delivered.

        A pass delivers one token more than it accepts, hence one less than remains.
        """
        return self._stop.num_remaining - 1 if self.may_draft else 0

    @property
    def most_rows(self) -> int:
        """The most rows that it can have in the next pass."""
        nodes = self._num_tree_nodes
        if nodes is None or self.draft_room == 0:
            most = MAX_LENGTH
            if isinstance(self.draft_length, FixedLength):
                most = self.draft_length.num_draft_tokens
            nodes = min(self.draft_room, most)
            nodes += self.drafter.num_further + self._num_branches if nodes else 0
        if self.params.constraint is not None:
            nodes += min(MAX_CERTAIN, self.draft_room)
        return 1 + nodes

    def unread(self, num_known: int) -> tuple[int, ...]:
        """The decided tokens, all but the last, that follow the first `num_known` ones."""
        return self.history.tokens()[num_known:-1]

    @property
    def context(self) -> int:
        """Tokens before the rows of the next pass."""
        return len(self.history.prompt) + self.history.num_output

    def draft_request(self, num_draft_tokens: int) -> DraftRequest[Any]:
        """What to ask of the drafter: at most so many tokens in a row."""
        room = self.draft_room
        num_draft_tokens = min(num_draft_tokens, room)
        branches = self._num_branches if num_draft_tokens else 0
        return DraftRequest(self.session, num_draft_tokens, self._num_tree_nodes, room, branches)

    @property
    def _num_branches(self) -> int:
        """Tokens that may hang beside a chain.

        None where a budget of nodes allows a tree, nor with a constraint: what it leaves no choice
        about is appended at the end of a chain.
        """
        has_other_shape = self._num_tree_nodes is not None or self.params.constraint is not None
        return 0 if has_other_shape else self.draft_length.num_branches

    def guide(self, draft: Proposal) -> GuidedDraft:
        """What to verify of a draft: what the constraint allows, and then what it makes certain.

        Plain decoding stays plain, and a drafter that learns from all its rows keeps them.
        """
        mask = self.params.constraint
        if mask is None or self.drafter.is_plain:
            return GuidedDraft(draft, len(draft))
        assert isinstance(mask, TokenMask), "the constraint has no vocabulary yet"
        guide = Guide(mask, self.eos_ids, self.vocab_size, not self.drafter.reaches_further)
        return guide.apply(draft, self.history.output, self.draft_room)

    def show(self, seen: SeenPass) -> None:
        """Shows a pass to whoever looks on."""
        if self.watcher is not None:
            started = perf_counter()
            self.watcher.see(seen)
            self.seconds_shown = perf_counter() - started

    def rows(self, proposal: Proposal) -> TreeRows:
        """The tree to evaluate: the last decided token, and the proposal hanging off it."""
        num_rows = len(proposal) + 1
        tokens, parents = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
        tokens[0], tokens[1:] = self._last_token, proposal.tokens
        parents[0], parents[1:] = ROOT, proposal.parents + 1
        return TreeRows(self.handle, tokens, parents, np.ones(num_rows, dtype=np.bool_))

    def law(
        self,
        logits: np.ndarray[Any, np.dtype[np.float32]],
        proposal: Proposal,
        summaries: RowSummaries | None = None,
    ) -> WarpedLaw:
        """The target's law after each node, from the rows [N + 1, V] that the pass returned."""
        rows = logits[:, : self.vocab_size]
        return WarpedLaw(rows, proposal, self.params, self.history, self.eos_ids, summaries)

    def _until_the_end(self, processor: LogitsProcessor) -> LogitsProcessor:
        """A user's function, spared the positions after the end of the answer.

        A block is judged before it is cut, so that laws are asked for after a drafted end of text
        or stop string. Plain decoding never gets there, and a grammar, say, allows nothing there.
        """

        def guarded(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
            path = tokens[len(self.history.prompt) + self.history.num_output :]
            return logits if self._stop.ends_within(path) else processor(tokens, logits)

        guarded.__name__ = getattr(processor, "__name__", type(processor).__name__)
        return guarded

    def deliver(
        self, proposal: Proposal, acceptance: Acceptance, law: WarpedLaw, num_certain: int = 0
    ) -> tuple[list[int], Delivery]:
        """Takes the accepted path and the target's token, up to the event that ends the answer.

        Args:
            proposal: what was verified.
            acceptance: what was accepted of it.
            law: of the target.
            num_certain: the last so many tokens of the proposal are not the drafter's.

        Returns:
            The tokens decided by this pass, and what of the answer can be released.
        """
        decided: list[int] = []
        num_drafted = len(proposal) - num_certain
        pass_index, num_before = self.stats.passes, len(self.tokens)
        last = acceptance.path[-1] if acceptance.path else ROOT
        for node in acceptance.path:
            before = int(proposal.parents[node])
            token = int(proposal.tokens[node])
            drafter = proposal.drafter if node < num_drafted else GRAMMAR
            self._take(token, "accepted", drafter, law, before, pass_index, decided)
        self._take(acceptance.next_token, acceptance.kind, None, law, last, pass_index, decided)
        self.stats.passes += 1
        self.stats.drafted += len(proposal)
        num_delivered = max(0, len(self.tokens) - num_before)  # a stop string can reach back
        return decided, self._release(_trace(proposal, acceptance, num_delivered, num_certain))

    def _take(
        self,
        token_id: int,
        kind: TokenKind,
        drafter: str | None,
        law: WarpedLaw,
        before: int,
        pass_index: int,
        decided: list[int],
    ) -> None:
        """Adds one token to the answer unless that has ended, or ends with this token."""
        if self.ending is not None:
            return
        is_kept = self._stop.push(token_id)
        self.ending = self._stop.ending
        if is_kept:
            logprob = law.logprob(before, token_id)
            alternatives = law.top_logprobs(before, self.params.top_logprobs)
            self.tokens.append(Token(token_id, kind, drafter, logprob, pass_index, alternatives))
            decided.append(token_id)
            self.history.append(token_id)
            self._last_token = token_id
        del self.tokens[self._stop.num_tokens :]  # a stop string can reach back

    def _release(self, trace: PassTrace) -> Delivery:
        text, num_released = self._stop.take()
        released = tuple(self.tokens[self._num_released : num_released])
        self.text += text
        self.trace.append(trace)
        self._num_released = num_released
        if self.ending is not None:
            self.stats.delivered = len(self.tokens)
            self.stats.accepted = sum(token.kind == "accepted" for token in self.tokens)
        return Delivery(text, released, trace, self.ending)


def _trace(
    proposal: Proposal, acceptance: Acceptance, num_delivered: int, num_certain: int
) -> PassTrace:
    num_path = min(num_delivered, len(acceptance.path))
    return PassTrace(
        drafter=proposal.drafter,
        draft_tokens=tuple(proposal.tokens.tolist()),
        parents=tuple(proposal.parents.tolist()),
        accepted=acceptance.path[:num_path],
        next_token=acceptance.next_token if num_delivered > len(acceptance.path) else None,
        kind=acceptance.kind,
        num_certain=num_certain,
    )
