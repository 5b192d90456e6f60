"""A suffix tree of what was said drafts what comes next: SuffixDecoding, arXiv:2411.04975.

Two trees, both compiled (`csrc/suffix_tree.h`): one of the request's prompt and answer, and, where
it is asked for, one of the answers of past requests (`suffix_memory.py`). For every length at which
the end of the text was seen before, the tree follows the most frequent continuation, and adds up
how probable its tokens are; the draft with the highest sum is taken. That sum is the expected
number of accepted tokens. Drafts are a function of the prefix, hence point masses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from oneglance import _native
from oneglance.drafters.base import DraftContext, DraftRequest, RewindingDrafter
from oneglance.drafters.suffix_file import read_answers, write_answers
from oneglance.drafters.suffix_memory import SuffixMemory
from oneglance.errors import ParameterError
from oneglance.types import Proposal


@dataclass(frozen=True)
class SuffixLimits:
    """How far a suffix tree looks back and ahead.

    Attributes:
        max_depth: tokens of a match and its continuation together, from 2 to 1024.
        factor: after a match of m tokens at most floor(factor · m + offset) are drafted.
        offset: see `factor`.
        min_prob: a path ends before its estimated probability falls below this.
    """

    max_depth: int = 64
    factor: float = 1.0
    offset: float = 0.0
    min_prob: float = 0.1

    def __post_init__(self) -> None:
        """Refuses what cannot be honoured.

        Raises:
            ParameterError: a value is out of its range.
        """
        if not 2 <= self.max_depth <= 1024:
            raise ParameterError(
                f"max_depth = {self.max_depth} cannot be used; it must be from 2 to 1024."
            )
        if not (0 <= self.factor < math.inf and math.isfinite(self.offset)):
            raise ParameterError(
                f"factor = {self.factor} and offset = {self.offset} cannot be used; both must be "
                "finite numbers, and the factor not below 0."
            )
        if not 0 <= self.min_prob <= 1:
            raise ParameterError(
                f"min_prob = {self.min_prob} cannot be used; it must be from 0 to 1."
            )


@dataclass
class SuffixSession:
    """One request.

    Attributes:
        context: what it was started with.
        tree: of its prompt and answer, the only `sequence` in it.
        ends: tokens after which no more is drafted.
        limits: of drafts that were asked for, by tokens and nodes.
        tail: the last tokens, which the memory looks for.
        answer: for the memory, at the end.
    """

    context: DraftContext
    tree: _native.SuffixTree
    sequence: int
    ends: list[int]
    limits: dict[tuple[int, int | None], _native.DraftLimits] = field(default_factory=dict)
    tail: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)


class SuffixDrafter(RewindingDrafter[SuffixSession]):
    """Drafts from the request itself, and from past answers of the same tenant if it has a memory.

    A chain unless the request has a node budget. Tokens drafted by the memory are reported as by
    "suffix:global".
    """

    def __init__(
        self,
        limits: SuffixLimits = SuffixLimits(),
        memory: SuffixMemory | None = None,
        path: Path | None = None,
    ) -> None:
        """Begins with whatever the memory holds.

        Args:
            limits: how far to look.
            memory: of past answers; None: each request is on its own.
            path: where `shutdown` saves the memory to; None: nowhere.
        """
        self.name = "suffix" if memory is None else "suffix:global"
        self._limits = limits
        self._memory = memory
        self._path = path

    def start(self, context: DraftContext) -> SuffixSession:
        """Makes a tree of the prompt."""
        tree = _native.SuffixTree(self._limits.max_depth)
        session = SuffixSession(context, tree, tree.start(), sorted(context.eos_ids))
        self._append(session, context.prompt)
        return session

    def propose(self, requests: Sequence[DraftRequest[SuffixSession]]) -> list[Proposal]:
        """The better of what the request and the memory say, by score; the request's if equal."""
        return [self._draft(request) for request in requests]

    def observe(self, session: SuffixSession, tokens: Sequence[int]) -> None:
        """Appends what was decided; drafts that were rejected are never seen."""
        self._append(session, tokens)
        session.answer.extend(tokens)

    def rewind(self, session: SuffixSession, num_tokens: int) -> None:
        """Forgets the last tokens: the tree is made again without them."""
        if num_tokens == 0:
            return
        del session.answer[len(session.answer) - num_tokens :]
        session.tree.remove(session.sequence)
        session.sequence = session.tree.start()
        session.tail.clear()
        self._append(session, [*session.context.prompt, *session.answer])

    def close(self, session: SuffixSession) -> None:
        """Gives the answer to the memory, as far as it was decided, and forgets the request."""
        if self._memory is not None and session.context.hints.remembers:
            self._memory.add(session.context.hints.tenant, session.answer)
        session.tree.remove(session.sequence)

    def shutdown(self) -> None:
        """Saves the memory where it has a file.

        Raises:
            ParameterError: the file cannot be written.
        """
        if self._path is not None:
            self.save(self._path)

    def save(self, path: Path) -> None:
        """Writes the past answers to a file, each tenant's apart, in the place of an older one.

        Raises:
            ParameterError: the drafter has no memory, or the file cannot be written.
        """
        memory = self._needed_memory()
        write_answers(path, memory.vocabulary, memory.answers())

    def load(self, path: Path) -> None:
        """Puts the answers of a file in the place of those that are remembered.

        Raises:
            ParameterError: the drafter has no memory, or the file cannot be read, is corrupt or of
                another format.
            UnsupportedError: the answers are in the tokens of another vocabulary.
        """
        memory = self._needed_memory()
        answers = read_answers(path, memory.vocabulary)
        memory.clear()
        for tenant, those in answers.items():
            for answer in those:
                memory.add(tenant, answer)

    def _needed_memory(self) -> SuffixMemory:
        if self._memory is None:
            raise ParameterError(
                "The drafter suffix remembers no past answers; use suffix:global for that."
            )
        return self._memory

    def _append(self, session: SuffixSession, tokens: Sequence[int]) -> None:
        session.tree.append(session.sequence, tokens)
        session.tail.extend(tokens[-self._limits.max_depth :])
        del session.tail[: -self._limits.max_depth]

    def _make_limits(
        self, session: SuffixSession, num_tokens: int, num_nodes: int | None
    ) -> _native.DraftLimits:
        return _native.DraftLimits(
            max_tokens=num_tokens,
            max_nodes=-1 if num_nodes is None else num_nodes,
            factor=self._limits.factor,
            offset=self._limits.offset,
            min_prob=self._limits.min_prob,
            ends=session.ends,
        )

    def _draft(self, request: DraftRequest[SuffixSession]) -> Proposal:
        session, asked = request.session, (request.num_draft_tokens, request.num_tree_nodes)
        limits = session.limits.get(asked)
        if limits is None:
            limits = session.limits[asked] = self._make_limits(session, *asked)
        local = session.tree.draft_after(session.sequence, limits)
        if self._memory is not None and session.context.hints.remembers:
            past = self._memory.draft(session.context.hints.tenant, session.tail, limits)
            if past is not None and past.score > local.score:
                return _proposal(past, "suffix:global")
        return _proposal(local, "suffix")


def _proposal(draft: _native.SuffixDraft, drafter: str) -> Proposal:
    if not draft.tokens:
        return Proposal.empty(drafter, 0.0)
    return Proposal(
        tokens=np.array(draft.tokens, dtype=np.int64),
        parents=np.array(draft.parents, dtype=np.int64),
        drafter=drafter,
        expected=draft.score,
    )
