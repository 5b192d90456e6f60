"""Contract C2 for trees that grow in flight: the bits of the whole tree evaluated at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, SequenceId, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.engine.native import is_available
from oneglance.errors import CapacityError, ParameterError
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Float32Array
from tests.engine.passes import append, opened, path_to, random_tokens, random_trees, scratch, tree
from tests.engine.random_models import random_model

KINDS = ("reference", "native") if is_available() else ("reference",)
SHAPE = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96, "vocab_size": 97}
TOKENS, PARENTS = [5, 6, 7, 8, 9, 10, 11], [-1, 0, 0, 1, 2, 4, 5]


def new_engine(kind: str, page_size: int = 3, num_pages: int | None = None) -> Engine:
    config = EngineConfig(page_size=page_size, num_pages=num_pages, kind=kind)  # type: ignore[arg-type]
    return make_engine(*random_model(11, **SHAPE), config)


@pytest.fixture(scope="module", params=[*KINDS, "scripted"])
def any_engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "scripted":
        return ScriptedEngine(random_script(97, 3), 97)
    return new_engine(request.param)


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Engine:
    return new_engine(request.param)


def grown(
    sequence: SequenceId, tokens: Sequence[int], parents: Sequence[int], num_kept: int
) -> TreeRows:
    """A tree whose new rows all want logits."""
    wanted = np.arange(len(tokens)) >= num_kept
    return TreeRows(sequence, np.array(tokens), np.array(parents), wanted, num_kept)


@dataclass
class Growth:
    """A tree, after how many of its rows each pass ends, and what the passes returned."""

    sequence: SequenceId
    tokens: list[int]
    parents: list[int]
    stages: list[int]
    logits: list[Float32Array] = field(default_factory=list)

    def rows(self, stage: int) -> TreeRows:
        start, stop = ([0, *self.stages][stage], self.stages[stage])
        return grown(self.sequence, self.tokens[:stop], self.parents[:stop], start)


@st.composite
def stages(draw: st.DrawFn, count: int) -> list[int]:
    """Numbers of rows after each pass, the last of them all."""
    return sorted({*draw(st.sets(st.integers(1, count), max_size=4)), count})


@settings(max_examples=40, deadline=None)
@given(
    prompt_length=st.integers(0, 7),
    forest=st.lists(random_trees(), min_size=1, max_size=5),
    data=st.data(),
)
def test_a_tree_grown_in_passes_is_the_tree_evaluated_at_once(
    any_engine: Engine,
    prompt_length: int,
    forest: list[tuple[list[int], list[int]]],
    data: st.DataObject,
) -> None:
    engine = any_engine
    prompt = random_tokens(2, prompt_length)
    trees = [
        Growth(opened(engine, prompt), *shape, data.draw(stages(len(shape[0])))) for shape in forest
    ]
    for stage in range(max(len(each.stages) for each in trees)):
        active = [each for each in trees if stage < len(each.stages)]
        output = engine.forward(Batch(tuple(each.rows(stage) for each in active)))
        for each, logits in zip(active, output.logits, strict=True):
            each.logits.append(logits)
    for each in trees:
        whole = opened(engine, prompt)
        expected = engine.forward(Batch((tree(whole, each.tokens, each.parents),))).logits[0]
        assert np.array_equal(np.concatenate(each.logits), expected)
        path = path_to(each.parents, data.draw(st.integers(-1, len(each.tokens) - 1)))
        engine.commit(each.sequence, path)
        kept = prompt + [each.tokens[row] for row in path]
        later = [1, 2, 3]
        expected = scratch(engine, kept + later)[len(kept) :]
        assert np.array_equal(append(engine, each.sequence, later), expected)
        engine.close(each.sequence)
        engine.close(whole)


def test_hidden_states_are_of_the_new_rows(engine: Engine) -> None:
    sequence, whole = opened(engine, [1, 2]), opened(engine, [1, 2])
    layers = (0, 2, 3)
    expected = engine.forward(Batch((tree(whole, TOKENS, PARENTS),), layers)).hidden
    engine.forward(Batch((tree(sequence, TOKENS[:4], PARENTS[:4]),)))
    found = engine.forward(Batch((grown(sequence, TOKENS, PARENTS, 4),), layers)).hidden
    for layer in layers:
        assert np.array_equal(found[layer][0], expected[layer][0][4:])


def test_the_best_tokens_are_of_the_new_rows(any_engine: Engine) -> None:
    sequence = opened(any_engine, [1, 2])
    logits = any_engine.forward(Batch((tree(sequence, TOKENS, PARENTS),))).logits[0]
    any_engine.forward(Batch((tree(sequence, TOKENS[:4], PARENTS[:4]),)))
    [top] = any_engine.forward(Batch((grown(sequence, TOKENS, PARENTS, 4),), num_top=1)).top
    assert top.ids[:, 0].tolist() == logits[4:].argmax(axis=1).tolist()
    any_engine.truncate(sequence, 2)


def test_the_last_rows_in_flight_may_give_way_to_others(any_engine: Engine) -> None:
    sequence = opened(any_engine, [1, 2])
    any_engine.forward(Batch((tree(sequence, TOKENS, PARENTS),)))
    tokens, parents = [*TOKENS[:3], 20, 21], [*PARENTS[:3], 2, 3]
    logits = any_engine.forward(Batch((grown(sequence, tokens, parents, 3),))).logits[0]
    expected = scratch(any_engine, [1, 2, 5, 7, 20, 21])
    assert np.array_equal(logits, expected[4:])
    any_engine.commit(sequence, [0, 2, 3, 4])
    assert np.array_equal(
        append(any_engine, sequence, [9]), scratch(any_engine, [1, 2, 5, 7, 20, 21, 9])[6:]
    )


def test_layers_left_out_grow_alike(engine: Engine) -> None:
    def logits(cuts: list[int]) -> Float32Array:
        sequence = opened(engine, [1, 2])
        parts: list[Float32Array] = []
        for start, stop in zip([0, *cuts], [*cuts, 7], strict=True):
            rows = grown(sequence, TOKENS[:stop], PARENTS[:stop], start)
            parts += engine.forward(Batch((rows,), skipped_layers=(1,))).logits
        engine.close(sequence)
        return np.concatenate(parts)

    assert np.array_equal(logits([2, 5]), logits([]))


def test_rows_of_other_layers_are_not_kept(engine: Engine) -> None:
    sequence = opened(engine, [1, 2])
    engine.forward(Batch((tree(sequence, TOKENS[:4], PARENTS[:4]),), num_layers=2))
    for batch in (
        Batch((grown(sequence, TOKENS, PARENTS, 4),)),
        Batch((grown(sequence, TOKENS, PARENTS, 4),), num_layers=1),
    ):
        with pytest.raises(ParameterError, match="num_kept = 4 cannot be used with num_layers"):
            engine.forward(batch)
    engine.forward(Batch((grown(sequence, TOKENS, PARENTS, 4),), num_layers=2))
    engine.close(sequence)


def test_what_is_not_in_flight_cannot_be_kept(any_engine: Engine) -> None:
    sequence = opened(any_engine, [1, 2])
    batch = Batch((grown(sequence, TOKENS, PARENTS, 4),))
    with pytest.raises(AssertionError, match="in flight"):
        any_engine.forward(batch)
    other_tokens, other_parents = [*TOKENS[:3], 12], [*PARENTS[:3], 0]
    for tokens, parents in (
        (TOKENS[:3], PARENTS[:3]),
        (other_tokens, PARENTS[:4]),
        (TOKENS[:4], other_parents),
    ):
        any_engine.forward(Batch((tree(sequence, tokens, parents),)))
        with pytest.raises(AssertionError, match="in flight"):
            any_engine.forward(batch)
    any_engine.forward(Batch((tree(sequence, TOKENS[:4], PARENTS[:4]),)))
    any_engine.truncate(sequence, 2)
    with pytest.raises(AssertionError, match="in flight"):
        any_engine.forward(batch)


def test_a_tree_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(AssertionError, match="a new row"):
        grown(0, TOKENS, PARENTS, 7)
    with pytest.raises(AssertionError, match="not evaluated again"):
        TreeRows(0, np.array(TOKENS), np.array(PARENTS), np.ones(7, np.bool_), 2)


@pytest.mark.parametrize("is_trunk_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_may_come_to_share_the_page_of_the_rows_in_flight(
    kind: str, is_trunk_first: bool
) -> None:
    """The first of them copies the page, with the rows in flight, and writes its own."""
    engine = new_engine(kind, page_size=16)
    prompt = random_tokens(5, 4)
    trunk = opened(engine, prompt)
    engine.forward(Batch((tree(trunk, TOKENS[:3], PARENTS[:3]),)))
    branch = engine.fork(trunk)
    trees = [TreeRows.chain(branch, [40, 41]), grown(trunk, TOKENS, PARENTS, 3)]
    if is_trunk_first:
        on_trunk, on_branch = engine.forward(Batch(tuple(reversed(trees)))).logits
    else:
        on_branch, on_trunk = engine.forward(Batch(tuple(trees))).logits
    assert np.array_equal(on_branch, scratch(engine, [*prompt, 40, 41])[4:])
    engine.commit(trunk, [0, 2, 4, 5, 6])
    engine.commit(branch, [0, 1])
    path = [TOKENS[row] for row in (0, 2, 4, 5, 6)]
    expected = scratch(engine, [*prompt, *path, 3])
    assert np.array_equal(on_trunk[1:], expected[6:9])
    assert np.array_equal(append(engine, trunk, [3]), expected[9:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_finds_no_room_stays_as_it_was(kind: str) -> None:
    engine = new_engine(kind, page_size=4, num_pages=2)
    sequence = opened(engine, [1, 2])
    engine.forward(Batch((tree(sequence, TOKENS[:4], PARENTS[:4]),)))
    tokens, parents = [*TOKENS[:4], *range(20, 30)], [*PARENTS[:4], *range(3, 13)]
    with pytest.raises(CapacityError, match="more pages"):
        engine.forward(Batch((grown(sequence, tokens, parents, 4),)))
    logits = engine.forward(Batch((grown(sequence, TOKENS[:6], PARENTS[:6], 4),))).logits[0]
    expected = scratch(new_engine(kind), [1, 2, 5, 7, 9, 10])
    assert np.array_equal(logits, expected[4:])
