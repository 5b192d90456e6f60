"""What a checkpoint is once it is read: configuration, weights as the file has them, tokenizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oneglance.config import ModelConfig
from oneglance.types import Float32Array

FLOAT_TYPES = ("F32", "F16", "BF16")
"""Types whose values are numbers as they are; all others are quantised."""


@dataclass(frozen=True)
class Tensor:
    """One weight as it lies in the file, usually a view of the mapped file.

    Attributes:
        name: its name in the file, for messages.
        shape: logical shape, [outputs, inputs] for a matrix.
        quantization: "F32", "F16", "BF16" or a GGML type such as "Q4_1".
        data: for quantised types the raw bytes, uint8 [outputs, bytes per row]; for F32 and F16
            the values; for BF16 their bits as uint16.
    """

    name: str
    shape: tuple[int, ...]
    quantization: str
    data: NDArray[np.generic]

    def dequantize(self) -> Float32Array:
        """The values as float32 of the logical shape, a copy that is contiguous in memory."""
        from oneglance.checkpoints.dequantize import dequantize

        return dequantize(self)

    @property
    def num_bytes(self) -> int:
        """Bytes in the file."""
        return int(self.data.nbytes)


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one decoder layer; biases and query/key norms are None where the family has none.

    The rows of `q_proj` and `k_proj` are in the order that rotates element i of a head with
    element i + head_dim / 2, whatever the file's order was.
    """

    input_norm: Tensor
    q_proj: Tensor
    k_proj: Tensor
    v_proj: Tensor
    o_proj: Tensor
    post_attention_norm: Tensor
    gate_proj: Tensor
    up_proj: Tensor
    down_proj: Tensor
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None


@dataclass(frozen=True)
class ModelWeights:
    """All weights; `head` is the same object as `embedding` where the model ties them."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor


class Tokenizer(ABC):
    """Text to token ids and back, byte for byte."""

    vocab_size: int
    """Size of the vocabulary that has a meaning (a model's matrices may be padded beyond it)."""
    bos_id: int | None
    eos_ids: frozenset[int]
    """Tokens that end an answer: end of text, end of turn."""
    special_ids: frozenset[int]
    """Control tokens; they have no text."""
    adds_bos: bool
    """Whether the model expects the beginning-of-text token in front of a raw prompt."""

    @abstractmethod
    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        """Token ids of a text.

        Args:
            text: any Unicode text.
            parse_special: read the spelling of control tokens ("<|im_end|>") as those tokens;
                otherwise it is text like any other, so that a user cannot forge a turn.
            add_bos: put the beginning-of-text token first, where the model expects one.

        Raises:
            ParameterError: the text has what no sequence of tokens can express: a lone
                surrogate, or a byte that the vocabulary lacks.
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token adds to the text, possibly part of a character.

        Control tokens have none, nor have ids beyond the vocabulary (padding rows of the head).
        """

    @abstractmethod
    def token_label(self, token_id: int) -> str:
        """A printable name of a token, control tokens included, for messages and traces."""

    @abstractmethod
    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; bytes that are not valid UTF-8 become U+FFFD.

        `decode(encode(text)) == text` for every text that `encode` accepts.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the whole vocabulary in order: equal exactly if ids mean the same tokens."""


class ChatTemplate(ABC):
    """Renders a conversation into the prompt that the model was trained on."""

    source: str
    """What the template is written as."""

    @abstractmethod
    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The prompt text. To get its token ids, use `encode`, which a message cannot deceive.

        Args:
            messages: with "role" and "content", and what else the template reads.
            add_generation_prompt: whether to open the answer's turn.
            tools: what the model is told it can call; a template may have no place for them.

        Raises:
            ParameterError: the template refuses the messages (roles out of order, say).
        """

    @abstractmethod
    def encode(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Token ids of the rendered conversation.

        Control tokens of the template are parsed; their spelling anywhere inside a message or a
        tool is text, so that user text cannot forge a turn. Arguments are those of `render`.

        Raises:
            ParameterError: the template refuses the messages (roles out of order, say).
        """


@dataclass(frozen=True)
class Checkpoint:
    """A model file or folder, read.

    Attributes:
        name: the name the user asked for, or the file's stem.
        path: the file or folder.
        config: shape of the model.
        weights: as the file has them.
        tokenizer: its vocabulary.
        chat_template: None if the model has none.
    """

    name: str
    path: Path
    config: ModelConfig
    weights: ModelWeights
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None

    def quantization_summary(self) -> str:
        """What the weights are stored as, for example "Q4_1 (210), F32 (61), Q8_0 (1)"."""
        counts: dict[str, int] = {}
        for tensor in unique_tensors(self.weights):
            counts[tensor.quantization] = counts.get(tensor.quantization, 0) + 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{kind} ({count})" for kind, count in ordered)


def unique_tensors(weights: ModelWeights) -> list[Tensor]:
    """Every tensor of a model once, tied ones not repeated."""
    found: dict[int, Tensor] = {}
    groups = [weights.embedding, weights.final_norm, weights.head]
    for layer in weights.layers:
        groups += [value for value in vars(layer).values() if value is not None]
    for tensor in groups:
        found.setdefault(id(tensor), tensor)
    return list(found.values())
