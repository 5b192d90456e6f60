"""The search for layers finds those that can be spared, and is not led astray by luck."""

from __future__ import annotations

import random

import pytest

from oneglance.drafters.layer_search import (
    PATIENCE,
    Layers,
    LayerSearch,
    estimated_speedup,
    evenly_spaced,
)

NUM_LAYERS = 12
HARMLESS = frozenset({3, 5, 6, 9})


def agreement(layers: Layers) -> float:
    """Four layers can be spared at little cost each, the others at much."""
    return 0.99 ** len(HARMLESS & set(layers)) * 0.6 ** len(set(layers) - HARMLESS)


def search(start: Layers, seed: int = 0, num_texts: int = 60) -> LayerSearch:
    found = LayerSearch(start, NUM_LAYERS, layer_cost=0.07, seed=seed)
    for _ in range(num_texts):
        found.begin_text()
        for _ in range(8):
            if not found.is_done:
                found.advance(agreement)
    return found


def test_estimated_speedup() -> None:
    assert estimated_speedup(0.0, 0.5) == pytest.approx(1 / 1.5)
    assert estimated_speedup(1.0, 0.25) == pytest.approx(17 / 5)
    assert estimated_speedup(0.5, 0.1) == pytest.approx(1.75 / 1.2)


@pytest.mark.parametrize("num_layers", range(3, 40))
def test_a_search_starts_between_the_first_and_the_last_layer(num_layers: int) -> None:
    layers = evenly_spaced(num_layers)
    assert len(set(layers)) == len(layers)
    assert layers == tuple(sorted(layers))
    assert all(0 < layer < num_layers - 1 for layer in layers)
    assert len(layers) == max(1, min(num_layers - 2, round(0.1 * num_layers)))


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_layers_that_can_be_spared(seed: int) -> None:
    found = search(evenly_spaced(NUM_LAYERS), seed)
    assert set(found.best) == HARMLESS
    assert found.is_done


def test_the_same_texts_give_the_same_layers() -> None:
    first, second = (search(evenly_spaced(NUM_LAYERS), num_texts=5) for _ in range(2))
    assert first.best == second.best


def test_luck_with_one_text_changes_nothing() -> None:
    """Sets are equally good here, and chance says otherwise of each text anew."""
    found = LayerSearch((4, 7), NUM_LAYERS, layer_cost=0.0)
    changes = 0
    for text in range(40):
        found.begin_text()
        lucky = _Luck(text, found.best)
        for _ in range(3):
            before = found.best
            if not found.is_done:
                found.advance(lucky)
            changes += found.best != before
    assert 0 < changes < 12, "one text alone would have changed it in most of the 40"


class _Luck:
    """Agreement that is drawn for each set, in the middle for the best one."""

    def __init__(self, seed: int, best: Layers) -> None:
        self._random = random.Random(seed)
        self._values = {best: 0.5}

    def __call__(self, layers: Layers) -> float:
        return self._values.setdefault(layers, self._random.uniform(0.3, 0.6))


def test_a_search_without_choice_is_over() -> None:
    assert LayerSearch((1,), 3, 0.3).is_done
    assert not LayerSearch((1,), 4, 0.3).is_done


def test_it_ends_when_nothing_gets_better() -> None:
    found = LayerSearch((4, 7), NUM_LAYERS, 0.05)
    found.begin_text()
    count = 0
    while not found.is_done:
        found.advance(lambda layers: 0.9 if layers == (4, 7) else 0.1)
        count += 1
    assert count == PATIENCE + 1
    assert found.best == (4, 7)
