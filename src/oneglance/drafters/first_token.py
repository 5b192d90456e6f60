"""Whether a trained head matches its target, found out when it is loaded.

A head that was trained for another model, or that is shown other layers than in its training, does
not fail: it drafts tokens that are never accepted. So its first draft tokens are compared with what
the target says along two short texts, teacher-forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.errors import UnsupportedError
from oneglance.sampling.noise import SequentialNoise

MIN_ACCEPTANCE = 0.15
"""A head below this is refused. One that always says the most frequent token of a text gets some
0.05; published heads that were shown wrong layers got 0.01 to 0.1, right ones 0.45 and more."""

TEXTS = (
    "The river rises in the mountains in the north of the country and flows through three "
    "provinces before it reaches the sea. In the spring, when the snow melts, it floods the "
    "meadows on both sides, and the farmers move their animals to higher ground. For hundreds of "
    "years the people of the valley have built their houses on small hills.",
    "def count_words(text):\n"
    '    """Return a dictionary with the number of times each word occurs."""\n'
    "    counts = {}\n"
    "    for word in text.split():\n"
    "        if word not in counts:\n"
    "            counts[word] = 0\n"
    "        counts[word] += 1\n"
    "    return counts\n",
)
"""Prose and code: a head that was trained for one of them need not know the other."""


def check_first_tokens(
    target: Engine, drafter: Drafter[Any], texts: Sequence[Sequence[int]], vocab_size: int
) -> float:
    """Refuses a head whose first draft tokens the target does not say.

    Args:
        target: the model.
        drafter: drafts from its hidden states.
        texts: token ids of `TEXTS`.
        vocab_size: tokens of the vocabulary.

    Returns:
        The share of first tokens that the target says, on the text where it is greatest.

    Raises:
        UnsupportedError: it is below `MIN_ACCEPTANCE`.
    """
    best = max(first_token_acceptance(target, drafter, text, vocab_size) for text in texts)
    if best < MIN_ACCEPTANCE:
        raise UnsupportedError(
            f"{drafter.name} does not match this target: {best:.0%} of its first draft tokens are "
            f"what the target says, and a head that fits gets {MIN_ACCEPTANCE:.0%} or more; "
            "choose a head that was trained for this model."
        )
    return best


def first_token_acceptance(
    target: Engine, drafter: Drafter[Any], tokens: Sequence[int], vocab_size: int
) -> float:
    """Share of places in a text where the drafter's first token is the target's best one.

    Args:
        target: evaluates the text in one pass.
        drafter: is shown its hidden states place by place, as while an answer is made.
        tokens: the text, at least 3 tokens.
        vocab_size: tokens that can be best.
    """
    limit = min(len(tokens), target.config.context_length)
    sequence = target.open()
    try:
        rows = TreeRows.chain(sequence, tokens[:limit])
        layers = drafter.hidden_layers
        output = target.forward(Batch((rows,), layers, num_top=1, top_vocab_size=vocab_size))
    finally:
        target.close(sequence)
    wanted = output.top[0].ids[:, 0]
    context = DraftContext(tuple(tokens[:1]), SamplingParams(), SequentialNoise(0))
    session = drafter.start(context)
    hits, drafts = 0, 0
    try:
        for place in range(limit - 1):
            proposal = drafter.propose([DraftRequest(session, 1)])[0]
            drafts += min(1, len(proposal))
            hits += int(np.count_nonzero(proposal.tokens[:1] == wanted[place]))
            hidden = {
                layer: states[0][place : place + 1] for layer, states in output.hidden.items()
            }
            drafter.see_hidden(session, place, hidden)
            drafter.observe(session, [tokens[place + 1]])
    finally:
        drafter.close(session)
    return hits / max(1, drafts)
