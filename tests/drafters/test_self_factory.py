"""From the words after "self:" to a drafter made of the target, or to the reason why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters import skipped_layers
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.self_factory import Itself, make_self_drafter
from oneglance.drafters.self_lowbit import low_bit_copy
from oneglance.drafters.self_part import PartDrafter
from oneglance.drafters.self_skip import SearchingDrafter
from oneglance.engine.base import PassLayers
from oneglance.engine.factory import make_engine
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import check_drafter_on
from oneglance.types import Proposal
from tests.engine.passes import opened
from tests.engine.random_models import random_model
from tests.native.models import quantized
from tests.tiny_models import write_tiny_gguf

SHAPE = {"hidden_size": 64, "num_heads": 2, "num_kv_heads": 1, "head_dim": 32}
NUM_LAYERS = 5
CONFIG = EngineConfig(num_threads=1)


@pytest.fixture(scope="module")
def tokenizer_of(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny_gguf(path)
    return load_checkpoint(path)


def itself(
    tokenizer_of: Checkpoint, kind: str = "F32", num_layers: int = NUM_LAYERS, **overrides: Any
) -> Itself:
    size = tokenizer_of.tokenizer.vocab_size
    shape = {**SHAPE, "intermediate_size": 64, "num_layers": num_layers, "vocab_size": size}
    config, weights = random_model(5, **shape | overrides)
    weights = quantized(weights, kind)
    checkpoint = replace(tokenizer_of, name="model", config=config, weights=weights)

    def engine_of(each: Checkpoint) -> Any:
        return make_engine(each.config, each.weights, CONFIG)

    return Itself(checkpoint, engine_of(checkpoint), engine_of, CONFIG)


def test_a_draft_is_expected_to_cost_what_it_reads(tokenizer_of: Checkpoint) -> None:
    """The copy has as many weights as the model, in a fraction of the bytes."""
    target = itself(tokenizer_of)
    copy = make_self_drafter("lowbit", target)
    if target.engine.info.kind == "native":  # packs floats as 8.5 bits, and Q4_1 as 5
        assert copy.own_bytes / target.engine.pass_bytes == pytest.approx(5.0 / 8.5, rel=0.1)
    part = make_self_drafter("exit:2", target)
    layers, head = (target.engine.config.num_weights(count) for count in (5, 0))
    read = head + 2 * (layers - head) / 5
    assert part.own_bytes == pytest.approx(target.engine.pass_bytes * read / layers)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "self: does not exist; write self:lowbit, self:skip"),
        ("medusa", "self:medusa does not exist"),
        ("lowbit:4", "self:lowbit takes no argument; leave out '4'"),
        ("skip:", None),
        ("skip:5", "self:skip:5 cannot be used; write different layers from 0 to 4"),
        ("skip:1,1", "self:skip:1,1 cannot be used"),
        ("skip:1,x", "self:skip:1,x cannot be used"),
        ("skip:1,", "self:skip:1, cannot be used"),
        ("skip:-1", "self:skip:-1 cannot be used"),
        ("skip:0,1,2,3,4", "and not all of them"),
        ("exit", "no checkpoint says what it was trained for; write self:exit:LAYERS, with 1 to 4"),
        ("exit:0", "self:exit:0 cannot be used; write a number of layers from 1 to 4"),
        ("exit:5", "self:exit:5 cannot be used"),
        ("exit:two", "self:exit:two cannot be used"),
    ],
)
def test_arguments(tokenizer_of: Checkpoint, argument: str, message: str | None) -> None:
    target = itself(tokenizer_of)
    if message is None:
        assert isinstance(make_self_drafter(argument, target), SearchingDrafter)
        return
    with pytest.raises(ParameterError, match=message):
        make_self_drafter(argument, target)


def first_draft(drafter: Any, target: Itself, tokens: tuple[int, ...] = (5, 6, 7)) -> Proposal:
    """On the target's own cache, where the drafter uses it."""
    sequence = opened(target.engine, tokens[:-1])
    context = DraftContext(tokens, SamplingParams(), SequentialNoise(0), sequence=sequence)
    proposals: list[Proposal] = drafter.propose([DraftRequest(drafter.start(context), 1)])
    return proposals[0]


@pytest.mark.parametrize(
    ("argument", "layers"),
    [
        ("skip:3,1", PassLayers(skipped_layers=(1, 3))),
        ("exit:2", PassLayers(num_layers=2)),
    ],
)
def test_the_part_that_was_asked_for(
    tokenizer_of: Checkpoint, argument: str, layers: PassLayers
) -> None:
    target = itself(tokenizer_of)
    drafter = make_self_drafter(argument, target)
    same = PartDrafter(target.engine, target.vocab_size, layers)
    other = PartDrafter(target.engine, target.vocab_size, PassLayers(num_layers=1))
    tokens = [
        [int(first_draft(each, target, (seed, 6, 7)).tokens[0]) for seed in range(6)]
        for each in (drafter, same, other)
    ]
    assert tokens[0] == tokens[1]
    assert tokens[0] != tokens[2]
    assert drafter.name == {"skip:3,1": "self:skip:1,3"}.get(argument, f"self:{argument}")


def test_known_models_have_their_layers(
    tokenizer_of: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = itself(tokenizer_of)
    config = target.checkpoint.config
    shape = ("llama", NUM_LAYERS, config.hidden_size, config.intermediate_size, config.vocab_size)
    monkeypatch.setattr(skipped_layers, "_KNOWN", {shape: (2,)})
    assert make_self_drafter("skip", target).name == "self:skip:2"
    assert make_self_drafter("skip", itself(tokenizer_of, num_layers=4)).name == "self:skip"


def test_a_model_too_small_to_search_in(tokenizer_of: Checkpoint) -> None:
    with pytest.raises(UnsupportedError, match="'model' has only 2; choose another drafter"):
        make_self_drafter("skip", itself(tokenizer_of, num_layers=2))


def test_a_low_bit_copy_says_nearly_the_same(tokenizer_of: Checkpoint) -> None:
    target = itself(tokenizer_of, num_layers=2)
    drafter = make_self_drafter("lowbit", target)
    assert isinstance(drafter, DraftModelDrafter)
    exact = DraftModelDrafter(target.engine, target.vocab_size)
    agreed = [
        first_draft(drafter, target, (seed, 6, 7)).tokens[0]
        == first_draft(exact, target, (seed, 6, 7)).tokens[0]
        for seed in range(40)
    ]
    assert 0.4 < np.mean(agreed) < 1.0, "it must differ somewhere, to be a copy in fewer bits"


@pytest.mark.parametrize("kind", ["F32", "BF16", "Q8_0"])
def test_large_weights_are_copied(tokenizer_of: Checkpoint, kind: str) -> None:
    copy = low_bit_copy(itself(tokenizer_of, kind).checkpoint, "auto")
    assert copy.name == "model in 4 bits"
    assert copy.weights.layers[0].q_proj.quantization == "Q4_1"


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q4_1, Q4_1 and Q5_1"])
def test_small_weights_are_refused(tokenizer_of: Checkpoint, kind: str) -> None:
    def no_engine(each: Checkpoint) -> Any:
        raise AssertionError(f"an engine was made for {each.name}")

    target = replace(itself(tokenizer_of, kind), make_engine=no_engine)
    message = r"cannot speed up 'model': a pass of its 4-bit copy would read (100|9\d)% of"
    with pytest.raises(UnsupportedError, match=message):
        make_self_drafter("lowbit", target)


@pytest.mark.parametrize("nodes", [None, 4], ids=["chain", "tree"])
def test_answers_and_their_law_stay_the_targets(
    tokenizer_of: Checkpoint, nodes: int | None
) -> None:
    target = itself(tokenizer_of, num_layers=2, vocab_size=3)
    copy = low_bit_copy(target.checkpoint, "auto")
    drafter = DraftModelDrafter(target.make_engine(copy), 3)
    check_drafter_on(target.engine, drafter, 3, num_tokens=2, tree_nodes=nodes)
