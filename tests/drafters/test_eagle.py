"""An EAGLE head as a drafter: exact, its cache true, its prefixes kept, its limits respected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.draft_model import DraftModelSession, ModelDrafter
from oneglance.drafters.eagle import EagleDrafter
from oneglance.drafters.eagle_cache import MAX_PENDING, EagleCache
from oneglance.drafters.hybrid import HybridDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, PassOutput
from oneglance.engine.prefix import PrefixStore
from oneglance.sampling.noise import KeyedNoise, SeededNoise, SequentialNoise
from oneglance.testing import check_drafter_on
from oneglance.types import Float32Array, Proposal
from tests.drafters.scripted_drafts import answered
from tests.heads.random_heads import Pair, Variant, make_pair

V = 97
VARIANTS: tuple[Variant, ...] = ("eagle1", "eagle3", "parallel")
TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, V, 200)]
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([token]))
PARAMS = SamplingParams(max_tokens=12)


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("head"), request.param, target={"context_length": 128})


def drafter_of(pair: Pair, **settings: Any) -> EagleDrafter:
    """A drafter that does not stop before it must."""
    return EagleDrafter(pair.engine, V, **({"min_confidence": 0.0} | settings))


def features_of(pair: Pair, count: int) -> dict[int, Float32Array]:
    """Hidden states of as many positions; the same first ones for any count."""
    layers = sorted(set(pair.head.config.feature_layers))
    return {
        layer: np.random.default_rng(layer)
        .standard_normal((len(TOKENS), pair.config.hidden_size))
        .astype(np.float32)[:count]
        for layer in layers
    }


def part_of(hidden: dict[int, Float32Array], start: int, stop: int) -> dict[int, Float32Array]:
    return {layer: states[start:stop] for layer, states in hidden.items()}


def begin(
    drafter: EagleDrafter,
    tokens: Sequence[int],
    eos_ids: frozenset[int] = frozenset(),
    params: SamplingParams = SamplingParams(),
    noise: KeyedNoise | None = None,
) -> DraftModelSession:
    context = DraftContext(tuple(tokens), params, noise or SequentialNoise(3), eos_ids)
    return drafter.start(context)


def shown(pair: Pair, drafter: EagleDrafter, tokens: Sequence[int]) -> DraftModelSession:
    """A session that has seen a whole prompt, all but its last token."""
    session = begin(drafter, tokens)
    start = drafter.first_unseen(session)
    drafter.see_hidden(session, 0, features_of(pair, max(start, len(tokens) - 1)))
    return session


def propose(
    drafter: EagleDrafter, session: DraftModelSession, count: int, nodes: int | None = None
) -> Proposal:
    return drafter.propose([DraftRequest(session, count, nodes)])[0]


def same(one: Proposal, other: Proposal) -> bool:
    return (
        one.tokens.tolist() == other.tokens.tolist()
        and one.parents.tolist() == other.parents.tolist()
        and one.expected == pytest.approx(other.expected, rel=1e-9)
    )


@pytest.mark.parametrize(
    ("variant", "nodes"),
    [("eagle1", 4), ("eagle3", None), ("parallel", None), ("parallel", 4)],
)
def test_it_changes_no_law_and_no_answer(
    tmp_path: Path, variant: Variant, nodes: int | None
) -> None:
    """All three tokens in the eagle1 head, which has no draft vocabulary; two in the others."""
    sizes: dict[str, Any] = {"draft_vocab_size": 2}
    if variant == "parallel":
        sizes["mask_token_id"] = 1
    tiny = make_pair(tmp_path, variant, target={"vocab_size": 3}, **sizes)
    drafter = EagleDrafter(tiny.engine, 3, min_confidence=0.0)
    check_drafter_on(tiny.target, drafter, 3, num_tokens=2, k=2, tree_nodes=nodes)


@pytest.mark.parametrize("nodes", [None, 9], ids=["chain", "tree"])
def test_rows_of_real_features_take_the_place_of_guessed_ones(
    pair: Pair, nodes: int | None
) -> None:
    """After drafts that were accepted, a draft is that of a request which begins there."""
    hidden = features_of(pair, 40)
    drafter = drafter_of(pair)
    tokens = TOKENS[:6]
    session = shown(pair, drafter, tokens)
    for num_accepted in (2, 0, 1, 3):
        draft = propose(drafter, session, 3, nodes)
        path = draft.path_to(int(np.flatnonzero(draft.depths() == min(3, draft.max_depth))[0]))
        decided = [*draft.tokens[path[:num_accepted]].tolist(), TOKENS[len(tokens)]]
        start = len(tokens) - 1
        drafter.see_hidden(session, start, part_of(hidden, start, start + len(decided)))
        drafter.observe(session, decided)
        tokens += decided
    fresh = drafter_of(pair, engine_config=EngineConfig(kept_prefixes=0))
    assert same(
        propose(drafter, session, 4, nodes), propose(fresh, shown(pair, fresh, tokens), 4, nodes)
    )
    assert pair.engine.length(session.cache.sequence) == len(tokens) - 1


def test_sequences_of_a_batch_draft_as_alone(pair: Pair) -> None:
    drafter = drafter_of(pair)
    prompts = [TOKENS[:count] for count in (2, 5, 9, 3)]
    alone = [propose(drafter, shown(pair, drafter, prompt), 3) for prompt in prompts]
    sessions = [shown(pair, drafter_of(pair), prompt) for prompt in prompts]
    together = drafter.propose([DraftRequest(session, 3) for session in sessions])
    assert all(map(same, alone, together))
    assert all(len(draft) == 3 for draft in together)


class LevelByLevel(EagleDrafter):
    """Evaluates every level in a pass of its own."""

    _grow = ModelDrafter._grow


@pytest.mark.parametrize("variant", ["eagle3", "two layers", "norm before residual"])
@pytest.mark.parametrize("min_confidence", [0.0, 0.2])
@pytest.mark.parametrize("num_branches", [0, 5])
@pytest.mark.parametrize("is_seeded", [False, True], ids=["greedy", "seeded"])
def test_chains_in_one_call_are_those_of_a_pass_a_token(
    tmp_path: Path,
    variant: Variant,
    min_confidence: float,
    num_branches: int,
    is_seeded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ragged, some of which end at a token that ends a text; and no pass is needed."""
    params, noise = SamplingParams(), None
    if is_seeded:
        params, noise = SamplingParams(temperature=0.7, seed=4), SeededNoise(4)
    pair = make_pair(tmp_path, variant, target={"context_length": 128})
    whole = drafter_of(pair, min_confidence=0.0)
    ending = int(propose(whole, shown(pair, whole, TOKENS[:5]), 4).tokens[2])
    found = []
    for kind in (EagleDrafter, LevelByLevel):
        drafter = kind(pair.engine, V, min_confidence=min_confidence)
        sessions = []
        for count in (2, 5, 70, 126):
            sessions.append(begin(drafter, TOKENS[:count], frozenset({ending}), params, noise))
            start = drafter.first_unseen(sessions[-1])
            drafter.see_hidden(
                sessions[-1], start, part_of(features_of(pair, 125), start, count - 1)
            )
        num_passes = 0
        forward = pair.engine.forward

        def counted(batch: Batch, forward: Any = forward) -> PassOutput:
            nonlocal num_passes
            num_passes += 1
            output: PassOutput = forward(batch)
            return output

        with monkeypatch.context() as patched:
            patched.setattr(pair.engine, "forward", counted)
            requests = [
                DraftRequest(s, k, num_branches=num_branches)
                for s, k in zip(sessions, (6, 4, 1, 7), strict=True)
            ]
            found.append(drafter.propose(requests))
        # Of a chain with branches the deepest tokens may be too unlikely to be proposed.
        longest = max(draft.max_depth for draft in found[-1])
        most = 7 if num_branches else longest
        assert num_passes == 0 if kind is EagleDrafter else longest <= num_passes <= most
        for session in sessions:
            drafter.close(session)
    assert all(map(same, *found))
    assert len({len(draft) for draft in found[0]}) > 1
    assert any(not draft.is_chain for draft in found[0]) == (num_branches > 0)


def test_a_chain_beside_a_tree_is_that_of_a_request_alone(pair: Pair) -> None:
    """They begin together, level by level, and the chain goes on when the tree has ended."""
    drafter = drafter_of(pair)
    alone = [
        propose(drafter, shown(pair, drafter, TOKENS[:5]), 4),
        propose(drafter, shown(pair, drafter, TOKENS[:9]), 2, 5),
    ]
    sessions = [shown(pair, drafter_of(pair), TOKENS[:count]) for count in (5, 9)]
    requests = [DraftRequest(sessions[0], 4), DraftRequest(sessions[1], 2, 5)]
    assert all(map(same, alone, drafter.propose(requests)))


@pytest.mark.parametrize(("count", "nodes"), [(0, None), (0, 4), (3, 0)])
def test_nothing_is_drafted_where_nothing_is_asked_for(
    pair: Pair, count: int, nodes: int | None
) -> None:
    drafter = drafter_of(pair)
    session = shown(pair, drafter, TOKENS[:5])
    assert len(propose(drafter, session, count, nodes)) == 0
    assert len(propose(drafter, session, 1)) == 1


def test_a_prompt_of_one_token_has_no_feature_to_draft_from(pair: Pair) -> None:
    drafter = drafter_of(pair)
    session = begin(drafter, TOKENS[:1])
    assert len(propose(drafter, session, 4)) == 0
    drafter.see_hidden(session, 0, features_of(pair, 1))
    drafter.observe(session, [TOKENS[1]])
    assert len(propose(drafter, session, 4)) == 4
    drafter.close(session)


def test_a_draft_ends_with_the_text(pair: Pair) -> None:
    drafter = drafter_of(pair)
    whole = propose(drafter, shown(pair, drafter, TOKENS[:5]), 4)
    ending = int(whole.tokens[1])
    session = begin(drafter, TOKENS[:5], frozenset({ending}))
    drafter.see_hidden(session, 0, features_of(pair, 4))
    stopped = whole.tokens.tolist().index(ending) + 1
    assert propose(drafter, session, 4).tokens.tolist() == whole.tokens[:stopped].tolist()


def test_a_draft_stops_where_its_confidence_falls(pair: Pair) -> None:
    wary = drafter_of(pair, min_confidence=0.99)
    assert len(propose(wary, shown(pair, wary, TOKENS[:5]), 4)) == 1


def test_the_end_of_the_context_is_respected(pair: Pair) -> None:
    """The token at the last position needs no row: only its guess is one."""
    drafter = drafter_of(pair)
    for length, count in ((126, 3), (127, 2), (128, 1)):
        session = shown(pair, drafter, TOKENS[:length])
        assert len(propose(drafter, session, 4)) == count


def test_a_long_prompt_is_fed_when_it_is_shown(pair: Pair) -> None:
    drafter = drafter_of(pair, engine_config=EngineConfig(prefill_chunk=32, kept_prefixes=0))
    session = begin(drafter, TOKENS[:120])
    hidden = features_of(pair, 119)
    for start in range(0, 119, 50):
        drafter.see_hidden(session, start, part_of(hidden, start, start + 50))
    assert isinstance(session.cache, EagleCache)
    assert 119 - MAX_PENDING <= session.cache.num_held < 119
    late = drafter_of(pair, engine_config=EngineConfig(kept_prefixes=0))
    assert same(propose(drafter, session, 3), propose(late, shown(pair, late, TOKENS[:120]), 3))


def run(decoder: Decoder, prompt: Sequence[int]) -> DecodingSequence:
    (sequence,) = {id(each): each for _, each, _ in decoder.run([prompt], [PARAMS])}.values()
    return sequence


def decoder_of(pair: Pair, drafter: Drafter[Any], keep: int = 4) -> Decoder:
    prefixes = PrefixStore(pair.target, keep)
    return Decoder(pair.target, VOCABULARY, drafter, k=3, prefixes=prefixes)


def test_a_kept_prefix_is_not_computed_again(pair: Pair) -> None:
    """The second turn's rows of head and target come from the store, and drafts are the same."""
    drafter = drafter_of(pair)
    decoder = decoder_of(pair, drafter)
    first = run(decoder, TOKENS[:40])
    turn = [*first.history.tokens(), *TOKENS[40:45]]
    session = begin(drafter, turn)
    num_kept = drafter.first_unseen(session)
    drafter.close(session)
    assert len(turn) - 5 - 4 <= num_kept < len(turn) - 5, "all but what the last pass decided"
    again = run(decoder, turn)
    fresh = run(decoder_of(pair, drafter_of(pair)), turn)
    plain = run(decoder_of(pair, NoDrafter()), turn)
    assert again.trace == fresh.trace
    assert again.history.tokens() == plain.history.tokens()


def test_a_prefix_that_only_the_target_kept_is_shown_again(pair: Pair) -> None:
    plain = decoder_of(pair, NoDrafter())
    drafted = decoder_of(pair, drafter_of(pair))
    shared = Decoder(pair.target, VOCABULARY, drafter_of(pair), k=3, prefixes=plain.prefixes)
    first = run(plain, TOKENS[:30])
    turn = [*first.history.tokens(), *TOKENS[40:45]]
    assert run(shared, turn).trace == run(drafted, turn).trace


def test_a_prefix_that_ends_in_another_token_is_cut_there(pair: Pair) -> None:
    """A row depends on the token after its own, so that it is no row of the other text."""
    drafter = drafter_of(pair)
    session = shown(pair, drafter, TOKENS[:10])
    propose(drafter, session, 2)
    drafter.close(session)
    other = begin(drafter, [*TOKENS[:8], TOKENS[8] ^ 1, *TOKENS[9:12]])
    assert drafter.first_unseen(other) == 7


def test_with_another_drafter_it_sees_as_much(pair: Pair) -> None:
    """Passes that another part drafted for show it the target too."""
    drafter = drafter_of(pair)
    mixed = HybridDrafter(
        [NgramDrafter(min_ngram=1), drafter],
        lambda _part, _num_prompt: PartLength(Control.without_a_clock(0.1, 0.0)),
    )
    plain = run(decoder_of(pair, NoDrafter()), TOKENS[:20])
    both = run(decoder_of(pair, mixed), TOKENS[:20])
    assert both.history.tokens() == plain.history.tokens()
    assert any(trace.drafter == "eagle" for trace in both.trace)


def test_a_prefix_that_only_the_head_kept_is_not_fed_twice(pair: Pair) -> None:
    drafter = drafter_of(pair)
    forgetful = decoder_of(pair, drafter, keep=0)
    turn = [*run(forgetful, TOKENS[:30]).history.tokens(), *TOKENS[40:45]]
    again = run(forgetful, turn)
    assert again.trace == run(decoder_of(pair, drafter_of(pair)), turn).trace


@pytest.mark.parametrize("num_pages", [3, 12, 40])
@pytest.mark.parametrize("nodes", [None, 9], ids=["chain", "tree"])
def test_where_the_head_has_no_room_nothing_is_drafted(
    tmp_path: Path, num_pages: int, nodes: int | None
) -> None:
    """Three answers of up to 200 positions each, of which twelve pages of four hold a part."""
    pair = make_pair(tmp_path, target={"context_length": 256}, head_pages=num_pages)
    prompts = [TOKENS[:100], TOKENS[50:60], TOKENS[3:6]]
    limited = drafter_of(pair, engine_config=EngineConfig(num_pages=num_pages))
    plain, _ = answered(Decoder(pair.target, VOCABULARY, NoDrafter()), prompts, 80)
    decoder = Decoder(pair.target, VOCABULARY, limited, 4, nodes)
    answers, num_drafted = answered(decoder, prompts, 80)
    assert answers == plain
    assert num_drafted > 0, "while there was room, it was used"
    use = pair.engine.page_use
    assert use is not None
    assert use.num_used == 0
