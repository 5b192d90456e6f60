"""What a sequence delivers and records, pass by pass, on blocks that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.control.length import Control, FixedLength
from oneglance.decode.sequence import DecodingSequence, Delivery, Vocabulary
from oneglance.drafters.none import NoDrafter
from oneglance.sampling.noise import SequentialNoise
from oneglance.sampling.softmax import softmax
from oneglance.types import ROOT, Float32Array, Float64Array, Proposal
from oneglance.verify.base import Acceptance

V = 5
PROMPT = (0, 1)
EOS = 4


def begin(max_new_tokens: int = 50, ignore_eos: bool = False, **params: object) -> DecodingSequence:
    return DecodingSequence(
        handle=7,
        drafter=NoDrafter(),
        control=Control(),
        prompt=PROMPT,
        params=SamplingParams(ignore_eos=ignore_eos, **params),  # type: ignore[arg-type]
        noise=SequentialNoise(0),
        vocabulary=Vocabulary(V, frozenset({EOS}), lambda token: bytes([97 + token])),
        max_new_tokens=max_new_tokens,
        draft_length=FixedLength(4),
    )


def rows(proposal: Proposal) -> Float32Array:
    """[N + 1, V + 2] logits that differ from row to row; the last two columns are padding."""
    generator = np.random.default_rng(len(proposal))
    return generator.standard_normal((len(proposal) + 1, V + 2)).astype(np.float32)


def deliver(
    sequence: DecodingSequence, proposal: Proposal, path: Sequence[int], next_token: int
) -> tuple[list[int], Delivery]:
    law = sequence.law(rows(proposal), proposal)
    return sequence.deliver(proposal, Acceptance.after(proposal, list(path), next_token), law)


def chain(*tokens: int) -> Proposal:
    return Proposal.chain(tokens, drafter="hand")


# Two branches: 1 then 2 (nodes 0 and 2), and 3 then 0 (nodes 1 and 3).
TREE = Proposal(np.array([1, 3, 2, 0]), np.array([ROOT, ROOT, 0, 1]), drafter="hand")


def test_rows_are_the_last_decided_token_and_the_tree_that_hangs_off_it() -> None:
    sequence = begin()
    tree = sequence.rows(TREE)
    assert tree.sequence == 7
    assert tree.tokens.tolist() == [PROMPT[-1], 1, 3, 2, 0]
    assert tree.parents.tolist() == [ROOT, 0, 0, 1, 2]
    assert tree.wants_logits.all()
    deliver(sequence, TREE, [1, 3], 2)
    assert sequence.rows(chain()).tokens.tolist() == [2]
    deliver(sequence, chain(), [], 3)
    assert sequence.rows(chain(1)).tokens.tolist() == [3, 1]


def test_logprobs_on_a_branch_are_of_the_rows_on_the_way() -> None:
    """The nodes of a path are not consecutive in a tree."""
    sequence = begin(top_logprobs=2)
    decided, delivery = deliver(sequence, TREE, [1, 3], 2)
    assert decided == [3, 0, 2]
    logits = rows(TREE)[:, :V].astype(np.float64)
    for token, row in zip(delivery.tokens, (0, 2, 4), strict=True):
        law = np.log(softmax(logits[row]))
        assert token.logprob == pytest.approx(law[token.token_id])
        best = np.argsort(-law)[:2]
        assert [token_id for token_id, _ in token.top_logprobs] == best.tolist()


def test_provenance_of_each_token() -> None:
    sequence = begin()
    deliver(sequence, chain(), [], 2)
    deliver(sequence, chain(1, 2, 3), [0], 0)
    deliver(sequence, chain(3), [0], 0)
    assert [(t.token_id, t.kind, t.drafter, t.pass_index) for t in sequence.tokens] == [
        (2, "plain", None, 0),
        (1, "accepted", "hand", 1),
        (0, "recovered", None, 1),
        (3, "accepted", "hand", 2),
        (0, "bonus", None, 2),
    ]
    assert [trace.draft_tokens for trace in sequence.trace] == [(), (1, 2, 3), (3,)]
    assert [trace.accepted for trace in sequence.trace] == [(), (0,), (0,)]
    assert [trace.next_token for trace in sequence.trace] == [2, 0, 0]
    assert sequence.text == "cbada"
    assert (sequence.stats.passes, sequence.stats.drafted) == (3, 4)


def test_the_trace_ends_where_the_answer_does() -> None:
    sequence = begin()
    decided, delivery = deliver(sequence, chain(1, EOS, 2), [0, 1, 2], 3)
    assert decided == [1, EOS]
    assert delivery.trace.accepted == (0, 1)
    assert delivery.trace.next_token is None
    assert delivery.ending is not None
    assert sequence.history.output == (1, EOS)


def test_a_token_behind_the_cut_is_not_decided() -> None:
    sequence = begin(stop=("d",))
    decided, delivery = deliver(sequence, chain(1, 3, 2), [0, 1, 2], 0)
    assert decided == [1]
    assert [token.token_id for token in delivery.tokens] == [1]
    assert delivery.trace.accepted == (0,)
    assert delivery.trace.next_token is None
    assert sequence.history.output == (1,)


def test_what_a_stop_string_takes_back_is_not_in_the_trace_of_its_pass() -> None:
    sequence = begin(stop=("cdb", "caca"))
    deliver(sequence, chain(), [], 0)
    _, delivery = deliver(sequence, chain(0, 2, 3, 1), [0, 1, 2, 3], 0)
    assert [token.token_id for token in sequence.tokens] == [0, 0]
    assert delivery.trace.accepted == (0,)
    assert delivery.trace.next_token is None
    assert (sequence.stats.accepted, sequence.stats.delivered) == (1, 2)

    across = begin(stop=("cdb",))
    deliver(across, chain(), [], 2)
    _, delivery = deliver(across, chain(3), [0], 1)
    assert (delivery.trace.accepted, delivery.trace.next_token) == ((), None)
    assert (across.stats.accepted, across.stats.delivered) == (0, 0)


@pytest.mark.parametrize("ignore_eos", [True, False])
def test_end_of_text_is_ordinary_for_the_law_and_for_the_end_on_request(ignore_eos: bool) -> None:
    sequence = begin(ignore_eos=ignore_eos, min_tokens=2)
    law = sequence.law(rows(chain()), chain())
    assert (law.logits(ROOT)[EOS] == -np.inf) == (not ignore_eos)
    assert law.vocab_size == V
    assert sequence.eos_ids == (frozenset() if ignore_eos else {EOS})


def test_drafts_are_no_longer_than_can_be_delivered() -> None:
    sequence = begin(max_new_tokens=12)
    request = sequence.draft_request(8)
    assert (request.num_draft_tokens, request.max_depth) == (8, 11)
    deliver(sequence, chain(1, 1, 1, 1, 1), [0, 1, 2, 3, 4], 1)
    request = sequence.draft_request(8)
    assert (request.num_draft_tokens, request.max_depth) == (5, 5), "six more can be delivered"


def test_processors_are_asked_up_to_the_end_only() -> None:
    """`stop` may be completed by the path together with what is decided already."""
    asked: list[tuple[int, ...]] = []

    def notes(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        asked.append(tokens[len(PROMPT) :])
        return logits

    sequence = begin(stop=("bcd",), logits_processors=(notes,), max_new_tokens=6)
    deliver(sequence, chain(), [], 1)
    for path, is_asked in (((2,), True), ((2, 3), False), ((2, 3, 0), False), ((EOS,), False)):
        asked.clear()
        proposal = chain(*path)
        sequence.law(rows(proposal), proposal).logits(len(path) - 1)
        assert asked == ([(1, *path)] if is_asked else [])
    for length in range(1, 7):
        asked.clear()
        proposal = chain(*[0] * length)
        sequence.law(rows(proposal), proposal).logits(length - 1)
        assert bool(asked) == (1 + length < 6)


def test_a_processor_is_named_in_errors() -> None:
    class Wrong:
        def __call__(self, tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
            return logits[: len(tokens)]

    sequence = begin(logits_processors=(Wrong(),))
    with pytest.raises(ValueError, match="'Wrong' returned an array of shape"):
        sequence.law(rows(chain()), chain()).logits(ROOT)
