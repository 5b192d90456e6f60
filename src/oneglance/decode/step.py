"""The algorithm on one page: a junior drafts a line, the expert checks it in one glance."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from oneglance.control.allocation import Fixed
from oneglance.decode.booking import share_time
from oneglance.decode.propose import Guess, propose
from oneglance.decode.reading import Chunk
from oneglance.decode.sequence import DecodingSequence, Delivery
from oneglance.decode.watch import SeenPass
from oneglance.engine.base import Batch, Engine, PassOutput
from oneglance.verify.select import accept

Outcome = Delivery | Exception
"""What a sequence delivered, or why it cannot go on."""


def step(
    target: Engine, sequences: Sequence[DecodingSequence], chunks: Sequence[Chunk] = ()
) -> tuple[list[Outcome], list[Exception | None]]:
    """One pass of the target over all sequences; each gains 1 to K + 1 tokens.

    Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. Each sequence is accepted
    on its own, however far it gets (ragged acceptance). Its drafter changes how soon tokens come,
    never which.

    Args:
        target: the model whose law the answers follow.
        sequences: answers in progress; each has one decided token that is not in the cache yet.
        chunks: of texts that are still being read: they go along in the same pass.

    Returns:
        The outcome of each sequence, and for each chunk what went wrong with it, if anything. An
        error that only one of them is to blame for leaves the others as they would be without it.
    """
    times = [perf_counter()]
    attended = sum(chunk.num_attended(target) for chunk in chunks)

    # 1. Propose: the drafters guess what comes next, chains or trees of tokens.
    guesses = propose(sequences, Fixed(sum(map(len, chunks)), 0.0, attended))
    times.append(perf_counter())

    # 2. Verify: one pass evaluates the last decided token of each and every guess after it.
    able = [(s, guess) for s, guess in zip(sequences, guesses, strict=True) if guess.error is None]
    rows = [*(s.rows(guess.proposal) for s, guess in able), *(chunk.rows() for chunk in chunks)]
    attended += sum((len(guess.proposal) + 1) * s.context for s, guess in able)
    layers = _hidden_layers(sequences, chunks)
    vocab_size = able[0][0].vocab_size if able else None
    output = target.forward(Batch(tuple(rows), layers, summary_vocab_size=vocab_size))
    times.append(perf_counter())

    places = iter(range(len(rows)))
    outcomes = [
        guess.error or _settle(target, s, guess, output, next(places), len(sequences))
        for s, guess in zip(sequences, guesses, strict=True)
    ]
    failures = [_read(target, chunk, output, next(places)) for chunk in chunks]
    times.append(perf_counter() - sum(s.seconds_shown for s in sequences))

    share_time(sequences, chunks, sum(len(tree.tokens) for tree in rows), times)
    if able and not chunks:  # prompts cost less than drafts, row by row: nobody needs their logits
        costs = able[0][0].control.pass_costs
        costs.note(sum(len(tree.tokens) for tree in rows), times[3] - times[1], attended)
    return outcomes, failures


def _settle(
    target: Engine,
    s: DecodingSequence,
    guess: Guess,
    output: PassOutput,
    place: int,
    num_sequences: int,
) -> Outcome:
    """What one sequence makes of its rows, the `place`-th tree of the pass."""
    proposal, logits = guess.proposal, output.logits[place]
    summaries = output.summaries[place] if output.summaries else None
    try:
        # 3. Accept: keep the guesses that the target's law allows, add one token of its own.
        law = s.law(logits, proposal, summaries)
        acceptance = accept(proposal, law, s.noise)
        if s.watcher is not None:
            made = (guess.num_asked, len(guess.draft), proposal)
            s.show(SeenPass(s.context, *made, acceptance, law))

        # 4. Commit: the cache keeps the rows of the accepted path (row 0 is the decided token).
        start, path = target.length(s.handle), [0, *(node + 1 for node in acceptance.path)]
        target.commit(s.handle, path)
        guided = guess.guided
        decided, delivery = s.deliver(proposal, acceptance, law, guided.num_certain)
        s.draft_length.note(guess.draft, guided.num_drafted, decided, num_sequences)
        if guided.is_whole:
            s.drafter.see(s.session, guess.kept, logits[: len(guess.kept) + 1])
        if layers := s.drafter.hidden_layers:
            hidden = {layer: output.hidden[layer][place][path] for layer in layers}
            s.drafter.see_hidden(s.session, start, hidden)
        s.drafter.observe(s.session, decided)
    except Exception as error:
        return error
    return delivery


def _read(target: Engine, chunk: Chunk, output: PassOutput, place: int) -> Exception | None:
    try:
        chunk.commit(target, output, place)
    except Exception as error:
        return error
    return None


def _hidden_layers(
    sequences: Sequence[DecodingSequence], chunks: Sequence[Chunk]
) -> tuple[int, ...]:
    """The layers whose states some drafter of the pass wants to see."""
    drafters = [s.drafter for s in (*sequences, *(chunk.sequence for chunk in chunks))]
    return tuple(sorted({layer for drafter in drafters for layer in drafter.hidden_layers}))
