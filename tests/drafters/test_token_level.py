"""Tokens that both vocabularies have are drawn from the draft's law, and that law is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.token_level import TokenLevelDrafter, TokenLevelSession
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise, SequentialNoise
from oneglance.sampling.softmax import softmax
from oneglance.sampling.warp import warp
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Proposal
from tests.small_vocabularies import LongestMatch

TARGET = LongestMatch([b"a", b"b", b"c", b"bb", "<end>", "<own>"], ends=["<end>"])
DRAFT = LongestMatch(["<end>", b"c", b"b", b"cc", b"a", "<other>"], ends=["<end>"])
SHARED = {0: 4, 1: 2, 2: 1, 4: 0}
SCRIPT = random_script(DRAFT.vocab_size, seed=3)
PROMPT = (0, 1, 3)


def begin(
    drafter: TokenLevelDrafter,
    params: SamplingParams,
    noise: Noise | KeyedNoise | None = None,
    prompt: Sequence[int] = PROMPT,
) -> TokenLevelSession:
    noise = SequentialNoise(0) if noise is None else noise
    return drafter.start(DraftContext(tuple(prompt), params, noise, TARGET.eos_ids))


def make(context_length: int = 64) -> tuple[TokenLevelDrafter, ScriptedEngine]:
    engine = ScriptedEngine(SCRIPT, DRAFT.vocab_size, context_length)
    config = EngineConfig(kept_prefixes=0)
    return TokenLevelDrafter(engine, VocabularyPair(TARGET, DRAFT), "draft:x", config), engine


def propose(
    drafter: TokenLevelDrafter, session: TokenLevelSession, count: int, nodes: int | None = None
) -> Proposal:
    return drafter.propose([DraftRequest(session, count, nodes)])[0]


def test_the_reported_law_is_the_warped_law_of_the_shared_tokens() -> None:
    params = SamplingParams(
        temperature=0.7, top_p=0.9, top_k=3, frequency_penalty=0.5, logit_bias={2: 1.0}
    )
    num_checked = 0
    for seed in range(6):
        drafter, _ = make()
        session = begin(drafter, params, SequentialNoise(seed))
        drafter.observe(session, [2, 2])
        proposal = propose(drafter, session, 3)
        assert proposal.draft_probs is not None
        fed = [*DRAFT.encode("abbb"), *DRAFT.encode("cc")]
        path: list[int] = []
        for token, law in zip(proposal.tokens.tolist(), proposal.draft_probs, strict=True):
            row = np.full(TARGET.vocab_size, -np.inf, dtype=np.float32)
            row[list(SHARED)] = SCRIPT(tuple(fed))[list(SHARED.values())]
            history = TokenHistory(PROMPT, [2, 2])
            expected = softmax(warp(row, params, history, path, eos_ids=TARGET.eos_ids))
            np.testing.assert_array_equal(law, expected)
            assert law[token] > 0
            path.append(token)
            fed.append(SHARED[token])
            num_checked += 1
    assert num_checked > 10


def test_greedy_and_seeded_drafts_are_point_masses() -> None:
    drafter, _ = make()
    greedy = propose(drafter, begin(drafter, SamplingParams()), 4)
    row = SCRIPT(tuple(DRAFT.encode("abbb")))
    assert greedy.tokens[0] == max(SHARED, key=lambda token: row[SHARED[token]])
    seeded = begin(drafter, SamplingParams(temperature=1.0, seed=3), SeededNoise(3))
    assert greedy.draft_probs is propose(drafter, seeded, 4).draft_probs is None


def test_the_end_of_text_ends_a_draft() -> None:
    drafter, _ = make()
    params = SamplingParams(temperature=1.0, logit_bias={4: 50.0})
    assert propose(drafter, begin(drafter, params), 4).tokens.tolist() == [4]


def test_what_was_drawn_and_not_decided_never_comes_back() -> None:
    """The target may take a token whose text is the beginning of a token that was rejected."""
    target = LongestMatch([b"cc", b"c", b"a"])
    pair = VocabularyPair(target, DRAFT)
    engine = ScriptedEngine(SCRIPT, DRAFT.vocab_size)
    drafter = TokenLevelDrafter(engine, pair)
    params = SamplingParams(temperature=1.0, logit_bias={0: 50.0})
    session = drafter.start(DraftContext((2,), params, SequentialNoise(0)))
    assert propose(drafter, session, 1).tokens.tolist() == [0]
    drafter.observe(session, [1])
    propose(drafter, session, 1)
    assert session.text.tokens[:2] == DRAFT.encode("ac")


@pytest.mark.parametrize(("count", "nodes", "expected"), [(0, None, 0), (1, None, 1), (4, 2, 2)])
def test_budgets_are_kept(count: int, nodes: int | None, expected: int) -> None:
    drafter, engine = make()
    params = SamplingParams(temperature=1.0, banned_tokens=(4,))
    assert len(propose(drafter, begin(drafter, params), count, nodes)) == expected
    assert (engine.num_passes > 0) == (expected > 0)


@pytest.mark.parametrize(("context_length", "expected"), [(4, 1), (5, 2), (3, 0)])
def test_the_drafts_own_context_ends_the_draft(context_length: int, expected: int) -> None:
    drafter, _ = make(context_length)
    params = SamplingParams(temperature=1.0, banned_tokens=(4,))
    assert len(propose(drafter, begin(drafter, params), 3)) == expected


def test_no_shared_token_allowed_is_nothing_to_say() -> None:
    drafter, engine = make()
    params = SamplingParams(temperature=1.0, banned_tokens=tuple(SHARED))
    session = begin(drafter, params)
    assert len(propose(drafter, session, 3)) == 0
    drafter.close(session)
    assert engine.num_open == 0


def test_half_a_character_waits_for_the_rest() -> None:
    word = "é".encode()
    pair = VocabularyPair(LongestMatch([b"a", word[:1], word[1:]]), LongestMatch([b"a", word]))
    drafter = TokenLevelDrafter(ScriptedEngine(random_script(2, 0), 2), pair)
    params = SamplingParams(temperature=1.0)
    session = drafter.start(DraftContext((0, 1), params, SequentialNoise(0)))
    assert len(propose(drafter, session, 2)) == 0
    drafter.observe(session, [2])
    assert propose(drafter, session, 2).tokens.tolist() == [0, 0]


def test_matrices_narrower_than_the_vocabulary() -> None:
    engine = ScriptedEngine(random_script(4, 1), 4)
    drafter = TokenLevelDrafter(engine, VocabularyPair(TARGET, DRAFT))
    session = drafter.start(DraftContext((2,), SamplingParams(temperature=1.0), SequentialNoise(0)))
    assert set(propose(drafter, session, 5).tokens.tolist()) <= {1, 2, 4}
