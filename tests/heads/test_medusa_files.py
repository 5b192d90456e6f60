"""Medusa heads from folders: FasterDecoding's, in both file types, and ours, packed or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from oneglance.errors import CheckpointError
from oneglance.heads.medusa import MedusaConfig, MedusaWeights
from oneglance.heads.medusa_files import read_medusa, write_medusa
from oneglance.types import Float32Array
from tests.engine.random_models import random_model
from tests.heads.medusa_heads import Arrays, random_heads

D = 64
TARGET = random_model(1, hidden_size=D)[0]
V = TARGET.vocab_size


def save(folder: Path, arrays: Mapping[str, Float32Array], name: str) -> None:
    if name.endswith(".pt"):
        torch.save({key: torch.from_numpy(array) for key, array in arrays.items()}, folder / name)
    else:
        safetensors.numpy.save_file(dict(arrays), folder / name)


def stored(weights: MedusaWeights) -> Arrays:
    """The arrays under their names again."""
    arrays: Arrays = {}
    for head, blocks in enumerate(weights.blocks):
        for layer, block in enumerate(blocks):
            arrays[f"{head}.{layer}.linear.weight"] = block.weight.dequantize()
            arrays[f"{head}.{layer}.linear.bias"] = block.bias.dequantize()
    for head, matrix in enumerate(weights.outputs):
        arrays[f"{head}.{weights.config.num_layers}.weight"] = matrix.dequantize()
    return arrays


def assert_same(arrays: Mapping[str, Float32Array], others: Mapping[str, Float32Array]) -> None:
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(
    "name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors", "model.safetensors"]
)
def test_published_heads_are_read(tmp_path: Path, name: str, num_layers: int) -> None:
    arrays = random_heads(D, num_heads=5, num_layers=num_layers, num_rows=V)
    save(tmp_path, arrays, name)
    # What published configurations say of the number of heads is known to be wrong.
    said = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "x"}
    (tmp_path / "config.json").write_text(json.dumps(said))
    weights = read_medusa(tmp_path, TARGET)
    assert weights.config == MedusaConfig(D, V, 5, num_layers, V, has_own_outputs=True)
    assert_same(stored(weights), arrays)


def test_heads_beside_their_target_have_a_prefix(tmp_path: Path) -> None:
    arrays = random_heads(D, num_rows=V)
    save(tmp_path, {f"medusa_head.{name}": a for name, a in arrays.items()}, "medusa_lm_head.pt")
    assert_same(stored(read_medusa(tmp_path, TARGET)), arrays)


def test_a_layer_that_is_stored_once_is_all_layers(tmp_path: Path) -> None:
    """The published code makes several layers one object."""
    arrays = random_heads(D, num_layers=3, num_rows=V)
    few = {name: array for name, array in arrays.items() if ".1.linear" not in name}
    few = {name: array for name, array in few.items() if ".2.linear" not in name}
    save(tmp_path, few, "medusa_lm_head.safetensors")
    weights = read_medusa(tmp_path, TARGET)
    assert weights.config.num_layers == 3
    for blocks in weights.blocks:
        assert blocks[0] is blocks[1] is blocks[2]


@pytest.mark.parametrize("form", ["F32", "F16", "Q5_1", "Q4_1"])
def test_what_was_written_is_read(tmp_path: Path, form: str) -> None:
    ids = np.array([0, 3, 4, 11])
    config = MedusaConfig(D, V, 3, 1, len(ids), has_own_outputs=False)
    arrays = random_heads(D)
    write_medusa(tmp_path, config, arrays, ids, {"command": "x"}, form, "tiny")  # type: ignore[arg-type]
    weights = read_medusa(tmp_path, TARGET)
    assert weights.config == config
    assert weights.token_ids is not None
    assert weights.token_ids.tolist() == ids.tolist()
    # Of 32 weights in a group the largest error is half a step of the range, 6 sigma wide.
    steps = {"F32": 0.0, "F16": 2e-3, "Q5_1": 6 / 31, "Q4_1": 6 / 15}[form]
    for name, array in stored(weights).items():
        allowed = steps * float(arrays[name].std()) if "weight" in name else 0.0
        np.testing.assert_allclose(array, arrays[name], atol=allowed, rtol=0)
    assert weights.blocks[0][0].weight.quantization == form
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["medusa_num_heads"] == 3
    assert values["base_model_name_or_path"] == "tiny"
    assert json.loads((tmp_path / "provenance.json").read_text()) == {"command": "x"}


def test_packed_heads_of_the_default_models_are_small_enough_to_ship(tmp_path: Path) -> None:
    config = MedusaConfig(576, 49152, 5, 1, 8192, has_own_outputs=False)
    write_medusa(tmp_path, config, random_heads(576, 5), np.arange(8192), {}, "Q4_1")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size < 1.2e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.0.linear.weight": None}, "'0.0.linear.weight' is missing"),
        ({"1.0.linear.bias": None}, "'1.0.linear.bias' is missing"),
        ({"2.1.weight": None}, "'2.1.weight' is missing"),
        ({"0.1.weight": np.zeros((V, D + 1), np.float32)}, "choose heads that were trained"),
        ({"0.0.linear.weight": np.zeros((D + 1, D), np.float32)}, "do not fit the target"),
        ({"embed.weight": np.zeros((2, 2), np.float32)}, "no Medusa heads"),
        ({"4.1.weight": np.zeros((V, D), np.float32)}, r"heads \[0, 1, 2, 4\]"),
        ({"d2t": np.array([0, 0, V], np.int64)}, "not ascending ids below"),
        ({"d2t": np.array([0, -1], np.int64)}, "not ascending ids below"),
    ],
)
def test_what_is_not_sound_is_refused(
    tmp_path: Path, change: dict[str, Float32Array | None], message: str
) -> None:
    arrays: dict[str, Float32Array | None] = {**random_heads(D, num_rows=V), **change}
    kept = {name: array for name, array in arrays.items() if array is not None}
    save(tmp_path, kept, "medusa_lm_head.safetensors")
    with pytest.raises(CheckpointError, match=message):
        read_medusa(tmp_path, TARGET)


def test_heads_for_another_target_are_refused(tmp_path: Path) -> None:
    save(tmp_path, random_heads(D, num_rows=V), "medusa_lm_head.safetensors")
    with pytest.raises(CheckpointError, match="do not fit the target"):
        read_medusa(tmp_path, replace(TARGET, hidden_size=2 * D))


def test_a_folder_without_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has none of medusa_lm_head\.safetensors"):
        read_medusa(tmp_path, TARGET)
