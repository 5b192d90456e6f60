"""Medusa: exact whatever its heads say, and right where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from oneglance.checkpoints.base import Tensor
from oneglance.config import ModelConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.medusa import MedusaDrafter, MedusaSession
from oneglance.drafters.medusa_calibration import Calibration
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, PassOutput, TopTokens
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.native.medusa import NativeMedusa
from oneglance.engine.prefix import PrefixStore
from oneglance.engine.top_tokens import top_tokens
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SeededNoise, SequentialNoise
from oneglance.testing import ScriptedEngine, check_drafter_on, random_script
from oneglance.types import Float32Array, Float64Array
from tests.heads.medusa_heads import fitted_heads, random_heads, weights_of
from tests.native.models import native_engine, native_model

V = 3
LAYER = 1
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=1.0)
PROMPT = (0, 1, 2, 1)


class FeaturedEngine(ScriptedEngine):
    """A scripted target with final states: random functions of the prefix."""

    def __init__(self, seed: int, width: int = 4) -> None:
        super().__init__(random_script(V, seed), V)
        self._states = random_script(width, seed + 100)

    def forward(self, batch: Batch) -> PassOutput:
        paths: list[Float32Array] = []
        for tree in batch.trees:
            before = self._sequences[tree.sequence].committed
            rows: list[tuple[int, ...]] = []
            for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
                rows.append((*(before if parent < 0 else rows[parent]), token))
            paths.append(np.stack([self._states(row) for row in rows]))
        plain = Batch(batch.trees, num_top=batch.num_top, top_vocab_size=batch.top_vocab_size)
        output = super().forward(plain)
        hidden = {layer: tuple(paths) for layer in batch.hidden_layers}
        return PassOutput(output.logits, hidden, output.top)


class LinearHeads:
    """Heads that are matrices [H, V, D]; they note how they were asked."""

    def __init__(self, matrices: Float64Array, lacks: int | None = None) -> None:
        self._matrices = matrices
        self._lacks = lacks
        self.num_heads = len(matrices)
        self.calls: list[tuple[str, int, int]] = []

    def logits(self, features: Float32Array, num_heads: int) -> Float32Array:
        self.calls.append(("logits", len(features), num_heads))
        return self._logits(features, num_heads)

    def top(self, features: Float32Array, num_heads: int, num_top: int) -> list[TopTokens]:
        self.calls.append(("top", len(features), num_heads))
        rows = self._logits(features, num_heads)
        best = [top_tokens(row, min(num_top, row.shape[1])) for row in rows]
        if self._lacks is None:
            return best
        return [TopTokens(each.ids[:, :-1], each.logits[:, :-1]) for each in best]

    def _logits(self, features: Float32Array, num_heads: int) -> Float32Array:
        products: Float64Array = np.einsum("hvd,rd->rhv", self._matrices[:num_heads], features)
        rows = products.astype(np.float32)
        if self._lacks is not None:
            rows[..., self._lacks] = -np.inf
        return rows


def linear_heads(num_heads: int = 3, seed: int = 7, lacks: int | None = None) -> LinearHeads:
    return LinearHeads(np.random.default_rng(seed).standard_normal((num_heads, V, 4)), lacks)


def drafter(heads: LinearHeads | None = None, min_reach: float = 0.0) -> MedusaDrafter:
    return MedusaDrafter(heads or linear_heads(), LAYER, min_reach=min_reach)


def say(*rows: tuple[float, ...]) -> LinearHeads:
    """Heads that say these laws whatever they read, as long as its first element is 1."""
    matrices = np.zeros((len(rows), V, 4))
    matrices[:, :, 0] = np.log(np.asarray(rows))
    return LinearHeads(matrices)


def begun(
    made: MedusaDrafter,
    params: SamplingParams = GREEDY,
    seed: int | None = None,
    eos_ids: frozenset[int] = frozenset(),
) -> MedusaSession:
    """A session that has seen its prompt."""
    noise = SequentialNoise(0) if seed is None else SeededNoise(seed)
    session = made.start(DraftContext(PROMPT, params, noise, eos_ids))
    made.see_hidden(session, 0, {LAYER: np.eye(1, 4, dtype=np.float32)})
    return session


def propose(made: MedusaDrafter, session: MedusaSession, k: int, nodes: int | None = None) -> Any:
    return made.propose([DraftRequest(session, k, nodes)])[0]


@pytest.mark.parametrize(("tree_nodes", "seed", "lacks"), [(None, 0, 1), (2, 0, None), (5, 1, 1)])
def test_no_answer_and_no_law_changes(tree_nodes: int | None, seed: int, lacks: int | None) -> None:
    """For heads that draft all tokens, and for such as lack one."""
    target = FeaturedEngine(seed)
    made = drafter(linear_heads(lacks=lacks), min_reach=0.1 * seed)
    check_drafter_on(target, made, V, (0, 1, 0, 1), k=2, tree_nodes=tree_nodes)
    assert target.num_open == 0


def test_a_chain_has_the_best_token_of_each_head() -> None:
    made = drafter(say((0.6, 0.3, 0.1), (0.2, 0.1, 0.7), (0.1, 0.8, 0.1)))
    proposal = propose(made, begun(made), 3)
    assert proposal.is_chain
    assert proposal.tokens.tolist() == [0, 2, 1]
    assert proposal.draft_probs is None
    assert proposal.expected == pytest.approx(0.6 + 0.6 * 0.7 + 0.6 * 0.7 * 0.8)


def test_a_tree_has_the_most_valuable_paths() -> None:
    made = drafter(say((0.6, 0.3, 0.1), (0.2, 0.1, 0.7)))
    proposal = propose(made, begun(made), 2, 4)
    nodes = [proposal.tokens[proposal.path_to(node)].tolist() for node in range(4)]
    assert sorted(nodes) == [[0], [0, 2], [1], [1, 2]]


@pytest.mark.parametrize(("k", "depth"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_a_draft_is_no_longer_than_k_and_the_heads(k: int, depth: int) -> None:
    made = drafter(say((0.6, 0.3, 0.1), (0.2, 0.1, 0.7)))
    for nodes in (None, 6):
        assert propose(made, begun(made), k, nodes).max_depth == depth
    assert len(propose(made, begun(made), k, 0)) == 0


def test_nothing_is_said_before_the_target_was_seen() -> None:
    made = drafter()
    session = made.start(DraftContext(PROMPT[:1], GREEDY, SequentialNoise(0)))
    assert len(propose(made, session, 3)) == 0
    assert made.first_unseen(session) == 0
    assert made.first_unseen(begun(made)) == len(PROMPT) - 2


def test_a_draft_ends_with_the_text() -> None:
    made = drafter(say((0.6, 0.3, 0.1), (0.2, 0.1, 0.7)))
    session = begun(made, eos_ids=frozenset({0}))
    assert propose(made, session, 2).tokens.tolist() == [0]
    sampled = begun(made, SAMPLED, eos_ids=frozenset({0, 1, 2}))
    assert propose(made, sampled, 2).max_depth == 1


def test_an_end_that_may_not_come_yet_is_not_drafted() -> None:
    made = drafter(say((0.6, 0.3, 0.1), (0.6, 0.3, 0.1)))
    session = begun(made, SamplingParams(min_tokens=1), eos_ids=frozenset({0}))
    assert propose(made, session, 2).tokens.tolist() == [1, 0]


def test_a_draft_ends_where_it_is_unlikely() -> None:
    heads = say((0.4, 0.3, 0.3), (0.4, 0.3, 0.3), (0.4, 0.3, 0.3))
    short, long = drafter(heads, 0.2), drafter(heads, 0.0)
    assert propose(short, begun(short), 3).max_depth == 1
    assert propose(long, begun(long), 3).max_depth == 3
    with pytest.raises(ParameterError, match=r"min_reach = 1\.5"):
        drafter(heads, 1.5)


@pytest.mark.parametrize("nodes", [None, 5])
def test_drawn_tokens_come_with_the_warped_law_of_their_head(nodes: int | None) -> None:
    laws = ((0.6, 0.3, 0.1), (0.2, 0.1, 0.7))
    made = drafter(say(*laws))
    params = SamplingParams(temperature=0.5, top_k=2)
    proposal = propose(made, begun(made, params), 2, nodes)
    assert proposal.draft_probs is not None
    for depth, law in zip(proposal.depths(), proposal.draft_probs, strict=True):
        wanted = np.square(laws[depth - 1])
        wanted[np.argmin(wanted)] = 0.0
        np.testing.assert_allclose(law, wanted / wanted.sum(), rtol=1e-6)


def test_with_a_seed_the_targets_noise_draws() -> None:
    laws = ((0.4, 0.3, 0.3), (0.3, 0.4, 0.3))
    made = drafter(say(*laws))
    noise = SeededNoise(11)
    proposal = propose(made, begun(made, SAMPLED, seed=11), 2)
    assert proposal.draft_probs is None
    expected = [noise.sample(np.log(np.asarray(law)), place) for place, law in enumerate(laws)]
    assert proposal.tokens.tolist() == expected


def test_the_heads_are_asked_once_for_all_requests() -> None:
    heads = linear_heads()
    made = drafter(heads)
    greedy = [begun(made), begun(made)]
    sampled = begun(made, SAMPLED)
    unseen = made.start(DraftContext(PROMPT, GREEDY, SequentialNoise(0)))
    wishes = zip([*greedy, sampled, unseen], (1, 2, 3, 3), strict=True)
    requests = [DraftRequest(session, k) for session, k in wishes]
    proposals = made.propose(requests)
    assert heads.calls == [("top", 2, 2), ("logits", 1, 3)]
    assert [len(each) for each in proposals] == [1, 2, 3, 0]


def test_a_request_learns_by_itself() -> None:
    laws = ((0.5, 0.3, 0.2), (0.5, 0.3, 0.2))
    known = Calibration.fresh(2)
    made = MedusaDrafter(say(*laws), LAYER, calibration=known, min_reach=0.0)
    session = begun(made)
    for _ in range(30):
        propose(made, session, 2, 3)
        made.observe(session, [1])
        made.see_hidden(session, 0, {LAYER: np.eye(1, 4, dtype=np.float32)})
    assert propose(made, session, 1, 1).tokens.tolist() == [1]
    assert known.counts.tolist() == [0, 0]
    assert propose(made, begun(made), 1, 1).tokens.tolist() == [0]
    for _ in range(30):
        known.note(0, laws[0], 1)
    assert propose(made, begun(made), 1, 1).tokens.tolist() == [1]
    # What greedy answers came to says little of sampled ones.
    assert begun(made, SAMPLED).calibration.counts.tolist() == [0, 0]


def answer(
    engine: NativeEngine,
    made: Drafter[Any],
    prompt: list[int],
    params: SamplingParams,
    **arguments: Any,
) -> DecodingSequence:
    vocabulary = Vocabulary(engine.config.vocab_size, frozenset(), lambda _: b"x")
    decoder = Decoder(engine, vocabulary, made, **arguments)
    deliveries = decoder.run([prompt], [params])
    return [sequence for _, sequence, _ in deliveries][-1]


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    return native_engine("llama")


PROMPT_TOKENS = [5, 9, 2, 44, 17, 3]


def learned(engine: NativeEngine, *texts: list[int]) -> MedusaDrafter:
    """Heads that know these texts by heart."""
    heads = NativeMedusa(
        fitted_heads(engine, texts), engine, target_output(), engine.config.vocab_size
    )
    return MedusaDrafter(heads, engine.config.num_layers)


def target_output() -> Tensor:
    return native_model("llama")[1].head


def test_heads_that_know_the_answer_are_nearly_always_right(engine: NativeEngine) -> None:
    """Which they are not if they are shown the state of another row than the last accepted one."""
    params = SamplingParams(max_tokens=32)
    plain = answer(engine, NoDrafter(), PROMPT_TOKENS, params)
    text = [*PROMPT_TOKENS, *(token.token_id for token in plain.tokens)]
    made = learned(engine, text)
    for nodes in (None, 6):
        drafted = answer(engine, made, PROMPT_TOKENS, params, k=3, tree_nodes=nodes)
        assert [t.token_id for t in drafted.tokens] == text[len(PROMPT_TOKENS) :]
        assert drafted.stats.mean_accepted_length > 3.0
        assert drafted.stats.passes <= 10


def test_the_first_draft_after_a_kept_prefix_is_there(engine: NativeEngine) -> None:
    params = SamplingParams(max_tokens=4)
    plain = answer(engine, NoDrafter(), PROMPT_TOKENS, params)
    made = learned(engine, [*PROMPT_TOKENS, *(token.token_id for token in plain.tokens)])
    prefixes = PrefixStore(engine, 2)
    for _ in range(2):
        drafted = answer(engine, made, PROMPT_TOKENS, params, k=3, prefixes=prefixes)
        assert drafted.stats.passes == 1
    prefixes.clear()


def test_random_heads_change_nothing_up_to_the_end_of_the_context(engine: NativeEngine) -> None:
    config: ModelConfig = engine.config
    heads = NativeMedusa(
        weights_of(random_heads(config.hidden_size), config.hidden_size, config.vocab_size),
        engine,
        target_output(),
        config.vocab_size,
    )
    made = MedusaDrafter(heads, config.num_layers, min_reach=0.0)
    prompt = [index % config.vocab_size for index in range(config.context_length - 5)]
    params = SamplingParams()
    plain = answer(engine, NoDrafter(), prompt, params)
    for nodes in (None, 8):
        drafted = answer(engine, made, prompt, params, k=4, tree_nodes=nodes)
        assert [t.token_id for t in drafted.tokens] == [t.token_id for t in plain.tokens]


def test_states_are_kept_as_they_were_seen() -> None:
    """The array that shows them may be used again."""
    made = drafter()
    session = begun(made)
    states: Mapping[int, Float32Array] = {LAYER: np.ones((2, 4), np.float32)}
    made.see_hidden(session, 0, states)
    states[LAYER][:] = 7.0
    assert session.feature is not None
    assert session.feature.tolist() == [1, 1, 1, 1]
