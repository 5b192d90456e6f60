"""The packed matrices of an EAGLE head, with what it shares with its target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oneglance import _native
from oneglance.checkpoints.base import Tensor
from oneglance.config import WeightsForm
from oneglance.engine.native.weights import NativeWeights, pack_tensor
from oneglance.heads.eagle_files import EagleHead
from oneglance.heads.eagle_names import LAYER, tensor_shapes
from oneglance.types import Float32Array, IntArray


@dataclass(frozen=True)
class EagleWeights:
    """A head as the kernels read it; D its width, F that of the joined features.

    Attributes:
        embedding: [V, D]; the target's own object where the head has none.
        fc: [D, F], in "eagle1" [D, D + F].
        fc_bias: [D], or None.
        embedding_norm, feature_norm: [D] of the two halves of the first layer's inputs; None in
            "eagle1", which has no norms there.
        layers: in order of depth; the first one is given its inputs.
        head: norm, if there is one, and output matrix [V_d, D].
        num_outputs: V_d.
        target_ids: [V_d] which token of the target each output is; None: they are the same.
        mask_feature: [F] what rows of a parallel draft have as their feature, or None.
        num_bytes: memory of the matrices that are not the target's.
        pass_bytes: of the matrices that a pass reads, whosever they are; not of an embedding, of
            which it reads a row for each token.
    """

    embedding: _native.PackedMatrix
    fc: _native.PackedMatrix
    fc_bias: Float32Array | None
    embedding_norm: Float32Array | None
    feature_norm: Float32Array | None
    layers: tuple[_native.Layer, ...]
    head: _native.Head
    num_outputs: int
    target_ids: IntArray | None
    mask_feature: Float32Array | None
    num_bytes: int
    pass_bytes: int


def pack_eagle(
    head: EagleHead,
    target: NativeWeights,
    target_head: Tensor,
    num_ids: int,
    num_threads: int,
    form: WeightsForm = "auto",
) -> EagleWeights:
    """Packs a head; all its products take activations of 8 bits, since nothing depends on them.

    Args:
        head: as its file has it.
        target: its target's packed weights.
        target_head: the target's output matrix as its file has it.
        num_ids: tokens of the target's vocabulary; drafts of others are left out.
        num_threads: how many threads pack.
        form: what becomes of floats, as for the target.

    Raises:
        CheckpointError: a type or width that cannot be packed, or a weight that is not finite.
    """
    return _Packer(head, num_threads, form).pack(target, target_head, num_ids)


class _Packer:
    """Packs the tensors of one head and counts what they take."""

    def __init__(self, head: EagleHead, num_threads: int, form: WeightsForm) -> None:
        self.num_bytes = 0
        self._head = head
        self._shapes = tensor_shapes(head.config)
        self._num_threads = num_threads
        self._form = form

    def pack(self, target: NativeWeights, target_head: Tensor, num_ids: int) -> EagleWeights:
        config, tensors = self._head.config, self._head.tensors
        has_own = "embed_tokens.weight" in tensors
        embedding = self.matrix("embed_tokens.weight") if has_own else target.embedding
        matrix, target_ids = self._output(target, target_head, num_ids)
        is_pair = config.kind == "eagle3"
        first = LAYER.format(layer=0)
        fc = self.matrix("fc.weight")
        layers = tuple(self._layer(index) for index in range(config.num_layers))
        pass_bytes = self.num_bytes - (embedding.num_bytes if has_own else 0)
        pass_bytes += matrix.num_bytes if matrix is target.head_matrix else 0
        return EagleWeights(
            embedding=embedding,
            fc=fc,
            fc_bias=self.vector("fc.bias"),
            embedding_norm=self.vector(f"{first}input_layernorm.weight") if is_pair else None,
            feature_norm=self.vector(f"{first}hidden_norm.weight"),
            layers=layers,
            head=_native.Head(
                norm=self.vector("norm.weight"), matrix=matrix, eps=config.rms_norm_eps
            ),
            num_outputs=matrix.outputs,
            target_ids=target_ids,
            mask_feature=self.vector("mask_hidden"),
            num_bytes=self.num_bytes,
            pass_bytes=pass_bytes,
        )

    def matrix(self, name: str) -> _native.PackedMatrix:
        return self._pack(self._head.tensors[name])

    def vector(self, name: str) -> Float32Array | None:
        """The values in a row; None where the head has no such tensor."""
        tensor = self._head.tensors.get(name)
        return None if tensor is None else tensor.dequantize().reshape(-1)

    def _output(
        self, target: NativeWeights, target_head: Tensor, num_ids: int
    ) -> tuple[_native.PackedMatrix, IntArray | None]:
        """The output matrix, and which tokens its rows are."""
        own, ids = self._head.tensors.get("lm_head.weight"), self._head.target_ids
        if ids is None:
            return (target.head_matrix if own is None else self._pack(own)), None
        is_known = ids < num_ids
        rows, tensor = (ids, target_head) if own is None else (np.arange(len(ids)), own)
        chosen = tensor.data[rows[is_known]]
        shape = (len(chosen), self._head.config.hidden_size)
        return self._pack(replace(tensor, shape=shape, data=chosen)), ids[is_known]

    def _layer(self, index: int) -> _native.Layer:
        config, prefix = self._head.config, LAYER.format(layer=index)
        biases = [self.vector(f"{prefix}self_attn.{part}_proj.bias") for part in "qkv"]
        present = [bias for bias in biases if bias is not None]
        post_norm = self.vector(f"{prefix}post_attention_layernorm.weight")
        assert post_norm is not None, "every head has this norm"
        return _native.Layer(
            index=index,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            input_norm=self.vector(f"{prefix}input_layernorm.weight") if index else None,
            q_proj=self.matrix(f"{prefix}self_attn.q_proj.weight"),
            k_proj=self.matrix(f"{prefix}self_attn.k_proj.weight"),
            v_proj=self.matrix(f"{prefix}self_attn.v_proj.weight"),
            o_proj=self.matrix(f"{prefix}self_attn.o_proj.weight"),
            post_attention_norm=post_norm,
            gate_proj=self.matrix(f"{prefix}mlp.gate_proj.weight"),
            up_proj=self.matrix(f"{prefix}mlp.up_proj.weight"),
            down_proj=self.matrix(f"{prefix}mlp.down_proj.weight"),
            qkv_bias=np.concatenate(present) if present else None,
            q_norm=self.vector(f"{prefix}self_attn.q_norm.weight"),
            k_norm=self.vector(f"{prefix}self_attn.k_norm.weight"),
        )

    def _pack(self, tensor: Tensor) -> _native.PackedMatrix:
        outputs, inputs = tensor.shape
        packed = pack_tensor(tensor, (outputs, inputs), self._num_threads, self._form)
        self.num_bytes += packed.num_bytes
        return packed
