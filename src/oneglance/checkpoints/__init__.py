"""Model files: configuration, weights as the file has them, tokenizer, chat template."""

from oneglance.checkpoints.base import (
    ChatTemplate,
    Checkpoint,
    LayerWeights,
    ModelWeights,
    Tensor,
    Tokenizer,
    unique_tensors,
)
from oneglance.checkpoints.load import load_checkpoint
from oneglance.checkpoints.stream import StreamDecoder

__all__ = [
    "ChatTemplate",
    "Checkpoint",
    "LayerWeights",
    "ModelWeights",
    "StreamDecoder",
    "Tensor",
    "Tokenizer",
    "load_checkpoint",
    "unique_tensors",
]
