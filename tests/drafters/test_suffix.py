"""The suffix drafter: what it drafts, its limits, its memory of past answers, and exactness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, DraftHints, DraftRequest
from oneglance.engine.native import is_available, why_unavailable
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import ScriptedEngine, check_drafter, random_script
from oneglance.types import Proposal

if not is_available():
    pytest.skip(str(why_unavailable()), allow_module_level=True)

from oneglance.drafters.suffix import SuffixDrafter, SuffixLimits
from oneglance.drafters.suffix_file import VocabularyStamp
from oneglance.drafters.suffix_memory import MemoryLimits, SuffixMemory

STAMP = VocabularyStamp("words", 100)


def with_memory(
    limits: SuffixLimits = SuffixLimits(), memory: MemoryLimits = MemoryLimits()
) -> SuffixDrafter:
    return SuffixDrafter(limits, SuffixMemory(STAMP, memory, limits.max_depth))


def context(prompt: Sequence[int], eos_ids: Sequence[int] = (), tenant: str = "") -> DraftContext:
    hints = DraftHints(tenant=tenant)
    return DraftContext(
        tuple(prompt), SamplingParams(), SequentialNoise(), frozenset(eos_ids), hints
    )


def draft(
    prompt: Sequence[int],
    k: int,
    tree_nodes: int | None = None,
    eos_ids: Sequence[int] = (),
    drafter: SuffixDrafter | None = None,
    observed: Sequence[int] = (),
    tenant: str = "",
) -> Proposal:
    drafter = drafter or SuffixDrafter()
    session = drafter.start(context(prompt, eos_ids, tenant))
    drafter.observe(session, list(observed))
    proposal = drafter.propose([DraftRequest(session, k, tree_nodes)])[0]
    assert proposal.draft_probs is None
    assert proposal.expected is not None
    return proposal


def answer(drafter: SuffixDrafter, tokens: Sequence[int], tenant: str = "") -> None:
    """A request, from start to end, in two passes."""
    session = drafter.start(context([1], tenant=tenant))
    for part in (tokens[:2], tokens[2:]):
        drafter.observe(session, list(part))
    drafter.close(session)


def test_copies_what_followed_as_far_as_the_match_is_long() -> None:
    proposal = draft([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], 16)
    assert proposal.tokens.tolist() == [4, 5, 6]
    assert proposal.is_chain
    assert proposal.drafter == "suffix"
    assert proposal.expected == 1.5  # seen once: every second such draft fails


def test_what_was_decided_counts_and_what_was_drafted_does_not() -> None:
    drafter = SuffixDrafter()
    session = drafter.start(context([1, 2, 3, 9, 1, 2]))
    first = drafter.propose([DraftRequest(session, 4)])[0]
    assert first.tokens.tolist() == [3, 9]
    drafter.observe(session, [5, 1, 2])  # 3 was rejected, and 5 is seen later than 3
    assert drafter.propose([DraftRequest(session, 1)])[0].tokens.tolist() == [5]


def test_the_most_frequent_follower_wins_over_the_latest() -> None:
    text = [1, 2, 30, 0, 1, 2, 30, 0, 1, 2, 40, 0, 1, 2]
    assert draft(text, 1).tokens.tolist() == [30]


def test_a_tree_has_both_followers() -> None:
    text = [1, 2, 30, 0, 1, 2, 30, 7, 1, 2, 40, 8, 1, 2]
    proposal = draft(text, 4, tree_nodes=8)
    assert set(proposal.tokens[proposal.parents == -1].tolist()) == {30, 40}
    assert len(proposal) == 2  # as many as the match is long
    assert draft(text, 4, tree_nodes=1).tokens.tolist() == [30]


def test_a_longer_reach_is_a_parameter() -> None:
    text = [1, 2, 3, 4, 5, 6, 9, 1, 2]
    assert len(draft(text, 9)) == 2
    assert len(draft(text, 9, drafter=SuffixDrafter(SuffixLimits(factor=1.5)))) == 3
    assert len(draft(text, 9, drafter=SuffixDrafter(SuffixLimits(offset=2.0)))) == 4
    assert len(draft(text, 9, drafter=SuffixDrafter(SuffixLimits(offset=50.0)))) == 7
    assert len(draft(text, 9, drafter=SuffixDrafter(SuffixLimits(max_depth=3)))) == 1
    assert len(draft(text, 9, drafter=SuffixDrafter(SuffixLimits(min_prob=0.6)))) == 0


@pytest.mark.parametrize("tree_nodes", [None, 5])
def test_nothing_to_say(tree_nodes: int | None) -> None:
    for drafter in (SuffixDrafter(), with_memory()):
        for text in ([1], [1, 2, 3, 4]):
            proposal = draft(text, 5, tree_nodes, drafter=drafter)
            assert len(proposal) == 0
            assert proposal.expected == 0


@pytest.mark.parametrize("tree_nodes", [None, 5])
@pytest.mark.parametrize("k", [0, 1])
def test_never_deeper_than_asked_for(k: int, tree_nodes: int | None) -> None:
    text = [1, 2, 3, 4, 5] * 3
    assert draft(text, k, tree_nodes).max_depth == k
    drafter = with_memory()
    answer(drafter, text)
    assert draft([1, 2, 3], k, tree_nodes, drafter=drafter).max_depth == k


@pytest.mark.parametrize("tree_nodes", [None, 9])
def test_nothing_follows_end_of_text(tree_nodes: int | None) -> None:
    text = [1, 2, 3, 0, 4, 5, 6, 1, 2, 3]
    assert draft(text, 9, tree_nodes).tokens.tolist() == [0, 4, 5]
    proposal = draft(text, 9, tree_nodes, eos_ids=[0, 7])
    assert proposal.tokens.tolist() == [0]
    assert proposal.expected == 0.5


def test_past_answers_are_used_and_the_requests_own_text_goes_first() -> None:
    drafter = with_memory()
    answer(drafter, [5, 6, 7, 8, 9])
    proposal = draft([5, 6], 4, drafter=drafter)
    assert proposal.tokens.tolist() == [7, 8]
    assert proposal.drafter == "suffix:global"
    assert proposal.expected == 1.0
    own = draft([5, 6, 50, 51, 5, 6], 4, drafter=drafter)
    assert own.tokens.tolist() == [50, 51]
    assert own.drafter == "suffix"


def test_a_request_may_stay_out_of_the_memory() -> None:
    drafter = with_memory()
    hints = DraftHints(remembers=False)
    apart = DraftContext((9,), SamplingParams(), SequentialNoise(), frozenset(), hints)
    session = drafter.start(apart)
    drafter.observe(session, [1, 2, 3, 4])
    drafter.close(session)
    assert draft([5, 1, 2], 2, drafter=drafter).tokens.tolist() == [], "it was not remembered"
    answer(drafter, [1, 2, 3, 4])
    assert draft([5, 1, 2], 2, drafter=drafter).tokens.tolist() == [3, 4]
    session = drafter.start(replace(apart, prompt=(5, 1, 2)))
    (proposal,) = drafter.propose([DraftRequest(session, 2, None)])
    assert len(proposal) == 0, "nor is it shown what was"


def test_without_a_memory_nothing_is_kept() -> None:
    drafter = SuffixDrafter()
    answer(drafter, [5, 6, 7, 8, 9])
    assert len(draft([5, 6], 4, drafter=drafter)) == 0
    with pytest.raises(ParameterError, match="use suffix:global"):
        drafter.save(None)  # type: ignore[arg-type]


def test_only_the_answer_is_remembered_and_only_when_it_has_ended() -> None:
    drafter = with_memory()
    session = drafter.start(context([5, 6, 7]))
    drafter.observe(session, [15, 16, 17])
    assert len(draft([15], 1, drafter=drafter)) == 0
    drafter.close(session)
    assert draft([15], 1, drafter=drafter).tokens.tolist() == [16]
    assert len(draft([5], 1, drafter=drafter)) == 0


def test_tenants_never_see_each_other() -> None:
    drafter = with_memory()
    answer(drafter, [5, 6, 7, 8, 9], tenant="one")
    answer(drafter, [5, 6, 70, 80], tenant="other")
    assert draft([5, 6], 2, drafter=drafter, tenant="one").tokens.tolist() == [7, 8]
    assert draft([5, 6], 2, drafter=drafter, tenant="other").tokens.tolist() == [70, 80]
    assert len(draft([5, 6], 2, drafter=drafter)) == 0
    assert len(draft([5, 6], 2, drafter=drafter, tenant="third")) == 0


def test_the_oldest_answers_go_first() -> None:
    for limits in (MemoryLimits(max_answers=2), MemoryLimits(max_tokens=8)):
        drafter = with_memory(memory=limits)
        for first in (10, 20, 30):
            answer(drafter, [first, first + 1, first + 2, first + 3])
        found = [draft([first], 1, drafter=drafter).tokens.tolist() for first in (10, 20, 30)]
        assert found == [[], [21], [31]]


def test_of_a_long_answer_the_end_is_kept() -> None:
    drafter = with_memory(memory=MemoryLimits(max_tokens=3))
    answer(drafter, [1, 2, 3, 4, 5])
    found = [draft([last], 1, drafter=drafter).tokens.tolist() for last in range(1, 5)]
    assert found == [[], [], [4], [5]]


def test_the_tenant_not_served_for_longest_goes_first() -> None:
    drafter = with_memory(memory=MemoryLimits(max_tenants=2))
    answer(drafter, [1, 2, 3], tenant="a")
    answer(drafter, [1, 2, 3], tenant="b")
    draft([1], 1, drafter=drafter, tenant="a")
    answer(drafter, [1, 2, 3], tenant="c")
    found = [len(draft([1], 1, drafter=drafter, tenant=tenant)) for tenant in "abc"]
    assert found == [1, 0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SuffixLimits(max_depth=1), "max_depth = 1 cannot be used"),
        (lambda: SuffixLimits(factor=float("nan")), "factor = nan and offset"),
        (lambda: SuffixLimits(min_prob=1.5), "min_prob = 1.5 cannot be used"),
        (lambda: MemoryLimits(max_tokens=0), "max_tokens = 0 cannot be used"),
    ],
)
def test_impossible_limits_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_prediction_is_refused_as_it_would_be_ignored() -> None:
    with pytest.raises(ParameterError, match="suffix makes no use of a prediction"):
        SuffixDrafter().check(DraftHints(prediction=(1,)))


@pytest.mark.parametrize("tree_nodes", [None, 4])
@pytest.mark.parametrize("make", [SuffixDrafter, with_memory])
def test_is_exact(make: Callable[[], SuffixDrafter], tree_nodes: int | None) -> None:
    check_drafter(make, tree_nodes=tree_nodes)


@pytest.mark.parametrize("tree_nodes", [None, 6])
def test_the_context_may_end_within_a_draft(tree_nodes: int | None) -> None:
    script = random_script(3, 0)
    vocabulary = Vocabulary(3, frozenset({2}), lambda _: b"x")
    prompt = [0, 1] * 8
    for context_length in range(17, 24):
        answers = []
        for k in (1, 6):
            target = ScriptedEngine(script, 3, context_length)
            decoder = Decoder(target, vocabulary, SuffixDrafter(), k, tree_nodes)
            last = [each for _, each, _ in decoder.run([prompt], [SamplingParams()])][-1]
            answers.append([token.token_id for token in last.tokens])
        assert answers[0] == answers[1]
