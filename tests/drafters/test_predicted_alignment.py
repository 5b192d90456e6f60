"""Following an answer along its prediction, through every kind of edit."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.drafters.predicted_alignment import Alignment
from oneglance.drafters.predicted_edits import RepeatedEdits
from oneglance.drafters.predicted_evidence import Clue, Evidence
from oneglance.drafters.predicted_index import Match, PredictionIndex

TEXT = list(range(100, 200))


def first_guesses(prediction: list[int], answer: list[int], num_tokens: int = 1) -> list[list[int]]:
    """For each place of the answer the draft of `num_tokens` from the most credible place."""
    alignment = Alignment(PredictionIndex(prediction))
    guesses: list[list[int]] = []
    for token in answer:
        place = next(alignment.places(), None)
        following = [] if place is None else alignment.edits.read(place.at, num_tokens)
        pending = () if place is None else place.pending
        guesses.append([*pending, *following][:num_tokens])
        alignment.observe(token)
    return guesses


def misses(prediction: list[int], answer: list[int]) -> list[int]:
    """Places of the answer whose token was not the first guess."""
    guesses = first_guesses(prediction, answer)
    return [
        place
        for place, (guess, token) in enumerate(zip(guesses, answer, strict=True))
        if guess != [token]
    ]


def test_on_the_identical_text_no_guess_is_wrong() -> None:
    assert misses(TEXT, TEXT) == []
    assert first_guesses(TEXT, TEXT, 8)[50] == TEXT[50:58]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([*TEXT[:40], 7, *TEXT[41:]], [40]),  # a token was changed
        ([*TEXT[:40], 7, 8, *TEXT[42:]], [40, 41]),  # two were
        ([*TEXT[:40], *TEXT[41:]], [40]),  # a token was deleted
        ([*TEXT[:40], *TEXT[47:]], [40]),  # a line
        ([*TEXT[:40], *TEXT[80:]], [40, 41]),  # a block
        ([*TEXT[:40], 7, *TEXT[40:]], [40, 41]),  # a token was inserted
        ([*TEXT[:40], *range(9), *TEXT[40:]], [*range(40, 50)]),  # a line
        ([*TEXT[:40], *range(50), *TEXT[40:]], [*range(40, 91)]),  # a block
        ([1, 2, 3, *TEXT], [0, 1, 2, 3]),  # something comes before it all
        (TEXT[30:], [0, 1]),  # the beginning is missing
        ([*TEXT[50:], *TEXT[:50]], [0, 1, 50, 51]),  # halves were swapped
    ],
)
def test_it_finds_back(answer: list[int], expected: list[int]) -> None:
    assert misses(TEXT, answer) == expected


def test_a_renamed_identifier_is_expected_after_its_first_occurrence() -> None:
    before = [token for n in range(20) for token in (1000, *range(10 * n, 10 * n + 8))]
    for new in ([2000], [2000, 2001, 2002], []):
        answer = [token for n in range(20) for token in (*new, *range(10 * n, 10 * n + 8))]
        late = [place for place in misses(before, answer) if place > len(new) + 1]
        assert late == [], f"renamed to {new}"


def test_clues_that_mislead_in_this_text_come_last() -> None:
    """Few words, so that pairs and near tokens are everywhere; every edit changes one token."""
    choices = random.Random(5)
    before = [choices.randrange(8) for _ in range(600)]
    answer = list(before)
    changed = range(10, 600, 12)
    for place in changed:
        answer[place] = (before[place] + 1 + choices.randrange(7)) % 8
    late = [place for place in misses(before, answer) if place >= 100]
    assert set(range(106, 600, 12)) <= set(late)
    assert len(late) <= 1.25 * len(range(106, 600, 12))


def test_evidence_is_learned_from_a_prior_and_forgotten_slowly() -> None:
    evidence = Evidence()
    assert evidence.ranked(Clue.INSERTED, Clue.CHANGED, Clue.TOKEN) == [
        Clue.TOKEN,
        Clue.CHANGED,
        Clue.INSERTED,
    ]
    for _ in range(3):
        evidence.note(Clue.TOKEN, False)
        evidence.note(Clue.INSERTED, True)
    assert evidence.ranked(*Clue)[-1] is Clue.TOKEN
    assert evidence.rate(Clue.INSERTED) > evidence.rate(Clue.CHANGED)
    for _ in range(30):
        evidence.note(Clue.INSERTED, False)
    assert evidence.rate(Clue.INSERTED) < 0.05


def test_an_edit_that_is_not_repeated_is_forgotten() -> None:
    before = [token for n in range(20) for token in (1000, *range(10 * n, 10 * n + 8))]
    answer = [2000, *before[1:]]
    assert misses(before, answer) == [0, 9], "one more try, then no more"


def test_an_edit_of_what_was_kept_before_is_not_expected() -> None:
    index = PredictionIndex([5, 1, 5, 2, 5, 3])
    edits = RepeatedEdits(index)
    edits.learn(4, 5, [9])
    assert edits.at(0) is None
    edits.learn(4, 5, [9])
    edits.learn(4, 5, [9])
    assert edits.at(0) == (1, (9,))
    assert edits.read(0, 4) == [9, 1, 9, 2]


def test_only_so_many_edits_are_remembered() -> None:
    edits = RepeatedEdits(PredictionIndex(range(100)))
    for place in range(33):
        edits.learn(place, place + 1, [200 + place])
    assert [edits.at(place) is None for place in (0, 1, 32)] == [True, False, False]


def test_the_rest_of_an_edit_that_was_seen_before_is_pending() -> None:
    prediction = [1, 10, 11, 12, 13, 14, 1, 20, 21, 22]
    alignment = Alignment(PredictionIndex(prediction))
    for token in [7, 8, 9, 10, 11, 12, 13, 14, 7]:
        alignment.observe(token)
    place = next(alignment.places())
    assert (place.at, place.pending, place.clue) == (7, (8, 9), Clue.EDIT)


def test_how_well_a_place_is_supported() -> None:
    alignment = Alignment(PredictionIndex(TEXT))
    clues = []
    for token in [*TEXT[:5], 7, *TEXT[6:12]]:
        clues.append(next(alignment.places()).clue)
        alignment.observe(token)
    assert clues == [Clue.READING] * 6 + [Clue.CHANGED] + [Clue.AGREED] * 2 + [Clue.READING] * 3


def test_other_places_follow_the_best() -> None:
    alignment = Alignment(PredictionIndex(TEXT))
    for token in [*TEXT[:5], 7]:
        alignment.observe(token)
    assert [place.at for place in alignment.places()] == [6, 5], "changed, or inserted"


def test_the_longest_ngram_comes_first_and_ahead_before_behind() -> None:
    index = PredictionIndex([1, 2, 3, 9, 2, 3, 8, 1, 2, 3, 7])
    assert index.matches([1, 2, 3], 4) == [Match(10, 3), Match(6, 2), Match(3, 3)]
    assert index.matches([5, 2, 3], 4) == [Match(6, 2), Match(10, 2), Match(3, 2)]
    assert index.matches([3], 0) == []
    assert index.matches([5, 5], 0) == []


def test_where_a_token_comes_next() -> None:
    index = PredictionIndex([1, 2, 1, 2])
    assert index.next_single(1, 0, 8) == 0
    assert index.next_single(1, 1, 8) == 2
    assert index.next_single(1, 0, 0) is None
    assert index.next_single(2, 2, 1) is None
    assert index.next_single(5, 0, 8) is None
    assert [index.count([1, 2], end) for end in range(5)] == [0, 1, 1, 2, 2]


EDITS = st.lists(
    st.tuples(st.sampled_from("cid"), st.integers(0, 11), st.integers(1, 6)), max_size=5
)


@given(EDITS)
@settings(deadline=None)
def test_random_edits_cost_a_few_guesses_each(edits: list[tuple[str, int, int]]) -> None:
    """Edits of a text without repetition, at least twelve tokens apart."""
    text = list(range(1000, 1160))
    answer, place, num_new, cost = [], 0, 0, 0
    for kind, more, count in edits:
        kept = 12 + more
        answer += text[place : place + kept]
        place += kept
        if kind in "cd":
            place += count
        if kind in "ci":
            answer += range(num_new, num_new + count)
            num_new += count
        cost += 2 + (count if kind in "ci" else 0)
    answer += text[place:]
    assert len(misses(text, answer)) <= cost


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=40))
@settings(deadline=None)
def test_whatever_the_answer_places_and_drafts_are_of_the_prediction(
    prediction: list[int], answer: list[int]
) -> None:
    alignment = Alignment(PredictionIndex(prediction))
    for token in answer:
        for place in alignment.places():
            assert 0 <= place.at <= len(prediction) + 2
            assert len(alignment.edits.read(place.at, 5)) <= 5
        alignment.observe(token)
