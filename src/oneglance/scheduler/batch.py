"""Who takes part in the next pass, and with how many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneglance.decode.reading import Chunk
from oneglance.engine.base import Engine, SequenceId
from oneglance.engine.prefix import PrefixStore
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.entry import Entry
from oneglance.scheduler.room import make_room


@dataclass(frozen=True)
class PassPlan:
    """What the next pass holds.

    Attributes:
        decoding: requests whose last token is evaluated, with what is drafted after it.
        reading: requests of whose prompts a part is evaluated.
        chunks: those parts, in the same order.
    """

    decoding: tuple[Entry, ...] = ()
    reading: tuple[Entry, ...] = ()
    chunks: tuple[Chunk, ...] = ()

    def num_rows(self) -> dict[SequenceId, int]:
        """Rows of each sequence, without drafts."""
        rows = {entry.sequence.handle: 1 for entry in self.decoding}
        return rows | {chunk.sequence.handle: len(chunk) for chunk in self.chunks}


def plan_pass(
    running: Sequence[Entry], target: Engine, config: SchedulerConfig, num_drafted: int
) -> PassPlan:
    """Every request that decodes, and as much of the prompts as there is room for.

    Args:
        running: in the order in which they are served.
        target: whose cache tells how far prompts have been read.
        config: the budget of rows.
        num_drafted: draft tokens that the pass is expected to hold.
    """
    decoding = tuple(entry for entry in running if entry.state == "decoding")
    budget = config.pass_rows
    if decoding:
        budget = max(config.min_prompt_rows, budget - len(decoding) - num_drafted)
    reading, chunks = [], []
    for entry in running:
        if entry.state == "reading" and budget > 0:
            s = entry.sequence
            tokens = s.unread(target.length(s.handle))[:budget]
            reading.append(entry)
            chunks.append(Chunk(s, tokens))
            budget -= len(tokens)
    return PassPlan(decoding, tuple(reading), tuple(chunks))


def allow_drafts(plan: PassPlan, target: Engine, prefixes: PrefixStore) -> None:
    """Lets requests draft as far as there are pages for the longest drafts there may be.

    It is settled before anything is drafted: whether a draft is used must never depend on what it
    came to.
    """
    for entry in plan.decoding:
        entry.sequence.may_draft = True
    without = plan.num_rows()
    wanted = {entry.sequence.handle: entry.sequence.most_rows for entry in plan.decoding}
    if make_room(target, prefixes, without | wanted):
        return
    allowed: dict[SequenceId, int] = {}
    for entry in plan.decoding:
        s = entry.sequence
        more = allowed | {s.handle: wanted[s.handle]}
        s.may_draft = target.num_missing_pages(without | more) == 0
        allowed = more if s.may_draft else allowed
