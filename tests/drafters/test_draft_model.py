"""A draft model reports the law it draws from, rolls back, catches up, and knows its limits."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftRequest
from oneglance.drafters.choice import NUM_COMPARED
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import SeededNoise, SequentialNoise
from oneglance.sampling.softmax import softmax
from oneglance.sampling.warp import warp
from oneglance.testing import ScriptedEngine, random_script
from tests.drafters.scripted_drafts import PROMPT, Recorder, V, answered, begin, propose
from tests.engine.random_models import random_model

TARGET = random_script(V, seed=1)


def new_drafter(
    engine: ScriptedEngine,
    vocab_size: int = V,
    engine_config: EngineConfig = EngineConfig(),
    min_confidence: float = 0.0,
) -> DraftModelDrafter:
    """One whose drafts are as long as they may be, unless told otherwise."""
    return DraftModelDrafter(
        engine, vocab_size, engine_config=engine_config, min_confidence=min_confidence
    )


def test_greedy_drafts_are_point_masses() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    session = begin(drafter)
    proposal = propose(drafter, session, 3)
    assert proposal.draft_probs is None
    prefix = list(PROMPT)
    for token in proposal.tokens:
        assert token == np.argmax(random_script(V, 2)(tuple(prefix)))
        prefix.append(int(token))


def test_plain_greedy_drafts_ask_for_the_best_token_only() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    propose(drafter, begin(drafter, prompt=(3,)), 2)
    assert engine.requests == [(NUM_COMPARED, V)] * 2
    narrow = Recorder()
    propose(wide := new_drafter(narrow, V + 3), begin(wide, prompt=(3,)), 2)
    assert narrow.requests == [(NUM_COMPARED, V)] * 2


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(repetition_penalty=1.1),
        SamplingParams(presence_penalty=0.1),
        SamplingParams(frequency_penalty=0.1),
        SamplingParams(logit_bias={1: 1.0}),
        SamplingParams(banned_tokens=(1,)),
        SamplingParams(logits_processors=(lambda _tokens, logits: logits,)),
        SamplingParams(min_tokens=2),
    ],
)
def test_other_laws_get_all_logits(params: SamplingParams) -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    plain, other = (begin(drafter, p, prompt=(3,)) for p in (SamplingParams(), params))
    session = begin(drafter, params, prompt=(3,), eos_ids=frozenset({V - 1}))
    drafter.propose([DraftRequest(session, 1)])
    assert engine.requests == [(None, None)]
    if params.min_tokens == 0:  # without an end of text nothing is forbidden
        drafter.propose([DraftRequest(plain, 1), DraftRequest(other, 1)])
        assert engine.requests[1:] == [(None, None)]
    else:
        drafter.observe(session, [1, 1])
        drafter.propose([DraftRequest(session, 1)])
        assert engine.requests[-1] == (NUM_COMPARED, V)


def test_the_best_token_is_never_padding() -> None:
    """The draft's matrix has rows beyond the vocabulary, and they are the best ones."""
    engine = ScriptedEngine(lambda _: np.array([1, 3, 3, 9, 9], dtype=np.float32), V)
    drafter = new_drafter(engine, V - 2)
    assert list(propose(drafter, begin(drafter, prompt=(1,)), 2).tokens) == [1, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_broken_logits_of_a_greedy_draft_are_refused_by_name(value: float) -> None:
    engine = ScriptedEngine(lambda _: np.array([0, 1, value, 3, 2], dtype=np.float32), V)
    drafter = new_drafter(engine, V)
    with pytest.raises(ParameterError, match=f"logit of token 2 at position 0 is {value}"):
        propose(drafter, begin(drafter), 1)


def test_a_draft_with_no_token_left_ends() -> None:
    engine = ScriptedEngine(lambda _: np.full(V, -np.inf, dtype=np.float32), V)
    drafter = new_drafter(engine, V)
    assert len(propose(drafter, begin(drafter), 2)) == 0


def test_reported_law_is_the_warped_law_it_drew_from() -> None:
    """Known faults 1 and 3: every warp is in the law, penalties on drafted tokens included."""
    params = SamplingParams(
        temperature=0.7, top_p=0.9, top_k=4, frequency_penalty=0.5, logit_bias={2: 1.0}
    )
    drafter = new_drafter(Recorder(), V)
    session = begin(drafter, params)
    drafter.observe(session, [2, 2])
    proposal = propose(drafter, session, 3)
    path: list[int] = []
    history = TokenHistory(PROMPT, [2, 2])
    for token, law in zip(proposal.tokens, proposal.draft_probs, strict=True):
        logits = random_script(V, 2)((*PROMPT, 2, 2, *path))
        expected = softmax(warp(logits, params, history, path, eos_ids=()))
        np.testing.assert_array_equal(law, expected)
        assert law[token] > 0
        assert law.dtype == np.float64
        path.append(int(token))


def test_a_seeded_draft_uses_the_targets_noise() -> None:
    """The same model drafting for itself under a seed is always right."""
    params = SamplingParams(temperature=1.0, seed=11, max_tokens=20)
    drafter = new_drafter(ScriptedEngine(TARGET, V), V)
    vocabulary = Vocabulary(V, frozenset(), lambda _: b"x")
    decoder = Decoder(ScriptedEngine(TARGET, V), vocabulary, drafter, k=4)
    sequences = [sequence for _, sequence, _ in decoder.run([PROMPT], [params])]
    stats = sequences[-1].stats
    assert stats.accepted == stats.drafted > 0
    session = begin(drafter, params, SeededNoise(11))
    assert propose(drafter, session, 2).draft_probs is None


def test_rows_are_fed_once_and_the_missing_one_after_full_acceptance() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    session = begin(drafter)
    first = [int(token) for token in propose(drafter, session, 3).tokens]
    # The prompt, then one row per draft token; the last one is not fed.
    assert engine.calls == [
        [(0, [3, 1, 4, 1])],
        [(4, first[:1])],
        [(5, first[1:2])],
    ]
    engine.calls.clear()
    drafter.observe(session, [*first, 0])  # accepted whole, and a bonus token
    propose(drafter, session, 1)
    assert engine.calls == [[(6, [*first[2:], 0])]]


def test_rejected_rows_are_dropped() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    session = begin(drafter)
    first = [int(token) for token in propose(drafter, session, 3).tokens]
    other = (first[1] + 1) % V
    drafter.observe(session, [first[0], other])
    engine.calls.clear()
    second = propose(drafter, session, 1)
    assert engine.calls == [[(5, [other])]]
    prefix = (*PROMPT, first[0], other)
    assert int(second.tokens[0]) == int(np.argmax(random_script(V, 2)(prefix)))


def test_a_batch_is_drafted_in_common_passes() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V, engine_config=EngineConfig(kept_prefixes=0))
    sessions = [begin(drafter, prompt=[token]) for token in (0, 1, 2)]
    counts = [2, 0, 3]
    requests = [DraftRequest(s, c) for s, c in zip(sessions, counts, strict=True)]
    proposals = drafter.propose(requests)
    assert [len(proposal) for proposal in proposals] == counts
    assert [len(call) for call in engine.calls] == [2, 2, 1]
    alone = new_drafter(Recorder(), V)
    for session, proposal in zip(sessions, proposals, strict=True):
        single = propose(alone, begin(alone, prompt=session.context.prompt), len(proposal))
        np.testing.assert_array_equal(single.tokens, proposal.tokens)
    for session in sessions:
        drafter.close(session)
    assert engine.num_open == 0


def test_the_cache_of_one_request_serves_the_next() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    session = begin(drafter)
    first = [int(token) for token in propose(drafter, session, 2).tokens]
    drafter.observe(session, first)
    drafter.close(session)
    engine.calls.clear()
    again = begin(drafter, prompt=[*PROMPT, first[0], (first[1] + 1) % V, 0])
    propose(drafter, again, 1)
    assert engine.calls == [[(5, [(first[1] + 1) % V, 0])]]


def test_ends_with_end_of_text() -> None:
    first = int(np.argmax(random_script(V, 2)(PROMPT)))
    drafter = new_drafter(Recorder(), V)
    session = begin(drafter, eos_ids=frozenset({first}))
    assert [int(t) for t in propose(drafter, session, 4).tokens] == [first]


@pytest.mark.parametrize(("context_length", "expected"), [(4, 1), (5, 2), (6, 3), (3, 0), (2, 0)])
def test_a_shorter_context_of_the_draft_shortens_the_draft(
    context_length: int, expected: int
) -> None:
    """Known fault 16: no crash; drafting ends, the request does not."""
    drafter = new_drafter(Recorder(context_length=context_length), V)
    assert len(propose(drafter, begin(drafter), 3)) == expected


def test_request_goes_on_when_the_drafts_context_is_full() -> None:
    vocabulary = Vocabulary(V, frozenset(), lambda _: b"x")
    params = SamplingParams(max_tokens=20)
    texts = []
    for drafter in (NoDrafter(), new_drafter(Recorder(context_length=9), V)):
        target = ScriptedEngine(TARGET, V, context_length=30)
        decoder = Decoder(target, vocabulary, drafter, k=3)
        sequences = [sequence for _, sequence, _ in decoder.run([PROMPT], [params])]
        texts.append([token.token_id for token in sequences[-1].tokens])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 20


@pytest.mark.parametrize("width", [3, 8])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_padding_of_the_drafts_matrix_is_never_drafted(width: int, temperature: float) -> None:
    """Known fault 21: laws are compared over the true vocabulary."""
    script = random_script(width, 4)
    engine = ScriptedEngine(lambda prefix: script(prefix) + 10 * (np.arange(width) > 2), width)
    drafter = new_drafter(engine, vocab_size=4)
    session = begin(drafter, SamplingParams(temperature=temperature), prompt=[0, 1])
    proposal = propose(drafter, session, 6)
    assert max(proposal.tokens) < min(4, width)
    if temperature:
        assert all(law.shape == (4,) for law in proposal.draft_probs)
        assert all(law.sum() == pytest.approx(1) for law in proposal.draft_probs)


def test_tokens_that_others_drafted_replace_what_is_cached() -> None:
    """Decided tokens need not begin with this drafter's own draft, nor end with another token."""
    drafter = new_drafter(Recorder(), V)
    for num_right in range(3):
        session = begin(drafter)
        first = [int(token) for token in propose(drafter, session, 4).tokens]
        wrong = (first[num_right] + 1) % V
        decided = [*first[:num_right], wrong, *first[num_right + 1 :], 0, 0]
        drafter.observe(session, decided)
        second = propose(drafter, session, 1)
        prefix = (*PROMPT, *decided)
        assert int(second.tokens[0]) == int(np.argmax(random_script(V, 2)(prefix)))
    session = begin(drafter)
    first = [int(token) for token in propose(drafter, session, 4).tokens]
    drafter.observe(session, first[:2])  # the last decided token has been fed; once more, then
    again = propose(drafter, session, 2)
    assert [int(token) for token in again.tokens] == first[2:]


def test_what_is_kept_of_a_closed_request_is_what_is_in_the_cache() -> None:
    """Closed between `propose` and `observe`, as an interrupted pass does."""
    engine = Recorder()
    drafter = new_drafter(engine, V)
    session = begin(drafter)
    drafted = [int(token) for token in propose(drafter, session, 3).tokens]
    drafter.close(session)
    other = (drafted[0] + 1) % V
    for prompt in ([*PROMPT, other, 0, 1], [*PROMPT, *drafted, 0]):
        again = begin(drafter, prompt=prompt)
        second = propose(drafter, again, 1)
        assert int(second.tokens[0]) == int(np.argmax(random_script(V, 2)(tuple(prompt))))
    assert engine.num_open == 3


def test_the_configuration_is_used() -> None:
    engine = Recorder()
    config = EngineConfig(prefill_chunk=2, kept_prefixes=1)
    drafter = new_drafter(engine, V, engine_config=config)
    sessions = [begin(drafter, prompt=[token, 0, 0, 0, 0]) for token in (1, 2, 3)]
    propose(drafter, sessions[0], 1)
    assert engine.calls == [[(0, [1, 0])], [(2, [0])], [(3, [0, 0])]]
    for session in sessions:
        drafter.close(session)
    assert engine.num_open == 1


def test_nothing_is_fed_before_there_is_something_to_draft() -> None:
    engine = Recorder()
    drafter = new_drafter(engine, V)
    useful = begin(drafter)
    propose(drafter, useful, 2)
    drafter.close(useful)
    engine.calls.clear()
    for token in range(V):
        session = begin(drafter, prompt=[token])
        assert len(propose(drafter, session, 0)) == 0
        drafter.close(session)
    assert engine.calls == []
    assert engine.num_open == 1, "what is empty was kept, or what is useful was not"
    propose(drafter, begin(drafter), 1)
    assert engine.calls == [[(3, [1])]]


@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_end_of_text_is_forbidden_before_min_tokens_as_in_the_target(temperature: float) -> None:
    first = int(np.argmax(random_script(V, 2)(PROMPT)))
    drafter = new_drafter(Recorder(), V)
    for seed in range(8):
        params = SamplingParams(min_tokens=2, temperature=temperature)
        session = begin(drafter, params, SequentialNoise(seed), eos_ids=frozenset({first}))
        tokens = [int(token) for token in propose(drafter, session, 4).tokens]
        assert first not in tokens[:2]


def test_a_greedy_request_with_a_seed_drafts_the_argmax() -> None:
    drafter = new_drafter(Recorder(), V)
    unseeded = propose(drafter, begin(drafter), 12)
    for seed in range(4):
        seeded = propose(drafter, begin(drafter, SamplingParams(seed=seed), SeededNoise(seed)), 12)
        np.testing.assert_array_equal(seeded.tokens, unseeded.tokens)


@pytest.mark.parametrize("num_pages", [2, 6, 40])
@pytest.mark.parametrize("tree_nodes", [None, 7])
def test_where_the_draft_model_has_no_room_nothing_is_drafted(
    num_pages: int, tree_nodes: int | None
) -> None:
    config, weights = random_model(seed=1)
    size = config.vocab_size
    pages = EngineConfig(page_size=4, num_pages=num_pages, prefill_chunk=5)
    draft = ReferenceEngine(config, weights, pages)
    words = Vocabulary(size, frozenset(), lambda _: b"x")
    prompts = [[1, 2, 3] * 6, [4, 5], [6]]
    target = ReferenceEngine(config, weights)
    plain, _ = answered(Decoder(target, words, NoDrafter()), prompts, 20)
    drafter = DraftModelDrafter(draft, size, engine_config=pages, min_confidence=0.0)
    decoder = Decoder(target, words, drafter, 3, tree_nodes)
    answers, num_drafted = answered(decoder, prompts, 20)
    assert answers == plain
    assert num_drafted > 0, "while there was room, it was used"
