"""Published heads are read in every dialect; ours come back as they were; others are refused."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.errors import CheckpointError, OneglanceError, UnsupportedError
from oneglance.heads.eagle_files import read_eagle, write_eagle
from tests.heads.comparison import FLOATS, drafted, error, inputs, oracle
from tests.heads.dialects import (
    Dialect,
    publish,
    safeai_eagle1,
    safeai_eagle3,
    specforge_eagle3,
    speculators_eagle1,
    speculators_eagle3,
    speculators_peagle,
)
from tests.heads.random_heads import Pair, Variant, arrays_of, make_pair

DIALECTS: list[tuple[Dialect, Variant, dict[str, Any]]] = [
    (safeai_eagle1, "eagle1", {}),
    (safeai_eagle3, "eagle3", {}),
    (specforge_eagle3, "eagle3", {"feature_layers": (1, 4, 6)}),
    (speculators_eagle1, "eagle1", {}),
    (speculators_eagle3, "norm before residual", {"feature_layers": (0, 2, 5)}),
    (speculators_peagle, "parallel", {"num_layers": 2, "num_slots": 8}),
]
"""Each with a head that its files can describe."""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path / "ours")


@pytest.mark.parametrize(
    ("dialect", "variant", "shape"), DIALECTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_published_head_is_the_head_that_it_was(
    tmp_path: Path, dialect: Dialect, variant: Variant, shape: dict[str, Any]
) -> None:
    pair = make_pair(tmp_path / "ours", variant, **shape)
    head = read_eagle(publish(tmp_path / "theirs", dialect(pair)), pair.config)
    assert head.config == pair.module.config
    kind = EagleEngine if head.config.num_slots == 1 else ParallelEagleEngine
    engine = kind(head, pair.target, pair.weights.head, pair.config.vocab_size)
    features, tokens = inputs(pair)
    wanted = np.array([step[4] for step in oracle(pair, features, tokens)])
    assert error(drafted(engine, features, tokens, 4), wanted) < FLOATS


def test_a_file_of_pytorch_is_read_with_pytorch(
    tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish(tmp_path / "theirs", safeai_eagle3(pair), as_torch=True)
    head = read_eagle(folder, pair.config)
    for name, array in arrays_of(pair.module).items():
        assert np.array_equal(head.tensors[name].dequantize(), array)
    real = importlib.import_module

    def without_torch(name: str) -> Any:
        if name == "torch":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without_torch)
    with pytest.raises(UnsupportedError, match=r"convert it to safetensors, or run: pip install"):
        read_eagle(folder, pair.config)


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path, pair: Pair) -> None:
    folder = publish(tmp_path / "theirs", safeai_eagle3(pair), as_torch=True)
    torch.save({"fc.weight": Path("somewhere")}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="not a sound file of tensors"):
        read_eagle(folder, pair.config)


def test_half_precision_is_read(tmp_path: Path, pair: Pair) -> None:
    settings, tensors = safeai_eagle3(pair)
    halves = {
        name: each.to(torch.bfloat16) if each.is_floating_point() else each
        for name, each in tensors.items()
    }
    head = read_eagle(publish(tmp_path / "theirs", (settings, halves)), pair.config)
    for name, array in arrays_of(pair.module).items():
        wanted = torch.tensor(array).to(torch.bfloat16).to(torch.float32).numpy()
        assert np.array_equal(head.tensors[name].dequantize(), wanted)


@pytest.mark.parametrize(("form", "bound"), [("F16", 3e-4), ("Q5_1", 0.02), ("Q4_1", 0.04)])
def test_our_own_files_come_back(tmp_path: Path, form: Any, bound: float) -> None:
    """The mean error is that of rounding to 15 or 31 steps of a group's range, or less."""
    pair = make_pair(tmp_path / "ours", "parallel", form=form)
    head = read_eagle(tmp_path / "ours", pair.config)
    assert head.config == pair.module.config
    assert head.target_ids is not None
    assert pair.head.target_ids is not None
    assert head.target_ids.tolist() == pair.head.target_ids.tolist()
    for name, array in arrays_of(pair.module).items():
        mean_error = np.sqrt(np.mean((head.tensors[name].dequantize() - array) ** 2))
        assert mean_error <= (bound * np.abs(array).max() if array.ndim == 2 else 0)
    assert json.loads((tmp_path / "ours" / "provenance.json").read_text()) == {"seed": 1}


def test_an_interrupted_writing_leaves_no_head(tmp_path: Path, pair: Pair) -> None:
    """config.json is written last, and nothing is half there."""
    broken = arrays_of(pair.module)
    broken["fc.weight"] = np.full_like(broken["fc.weight"], np.nan)
    with pytest.raises(OneglanceError):
        write_eagle(tmp_path / "new", pair.module.config, broken, None, {}, "Q4_1")
    with pytest.raises(CheckpointError):
        read_eagle(tmp_path / "new", pair.config)


def edited(pair: Pair, folder: Path, settings: dict[str, Any], **tensors: Any) -> Path:
    """The published head with other entries and tensors; None takes one away."""
    config, own = speculators_eagle3(pair)
    own |= {name.replace("__", "."): each for name, each in tensors.items()}
    return publish(folder, (config | settings, {k: v for k, v in own.items() if v is not None}))


@pytest.mark.parametrize(
    ("settings", "tensors", "message"),
    [
        ({"speculators_model_type": "dflash"}, {}, "no EAGLE head"),
        ({"transformer_layer_config": 5}, {}, "an object is expected"),
        ({}, {"fc__weight": torch.ones(64)}, "fc.weight is"),
        ({"norm_before_fc": True}, {}, "'norm_before_fc'"),
        ({"norm_output": True}, {}, "normalised outputs"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 3, 9]}, {}, "not among the 6 layers"),
        ({}, {"input_norm__weight": torch.ones(64)}, "'input_norm.weight'"),
        ({}, {"norm__weight": None}, "lacks the tensor 'norm.weight'"),
        ({}, {"fc__weight": torch.ones(64, 100)}, "fc.weight is"),
        ({}, {"d2t": torch.full((40,), 90)}, "d2t does not map"),
        ({}, {"d2t": -torch.arange(40)}, "d2t does not map"),
        ({}, {"embed_tokens__weight": torch.ones(50, 64)}, "it embeds 50 tokens"),
    ],
)
def test_a_head_that_is_not_understood_is_refused(
    tmp_path: Path, pair: Pair, settings: dict[str, Any], tensors: dict[str, Any], message: str
) -> None:
    with pytest.raises(OneglanceError, match=message):
        read_eagle(edited(pair, tmp_path / "theirs", settings, **tensors), pair.config)


def test_what_is_no_head_is_refused(tmp_path: Path, pair: Pair) -> None:
    with pytest.raises(CheckpointError, match=r"name the folder of a trained head"):
        read_eagle(tmp_path / "nowhere", pair.config)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"no JSON object"):
        read_eagle(tmp_path, pair.config)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"not sound JSON"):
        read_eagle(tmp_path, pair.config)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"neither model.safetensors nor"):
        read_eagle(tmp_path, pair.config)
