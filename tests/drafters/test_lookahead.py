"""Lookahead decoding: exact on scripted targets, within its limits, and learning from each pass."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.lookahead import (
    LookaheadDrafter,
    LookaheadSession,
    LookaheadShape,
    parse_shape,
)
from oneglance.drafters.none import NoDrafter
from oneglance.errors import ParameterError
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise, SequentialNoise
from oneglance.testing import ScriptedEngine, check_drafter, random_script
from oneglance.types import Float32Array, Proposal

SIZE = 20
SHAPE = LookaheadShape(window=2, ngram=3, guesses=2)
GREEDY = SamplingParams()


@pytest.mark.parametrize("tree_nodes", [None, 3])
@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 3, 2)])
def test_exact(shape: tuple[int, int, int], tree_nodes: int | None) -> None:
    check_drafter(
        lambda: LookaheadDrafter(3, LookaheadShape(*shape)), seeds=(0,), tree_nodes=tree_nodes
    )


def begin(
    prompt: tuple[int, ...] = (1, 2, 3),
    shape: LookaheadShape = SHAPE,
    params: SamplingParams = GREEDY,
    noise: Noise | KeyedNoise | None = None,
    eos_ids: frozenset[int] = frozenset(),
) -> tuple[LookaheadDrafter, LookaheadSession]:
    drafter = LookaheadDrafter(SIZE, shape)
    noise = noise or SequentialNoise(0)
    return drafter, drafter.start(DraftContext(prompt, params, noise, eos_ids))


def propose(
    drafter: LookaheadDrafter,
    session: LookaheadSession,
    k: int = 8,
    nodes: int | None = None,
    room: int | None = None,
) -> Proposal:
    return drafter.propose([DraftRequest(session, k, nodes, room)])[0]


def paths(proposal: Proposal) -> set[tuple[int, ...]]:
    return {
        tuple(int(proposal.tokens[each]) for each in proposal.path_to(node))
        for node in range(len(proposal))
    }


def rows_saying(tokens: list[int], width: int = SIZE) -> Float32Array:
    """Logits of which each row's best token is given, and the next best 0."""
    rows = np.zeros((len(tokens), width), dtype=np.float32)
    rows[:, 0] = 1.0
    rows[np.arange(len(tokens)), tokens] = 2.0
    return rows


def test_guesses_come_from_the_prompt_and_the_window_beside_them() -> None:
    drafter, session = begin((5, 6, 7, 8, 5))
    proposal = propose(drafter, session)
    assert proposal.draft_probs is None
    assert paths(proposal) == {(6,), (6, 7), (5,)}, "the guess, and row 0 of the window"


def test_the_window_learns_from_the_rows_of_a_pass() -> None:
    drafter, session = begin((1, 2, 3), LookaheadShape(2, 3, 2))
    proposal = propose(drafter, session)
    assert paths(proposal) == {(3,)}, "a token of the prompt fills row 0"
    drafter.see(session, proposal, rows_saying([11, 12]))
    drafter.observe(session, [11])
    assert paths(propose(drafter, session)) == {(11,), (3,), (3, 12)}


def test_ngrams_of_the_window_become_guesses() -> None:
    drafter, session = begin((1, 2), LookaheadShape(1, 2, 1))
    assert paths(propose(drafter, session)) == set()
    drafter.see(session, propose(drafter, session), rows_saying([9]))
    drafter.observe(session, [4])  # sampled, say: the window's 9 was not taken
    drafter.observe(session, [2])
    assert paths(propose(drafter, session)) == {(4,)}, "the answer's own n-gram is later"
    drafter, session = begin((1, 2), LookaheadShape(1, 2, 2))
    drafter.see(session, propose(drafter, session), rows_saying([9]))
    drafter.observe(session, [4])
    drafter.observe(session, [2])
    assert paths(propose(drafter, session)) == {(4,), (9,)}


def test_what_was_not_seen_is_not_learned() -> None:
    """In a hybrid another drafter's proposal may have been verified instead."""
    drafter, session = begin((1, 2, 3))
    propose(drafter, session)
    drafter.observe(session, [11])
    drafter.see(session, Proposal.empty(), rows_saying([12]))
    assert paths(propose(drafter, session)) == {(2,)}


@pytest.mark.parametrize("k", [0, 1, 2, 8])
@pytest.mark.parametrize("nodes", [None, 1, 2, 4])
@pytest.mark.parametrize("more_room", [0, 1, 4])
def test_limits(k: int, nodes: int | None, more_room: int) -> None:
    drafter, session = begin((1, 2, 3, 4, 1, 2, 3, 9, 1), LookaheadShape(4, 4, 2))
    for _ in range(6):
        proposal = propose(drafter, session, k, nodes, k + more_room)
        assert nodes is None or len(proposal) <= nodes
        assert proposal.max_depth <= k + more_room
        assert len(proposal) > 0 if k > 0 else len(proposal) == 0
        drafter.see(session, proposal, rows_saying([2] * (len(proposal) + 1)))
        drafter.observe(session, [2, 3, 1])


def test_k_bounds_the_guesses() -> None:
    drafter, session = begin((5, 6, 7, 8, 5), LookaheadShape(1, 4, 2))
    assert paths(propose(drafter, session, k=2, room=9)) == {(6,), (6, 7)}


def test_the_window_holds_no_end_of_text() -> None:
    drafter, session = begin((1, 0, 2, 0), LookaheadShape(3, 3, 2), eos_ids=frozenset({0, 7}))
    proposal = propose(drafter, session)
    assert paths(proposal) == {(2,), (2, 1), (2, 0)}, "a guess may end there, row 0 does not"
    drafter.see(session, proposal, rows_saying([7] * 4))
    drafter.observe(session, [5])
    assert not {0, 7} & {token for path in paths(propose(drafter, session)) for token in path}


def test_a_guess_ends_with_end_of_text() -> None:
    drafter, session = begin((5, 0, 6, 5), LookaheadShape(1, 3, 2), eos_ids=frozenset({0}))
    assert paths(propose(drafter, session)) == {(0,)}


def test_a_prompt_of_nothing_but_end_of_text() -> None:
    drafter, session = begin((0,), LookaheadShape(3, 3, 2), eos_ids=frozenset({0}))
    assert len(propose(drafter, session)) == 0


def test_rows_are_cut_to_the_vocabulary() -> None:
    """The matrices of a model may be wider than its vocabulary."""
    drafter, session = begin()
    proposal = propose(drafter, session)
    rows = rows_saying([SIZE + 3] * (len(proposal) + 1), SIZE + 5)
    drafter.see(session, proposal, rows)
    drafter.observe(session, [4])
    assert max(token for path in paths(propose(drafter, session)) for token in path) < SIZE


def test_broken_rows_teach_nothing_and_stop_nothing() -> None:
    drafter, session = begin()
    proposal = propose(drafter, session)
    drafter.see(session, proposal, np.full((len(proposal) + 1, SIZE), np.nan, dtype=np.float32))
    drafter.observe(session, [4])
    assert paths(propose(drafter, session)) == {(2,)}


def test_a_users_function_is_not_asked_about_the_window() -> None:
    def refuse(tokens: tuple[int, ...], _logits: object) -> np.ndarray:
        raise AssertionError(f"asked about {tokens}")

    params = SamplingParams(logits_processors=(refuse,))
    drafter, session = begin(params=params)
    proposal = propose(drafter, session)
    drafter.see(session, proposal, rows_saying([4] * (len(proposal) + 1)))


def test_a_seed_lends_the_window_the_targets_noise() -> None:
    noise = SeededNoise(5)
    params = SamplingParams(temperature=1.0, seed=5)
    drafter, session = begin((1, 2), LookaheadShape(1, 3, 1), params, noise)
    row = np.linspace(0, 3, SIZE, dtype=np.float32)
    drafter.see(session, propose(drafter, session), row[None])
    drafter.observe(session, [4])
    token = noise.sample(row.astype(np.float64), 0)
    assert token != row.argmax(), "the noise must tell for this test to"
    assert paths(propose(drafter, session)) == {(token,)}


def test_its_estimate_follows_what_is_accepted() -> None:
    drafter, session = begin((1, 2, 1), LookaheadShape(1, 2, 1))
    first = propose(drafter, session).expected
    for _ in range(20):
        drafter.observe(session, [2, 1])
        good = propose(drafter, session).expected
    for _ in range(20):
        drafter.observe(session, [9, 1])
        drafter.observe(session, [8, 1])
        bad = propose(drafter, session).expected
    assert first is not None
    assert good is not None
    assert bad is not None
    assert bad < 0.3 < first < good < 1.0


def run(drafter: LookaheadDrafter | NoDrafter, prompt: tuple[int, ...]) -> DecodingSequence:
    """An answer of a repetitive target that ends with its context of 40 tokens."""
    logits = random_script(5, 3, spread=6.0)
    target = ScriptedEngine(lambda prefix: logits(prefix[-1:]), 5, context_length=40)
    vocabulary = Vocabulary(5, frozenset(), lambda token: bytes([97 + token]))
    decoder = Decoder(target, vocabulary, drafter, k=4)
    deliveries = list(decoder.run([prompt], [SamplingParams(max_tokens=None)]))
    assert target.num_open == 0
    return deliveries[-1][1]


def test_up_to_the_end_of_the_context_in_fewer_passes() -> None:
    plain = run(NoDrafter(), (1, 2))
    drafted = run(LookaheadDrafter(5, LookaheadShape(2, 3, 2)), (1, 2))
    assert [each.token_id for each in drafted.tokens] == [each.token_id for each in plain.tokens]
    assert drafted.stats.delivered == 38
    assert drafted.stats.passes < 0.6 * plain.stats.passes


def test_the_shape_in_words() -> None:
    assert parse_shape("") == LookaheadShape()
    assert parse_shape("5,3,2") == LookaheadShape(window=5, ngram=3, guesses=2)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("3", "lookahead:3 cannot be read; write lookahead:W,N,G"),
        ("3,4,x", "lookahead:3,4,x cannot be read"),
        ("3,4,2,1", "lookahead:3,4,2,1 cannot be read"),
        ("0,4,2", "lookahead:0,4,2 cannot be used; the window must be 1 or more"),
        ("3,1,2", "the n-gram 2 or more"),
        ("3,4,0", "the guesses 1 or more"),
    ],
)
def test_other_shapes_are_refused(argument: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_shape(argument)
