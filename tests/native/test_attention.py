"""Tree attention has exactly the specified bits, whatever lies around a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneglance import _native
from tests.native.attention_oracle import (
    Floats,
    Tree,
    assert_same_bits,
    attend_row,
    attend_row_in_float64,
    chain,
    ints,
    make_pass,
    make_workspace,
    path_to,
    rounded,
)

ISAS = _native.available_isas()


@dataclass
class Scene:
    """Sequences in a cache: prefixes are written in chunks, then trees are attended.

    `keys` and `values` of a sequence are [T, kv_heads, head_dim]: first the prefix, then the rows.
    """

    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    page_size: int = 16
    is_half: bool = True
    isa: str = ISAS[0]
    num_threads: int = 2
    chunk: int = 64
    seed: int = 0
    pages_used: int = 0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.runtime = _native.Runtime(self.isa, self.num_threads)
        self.workspace = make_workspace(self.runtime, self.head_dim)
        self.cache = _native.KvCache(
            2, self.num_kv_heads, self.head_dim, self.page_size, self.is_half
        )

    def random_kv(self, length: int) -> tuple[Floats, Floats]:
        shape = (length, self.num_kv_heads, self.head_dim)
        keys = self.rng.standard_normal(shape, dtype=np.float32)
        return keys, self.rng.standard_normal(shape, dtype=np.float32)

    def random_queries(self, rows: int) -> Floats:
        shape = (rows, self.num_heads, self.head_dim)
        return 2 * self.rng.standard_normal(shape, dtype=np.float32)

    def new_pages(self, num_slots: int) -> list[int]:
        """New pages for so many slots, in no order."""
        count = -(-num_slots // self.page_size)
        first, self.pages_used = self.pages_used, self.pages_used + count
        self.cache.grow(self.pages_used)
        return [int(page) for page in first + self.rng.permutation(count)]

    def store(self, tree: Tree, keys: Floats, values: Floats) -> None:
        """Writes the prefix in chunks, then the rows of the tree at once."""
        cuts = [*range(0, tree.prefix_length, self.chunk), tree.prefix_length, len(keys)]
        for start, stop in pairwise(cuts):
            if start < stop:
                described = make_pass(self.page_size, [chain(start, stop - start, tree.pages)])
                parts = keys[start:stop].copy(), values[start:stop].copy()
                _native.store_kv(self.runtime, described, self.cache, 1, *parts)

    def attend(self, trees: list[Tree], queries: Floats) -> Floats:
        described = make_pass(self.page_size, trees)
        return _native.attend(described, self.cache, 1, self.workspace, queries)

    def expected(self, tree: Tree, keys: Floats, values: Floats, queries: Floats) -> Floats:
        """What each row must give, from the positions on its own path alone."""
        rows = []
        for row, query in zip(tree.rows, queries, strict=True):
            path = [tree.prefix_length + ancestor for ancestor in path_to(tree.parents, row)]
            seen = [*range(tree.prefix_length), *path]
            kept = [rounded(x[seen], self.is_half).swapaxes(0, 1) for x in (keys, values)]
            rows.append(attend_row(query, *kept))
        return np.stack(rows)


@st.composite
def trees(draw: st.DrawFn, max_rows: int) -> list[int]:
    """Parents of a tree of any shape."""
    count = draw(st.integers(1, max_rows))
    return [draw(st.integers(-1, row - 1)) for row in range(count)]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    num_kv_heads = draw(st.integers(1, 3))
    return Scene(
        num_heads=num_kv_heads * draw(st.integers(1, 8)),
        num_kv_heads=num_kv_heads,
        head_dim=16 * draw(st.integers(1, 16)),
        page_size=draw(st.sampled_from([1, 3, 7, 16, 31, 64, 100])),
        is_half=draw(st.booleans()),
        isa=draw(st.sampled_from(ISAS)),
        num_threads=draw(st.integers(1, 4)),
        chunk=draw(st.sampled_from([1, 5, 64])),
        seed=draw(st.integers(0, 2**32)),
    )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    scene=scenes(),
    prefix_lengths=st.lists(st.integers(0, 140), min_size=1, max_size=3),
    data=st.data(),
)
def test_any_trees_have_the_specified_bits(
    scene: Scene, prefix_lengths: list[int], data: st.DataObject
) -> None:
    """Every row gives what its own path gives, in any cache, batch, tree and split."""
    batch, all_queries, expected = [], [], []
    for prefix_length in prefix_lengths:
        parents = data.draw(trees(max_rows=20))
        length = prefix_length + len(parents)
        num_kept = data.draw(st.integers(0, len(parents) - 1))
        tree = Tree(prefix_length, parents, scene.new_pages(length), num_kept)
        keys, values = scene.random_kv(length)
        scene.store(tree, keys, values)
        queries = scene.random_queries(len(parents) - num_kept)
        batch.append(tree)
        all_queries.append(queries)
        expected.append(scene.expected(tree, keys, values, queries))
    actual = scene.attend(batch, np.concatenate(all_queries))
    assert_same_bits(actual, np.concatenate(expected))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("is_half", [True, False])
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "head_dim"), [(9, 3, 64), (12, 2, 128), (2, 2, 256)]
)
def test_long_contexts(
    isa: str, is_half: bool, num_heads: int, num_kv_heads: int, head_dim: int
) -> None:
    scene = Scene(num_heads, num_kv_heads, head_dim, page_size=64, is_half=is_half, isa=isa)
    tree = Tree(2_093, [-1, 0, 1, 1, 3, -1, 5], scene.new_pages(2_100))
    keys, values = scene.random_kv(2_100)
    scene.store(tree, keys, values)
    queries = scene.random_queries(7)
    actual = scene.attend([tree], queries)
    assert_same_bits(actual, scene.expected(tree, keys, values, queries))


@pytest.mark.parametrize("rows", [1, 2, 24, 25, 63, 64])
def test_chains_of_any_length(rows: int) -> None:
    scene = Scene(num_heads=9, num_kv_heads=3, head_dim=64, page_size=64)
    tree = chain(100, rows, scene.new_pages(100 + rows))
    keys, values = scene.random_kv(100 + rows)
    scene.store(tree, keys, values)
    queries = scene.random_queries(rows)
    expected = scene.expected(tree, keys, values, queries)
    assert_same_bits(scene.attend([tree], queries), expected)


def test_the_border_of_the_prefix_leaves_no_trace() -> None:
    """The last row gives the same bits with any number of the rows before it in flight."""
    scene = Scene(page_size=16)
    pages = scene.new_pages(70)
    keys, values = scene.random_kv(70)
    scene.store(chain(0, 70, pages), keys, values)
    queries = scene.random_queries(70)
    whole = scene.attend([chain(0, 70, pages)], queries)
    for border in range(1, 70):
        tree = chain(border, 70 - border, pages)
        assert_same_bits(scene.attend([tree], queries[border:].copy()), whole[border:])


def test_shared_prefix_pages() -> None:
    """Two sequences may hold the same pages of a common prefix."""
    scene = Scene(page_size=16)
    shared, own = scene.new_pages(32), [scene.new_pages(16) for _ in range(2)]
    keys, values = scene.random_kv(40)
    for pages in own:
        scene.store(chain(32, 8, [*shared, *pages]), keys, values)
    queries = scene.random_queries(8)
    batch = [chain(32, 8, [*shared, *pages]) for pages in own]
    both = scene.attend(batch, np.concatenate([queries, queries]))
    assert_same_bits(both[:8].copy(), scene.expected(batch[0], keys, values, queries))
    assert_same_bits(both[8:].copy(), both[:8].copy())


@pytest.mark.parametrize("isa", ISAS)
def test_rows_that_are_not_ancestors_are_never_read(isa: str) -> None:
    """A sibling's keys and values may be anything, NaN included."""
    scene = Scene(isa=isa, is_half=False)
    tree = Tree(20, [-1, 0, 0, 1, 2, 4], scene.new_pages(26))
    keys, values = scene.random_kv(26)
    queries = scene.random_queries(6)
    expected = scene.expected(tree, keys, values, queries)
    for off_path in (21, 23):
        keys[off_path], values[off_path] = np.nan, -np.inf
    scene.store(tree, keys, values)
    actual = scene.attend([tree], queries)
    for row in (0, 2, 4, 5):
        assert_same_bits(actual[row], expected[row])


@pytest.mark.parametrize("is_half", [True, False])
def test_close_to_float64(is_half: bool) -> None:
    scene = Scene(num_heads=9, num_kv_heads=3, head_dim=64, page_size=64, is_half=is_half)
    tree = chain(1_000, 4, scene.new_pages(1_004))
    keys, values = scene.random_kv(1_004)
    scene.store(tree, keys, values)
    queries = scene.random_queries(4)
    actual = scene.attend([tree], queries)
    for row in range(4):
        seen = slice(0, 1_001 + row)
        kept = [rounded(x[seen], is_half).swapaxes(0, 1) for x in (keys, values)]
        truth = attend_row_in_float64(queries[row], *kept)
        np.testing.assert_allclose(actual[row], truth, rtol=0, atol=2e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("is_half", [True, False])
@pytest.mark.parametrize("page_size", [7, 16, 64])
def test_cache_keeps_what_it_is_given(isa: str, is_half: bool, page_size: int) -> None:
    """Rounded to the nearest half, ties to even, subnormals and overflow included."""
    scene = Scene(isa=isa, is_half=is_half, page_size=page_size)
    pages = scene.new_pages(page_size)
    keys, values = scene.random_kv(page_size)
    keys[0, 0, :6] = [2049.0, 2051.0, 1e-7, -3e-8, 65519.0, 0.1]
    values[0, 0, :3] = [1e9, -65520.0, -0.0]
    scene.store(chain(0, page_size, pages), keys, values)
    with np.errstate(over="ignore"):
        expected = rounded(keys, is_half), rounded(values, is_half)
    for kept, given_in in zip(scene.cache.read(1, pages[0]), expected, strict=True):
        assert_same_bits(kept, np.ascontiguousarray(given_in.swapaxes(0, 1)))
    for other_layer in scene.cache.read(0, pages[0]):
        assert not other_layer.any()


@pytest.mark.parametrize("is_half", [True, False])
@pytest.mark.parametrize("page_size", [3, 16])
def test_gather_and_copy_page(is_half: bool, page_size: int) -> None:
    scene = Scene(is_half=is_half, page_size=page_size)
    pages = scene.new_pages(12)
    keys, values = scene.random_kv(12)
    scene.store(chain(0, 12, pages), keys, values)
    scene.cache.gather(ints(pages), ints([4, 5, 9, 11, 0, 1]), ints([3, 4, 5, 6, 1, 0]))
    order = [1, 0, 2, 4, 5, 9, 11, 7, 8, 9, 10, 11]
    for index, page in enumerate(pages):
        slots = order[index * page_size : (index + 1) * page_size]
        kept_keys, kept_values = scene.cache.read(1, page)
        assert_same_bits(
            kept_keys[:, : len(slots)].copy(), rounded(keys[slots].swapaxes(0, 1).copy(), is_half)
        )
        assert_same_bits(
            kept_values[:, : len(slots)].copy(),
            rounded(values[slots].swapaxes(0, 1).copy(), is_half),
        )
    (copy,) = scene.new_pages(1)
    scene.cache.copy_page(pages[0], copy)
    for original, copied in zip(
        scene.cache.read(1, pages[0]), scene.cache.read(1, copy), strict=True
    ):
        assert_same_bits(copied, original)


def test_growing_keeps_pages() -> None:
    scene = Scene()
    pages = scene.new_pages(16)
    scene.store(chain(0, 16, pages), *scene.random_kv(16))
    before = scene.cache.read(1, pages[0])
    scene.cache.grow(100)
    scene.cache.grow(3)
    assert scene.cache.num_pages == 100
    for old, new in zip(before, scene.cache.read(1, pages[0]), strict=True):
        assert_same_bits(new, old)


GOOD_PASS: dict[str, list[int]] = {
    "positions": [3, 4, 4],
    "first_rows": [0],
    "row_counts": [3],
    "prefix_lengths": [3],
    "kept_counts": [0],
    "page_starts": [0, 2],
    "pages": [0, 1],
    "ancestor_starts": [0, 1, 3, 5],
    "ancestors": [0, 0, 1, 0, 2],
}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"positions": []}, ValueError),
        ({"positions": [3, 4, 5]}, ValueError),
        ({"positions": [3, 4]}, ValueError),
        ({"first_rows": [1]}, ValueError),
        ({"first_rows": [0, 3]}, ValueError),
        ({"row_counts": [2]}, ValueError),
        ({"row_counts": [0]}, ValueError),
        ({"row_counts": [4]}, IndexError),
        ({"row_counts": [2**31 - 1]}, IndexError),
        ({"prefix_lengths": [-1]}, ValueError),
        ({"prefix_lengths": [6]}, ValueError),
        ({"prefix_lengths": [2**31 - 1]}, ValueError),
        ({"kept_counts": []}, ValueError),
        ({"kept_counts": [-1]}, ValueError),
        ({"kept_counts": [1]}, ValueError),
        ({"kept_counts": [2**31 - 1]}, ValueError),
        ({"page_starts": [0, 1]}, ValueError),
        ({"page_starts": [0, 3]}, ValueError),
        ({"page_starts": [-1, 2]}, ValueError),
        ({"page_starts": []}, ValueError),
        ({"pages": [0, -1]}, IndexError),
        ({"pages": [1, 1], "prefix_lengths": [2], "positions": [2, 3, 3]}, ValueError),
        ({"ancestor_starts": [0, 1, 5, 3]}, ValueError),
        ({"ancestors": [0, 0, 1, 0, 1]}, ValueError),
        ({"ancestors": [0, -1, 1, 0, 2]}, ValueError),
        ({"ancestors": [0, 7, 1, 0, 2]}, ValueError),
        ({"ancestor_starts": [0, 1, 1, 5]}, ValueError),
    ],
)
def test_contradictory_passes_are_refused(
    changes: dict[str, list[int]], error: type[Exception]
) -> None:
    _native.Pass(4, **{name: ints(values) for name, values in GOOD_PASS.items()})
    with pytest.raises(error):
        _native.Pass(4, **{name: ints(v) for name, v in {**GOOD_PASS, **changes}.items()})


def test_passes_that_do_not_fit_the_cache_are_refused() -> None:
    scene = Scene(page_size=16)
    pages = scene.new_pages(16)
    queries = scene.random_queries(1)
    with pytest.raises(IndexError, match="page 5 does not exist"):
        scene.attend([chain(0, 1, [5])], queries)
    with pytest.raises(ValueError, match="different sizes"):
        _native.attend(make_pass(8, [chain(0, 1, pages)]), scene.cache, 1, scene.workspace, queries)
    described = make_pass(16, [chain(0, 1, pages)])
    for layer in (-1, 2):
        with pytest.raises(IndexError, match=f"no layer {layer}"):
            _native.attend(described, scene.cache, layer, scene.workspace, queries)
    for wrong in (queries[:, :3], queries[:, :, :16], queries[:0], queries[:, :0], queries[0]):
        with pytest.raises(ValueError, match=r"multiple|length|dimensions"):
            _native.attend(described, scene.cache, 1, scene.workspace, wrong.copy())
    keys, values = scene.random_kv(2)
    with pytest.raises(ValueError, match="keys has length"):
        _native.store_kv(scene.runtime, described, scene.cache, 1, keys, values)


def test_cache_refuses_what_it_does_not_have() -> None:
    for sizes in ((0, 1, 16, 4), (1, 0, 16, 4), (1, 1, 24, 4), (1, 1, 0, 4), (1, 1, 16, 0)):
        with pytest.raises(ValueError, match="must be"):
            _native.KvCache(*sizes, True)
    scene = Scene(page_size=16)
    pages = ints(scene.new_pages(16))
    with pytest.raises(IndexError):
        scene.cache.copy_page(0, 1)
    with pytest.raises(IndexError):
        scene.cache.copy_page(-1, 0)
    with pytest.raises(IndexError):
        scene.cache.read(2, 0)
    with pytest.raises(IndexError):
        scene.cache.gather(pages, ints([16]), ints([0]))
    with pytest.raises(IndexError):
        scene.cache.gather(pages, ints([0]), ints([-1]))
    with pytest.raises(IndexError):
        scene.cache.gather(ints([7]), ints([0]), ints([0]))
    with pytest.raises(ValueError, match="equally many"):
        scene.cache.gather(pages, ints([0, 1]), ints([0]))
