from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize

from oneglance.checkpoints import Checkpoint, load_checkpoint, unique_tensors
from oneglance.checkpoints.gguf_file import read_gguf
from oneglance.config import ModelConfig, RopeScaling
from tests.tiny_models import TinyShape, tiny_weights, write_tiny_gguf, write_tiny_hf

FAMILIES = ["llama", "mistral", "qwen2", "qwen3"]


@pytest.mark.parametrize("architecture", FAMILIES)
@pytest.mark.parametrize("has_tied_head", [True, False])
def test_both_formats_give_the_weights_that_were_written(
    tmp_path: Path, architecture: str, has_tied_head: bool
) -> None:
    shape = TinyShape(has_tied_head=has_tied_head, head_dim=8)
    gguf = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", architecture, shape=shape))
    folder = load_checkpoint(write_tiny_hf(tmp_path / "m", architecture, shape=shape))
    written = tiny_weights(architecture, shape=shape)
    assert len(unique_tensors(gguf.weights)) == len(written)
    pairs = zip(unique_tensors(gguf.weights), unique_tensors(folder.weights), strict=True)
    for from_gguf, from_folder in pairs:
        expected = written[from_folder.name]
        np.testing.assert_array_equal(from_folder.dequantize(), expected)
        np.testing.assert_array_equal(from_gguf.dequantize(), expected)
        assert from_gguf.shape == expected.shape
    assert gguf.tokenizer.fingerprint() == folder.tokenizer.fingerprint()
    assert gguf.tokenizer.eos_ids == folder.tokenizer.eos_ids == {0, 2}


@pytest.mark.parametrize("architecture", FAMILIES)
def test_both_formats_give_the_same_config(tmp_path: Path, architecture: str) -> None:
    shape = TinyShape(head_dim=8, vocab_padding=5, rms_norm_eps=2.0**-20, has_tied_head=False)
    window = {"sliding_window": None}
    gguf = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", architecture, shape=shape))
    folder = load_checkpoint(
        write_tiny_hf(tmp_path / "m", architecture, shape=shape, config=window)
    )
    expected = ModelConfig(
        architecture="llama" if architecture == "mistral" else architecture,
        vocab_size=276,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        intermediate_size=128,
        context_length=256,
        rms_norm_eps=2.0**-20,
        rope_theta=10000.0,
        has_qkv_bias=architecture == "qwen2",
        has_qk_norm=architecture == "qwen3",
    )
    assert gguf.config == expected
    assert vars(folder.config) == {**vars(expected), "architecture": architecture}
    assert gguf.tokenizer.vocab_size == folder.tokenizer.vocab_size == 271


@pytest.mark.parametrize("quantization", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_permuting_quantised_rows_is_lossless(tmp_path: Path, quantization: str) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", "llama", quantization)
    layer = load_checkpoint(path).weights.layers[1]
    stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    for tensor, num_heads in ((layer.q_proj, 4), (layer.k_proj, 2), (layer.v_proj, 0)):
        original = stored[tensor.name]
        expected = dequantize(original.data, original.tensor_type)
        if num_heads:
            # Row i of a head's first half is the file's row 2i, of the second half row 2i + 1.
            expected = np.concatenate(
                [head[offset::2] for head in np.split(expected, num_heads) for offset in (0, 1)]
            )
        assert tensor.quantization == quantization
        np.testing.assert_array_equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("quantization", ["Q4_K", "Q5_K", "Q6_K"])
def test_dequantises_k_types_like_the_gguf_package(tmp_path: Path, quantization: str) -> None:
    shape = TinyShape(hidden_size=256, intermediate_size=256, head_dim=64)
    path = write_tiny_gguf(tmp_path / "m.gguf", "qwen2", quantization, shape=shape)
    checkpoint = load_checkpoint(path)
    stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    for tensor in unique_tensors(checkpoint.weights):
        original = stored[tensor.name]
        expected = dequantize(original.data, original.tensor_type)
        np.testing.assert_array_equal(tensor.dequantize(), expected.reshape(tensor.shape))


def test_reads_metadata_like_the_gguf_package(tmp_path: Path) -> None:
    metadata = {"x.list": [1.5, 2.5], "x.flags": [True, False], "x.big": 2**31, "x.text": "é😀"}
    path = write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
    fields = GGUFReader(path).fields
    own = read_gguf(path).metadata
    assert set(own) == {name for name in fields if not name.startswith("GGUF.")}
    assert all(fields[name].contents() == value for name, value in own.items())


def test_weights_are_mapped_and_not_copied(tmp_path: Path) -> None:
    gguf = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", "qwen2"))
    folder = load_checkpoint(write_tiny_hf(tmp_path / "m", "qwen2"))
    for checkpoint in (gguf, folder):
        for tensor in unique_tensors(checkpoint.weights):
            assert not tensor.data.flags.owndata
            assert not tensor.data.flags.writeable


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_reads_half_precision_folders(tmp_path: Path, dtype: str) -> None:
    checkpoint = load_checkpoint(write_tiny_hf(tmp_path / "m", "llama", dtype))
    for tensor in unique_tensors(checkpoint.weights):
        exact = tiny_weights("llama")[tensor.name]
        assert tensor.quantization == dtype
        assert tensor.data.dtype == {"F16": np.float16, "BF16": np.uint16}[dtype]
        np.testing.assert_allclose(tensor.dequantize(), exact, rtol=2**-7, atol=1e-6)


def test_reads_shards(tmp_path: Path) -> None:
    single = load_checkpoint(write_tiny_hf(tmp_path / "single", "qwen2"))
    steps: list[tuple[str, int, int]] = []
    folder = write_tiny_hf(tmp_path / "shards", "qwen2", num_shards=3)
    shards = load_checkpoint(folder, progress=lambda *step: steps.append(step))
    pairs = zip(unique_tensors(single.weights), unique_tensors(shards.weights), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one.dequantize(), other.dequantize())
    assert [(done, total) for _, done, total in steps] == [(1, 3), (2, 3), (3, 3), (1, 1)]


def test_name_is_given_or_taken_from_the_path(tmp_path: Path) -> None:
    gguf, folder = write_tiny_gguf(tmp_path / "tiny.gguf"), write_tiny_hf(tmp_path / "folder")
    assert load_checkpoint(gguf).name == "tiny"
    assert load_checkpoint(folder).name == "folder"
    assert load_checkpoint(gguf, name="mine").name == "mine"
    assert load_checkpoint(gguf).path == gguf


def test_reads_rope_divisors_of_a_gguf_file(tmp_path: Path) -> None:
    divisors = np.array([1, 1, 1.5, 2, 4, 8, 8, 8], dtype=np.float32)
    path = write_tiny_gguf(tmp_path / "m.gguf", extra_tensors={"rope_freqs.weight": divisors})
    assert load_checkpoint(path).config.rope_scaling == RopeScaling(
        kind="llama3", factor=8.0, frequency_divisors=tuple(divisors.tolist())
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
        {"llama.rope.scale_linear": 4.0},
    ],
)
def test_reads_linear_rope_scaling_of_a_gguf_file(
    tmp_path: Path, metadata: dict[str, object]
) -> None:
    config = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)).config
    assert config.rope_scaling == RopeScaling(kind="linear", factor=4.0)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("config", "scaling", "theta"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2}}, RopeScaling("linear", 2.0), 10000.0),
        ({"rope_scaling": LLAMA3}, RopeScaling("llama3", 32.0, 1.0, 4.0, 64), 10000.0),
        (
            {"rope_theta": None, "rope_parameters": {**LLAMA3, "rope_theta": 5e5}},
            RopeScaling("llama3", 32.0, 1.0, 4.0, 64),
            5e5,
        ),
        ({"rope_scaling": {"rope_type": "default"}}, None, 10000.0),
    ],
)
def test_reads_rope_scaling_of_a_folder(
    tmp_path: Path, config: dict[str, object], scaling: RopeScaling | None, theta: float
) -> None:
    loaded = load_checkpoint(write_tiny_hf(tmp_path / "m", config=config)).config
    assert (loaded.rope_scaling, loaded.rope_theta) == (scaling, theta)


@pytest.mark.parametrize(
    ("architecture", "config", "context_length"),
    [
        ("mistral", {"sliding_window": 100}, 100),
        ("mistral", {"sliding_window": 4096}, 256),
        ("mistral", {"max_position_embeddings": 9000}, 4096),
        ("qwen2", {"sliding_window": 100, "use_sliding_window": False}, 256),
        ("qwen2", {"sliding_window": 100, "use_sliding_window": True}, 100),
        ("qwen3", {"sliding_window": 99, "layer_types": ["sliding_attention"] * 2}, 99),
        ("llama", {"sliding_window": 100}, 256),
    ],
)
def test_a_sliding_window_caps_the_context(
    tmp_path: Path, architecture: str, config: dict[str, object], context_length: int
) -> None:
    path = write_tiny_hf(tmp_path / "m", architecture, config=config)
    assert load_checkpoint(path).config.context_length == context_length


def test_a_sliding_window_caps_the_context_of_a_gguf_file(tmp_path: Path) -> None:
    metadata = {"llama.attention.sliding_window": 100}
    path = write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
    assert load_checkpoint(path).config.context_length == 100


def test_the_default_model(default_model: Checkpoint) -> None:
    config = default_model.config
    assert (config.num_layers, config.hidden_size, config.num_heads) == (30, 576, 9)
    assert (config.num_kv_heads, config.head_dim, config.intermediate_size) == (3, 64, 1536)
    assert (config.context_length, config.rope_theta, config.vocab_size) == (8192, 1e5, 49152)
    assert default_model.quantization_summary() == "Q4_1 (210), F32 (61), Q8_0 (1)"
    assert default_model.weights.head is default_model.weights.embedding


def test_the_default_model_loads_within_a_second_of_processor_time(
    default_model_path: Path,
) -> None:
    start = time.process_time()
    load_checkpoint(default_model_path)
    assert time.process_time() - start < 1.0
