"""Chains of a head in one call are their passes one by one, bit for bit, alone and in company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oneglance import _native
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.noise import SeededNoise
from tests.native.attention_oracle import Floats, assert_same_bits, chain, ints, make_pass
from tests.native.test_layer import CONTEXT, EPS, ISAS, Model, Sizes, random_stream

WIDTH, FEATURES, VOCABULARY, NUM_TOP = 64, 160, 101, 5
FIRST = Sizes(given=2 * WIDTH)
MOST_TOKENS = 4


@dataclass(frozen=True)
class Start:
    """What a chain begins from."""

    tokens: tuple[int, ...]
    position: int
    most: int
    pages: tuple[int, ...]


STARTS = [
    Start(tokens=(3,), position=0, most=4, pages=(4,)),
    Start(tokens=(100, 0, 7), position=28, most=3, pages=(0, 3, 1)),
    Start(tokens=(57, 57), position=15, most=4, pages=(2, 5)),
    Start(tokens=(8,), position=7, most=1, pages=(6,)),
]
NUM_ROWS = sum(len(start.tokens) for start in STARTS)

Noise = tuple[float, int, int, int]
"""Temperature, seed, choice, and the position of a chain's first token."""
PLAIN: Noise = (0.0, 0, 0, 0)
NOISES: list[Noise] = [(0.8, 5, 0, 9), PLAIN, (9.0, 2**64 - 1, 3, 0), (1.0, 5, 0, 9)]


def no_tokens(num_chains: int, num_levels: int, count: int) -> tuple[NDArray[np.int64], Floats]:
    shape = (num_chains, num_levels, count)
    return np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.float32)


class Chains:
    """A random head of two layers, and sequences whose prefixes are in the cache."""

    def __init__(
        self, isa: str = ISAS[0], num_threads: int = 2, norm_before_residual: bool = False
    ) -> None:
        self.model = Model(FIRST, isa, num_threads)
        other = Model(Sizes(), isa, num_threads)
        second = _native.Layer(**(other.arguments() | {"index": 0}))
        self.runtime, self.workspace = self.model.runtime, self.model.workspace
        self.cache = self.model.cache
        self.cache.grow(7)
        self.norm_before_residual = norm_before_residual
        rng = np.random.default_rng(11)
        self.embedding = self.matrix(rng, VOCABULARY)
        self.fc = self.matrix(rng, WIDTH, FEATURES)
        self.fc_bias = rng.standard_normal(WIDTH, dtype=np.float32)
        self.target_ids = ints(np.sort(rng.permutation(VOCABULARY)[:40]))
        self.layers = (self.model.layer, second)
        norms = 1 + 0.2 * rng.standard_normal((3, WIDTH), dtype=np.float32)
        self.embedding_norm, self.feature_norm, norm = norms
        self.output = _native.Head(norm=norm, matrix=self.matrix(rng, 48), eps=EPS)
        self.head = _native.ChainHead(**self.arguments())
        self.features = random_stream(NUM_ROWS, FEATURES, seed=5)
        for number, start in enumerate(STARTS):
            if start.position == 0:
                continue
            stream = random_stream(start.position, WIDTH, seed=20 + number)
            self.pass_through(stream, [chain(0, start.position, list(start.pages))])

    def arguments(self) -> dict[str, Any]:
        return {
            "embedding": self.embedding,
            "fc": self.fc,
            "fc_bias": self.fc_bias,
            "eps": EPS,
            "embedding_norm": self.embedding_norm,
            "feature_norm": self.feature_norm,
            "norm_before_residual": self.norm_before_residual,
            "layers": self.layers,
            "head": self.output,
            "target_ids": self.target_ids,
        }

    def matrix(
        self, rng: np.random.Generator, outputs: int, inputs: int = WIDTH
    ) -> _native.PackedMatrix:
        values = rng.standard_normal((outputs, inputs), dtype=np.float32)
        return _native.pack(values.view(np.uint8), "F32", outputs, inputs, 1, "auto", 1)

    def pass_through(
        self, stream: Floats, trees: list[Any], inputs: Floats | None = None
    ) -> Floats:
        described = make_pass(self.model.page_size, trees)
        result = stream.copy()
        given = np.concatenate([stream, -stream], axis=1) if inputs is None else inputs
        for layer in self.layers:
            first = given if layer is self.layers[0] else None
            _native.attention_block(layer, described, self.cache, self.workspace, result, first)
            _native.mlp_block(layer, self.workspace, result)
        return result

    def grow(
        self,
        starts: list[Start],
        features: Floats,
        min_confidence: float = 0.0,
        ends: Any = (),
        noises: Sequence[Noise] = (PLAIN,) * len(STARTS),
        num_drawn: int = 2,
    ) -> tuple[list[int], NDArray[np.int64], Floats]:
        shape = (len(starts), MOST_TOKENS)
        ids, logits = no_tokens(*shape, NUM_TOP)
        self.drawn_ids, self.drawn_logits = no_tokens(*shape, num_drawn)
        counts = _native.grow_chains(
            self.head,
            row_starts=ints(np.cumsum([0, *(len(start.tokens) for start in starts)])),
            tokens=ints([token for start in starts for token in start.tokens]),
            positions=ints([start.position for start in starts]),
            most=ints([start.most for start in starts]),
            page_starts=ints(np.cumsum([0, *(len(start.pages) for start in starts)])),
            pages=ints([page for start in starts for page in start.pages]),
            features=features,
            cache=self.cache,
            workspace=self.workspace,
            min_confidence=min_confidence,
            end_ids=ints(list(ends)),
            noises=tuple(noises[: len(starts)]),
            ids=ids,
            logits=logits,
            drawn_ids=self.drawn_ids,
            drawn_logits=self.drawn_logits,
        )
        return counts, ids, logits

    def drawn(self, hidden: Floats, noise: Noise, place: int, count: int) -> list[tuple[int, Any]]:
        """Tokens drawn from the head's law as Python draws them, with their logits, then shares."""
        temperature, seed, choice, position = noise
        row = np.empty((1, 48), dtype=np.float32)
        _native.head(self.output, self.workspace, hidden, ints([0]), row)
        ids = self.target_ids.astype(np.int64)
        scores = np.ascontiguousarray(row[0, : len(ids)])
        law = LogLaw(scores, float(scores.max()), temperature, VOCABULARY, ids)
        tokens = SeededNoise(seed, choice).sample_distinct_from(law, position + place, count)
        return [(token, scores[np.searchsorted(ids, token)]) for token in tokens]

    def one_by_one(
        self, number: int, noise: Noise = PLAIN, count: int = 2
    ) -> list[tuple[NDArray[np.int64], Floats, float]]:
        """A chain pass by pass from the parts: best tokens of each place, their logits, reach."""
        start = STARTS[number]
        first = sum(len(each.tokens) for each in STARTS[:number])
        features = self.features[first : first + len(start.tokens)]
        hidden = _native.matmul(self.runtime, self.fc, features) + self.fc_bias
        tokens, position, reach = list(start.tokens), start.position, 1.0
        found = []
        self.found_drawn: list[list[tuple[int, Any]]] = []
        for place in range(start.most):
            embedded = _native.embed(self.runtime, self.embedding, ints(tokens))
            other = _native.rms_norm(self.runtime, embedded, self.embedding_norm, EPS)
            normed = _native.rms_norm(self.runtime, hidden, self.feature_norm, EPS)
            stream = normed if self.norm_before_residual else hidden
            tree = chain(position, len(tokens), list(start.pages))
            outputs = self.pass_through(stream, [tree], np.concatenate([other, normed], axis=1))
            hidden = outputs[-1:].copy()
            ids: NDArray[np.int64] = np.empty((1, NUM_TOP), dtype=np.int64)
            logits = np.empty(ids.shape, dtype=np.float32)
            _native.head_top(
                self.output, self.workspace, hidden, ints([0]), len(self.target_ids), ids, logits
            )
            best = self.target_ids[ids[0]].astype(np.int64)
            position += len(tokens)
            tokens = [int(best[0])]
            shares = np.exp(logits[0].astype(np.float64) - float(logits[0, 0]))
            if noise[0] > 0:
                self.found_drawn.append(self.drawn(hidden, noise, place, count))
                tokens = [self.found_drawn[-1][0][0]]
                known = dict(zip(best.tolist(), logits[0].tolist(), strict=True))
                known |= self.found_drawn[-1]
                weights = {t: np.exp((x - logits[0, 0]) / noise[0]) for t, x in known.items()}
                reach *= (1 + weights[tokens[0]] / sum(weights.values())) / 2
            else:
                reach /= float(shares.sum())
            found.append((best, logits[0], reach))
        return found


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("norm_before_residual", [False, True])
def test_whole_chains_are_those_pass_by_pass(isa: str, norm_before_residual: bool) -> None:
    chains = Chains(isa, norm_before_residual=norm_before_residual)
    counts, ids, logits = chains.grow(STARTS, chains.features)
    assert counts == [start.most for start in STARTS]
    for number, start in enumerate(STARTS):
        for place, (best, scores, _) in enumerate(chains.one_by_one(number)):
            assert ids[number, place].tolist() == best.tolist()
            assert_same_bits(logits[number, place], scores)
        assert (ids[number, start.most :] == -1).all(), "what is no place is left alone"
    assert len({int(each) for each in ids[:, :, 0].ravel()}) > 4, "chains that differ"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_what_is_drawn_is_what_python_draws_from_the_same_law(isa: str, count: int) -> None:
    """Beside a chain of best tokens, which is the same as without them."""
    chains = Chains(isa)
    counts, ids, logits = chains.grow(STARTS, chains.features, noises=NOISES, num_drawn=count)
    drawn_ids, drawn_logits = chains.drawn_ids, chains.drawn_logits
    assert counts == [start.most for start in STARTS]
    for number, noise in enumerate(NOISES):
        for place, (best, scores, _) in enumerate(chains.one_by_one(number, noise, count)):
            assert ids[number, place].tolist() == best.tolist()
            assert_same_bits(logits[number, place], scores)
        for place, drawn in enumerate(chains.found_drawn):
            tokens, values = zip(*drawn, strict=True)
            assert drawn_ids[number, place, : len(tokens)].tolist() == list(tokens)
            assert_same_bits(drawn_logits[number, place], np.array(values))
    assert (drawn_ids[1] == -1).all(), "nothing is drawn for a chain of best tokens"
    assert (drawn_ids[2, :, 0] != ids[2, :, 0]).any(), "noise matters"


def test_a_drawn_chain_ends_where_its_reach_falls() -> None:
    chains = Chains()
    noises = [(9.0, 7, 0, 3)] * len(STARTS)
    alone = [chains.one_by_one(number, noises[0]) for number in range(len(STARTS))]
    every = sorted(reach for places in alone for *_, reach in places)
    least = (every[len(STARTS)] + every[len(STARTS) + 1]) / 2
    counts, *_ = chains.grow(STARTS, chains.features, min_confidence=least, noises=noises)
    for count, start, places in zip(counts, STARTS, alone, strict=True):
        below = [place for place, (*_, reach) in enumerate(places) if reach < least]
        assert count == min([start.most, *(place + 1 for place in below)])
    assert counts < [start.most for start in STARTS], "some end before they must"


@pytest.mark.parametrize(
    ("noise", "num_drawn", "message"),
    [
        ((-1.0, 0, 0, 0), 1, "a temperature must be finite and not below 0"),
        ((float("inf"), 0, 0, 0), 1, "a temperature must be finite"),
        ((1.0, 0, 0, 0), 0, "0 tokens cannot be drawn from 40"),
        ((1.0, 0, 0, 0), 41, "41 tokens cannot be drawn from 40"),
    ],
)
def test_draws_that_do_not_fit_are_refused(noise: Noise, num_drawn: int, message: str) -> None:
    chains = Chains(num_threads=1)
    for noises in ([noise] * 4, [PLAIN, noise, PLAIN, PLAIN]):
        with pytest.raises(ValueError, match=message):
            chains.grow(STARTS, chains.features, noises=noises, num_drawn=num_drawn)
    with pytest.raises(ValueError, match="each chain needs its noise"):
        chains.grow(STARTS, chains.features, noises=[PLAIN])


def test_threads_leave_no_trace() -> None:
    one, three = Chains(num_threads=1), Chains(num_threads=3)
    assert_same_bits(one.grow(STARTS, one.features)[2], three.grow(STARTS, three.features)[2])


def test_a_chain_ends_where_its_reach_falls_and_others_go_on() -> None:
    chains = Chains()
    alone = [chains.one_by_one(number) for number in range(len(STARTS))]
    least = sorted(reach for places in alone for *_, reach in places)[len(STARTS)]
    counts, *_ = chains.grow(STARTS, chains.features, min_confidence=least)
    for count, start, places in zip(counts, STARTS, alone, strict=True):
        below = [place for place, (*_, reach) in enumerate(places) if reach < least]
        assert count == min([start.most, *(place + 1 for place in below)])
    assert len(set(counts)) > 2


def test_a_chain_ends_with_the_text() -> None:
    chains = Chains()
    tokens = [int(best[0]) for best, *_ in chains.one_by_one(0)]
    counts, *_ = chains.grow(STARTS[:1], chains.features[:1], ends=(tokens[1], 77))
    assert counts == [tokens.index(tokens[1]) + 1]


def test_a_broken_place_is_the_last() -> None:
    chains = Chains()
    features = chains.features.copy()
    features[3, 3] = np.nan  # of the second chain's last row
    for noises in ([PLAIN] * 4, [(1.0, 3, 0, 0)] * 4):
        counts, _, logits = chains.grow(STARTS, features, noises=noises)
        assert counts == [4, 1, 4, 1]
        assert np.isnan(logits[1, 0, 0])
        assert np.isfinite(logits[[0, 2]]).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokens": (VOCABULARY,)}, IndexError, "token 101 does not exist"),
        ({"tokens": (-1,)}, IndexError, "token -1 does not exist"),
        ({"tokens": ()}, ValueError, "behind a row"),
        ({"most": 0}, ValueError, "1 to 4 tokens"),
        ({"most": 5}, ValueError, "1 to 4 tokens"),
        ({"position": -1}, ValueError, "at least 0"),
        ({"position": 13}, ValueError, "too few pages"),
        ({"position": CONTEXT - 3, "pages": tuple(range(7)) * 3}, ValueError, "leave the context"),
        ({"pages": (-1,)}, IndexError, "page -1"),
        ({"pages": (7,)}, IndexError, "page"),
    ],
)
def test_chains_that_do_not_fit_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    chains = Chains(num_threads=1)
    start = replace(STARTS[0], **change)
    with pytest.raises(error, match=message):
        chains.grow([start], chains.features[: len(start.tokens)])


def test_features_that_do_not_fit_are_refused() -> None:
    chains = Chains(num_threads=1)
    for features in (chains.features[:1], chains.features[:, :64].copy()):
        with pytest.raises(ValueError, match="features has length"):
            chains.grow(STARTS, features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": ()}, "a layer"),
        ({"embedding_norm": np.ones(32, dtype=np.float32)}, "norms"),
        ({"fc_bias": np.ones(32, dtype=np.float32)}, "bias"),
        ({"target_ids": ints([])}, "1 to 48"),
        ({"target_ids": ints(range(49))}, "1 to 48"),
        ({"target_ids": ints([VOCABULARY])}, "target id 101"),
    ],
)
def test_heads_whose_parts_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    chains = Chains(num_threads=1)
    with pytest.raises((ValueError, IndexError), match=message):
        _native.ChainHead(**(chains.arguments() | change))
    with pytest.raises(ValueError, match="only the first layer"):
        _native.ChainHead(**(chains.arguments() | {"layers": chains.layers[::-1]}))
    with pytest.raises(ValueError, match="differ in width"):
        _native.ChainHead(**(chains.arguments() | {"fc": chains.embedding}))


def test_more_tokens_than_there_are_cannot_be_wanted() -> None:
    chains = Chains(num_threads=1)
    chains.head = _native.ChainHead(**(chains.arguments() | {"target_ids": ints([1, 2, 3])}))
    with pytest.raises(ValueError, match="5 tokens cannot be chosen from 3"):
        chains.grow(STARTS, chains.features)
