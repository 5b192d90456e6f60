"""How much is drafted and verified: against a simulated machine whose optimum is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oneglance.control.controller import choose_lengths, cut_drafts
from oneglance.control.cost import KnownCosts
from oneglance.control.draft_cost import DraftPrice, KnownDraftCosts
from oneglance.control.length import (
    MAX_LENGTH,
    Control,
    FixedLength,
    MeasuredLength,
    check_tree_nodes,
    make_draft_length,
)
from oneglance.control.part import PartLength
from oneglance.errors import ParameterError
from oneglance.types import ROOT, Proposal
from tests.control.simulation import Machine, Truth, independent

PRICES = {"free": DraftPrice(), "dear": DraftPrice(0.02, 0.3)}


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("row_share", [0.02, 0.15, 0.5])
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_the_speed_is_near_that_of_the_best_fixed_length(
    rate: float, row_share: float, price: str
) -> None:
    """After some requests; five percent are left to learning, and to what an attempt costs."""
    machine = Machine(row_share, PRICES[price])
    speeds = [machine.speed(independent(rate), seed=seed) for seed in range(10)]
    assert np.mean(speeds[4:]) > 0.95 * machine.best_speed(rate)


def until(limit: int) -> Truth:
    return lambda done, _: [done < limit] * 33


def every(period: int) -> Truth:
    return lambda done, _: [done // period % 2 == 0] * 33


def when_least_expected() -> Truth:
    """Right as long as it has been wrong before, in turns that grow."""
    return lambda done, _: [int(np.log2(done + 1)) % 2 == 1] * 33


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("row_share", [0.02, 0.15, 1.0])
@pytest.mark.parametrize(
    "truth",
    [independent(0.0), independent(0.15), until(20), every(3), every(16), when_least_expected()],
    ids=["never", "seldom", "at first", "by threes", "by sixteens", "in growing turns"],
)
def test_it_is_never_slower_than_plain_decoding_by_three_percent(
    truth: Truth, row_share: float, price: str
) -> None:
    """Whatever the text does, in answers of 128 tokens and from the first request on."""
    machine = Machine(row_share, PRICES[price])
    for seed in range(2):
        assert machine.speed(truth, num_tokens=128, seed=seed) > 0.97


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("row_share", [0.02, 0.15, 0.5])
def test_a_request_pays_little_for_the_luck_of_those_before(row_share: float, price: str) -> None:
    """Everything was right so far, and now nothing is."""
    machine = Machine(row_share, PRICES[price])
    for seed in range(4):
        machine.speed(independent(1.0), 128, seed)
    assert machine.speed(independent(0.0), 128) > 0.97


def test_a_drafter_that_boasts_is_found_out() -> None:
    boasting = Machine(0.3, says=lambda _: (8, 7.5))
    speeds = [boasting.speed(independent(0.1), 128, seed) for seed in range(8)]
    assert min(speeds) > 0.97
    assert np.mean(speeds[4:]) > 0.99


def test_what_a_drafter_says_is_worth_more_than_an_average() -> None:
    """Half of its drafts are right and it knows which; on the average no draft would pay."""

    def either(_: int, generator: np.random.Generator) -> Sequence[bool]:
        return [bool(generator.random() < 0.3)] * 33

    knows = Machine(0.45, says=lambda right: (4, 3.9 if right[0] else 0.1))
    silent = Machine(0.45, says=lambda _: (4, 1.2))
    speeds = [
        float(np.mean([machine.speed(either, 200, seed) for seed in range(8)]))
        for machine in (knows, silent)
    ]
    assert speeds[0] > 1.15 * speeds[1]


def test_a_model_reads_the_prompt_only_where_the_answer_is_long_enough_to_repay_it() -> None:
    price = DraftPrice(0.02, 0.3, unseen=0.05)

    def asks(room: int) -> bool:
        control = Machine(0.05, price).control
        for _ in range(30):
            control.acceptance.update(8, 7)
        return choose_lengths([MeasuredLength(control, 300)], [room])[0] > 0

    assert [asks(room) for room in (4, 16, 200)] == [False, False, True]


def test_where_drafting_lost_it_is_tried_again_and_comes_back() -> None:
    machine = Machine(0.2, DraftPrice(0.0, 0.1))
    assert 0.97 < machine.speed(independent(0.0), 400) < 1.0
    assert machine.speed(independent(1.0), 400) > 2.5


def test_nothing_is_drafted_before_a_pass_was_timed() -> None:
    control = Control()
    length = make_draft_length("auto", control)
    assert choose_lengths([length], [9]) == [0]
    control.pass_costs.note(1, 0.01)
    assert choose_lengths([length], [9])[0] > 0


def test_drafts_shrink_as_the_batch_grows_and_the_surest_stay_longest() -> None:
    control = Control(KnownCosts(0.12))
    sure, unsure = Proposal.chain([1] * 8, expected=7.0), Proposal.chain([1] * 8, expected=2.0)

    def left(num_pairs: int) -> tuple[int, int]:
        lengths = [MeasuredLength(control, 10) for _ in range(2 * num_pairs)]
        for length in lengths:
            length.credit.tokens = 100.0
        cut = cut_drafts(lengths, [sure, unsure] * num_pairs)
        return len(cut[0]), len(cut[1])

    sizes = [left(count) for count in (1, 2, 8)]
    assert sizes == sorted(sizes, reverse=True), sizes
    assert sizes[0][0] > sizes[0][1] > 0, sizes
    assert sizes[-1][1] == 0, sizes


def test_a_longer_context_makes_rows_dearer() -> None:
    costs = KnownCosts(0.02, attention_share=1e-3)
    draft = Proposal.chain([1] * 16, expected=12.0)

    def left(context: int) -> int:
        length = MeasuredLength(Control(costs), context)
        length.credit.tokens = 100.0
        return len(cut_drafts([length], [draft])[0])

    assert left(10) > left(2000) > 0


def test_only_chains_of_point_masses_are_cut() -> None:
    law = np.full(3, 1 / 3)
    drawn = Proposal.chain([1, 2, 1], [law] * 3, expected=0.01)
    fork = Proposal(np.array([1, 2, 1]), np.array([ROOT, ROOT, 0]), expected=0.01)
    chain = Proposal.chain([1, 2, 1], drafter="it", expected=0.01)
    lengths = [MeasuredLength(Control(KnownCosts(0.5))) for _ in range(3)]
    cut = cut_drafts(lengths, [drawn, fork, chain])
    assert cut[0] is drawn
    assert cut[1] is fork
    assert (len(cut[2]), cut[2].drafter) == (0, "it")
    assert cut_drafts([FixedLength(3)], [chain]) == [chain], "a K that was asked for is kept"


def test_of_a_tree_the_likeliest_tokens_are_kept_as_long_as_they_are_worth_their_rows() -> None:
    tokens, parents = np.array([1, 2, 3, 4, 5]), np.array([ROOT, ROOT, 0, 0, 2])
    reaches = (0.8, 0.15, 0.6, 0.1, 0.3)
    tree = Proposal(tokens, parents, drafter="it", reaches=reaches, expected=sum(reaches))
    left = []
    for row_share in (0.0, 0.1, 0.2, 0.6, 1.0):
        length = MeasuredLength(Control(KnownCosts(row_share)))
        length.credit.tokens = 100.0
        [cut] = cut_drafts([length], [tree])
        left.append(cut.tokens.tolist())
        assert cut.drafter == "it"
        kept = [token - 1 for token in left[-1]]
        assert cut.parents.tolist() == tree.part(kept).parents.tolist()
        assert (cut.expected or 0.0) == pytest.approx(sum(reaches[node] for node in kept))
    assert left == [[1, 2, 3, 4, 5], [1, 3, 5], [1, 3], [1], []]


def test_what_is_kept_of_a_tree_is_what_was_verified() -> None:
    """A token that was left out may be the one that came; it teaches, and earns nothing."""
    reaches = (0.6, 0.3)
    tree = Proposal(np.array([1, 2]), np.array([ROOT, ROOT]), reaches=reaches, expected=0.9)
    length = MeasuredLength(Control(KnownCosts(0.1)))
    before = length.credit.tokens
    length.note(tree, 1, [2])
    assert length.credit.tokens < before
    assert length.reaches_of(tree)[1] > 0.3


def test_a_fixed_length_never_changes() -> None:
    length = make_draft_length(7, None, 5)
    for decided in ([1], [1] * 8):
        assert choose_lengths([length, length], [99, 3]) == [7, 3]
        length.note(Proposal.chain([1] * 7), 7, decided)
    assert length.context == 14


def test_free_drafts_are_asked_for_in_full_and_dear_ones_are_not() -> None:
    for price, is_full in ((0.0, True), (0.2, False)):
        length = MeasuredLength(Control.without_a_clock(0.1, price))
        for _ in range(5):
            length.note(Proposal.chain([1, 1]), 2, [1, 0])
        assert (choose_lengths([length], [99])[0] == MAX_LENGTH) == is_full


def test_a_part_of_several_drafters_does_not_pay_for_what_is_free() -> None:
    def last_draft(price: DraftPrice) -> int:
        """Of a request whose drafter found nothing in a thousand passes, and then something."""
        control = Control(KnownCosts(0.1), KnownDraftCosts(price))
        length = PartLength(control)
        length.note(Proposal.chain([1], expected=1.0), 0, [1], 1)  # such drafts can be cut
        for _ in range(1000):
            length.next(50, 1)
            length.note(Proposal.empty(), 0, [1], 1)
        return len(length.cut(Proposal.chain([1, 2, 3], expected=3.0), 1))

    assert last_draft(DraftPrice()) == 3
    assert last_draft(DraftPrice(call=0.018)) == 3


def test_the_nodes_of_a_tree_are_paid_for() -> None:
    asked = []
    for width in (1, 6):
        length = MeasuredLength(Control.without_a_clock(0.1, 0.02))
        parents = [node - width for node in range(8 * width)]
        tree = Proposal(np.arange(8 * width) + 1, np.maximum(parents, ROOT))
        path = [1 + width * depth for depth in range(7)]
        for _ in range(20):
            length.note(tree, len(tree), [*path, 0])
        length.credit.tokens = 100.0
        asked.append(choose_lengths([length], [32])[0])
    assert asked[0] > asked[1] > 0


def test_requests_learn_from_those_before() -> None:
    def first_wish(kept: list[int]) -> int:
        control = Control.without_a_clock(0.1, 0.05)
        for _ in range(20):
            MeasuredLength(control).note(Proposal.chain([1] * 8), 8, kept)
        length = MeasuredLength(control)
        length.credit.tokens = 100.0
        return choose_lengths([length], [99])[0]

    assert first_wish([1] * 9) > first_wish([1, 0])


def test_a_draft_that_was_not_verified_teaches_all_the_same() -> None:
    control = Control.without_a_clock()
    length = MeasuredLength(control)
    for _ in range(30):
        length.note(Proposal.chain([1, 1]), 0, [1])
    assert length.acceptance.rate > 0.9
    assert length.credit.tokens > 1.0, "and costs nothing"


def test_what_the_drafter_has_not_seen_is_counted() -> None:
    length = MeasuredLength(Control.without_a_clock(0.1, 0.1), 12)
    assert length.num_unseen == 12
    length.note(Proposal.empty(), 0, [1])
    assert length.num_unseen == 13
    assert choose_lengths([length], [9])[0] > 0
    length.note(Proposal.chain([1, 1]), 2, [1, 1, 0])
    assert (length.num_unseen, length.context) == (1, 16)


@pytest.mark.parametrize("k", [0, -1, "many", "5", "", True, 2.0, None])
def test_what_is_no_length_is_refused(k: object) -> None:
    with pytest.raises(ParameterError, match=r"k = .* cannot be used; .* use the drafter none"):
        make_draft_length(k)  # type: ignore[arg-type]


@pytest.mark.parametrize("tree_nodes", [0, -1, "many", True, 2.0])
def test_what_is_no_number_of_nodes_is_refused(tree_nodes: object) -> None:
    with pytest.raises(ParameterError, match=r"tree_nodes = .* or None for chains"):
        check_tree_nodes(tree_nodes)  # type: ignore[arg-type]
    check_tree_nodes(None)
    check_tree_nodes(1)
