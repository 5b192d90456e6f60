"""A drafter whose passes leave layers out drafts as the model without those layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.engine.base import PassLayers
from oneglance.engine.reference import ReferenceEngine
from oneglance.sampling.noise import SequentialNoise
from oneglance.types import Proposal
from tests.engine.random_models import random_model

SHAPE = {"num_layers": 4}
PROMPT = (5, 17, 3, 88, 41)
WIDTH = 97


def draft(
    engine: ReferenceEngine, layers: PassLayers, temperature: float, tree_nodes: int | None = None
) -> Proposal:
    config = EngineConfig(prefill_chunk=2)
    drafter = DraftModelDrafter(engine, WIDTH, engine_config=config, layers=layers)
    params = SamplingParams(temperature=temperature)
    session = drafter.start(DraftContext(PROMPT, params, SequentialNoise(3)))
    drafter.observe(session, [7, 9])
    return drafter.propose([DraftRequest(session, 4, tree_nodes)])[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("layers", "kept"), [(PassLayers(2), (0, 1)), (PassLayers(skipped_layers=(1, 2)), (0, 3))]
)
def test_every_pass_leaves_the_layers_out(
    temperature: float, layers: PassLayers, kept: tuple[int, ...]
) -> None:
    config, weights = random_model(3, **SHAPE)
    smaller = ReferenceEngine(
        replace(config, num_layers=len(kept)),
        replace(weights, layers=tuple(weights.layers[index] for index in kept)),
    )
    engine = ReferenceEngine(config, weights)
    expected = draft(smaller, PassLayers(), temperature)
    found = draft(engine, layers, temperature)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    if found.draft_probs is not None and expected.draft_probs is not None:
        for law, expected_law in zip(found.draft_probs, expected.draft_probs, strict=True):
            np.testing.assert_array_equal(law, expected_law)
    whole = draft(engine, PassLayers(), temperature)
    assert whole.tokens.tolist() != expected.tokens.tolist(), "the layers make no difference"
