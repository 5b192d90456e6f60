"""A draft model of another vocabulary: exact for any pair, refused where no text can pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.other_vocabulary import OtherVocabularyDrafter
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.string_level import StringLevelDrafter
from oneglance.drafters.token_level import TokenLevelDrafter
from oneglance.sampling.noise import noise_for
from oneglance.testing import ScriptedEngine, check_drafter, random_script
from tests.small_vocabularies import LongestMatch

TARGET = LongestMatch([b"a", b"b", b"c"])
DRAFTS = {
    "permuted": LongestMatch([b"c", b"a", b"b"]),
    "longer": LongestMatch([b"ab", b"c", b"a", b"b", b"ca"]),
    "with-controls": LongestMatch(["<end>", b"bb", b"b", b"a", b"c"], ends=["<end>"]),
    "with-start": LongestMatch(["<s>", b"b", b"a", b"c", b"cc"], bos="<s>"),
}
SCRIPTS = {size: random_script(size, seed=5) for size in (3, 5)}


@pytest.mark.parametrize(
    ("method", "draft", "tree_nodes"),
    [
        (StringLevelDrafter, "longer", None),
        (StringLevelDrafter, "with-controls", 3),
        (OtherVocabularyDrafter, "permuted", None),
        (OtherVocabularyDrafter, "with-start", 3),
    ],
)
def test_every_pair_of_vocabularies_is_exact(
    method: Callable[..., Drafter[Any]], draft: str, tree_nodes: int | None
) -> None:
    """By string; and as it is chosen, which for these vocabularies is by token where sampled."""
    tokenizer = DRAFTS[draft]
    size = tokenizer.vocab_size

    def make() -> Drafter[Any]:
        engine = ScriptedEngine(SCRIPTS[size], size)
        return method(engine, VocabularyPair(TARGET, tokenizer))

    check_drafter(make, tree_nodes=tree_nodes, seeds=(0,))


@pytest.mark.parametrize(
    ("prompt", "params", "expected"),
    [
        ((0, 1), SamplingParams(), StringLevelDrafter),
        ((0, 1), SamplingParams(seed=1), StringLevelDrafter),
        ((0, 1), SamplingParams(temperature=0.5), TokenLevelDrafter),
        ((0, 1), SamplingParams(temperature=0.5, seed=1), TokenLevelDrafter),
        ((0, 1) * 10 + (3,), SamplingParams(temperature=0.5), TokenLevelDrafter),
        ((0, 1) * 9 + (3,), SamplingParams(temperature=0.5), StringLevelDrafter),
        ((3,), SamplingParams(temperature=0.5), StringLevelDrafter),
    ],
)
def test_the_method_is_chosen_by_request(
    prompt: tuple[int, ...], params: SamplingParams, expected: type[Drafter[Any]]
) -> None:
    target = LongestMatch([b"a", b"b", b"c", b"own"])
    tokenizer = DRAFTS["permuted"]
    drafter = OtherVocabularyDrafter(
        ScriptedEngine(SCRIPTS[3], 3), VocabularyPair(target, tokenizer), "draft:x"
    )
    session = drafter.start(DraftContext(prompt, params, noise_for(params)))
    assert type(session.method) is expected
    proposal = drafter.propose([DraftRequest(session, 2)])[0]
    assert proposal.drafter == "draft:x"


def test_requests_of_both_kinds_share_a_batch() -> None:
    tokenizer = DRAFTS["longer"]
    engine = ScriptedEngine(SCRIPTS[5], 5)
    config = EngineConfig(kept_prefixes=0)
    drafter = OtherVocabularyDrafter(engine, VocabularyPair(TARGET, tokenizer), "x", config)
    requests = [SamplingParams(), SamplingParams(temperature=1.0, seed=3)] * 2

    def begin() -> list[Any]:
        prompts = [(0, 1), (2, 1), (1,), (2, 2, 0)]
        contexts = zip(prompts, requests, strict=True)
        return [drafter.start(DraftContext(p, r, noise_for(r))) for p, r in contexts]

    together, apart = begin(), begin()
    proposals = drafter.propose([DraftRequest(each, 3) for each in together])
    alone = [drafter.propose([DraftRequest(each, 3)])[0] for each in apart]
    assert [p.tokens.tolist() for p in proposals] == [p.tokens.tolist() for p in alone]
    for session in (*together, *apart):
        drafter.observe(session, [0, 1])
        drafter.close(session)
    assert engine.num_open == 0
