from __future__ import annotations

import json
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneglance.checkpoints import load_checkpoint
from oneglance.errors import CheckpointError
from tests.tiny_models import TinyShape, write_safetensors, write_tiny_gguf, write_tiny_hf

ONES = np.ones(8, dtype=np.float32)
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def refuses(path: Path, *mentions: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    for mention in (str(path), *mentions):
        assert mention in message, message
    assert message.count("\n") == 0
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("metadata", "mention"),
    [
        ({"general.architecture": "gemma3"}, "gemma3"),
        ({"llama.expert_count": 8}, "llama.expert_count"),
        ({"llama.attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
        ({"llama.rope.dimension_count": 8}, "rotated only in part"),
        ({"llama.attention.value_length": 8}, "another size"),
        ({"llama.attention.head_count": [4, 2]}, "llama.attention.head_count"),
        ({"llama.attention.head_count": 6}, "[96, 64]"),
        ({"llama.attention.head_count_kv": 3}, "evenly"),
        ({"llama.block_count": 3}, "blk.2.attn_norm.weight"),
        ({"llama.block_count": 1}, "blk.1."),
        ({"llama.block_count": None}, "llama.block_count"),
        ({"llama.context_length": "long"}, "llama.context_length"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "rms_epsilon"),
        ({"llama.feed_forward_length": 127}, "[128, 64]"),
        ({"split.count": 3}, "3 parts"),
        ({"tokenizer.ggml.model": "t5"}, "t5"),
        ({"tokenizer.ggml.pre": "novel"}, "novel"),
        ({"tokenizer.ggml.pre": None}, "tokenizer.ggml.pre"),
        ({"tokenizer.ggml.tokens": ["a"] * 300}, "300 tokens"),
        ({"tokenizer.ggml.token_type": [1, 1]}, "token_type"),
        ({"tokenizer.ggml.merges": ["xyz"]}, "xyz"),
        ({"tokenizer.ggml.merges": ["x qqq"]}, "qqq"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "eos_token_id"),
        ({"tokenizer.chat_template": "{% if %}"}, "chat template"),
    ],
)
def test_refuses_a_gguf_file_by_its_metadata(
    tmp_path: Path, metadata: dict[str, Any], mention: str
) -> None:
    refuses(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata), mention)


@pytest.mark.parametrize(
    "name", ["blk.0.attn_output.bias", "blk.0.ffn_gate_exps.weight", "blk.0.attn_q_norm.weight"]
)
def test_refuses_a_gguf_file_with_tensors_it_would_leave_out(tmp_path: Path, name: str) -> None:
    refuses(write_tiny_gguf(tmp_path / "m.gguf", extra_tensors={name: ONES}), name)


def test_refuses_a_qwen3_without_its_norms(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", "qwen3")
    path.write_bytes(path.read_bytes().replace(b"attn_q_norm", b"attn_x_norm"))
    refuses(path, "blk.0.attn_q_norm.weight")


def test_refuses_linear_scaling_along_with_divisors(tmp_path: Path) -> None:
    metadata = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    extra = {"rope_freqs.weight": ONES}
    path = write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata, extra_tensors=extra)
    refuses(path, "rope_freqs.weight")


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        (b"", "empty"),
        (b"GG", "beyond the end"),
        (b"PK\x03\x04" + bytes(100), "magic number"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(40), "big-endian"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(40), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1) + bytes(40), "do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60) + bytes(40), "do not fit"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(40), "beyond the end"),
        (b"GGUF" + struct.pack("<IQQQcI", 3, 0, 1, 1, b"k", 77) + bytes(9), "unknown type 77"),
        (b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**61), "beyond the end"),
        (b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"k", 9, 4, 2**62), "beyond the end"),
        (b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "nested"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture"),
    ],
)
def test_refuses_what_is_no_gguf_file(tmp_path: Path, content: bytes, mention: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    refuses(path, mention)


def test_refuses_a_tensor_beyond_the_end(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-4000])
    refuses(path, "truncated", "blk.1.")


def test_refuses_a_type_that_is_no_weight(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf")
    data = path.read_bytes()
    name = b"blk.0.ffn_down.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8
    path.write_bytes(data[:at] + struct.pack("<I", 28) + data[at + 4 :])
    refuses(path, name.decode(), "F64")


@FUZZ
@given(share=st.floats(0, 1, exclude_max=True))
def test_every_truncation_is_refused(tmp_path: Path, share: float) -> None:
    whole = tmp_path / "whole.gguf"
    if not whole.exists():
        write_tiny_gguf(whole, quantization="Q4_1")
    data = whole.read_bytes().rstrip(b"\0")
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    refuses(path)


@FUZZ
@given(data=st.data())
def test_damaged_headers_are_loaded_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "whole.gguf"
    if not whole.exists():
        write_tiny_gguf(whole, quantization="Q4_1")
    damaged = bytearray(whole.read_bytes())
    header_bytes = damaged.index(b"output_norm.weight")
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, header_bytes))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(bytes(damaged))
    with suppress(CheckpointError):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("config", "mention"),
    [
        ({"model_type": "gemma2"}, "gemma2"),
        ({"model_type": None}, "model_type"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"partial_rotary_factor": 0.5}, "rotated only in part"),
        ({"rope_scaling": {"type": "yarn", "factor": 4}}, "yarn"),
        ({"rope_scaling": {"type": "llama3", "factor": 4}}, "low_freq_factor"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "layer to layer"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"hidden_size": 60}, "[271, 60]"),
        ({"vocab_size": 1000}, "[1000, 64]"),
        ({"tie_word_embeddings": False}, "lm_head.weight"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"layer_types": ["mamba", "full_attention"]}, "mamba"),
        ({"head_dim": 15}, "15"),
        ({"eos_token_id": [2, 900]}, "900"),
    ],
)
def test_refuses_a_folder_by_its_config(
    tmp_path: Path, config: dict[str, Any], mention: str
) -> None:
    refuses(write_tiny_hf(tmp_path / "m", config=config), mention)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b"\xff" * 64, b"[" * 5000])
def test_refuses_a_folder_with_an_unsound_file(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    folder = write_tiny_hf(tmp_path / "m")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    refuses(folder, name)


def test_refuses_an_empty_folder(tmp_path: Path) -> None:
    refuses(tmp_path, "config.json")


def test_refuses_a_shard_outside_the_folder(tmp_path: Path) -> None:
    folder = write_tiny_hf(tmp_path / "m", num_shards=2)
    write_safetensors(tmp_path / "secret.safetensors", {"lm_head.weight": ONES})
    index = {"weight_map": {"lm_head.weight": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuses(folder, "../secret.safetensors")


def test_refuses_a_folder_with_tensors_it_would_leave_out(tmp_path: Path) -> None:
    folder = write_tiny_hf(tmp_path / "m", num_shards=2)
    write_safetensors(folder / "extra.safetensors", {"model.layers.0.mlp.gate_proj.bias": ONES})
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["model.layers.0.mlp.gate_proj.bias"] = "extra.safetensors"
    path.write_text(json.dumps(index))
    refuses(folder, "mlp.gate_proj.bias")


def test_ignores_a_stored_head_that_is_tied(tmp_path: Path) -> None:
    folder = write_tiny_hf(
        tmp_path / "m",
        shape=TinyShape(has_tied_head=False),
        config={"tie_word_embeddings": True},
    )
    weights = load_checkpoint(folder).weights
    assert weights.head is weights.embedding


@pytest.mark.parametrize(
    ("entry", "mention"),
    [
        ({"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}, "F8_E4M3"),
        ({"dtype": "F32", "shape": [8], "data_offsets": [0, 31]}, "0"),
        ({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}, "x"),
        ({"dtype": "F32", "shape": [-8], "data_offsets": [0, 32]}, "shape"),
        ({"dtype": "F32", "shape": "8", "data_offsets": [0, 32]}, "shape"),
        ({"dtype": "F32", "shape": [8]}, "offsets"),
        (7, "offsets"),
    ],
)
def test_refuses_unsound_safetensors(tmp_path: Path, entry: object, mention: str) -> None:
    folder = write_tiny_hf(tmp_path / "m")
    header = json.dumps({"x": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(32)
    (folder / "model.safetensors").write_bytes(content)
    refuses(folder, "'x'", mention)


def test_refuses_a_truncated_safetensors_file(tmp_path: Path) -> None:
    folder = write_tiny_hf(tmp_path / "m")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    refuses(folder, "model.safetensors")


def test_refuses_what_is_neither_file_nor_folder(tmp_path: Path) -> None:
    refuses(tmp_path / "missing.gguf", "no file or folder")
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    refuses(pipe, "no file or folder")


def test_a_folder_can_be_moved(tmp_path: Path) -> None:
    folder = write_tiny_hf(tmp_path / "m")
    shutil.move(folder, tmp_path / "n")
    assert load_checkpoint(tmp_path / "n").name == "n"
