"""The public helpers for tests: the scripted engine keeps the contract, the check has teeth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.decode import step as step_module
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, TreeRows
from oneglance.errors import CapacityError
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise, SequentialNoise
from oneglance.sampling.softmax import softmax
from oneglance.testing import (
    ScriptedDrafter,
    ScriptedEngine,
    ScriptedSession,
    answer_law,
    check_drafter,
    random_script,
    total_variation,
)
from oneglance.types import ROOT, Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.select import accept

V = 3
SCRIPT = random_script(V, seed=0)
DRAFT_SCRIPT = random_script(V, seed=50)


def law_of(prefix: tuple[int, ...]) -> Float64Array:
    return softmax(DRAFT_SCRIPT(prefix).astype(np.float64))


def tree(
    sequence: int, tokens: Sequence[int], parents: Sequence[int], wants: Sequence[int]
) -> TreeRows:
    wanted = np.isin(np.arange(len(tokens)), wants)
    return TreeRows(sequence, np.array(tokens), np.array(parents), wanted)


def test_a_script_is_a_function_of_the_prefix_and_the_seed() -> None:
    again, other = random_script(V, seed=0), random_script(V, seed=1)
    for prefix in ((), (0,), (0, 0), (1, 0), (0, 1)):
        np.testing.assert_array_equal(SCRIPT(prefix), again(prefix))
        assert SCRIPT(prefix).shape == (V,)
        assert SCRIPT(prefix).dtype == np.float32
    rows = [SCRIPT(prefix) for prefix in ((), (0,), (0, 0), (1, 0), (0, 1))] + [other(())]
    assert len({row.tobytes() for row in rows}) == len(rows)
    wide = np.concatenate([random_script(50, 0, spread=9.0)((t,)) for t in range(20)])
    assert 8 < wide.std() < 10


def test_logits_are_of_the_wanted_rows_along_their_own_paths() -> None:
    engine = ScriptedEngine(SCRIPT, V)
    first, second = engine.open(), engine.open()
    engine.forward(Batch((tree(first, [2, 1], [ROOT, 0], []),)))
    engine.commit(first, [0, 1])
    output = engine.forward(
        Batch(
            (
                tree(first, [0, 1, 2, 0], [ROOT, 0, 0, 2], [1, 3]),
                tree(second, [1], [ROOT], []),
            )
        )
    )
    np.testing.assert_array_equal(output.logits[0], [SCRIPT((2, 1, 0, 1)), SCRIPT((2, 1, 0, 2, 0))])
    assert output.logits[1].shape == (0, V)
    assert (engine.num_passes, engine.num_rows) == (2, 7)


def prefix_of(engine: ScriptedEngine, sequence: int) -> int:
    """Which of the prefixes of up to three tokens a sequence holds, told by its next logits."""
    row = engine.forward(Batch((TreeRows.chain(sequence, [0]),))).logits[0][0]
    for length in range(4):
        for prefix in np.ndindex(*[V] * length):
            if np.array_equal(row, SCRIPT((*prefix, 0))):
                return int("1" + "".join(map(str, prefix)))
    raise AssertionError("the logits are of no short prefix")


def test_commit_keeps_a_path_and_drops_the_rest() -> None:
    engine = ScriptedEngine(SCRIPT, V)
    sequence = engine.open()
    engine.forward(Batch((tree(sequence, [2, 1, 0], [ROOT, 0, 0], [0]),)))
    assert engine.length(sequence) == 0, "rows in flight are visible to nobody"
    engine.commit(sequence, [0, 2])
    assert engine.length(sequence) == 2
    with pytest.raises(IndexError):  # nothing is in flight any more
        engine.commit(sequence, [0])
    assert prefix_of(engine, sequence) == 120
    engine.forward(Batch((TreeRows.chain(sequence, [1]),)))
    engine.commit(sequence, [])
    assert prefix_of(engine, sequence) == 120


def test_what_the_contract_forbids_is_caught() -> None:
    """A caller's mistake that a real engine would refuse or turn into a wrong answer."""
    engine = ScriptedEngine(SCRIPT, V)
    sequence = engine.open()
    for rows in ([1], [0, 3], [0, 2, 1], [2]):
        engine.forward(Batch((tree(sequence, [2, 1, 0, 0], [ROOT, 0, 0, 1], [0]),)))
        with pytest.raises(AssertionError, match="rows are no path"):
            engine.commit(sequence, rows)
    engine.commit(sequence, [0, 1, 3])
    for length in (-1, 4):
        with pytest.raises(AssertionError, match="beyond the committed length"):
            engine.truncate(sequence, length)
    assert engine.length(sequence) == 3


def test_truncate_rolls_back_and_drops_what_is_in_flight() -> None:
    engine = ScriptedEngine(SCRIPT, V)
    sequence = engine.open()
    engine.forward(Batch((TreeRows.chain(sequence, [2, 1, 0]),)))
    engine.commit(sequence, [0, 1, 2])
    engine.forward(Batch((TreeRows.chain(sequence, [1]),)))
    engine.truncate(sequence, 1)
    assert engine.length(sequence) == 1
    with pytest.raises(IndexError):
        engine.commit(sequence, [0])
    assert prefix_of(engine, sequence) == 12


def test_a_fork_has_the_committed_prefix_and_a_life_of_its_own() -> None:
    engine = ScriptedEngine(SCRIPT, V)
    sequence = engine.open()
    engine.forward(Batch((TreeRows.chain(sequence, [2, 1]),)))
    engine.commit(sequence, [0])
    fork = engine.fork(sequence)
    assert fork != sequence
    engine.forward(Batch((TreeRows.chain(fork, [0]),)))
    engine.commit(fork, [0])
    assert prefix_of(engine, fork) == 120
    assert prefix_of(engine, sequence) == 12
    engine.close(sequence)
    assert prefix_of(engine, fork) == 120
    assert engine.num_open == 1
    with pytest.raises(KeyError):
        engine.length(sequence)
    assert engine.open() not in (sequence, fork), "an id was used twice"


def test_the_context_limit_is_exact_and_nothing_changes_beyond_it() -> None:
    engine = ScriptedEngine(SCRIPT, V, context_length=3)
    sequence = engine.open()
    engine.forward(Batch((TreeRows.chain(sequence, [0, 1]),)))
    engine.commit(sequence, [0, 1])
    # Three rows, but none of them deeper than the third position.
    engine.forward(Batch((tree(sequence, [0, 1, 2], [ROOT, ROOT, ROOT], [0]),)))
    with pytest.raises(CapacityError, match="position 3 does not fit the context of 3"):
        engine.forward(Batch((TreeRows.chain(sequence, [0, 1]),)))
    assert engine.length(sequence) == 2
    assert engine.num_passes == 2


@pytest.mark.parametrize("kind", ["sampled", "replaced", "top"])
def test_a_scripted_drafter_stays_within_its_limit(kind: Any) -> None:
    drafter = ScriptedDrafter(law_of, (2, 2), kind)
    for noise in (SequentialNoise(0), SeededNoise(1)):
        session = drafter.start(DraftContext((0, 1), SamplingParams(temperature=1.0), noise))
        for limit in range(8):
            proposal = drafter.propose([DraftRequest(session, limit)])[0]
            assert len(proposal) == min(limit, 6)
            has_law = kind != "top" and isinstance(noise, Noise)
            assert (proposal.draft_probs is not None) == has_law


def test_a_seeded_scripted_drafter_uses_the_targets_noise() -> None:
    """With the target's own law it is always right."""
    drafter = ScriptedDrafter(lambda prefix: softmax(SCRIPT(prefix).astype(np.float64)))
    words = Vocabulary(V, frozenset(), lambda _: b"x")
    decoder = Decoder(ScriptedEngine(SCRIPT, V), words, drafter, k=4)
    params = SamplingParams(temperature=1.0, seed=2, max_tokens=30)
    stats = [sequence for _, sequence, _ in decoder.run([(0, 1)], [params])][-1].stats
    assert stats.accepted == stats.drafted == 24


def test_total_variation() -> None:
    assert total_variation({0: 1.0}, {1: 1.0}) == 1.0
    assert total_variation({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}) == 0.0
    assert total_variation({0: 0.5, 1: 0.5}, {0: 1.0}) == 0.5
    assert total_variation({0: 1.0}, {0: 0.5, 1: 0.5}) == 0.5


def test_a_law_of_answers_leaves_nothing_open() -> None:
    target = ScriptedEngine(SCRIPT, V)
    drafter = DraftModelDrafter(ScriptedEngine(DRAFT_SCRIPT, V), V)
    decoder = Decoder(target, Vocabulary(V, frozenset(), lambda _: b"x"), drafter, k=2)
    law = answer_law(decoder, (0, 1), SamplingParams(max_tokens=2, temperature=1.0))
    assert sum(law.values()) == pytest.approx(1)
    assert target.num_open == 0


# What `check_drafter` must catch, one kind of fault each.


class TwoLooks(ScriptedDrafter):
    """Draws twice, drafts the larger token, and reports the law of a single draw."""

    def _children(self, law: Float64Array, width: int, noise: Any, position: int) -> list[int]:
        draws = [super(TwoLooks, self)._children(law, width, noise, position) for _ in range(2)]
        return max(draws)


class OnlyGoodNews(ScriptedDrafter):
    """Looks at what was drawn and drafts it only if it likes it."""

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        proposals = super().propose(requests)
        return [p if len(p) and p.tokens[0] != 0 else Proposal.empty(self.name) for p in proposals]


class StaleLaw(ScriptedDrafter):
    """Reports the law of the pass before."""

    def __init__(self) -> None:
        super().__init__(law_of)
        self._last: tuple[Float64Array, ...] = ()

    def start(self, context: DraftContext) -> Any:
        self._last = ()
        return super().start(context)

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        [proposal] = super().propose(requests)
        laws = (*self._last, *(proposal.draft_probs or ())[len(self._last) :])[: len(proposal)]
        self._last = proposal.draft_probs or ()
        with_law = proposal.draft_probs is not None
        return [Proposal.chain(proposal.tokens.tolist(), laws if with_law else None)]


@pytest.mark.parametrize("faulty", [TwoLooks, OnlyGoodNews])
def test_the_check_catches_another_law_than_that_of_the_draw(faulty: type[ScriptedDrafter]) -> None:
    check_drafter(lambda: ScriptedDrafter(law_of))
    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(lambda: faulty(law_of))


def test_the_check_catches_a_stale_law() -> None:
    with pytest.raises(AssertionError, match=r"changes the law|it is said to come from"):
        check_drafter(StaleLaw)


def test_the_check_catches_too_long_a_draft() -> None:
    class TooLong(NgramDrafter):
        def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
            return super().propose(
                [DraftRequest(r.session, r.num_draft_tokens + 1) for r in requests]
            )

    check_drafter(lambda: NgramDrafter(min_ngram=1))
    with pytest.raises(AssertionError, match="more was drafted than asked for"):
        check_drafter(lambda: TooLong(min_ngram=1))


@pytest.mark.parametrize("is_greedy", [True, False])
def test_the_check_compares_fixed_answers(is_greedy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that keeps every draft token where there is nothing to enumerate."""

    def keep_all(proposal: Proposal, target: TargetLaw, noise: Noise | KeyedNoise) -> Acceptance:
        if len(proposal) and isinstance(noise, KeyedNoise) and not is_greedy:
            return Acceptance(tuple(range(len(proposal))), 0, "bonus")
        if len(proposal) and target.is_greedy and is_greedy:
            return Acceptance(tuple(range(len(proposal))), 0, "bonus")
        return accept(proposal, target, noise)

    monkeypatch.setattr(step_module, "accept", keep_all)
    with pytest.raises(AssertionError, match="the answers are"):
        check_drafter(lambda: ScriptedDrafter(law_of, kind="top"))


def test_the_check_counts_open_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decoder, "end", lambda *_: None)
    with pytest.raises(AssertionError, match="a sequence was left open"):
        check_drafter(NoDrafter)


def test_a_drafter_that_guesses_badly_passes() -> None:
    """One that takes its own rejected drafts for the answer is slow and honest."""

    class NeverRollsBack(ScriptedDrafter):
        def propose(self, requests: Sequence[DraftRequest[ScriptedSession]]) -> list[Proposal]:
            proposals = super().propose(requests)
            for request, proposal in zip(requests, proposals, strict=True):
                request.session.tokens.extend(int(token) for token in proposal.tokens)
            return proposals

    check_drafter(lambda: NeverRollsBack(law_of))
