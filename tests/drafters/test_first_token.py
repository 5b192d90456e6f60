"""A head that does not match its target is found out when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint, Tensor
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.eagle import EagleDrafter
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.first_token import (
    check_first_tokens,
    first_token_acceptance,
)
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.heads.eagle_config import EagleConfig
from oneglance.heads.eagle_files import write_eagle
from oneglance.heads.eagle_names import OPTIONAL, tensor_shapes
from oneglance.types import Float32Array, Proposal
from tests.random_eagle import write_random_eagle
from tests.tiny_models import TinyShape, write_tiny_gguf

TEXT = [int(token) for token in np.random.default_rng(1).integers(3, 200, 40)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny_gguf(path, shape=TinyShape(num_layers=6))
    return load_checkpoint(path)


@pytest.fixture(scope="module")
def engine(target: Checkpoint) -> Engine:
    return make_engine(target.config, target.weights, EngineConfig(num_threads=1))


class Knowing(Drafter[list[int]]):
    """Says what the target says at some places, and token 0 at the others."""

    name = "knowing"
    hidden_layers = (2, 6)

    def __init__(self, best: Sequence[int], right: Sequence[int]) -> None:
        self.best, self.right = best, right
        self.seen: list[Float32Array] = []
        self.num_open = 0

    def start(self, context: DraftContext) -> list[int]:
        self.num_open += 1
        return list(context.prompt)

    def propose(self, requests: Sequence[DraftRequest[list[int]]]) -> list[Proposal]:
        place = len(requests[0].session) - 1
        if place == 0:
            return [Proposal.empty()]
        return [Proposal.chain([self.best[place] if place in self.right else 0])]

    def see_hidden(
        self, session: list[int], start: int, hidden: Mapping[int, Float32Array]
    ) -> None:
        assert start == len(session) - 1
        assert set(hidden) == {2, 6}
        self.seen.append(hidden[2])

    def observe(self, session: list[int], tokens: Sequence[int]) -> None:
        session.extend(tokens)

    def close(self, session: list[int]) -> None:
        session.clear()
        self.num_open -= 1


def said_by(engine: Engine, tokens: Sequence[int]) -> tuple[list[int], Float32Array]:
    """The target's best token after each place, and what enters its third layer."""
    sequence = engine.open()
    output = engine.forward(Batch((TreeRows.chain(sequence, tokens),), (2,)))
    engine.close(sequence)
    return output.logits[0].argmax(axis=1).tolist(), output.hidden[2][0]


def test_the_share_of_places_is_counted(target: Checkpoint, engine: Engine) -> None:
    best, hidden = said_by(engine, TEXT)
    drafter = Knowing(best, range(1, 20))
    size = target.tokenizer.vocab_size
    measured = first_token_acceptance(engine, drafter, TEXT, size)
    wanted = sum(place < 20 or best[place] == 0 for place in range(1, 39)) / 38
    assert measured == pytest.approx(wanted)
    assert np.array_equal(np.concatenate(drafter.seen), hidden[:39])
    assert drafter.num_open == 0


def test_one_text_that_a_head_knows_is_enough(target: Checkpoint, engine: Engine) -> None:
    best, _ = said_by(engine, TEXT)
    size = target.tokenizer.vocab_size
    drafter = Knowing(best, range(40))
    other = [token + 1 for token in TEXT]
    assert check_first_tokens(engine, drafter, [other, TEXT], size) == 1.0
    with pytest.raises(UnsupportedError, match=r"knowing does not match this target: \d+% of its"):
        check_first_tokens(engine, Knowing(best, ()), [TEXT], size)


def setup(target: Checkpoint, engine: Engine) -> DrafterSetup:
    return DrafterSetup(
        target=target,
        target_engine=engine,
        load_checkpoint=lambda _: target,
        make_engine=lambda _: engine,
        engine_config=EngineConfig(),
        local_drafts=lambda _: [],
        make_length=lambda _part, _num_prompt: PartLength(Control()),
    )


def test_a_random_head_is_refused_with_its_figure(
    tmp_path: Path, target: Checkpoint, engine: Engine
) -> None:
    """Ten tokens that the tiny target never says; right ones of a random head are chance."""
    best, _ = said_by(engine, TEXT)
    never = np.setdiff1d(np.arange(50), best)[:10]
    write_random_eagle(tmp_path, target, never)
    with pytest.raises(UnsupportedError, match=r"eagle:.* does not match this target: \d+% of"):
        make_drafter(f"eagle:{tmp_path}", setup(target, engine))


def layerless(target: Checkpoint) -> Checkpoint:
    """The same model with layers that add nothing: what it says depends on the last token only."""
    weights, hidden = target.weights, target.config.hidden_size

    def zeros(tensor: Tensor) -> Tensor:
        return Tensor(tensor.name, tensor.shape, "F32", np.zeros(tensor.shape, dtype=np.float32))

    layers = [
        replace(each, o_proj=zeros(each.o_proj), down_proj=zeros(each.down_proj))
        for each in weights.layers
    ]
    norm = replace(weights.final_norm, quantization="F32", data=np.ones(hidden, dtype=np.float32))
    return replace(target, weights=replace(weights, layers=tuple(layers), final_norm=norm))


def test_a_head_that_matches_is_taken_and_accepted(tmp_path: Path, target: Checkpoint) -> None:
    """An EAGLE-1 head that passes the token's embedding on, for a target that reads just that."""
    simple = layerless(target)
    engine = make_engine(simple.config, simple.weights, EngineConfig(num_threads=1))
    config, size = simple.config, simple.tokenizer.vocab_size
    shape = EagleConfig(
        kind="eagle1",
        hidden_size=config.hidden_size,
        target_hidden_size=config.hidden_size,
        feature_layers=(config.num_layers,),
        intermediate_size=32,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        vocab_size=config.vocab_size,
        draft_vocab_size=config.vocab_size,
    )
    arrays = {
        name: np.zeros(each, dtype=np.float32)
        for name, each in tensor_shapes(shape).items()
        if name not in OPTIONAL
    }
    arrays["fc.weight"][:, : config.hidden_size] = np.eye(config.hidden_size)
    write_eagle(tmp_path, shape, arrays, None, {}, "F32")
    drafter = make_drafter(f"eagle:{tmp_path}", setup(simple, engine))
    assert isinstance(drafter, EagleDrafter)
    assert drafter.name == f"eagle:{tmp_path.name}"
    vocabulary = Vocabulary(size, frozenset(), simple.tokenizer.token_bytes)
    decoder = Decoder(engine, vocabulary, drafter, k=3)
    ((_, sequence, _), *_) = decoder.run([TEXT[:6]], [SamplingParams(max_tokens=16)])
    assert sequence.stats.mean_accepted_length > 3.5


def test_what_cannot_be_made_is_refused(target: Checkpoint, engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"No EAGLE head is shipped for 'tiny'; write eagle:"):
        make_drafter("eagle", setup(target, engine))
    slow: Any = make_engine(target.config, target.weights, EngineConfig(kind="reference"))
    with pytest.raises(UnsupportedError, match="runs on the native engine, and 'tiny' is on the"):
        make_drafter(f"eagle:{tmp_path}", setup(target, slow))
    write_random_eagle(tmp_path, target, np.arange(5))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["d2t"] = tensors["d2t"] + 10_000
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(Exception, match="d2t does not map"):
        make_drafter(f"eagle:{tmp_path}", setup(target, engine))
