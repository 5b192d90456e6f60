"""Several drafters in order of cost: which is asked, which is used, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.hybrid import HybridDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import GrammarDrafter, NoDrafter
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import ScriptedDrafter, ScriptedEngine, check_drafter, random_script
from oneglance.types import Float32Array, Float64Array, Proposal

V = 3


def law_of(prefix: tuple[int, ...]) -> Float64Array:
    logits = random_script(V, seed=5)(prefix).astype(np.float64)
    weights: Float64Array = np.exp(logits)
    weights /= weights.sum()
    return weights


class Fixed(Drafter[list[int]]):
    """Always drafts the same chain, and remembers what it was told."""

    def __init__(self, name: str, tokens: Sequence[int], expected: float | None = None) -> None:
        self.name = name
        self.tokens = list(tokens)
        self.expected = expected
        self.num_asked = 0
        self.num_seen = 0
        self.num_closed = 0

    def start(self, context: DraftContext) -> list[int]:
        return list(context.prompt)

    def propose(self, requests: Sequence[DraftRequest[list[int]]]) -> list[Proposal]:
        self.num_asked += len(requests)
        return [
            Proposal.chain(self.tokens[: request.num_draft_tokens], None, self.name, self.expected)
            for request in requests
        ]

    def see(self, session: list[int], proposal: Proposal, logits: Float32Array) -> None:
        del session
        assert proposal.drafter == self.name
        assert len(logits) == len(proposal) + 1
        self.num_seen += 1

    def observe(self, session: list[int], tokens: Sequence[int]) -> None:
        session.extend(tokens)

    def close(self, session: list[int]) -> None:
        session.clear()
        self.num_closed += 1


def hybrid(
    *drafters: Drafter[Any], row_share: float = 0.1, draft_shares: Sequence[float] = (0.0, 0.3)
) -> HybridDrafter:
    """Parts whose costs are known, so that a test does not depend on a clock."""
    shares = {d.name: share for d, share in zip(drafters, draft_shares, strict=False)}
    return HybridDrafter(
        drafters,
        lambda part, num_prompt: PartLength(
            Control.without_a_clock(row_share, shares.get(part.name, 0.0)), num_prompt
        ),
    )


def draft_model() -> DraftModelDrafter:
    return DraftModelDrafter(ScriptedEngine(random_script(V, seed=1, spread=1.0), V), V)


@pytest.mark.parametrize("tree_nodes", [None, 4])
@pytest.mark.parametrize(
    "make",
    [
        lambda: hybrid(NgramDrafter(min_ngram=1), draft_model()),
        lambda: hybrid(Fixed("zeros", [0, 0]), Fixed("ones", [1, 1])),
        lambda: hybrid(NgramDrafter(min_ngram=1), ScriptedDrafter(law_of, kind="sampled")),
        lambda: hybrid(ScriptedDrafter(law_of, (2, 2), kind="top"), NgramDrafter(min_ngram=1)),
    ],
    ids=["ngram+model", "two chains", "ngram+sampled", "tree+ngram"],
)
def test_the_law_is_that_of_the_target(make: Any, tree_nodes: int | None) -> None:
    check_drafter(make, tree_nodes=tree_nodes, seeds=(0,))


def test_choosing_by_what_was_drawn_is_caught() -> None:
    """A draft that was drawn at random must be used; to drop bad-looking ones is biased."""

    class Choosy(ScriptedDrafter):
        def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
            return [
                proposal if not len(proposal) or proposal.tokens[0] != 0 else Proposal.empty()
                for proposal in super().propose(requests)
            ]

    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(lambda: hybrid(NgramDrafter(min_ngram=1), Choosy(law_of)))


def propose(
    drafter: HybridDrafter, k: int = 8, tree_nodes: int | None = None, params: Any = None
) -> tuple[Any, Proposal]:
    context = DraftContext((0, 1), params or SamplingParams(), SequentialNoise(0))
    session = drafter.start(context)
    return session, drafter.propose([DraftRequest(session, k, tree_nodes)])[0]


def test_the_dear_part_is_not_asked_where_the_cheap_one_is_sure() -> None:
    cheap, dear = Fixed("cheap", [1] * 8, expected=8.0), Fixed("dear", [2] * 8)
    _, proposal = propose(hybrid(cheap, dear))
    assert proposal.drafter == "cheap"
    assert dear.num_asked == 0


@pytest.mark.parametrize("cheap", [Fixed("cheap", []), Fixed("cheap", [1, 1], expected=0.01)])
def test_the_dear_part_is_asked_where_the_cheap_one_has_little_to_say(cheap: Fixed) -> None:
    dear = Fixed("dear", [2] * 8, expected=7.0)
    _, proposal = propose(hybrid(cheap, dear))
    assert proposal.drafter == "dear"
    assert dear.num_asked == 1


def test_a_part_that_costs_more_than_it_brings_is_not_asked() -> None:
    cheap, dear = Fixed("cheap", []), Fixed("dear", [2] * 8)
    _, proposal = propose(hybrid(cheap, dear, draft_shares=(0.0, 2.0)))
    assert len(proposal) == 0
    assert dear.num_asked == 0


def test_the_length_of_each_part_is_its_own() -> None:
    """A cheap part drafts more in a row than a dear one."""
    cheap, dear = Fixed("cheap", [1] * 32), Fixed("dear", [2] * 32)
    drafter = hybrid(cheap, dear, draft_shares=(0.0, 0.5))
    context = DraftContext((0, 1), SamplingParams(), SequentialNoise(0))
    session = drafter.start(context)
    lengths: dict[str, int] = {}
    generator = np.random.default_rng(0)
    for token in (1, 2) * 200:
        cheap.tokens, dear.tokens = ([1] * 32, []) if token == 1 else ([], [2] * 32)
        proposal = drafter.propose([DraftRequest(session, 32)])[0]
        lengths[proposal.drafter] = len(proposal)
        num_kept = min(len(proposal), int(generator.geometric(0.1)) - 1)
        drafter.observe(session, [token] * num_kept + [0])
    assert lengths["cheap"] > lengths["dear"] > 0


def test_branches_of_both_in_a_tree() -> None:
    cheap, dear = Fixed("cheap", [1, 1], expected=0.8), Fixed("dear", [2, 2], expected=1.2)
    drafter = hybrid(cheap, dear, row_share=0.01, draft_shares=(0.0, 0.0))
    session, proposal = propose(drafter, tree_nodes=8)
    assert proposal.drafter == "dear+cheap"
    assert sorted(proposal.tokens.tolist()) == [1, 1, 2, 2]
    assert proposal.expected == pytest.approx(2.0, rel=0.3)
    drafter.see(session, proposal, np.zeros((5, V), dtype=np.float32))
    assert (cheap.num_seen, dear.num_seen) == (1, 1)
    _, chain = propose(drafter)
    assert chain.drafter == "dear"


def test_the_same_draft_twice_is_verified_once() -> None:
    cheap, dear = Fixed("cheap", [1, 1], expected=0.8), Fixed("dear", [1, 1], expected=1.2)
    _, proposal = propose(
        hybrid(cheap, dear, row_share=0.01, draft_shares=(0.0, 0.0)), tree_nodes=8
    )
    assert proposal.drafter == "dear"
    assert len(proposal) == 2


def test_a_part_whose_drafts_fail_is_used_no_more() -> None:
    """Also where its drafts are not verified: what was decided tells that they were wrong."""
    good, bad = Fixed("good", [1] * 8), Fixed("bad", [2] * 8)
    drafter = hybrid(bad, good, draft_shares=(0.0, 0.01))
    context = DraftContext((0, 1), SamplingParams(), SequentialNoise(0))
    session = drafter.start(context)
    used = []
    for _ in range(60):
        proposal = drafter.propose([DraftRequest(session, 8)])[0]
        used.append(proposal.drafter)
        accepted = len(proposal) if proposal.drafter == "good" else 0
        drafter.observe(session, [1] * (accepted + 1))
    assert used[-20:].count("good") > 15


def test_every_part_is_closed_even_if_one_fails() -> None:
    class Failing(Fixed):
        def close(self, session: list[int]) -> None:
            super().close(session)
            raise RuntimeError("no")

    first, second = Fixed("first", []), Failing("second", [])
    drafter = hybrid(first, second)
    session, _ = propose(drafter)
    with pytest.raises(RuntimeError, match="no"):
        drafter.close(session)
    assert (first.num_closed, second.num_closed) == (1, 1)


def test_sequences_of_a_batch_may_use_different_parts() -> None:
    script = random_script(V, seed=2)
    target = ScriptedEngine(script, V, context_length=200)
    model = DraftModelDrafter(ScriptedEngine(script, V, context_length=200), V)
    drafter = hybrid(NgramDrafter(min_ngram=1), model, draft_shares=(0.0, 0.05))
    vocabulary = Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))
    decoder = Decoder(target, vocabulary, drafter, k=6)
    prompts = [(0, 1, 2), (0,) * 9, (1, 2, 0, 1, 2, 0)]
    params = SamplingParams(max_tokens=40)
    finished = {
        index: sequence for index, sequence, _ in decoder.run(prompts, [params] * len(prompts))
    }
    names = {token.drafter for sequence in finished.values() for token in sequence.tokens}
    assert names >= {"ngram", "draft"}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([NgramDrafter(), NgramDrafter()], "has 'ngram' twice"),
        ([NgramDrafter(), NoDrafter()], "the part none, which never drafts"),
        ([NgramDrafter(), GrammarDrafter()], "the part grammar, which never drafts"),
    ],
)
def test_senseless_lists_are_refused(parts: list[Drafter[Any]], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        hybrid(*parts)


def test_each_part_is_shown_the_layers_that_it_reads() -> None:
    class Reader(Fixed):
        def __init__(self, name: str, layers: tuple[int, ...], unseen: int) -> None:
            super().__init__(name, [])
            self.hidden_layers = layers
            self.unseen = unseen
            self.shown: list[tuple[int, list[int]]] = []

        def first_unseen(self, session: list[int]) -> int:
            assert session
            return self.unseen

        def see_hidden(
            self, session: list[int], start: int, hidden: Mapping[int, Float32Array]
        ) -> None:
            assert session
            self.shown.append((start, sorted(hidden)))

    one, two = Reader("one", (2, 5), 7), Reader("two", (5, 9), 4)
    drafter = hybrid(Fixed("blind", []), one, two)
    assert drafter.hidden_layers == (2, 5, 9)
    session = drafter.start(DraftContext((1, 2), SamplingParams(), SequentialNoise(0)))
    assert drafter.first_unseen(session) == 4
    states = np.zeros((1, 3), dtype=np.float32)
    drafter.see_hidden(session, 4, dict.fromkeys((2, 5, 9), states))
    assert one.shown == [(4, [2, 5])]
    assert two.shown == [(4, [5, 9])]


def test_a_prediction_needs_one_part_that_uses_it() -> None:
    class Reader(Fixed):
        uses_prediction = True

    hints = DraftHints(prediction=(1, 2))
    with pytest.raises(ParameterError, match="makes no use of a prediction"):
        hybrid(Fixed("a", []), Fixed("b", [])).check(hints)
    hybrid(Reader("a", []), Fixed("b", [])).check(hints)
