"""The algorithm on one page: a junior drafts a line, the expert checks it in one glance."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from oneglance.control.controller import choose_lengths, cut_drafts, note_draft
from oneglance.control.length import Control
from oneglance.decode.sequence import DecodingSequence, Delivery
from oneglance.decode.watch import PassWatcher, SeenPass
from oneglance.drafters.base import Drafter, DraftRequest
from oneglance.engine.base import Batch, Engine
from oneglance.types import Proposal
from oneglance.verify.select import accept


def step(
    target: Engine,
    drafter: Drafter[Any],
    sequences: Sequence[DecodingSequence],
    control: Control,
) -> list[Delivery]:
    """One pass of the target over all sequences; each gains 1 to K + 1 tokens.

    Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. Each sequence is accepted
    on its own, however far it gets (ragged acceptance).

    Args:
        target: the model whose law the answers follow.
        drafter: guesses; it changes how soon tokens come, never which.
        sequences: answers in progress; each has one decided token that is not in the cache yet.
        control: told what the pass cost.

    Returns:
        What each sequence delivered, in order.
    """
    times = [perf_counter()]
    contexts = [s.context for s in sequences]

    # 1. Propose: the drafter guesses what comes next, a chain or a tree of tokens.
    lengths = [s.draft_length for s in sequences]
    wishes = choose_lengths(lengths, [s.draft_room for s in sequences])
    requests = [s.draft_request(wish) for s, wish in zip(sequences, wishes, strict=True)]
    asked = perf_counter()
    drafts = drafter.propose(requests)
    note_draft(lengths, wishes, drafts, perf_counter() - asked)
    for request, draft in zip(requests, drafts, strict=True):
        _check_size(drafter, request, draft)
    # Of what is a function of the prefix, the part that is not worth its rows is left out.
    kept = drafts if drafter.reaches_further else cut_drafts(lengths, drafts)
    # What a constraint forbids is left out, what it leaves no choice about is added.
    guided = [s.guide(draft, drafter) for s, draft in zip(sequences, kept, strict=True)]
    proposals = [each.proposal for each in guided]
    times.append(perf_counter())

    # 2. Verify: one pass evaluates the last decided token and every guess after it.
    rows = [s.rows(proposal) for s, proposal in zip(sequences, proposals, strict=True)]
    output = target.forward(Batch(tuple(rows), drafter.hidden_layers))
    times.append(perf_counter())

    deliveries, watching = [], 0.0
    for i, (s, draft, guide) in enumerate(zip(sequences, drafts, guided, strict=True)):
        # 3. Accept: keep the guesses that the target's law allows, add one token of its own.
        logits, proposal = output.logits[i], guide.proposal
        law = s.law(logits, proposal)
        acceptance = accept(proposal, law, s.noise)
        if s.watcher is not None:
            seen = SeenPass(
                contexts[i], requests[i].num_draft_tokens, len(draft), proposal, acceptance, law
            )
            watching += _show(s.watcher, seen)

        # 4. Commit: the cache keeps the rows of the accepted path (row 0 is the decided token).
        start, path = target.length(s.handle), [0, *(node + 1 for node in acceptance.path)]
        target.commit(s.handle, path)
        decided, delivery = s.deliver(proposal, acceptance, law, guide.num_certain)
        s.draft_length.note(draft, guide.num_drafted, decided, len(sequences))
        if guide.is_whole:
            drafter.see(s.session, kept[i], logits[: len(kept[i]) + 1])
        if drafter.hidden_layers:
            hidden = {layer: states[i][path] for layer, states in output.hidden.items()}
            drafter.see_hidden(s.session, start, hidden)
        drafter.observe(s.session, decided)
        deliveries.append(delivery)
    times.append(perf_counter() - watching)

    _share_time(sequences, times)
    num_rows = [len(proposal) + 1 for proposal in proposals]
    attended = sum(count * context for count, context in zip(num_rows, contexts, strict=True))
    control.pass_costs.note(sum(num_rows), times[3] - times[1], attended)
    return deliveries


def _check_size(drafter: Drafter[Any], request: DraftRequest[Any], proposal: Proposal) -> None:
    """A drafter that drafts more than it was asked for has a bug, hence assertions."""
    max_depth, max_nodes = request.max_depth, request.num_tree_nodes
    if not drafter.reaches_further:
        max_depth = request.num_draft_tokens
        max_nodes = max_depth if max_nodes is None else max_nodes
    assert proposal.max_depth <= max_depth, "more was drafted than asked for"
    assert max_nodes is None or len(proposal) <= max_nodes, "more was drafted than asked for"


def _show(watcher: PassWatcher, seen: SeenPass) -> float:
    """Shows a pass; returns the seconds that this took, which are no part of decoding."""
    started = perf_counter()
    watcher.see(seen)
    return perf_counter() - started


def _share_time(sequences: Sequence[DecodingSequence], times: list[float]) -> None:
    """Books the pass's time to its sequences in equal parts, so that pooled sums are true."""
    start, drafted, verified, accepted = times
    spans = (drafted - start, verified - drafted, accepted - verified)
    draft, verify, accepting = (span / len(sequences) for span in spans)
    for s in sequences:
        s.stats.draft_seconds += draft
        s.stats.verify_seconds += verify
        s.stats.accept_seconds += accepting
        if s.watcher is not None:
            s.watcher.note_seconds(draft, verify, accepting)
