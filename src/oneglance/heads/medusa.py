"""What Medusa's heads are: their shape, their weights, and the names of these in files.

Cai et al., arXiv:2401.10774. The names are those of FasterDecoding/Medusa, counted from 0:

    {head}.{layer}.linear.weight    [D, D]    W of x + SiLU(W x + b)
    {head}.{layer}.linear.bias      [D]       b
    {head}.{num_layers}.weight      [V_d, D]  output matrix; absent where it is the target's
    d2t                             [V_d]     added to a draft id it makes the target's id; absent
                                              where the draft vocabulary is the target's

Published heads have one output matrix each and no `d2t`. The last two lines' absence and presence
are ours: heads that share the target's rows are small enough to ship.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oneglance.checkpoints.base import Tensor
from oneglance.errors import CheckpointError
from oneglance.heads.folder import D2T
from oneglance.types import IntArray

PREFIX = "medusa_head."
"""In front of the names where heads lie in one file with their target (Medusa-2)."""

_BLOCK = re.compile(r"(\d+)\.(\d+)\.linear\.(weight|bias)")
_OUTPUT = re.compile(r"(\d+)\.(\d+)\.weight")


@dataclass(frozen=True)
class MedusaConfig:
    """Shape of the heads of one target.

    Attributes:
        hidden_size: D, width of the target's states.
        vocab_size: V, of the target.
        num_heads: H; head k, from 0, guesses the token k + 2 places after the state's own.
        num_layers: residual blocks of a head.
        draft_vocab_size: V_d, tokens that heads can guess.
        has_own_outputs: each head has its own output matrix; otherwise all use the target's.
    """

    hidden_size: int
    vocab_size: int
    num_heads: int
    num_layers: int
    draft_vocab_size: int
    has_own_outputs: bool


@dataclass(frozen=True)
class Block:
    """A residual block, x + SiLU(W x + b).

    Attributes:
        weight: W [D, D].
        bias: b [D].
    """

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class MedusaWeights:
    """Heads as the file has them.

    Attributes:
        config: their shape.
        blocks: for each head its residual blocks.
        outputs: for each head its output matrix [V_d, D]; empty where it is the target's.
        token_ids: [V_d] the target's id of each token of the draft vocabulary, ascending; None
            where the two vocabularies are one.
    """

    config: MedusaConfig
    blocks: tuple[tuple[Block, ...], ...]
    outputs: tuple[Tensor, ...]
    token_ids: IntArray | None


def medusa_weights(
    tensors: Mapping[str, Tensor], hidden_size: int, vocab_size: int
) -> MedusaWeights:
    """Makes heads of the tensors of a file.

    How many heads and layers there are follows from the names: published configurations are known
    to say 2 where 5 heads are stored. A layer that is missing before one that is there is the same
    as the layer before it: with several layers the published code makes them one object, which
    some writers store once.

    Args:
        tensors: by their names.
        hidden_size: D, of the target.
        vocab_size: V, of the target.

    Raises:
        CheckpointError: a tensor is missing, superfluous or of another shape than the target asks
            for.
    """
    named = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    token_ids = _token_ids(named.pop(D2T, None), vocab_size)
    num_heads = _check_names(named)
    draft_vocab_size = vocab_size if token_ids is None else len(token_ids)
    num_layers = _num_layers(named)
    blocks = tuple(_blocks(named, head, num_layers, hidden_size) for head in range(num_heads))
    outputs = _outputs(named, num_heads, num_layers, (draft_vocab_size, hidden_size))
    config = MedusaConfig(
        hidden_size, vocab_size, num_heads, num_layers, draft_vocab_size, bool(outputs)
    )
    return MedusaWeights(config, blocks, outputs, token_ids)


def _check_names(tensors: Mapping[str, Tensor]) -> int:
    """The number of heads; refuses files that hold anything else."""
    heads: set[int] = set()
    for name in tensors:
        match = _BLOCK.fullmatch(name) or _OUTPUT.fullmatch(name)
        if match is None:
            raise CheckpointError(
                f"These are no Medusa heads: they hold a tensor {name!r}; choose a folder with "
                "the heads of FasterDecoding/Medusa or of `oneglance train medusa`."
            )
        heads.add(int(match[1]))
    if heads != set(range(len(heads))) or not heads:
        raise CheckpointError(
            f"The Medusa heads are incomplete: there are tensors of the heads {sorted(heads)}, "
            "which must be counted from 0; download or train them again."
        )
    return len(heads)


def _num_layers(tensors: Mapping[str, Tensor]) -> int:
    """Where output matrices lie, or behind the last block."""
    outputs = [match for name in tensors if (match := _OUTPUT.fullmatch(name))]
    if outputs:
        return int(outputs[0][2])
    return 1 + max(int(match[2]) for name in tensors if (match := _BLOCK.fullmatch(name)))


def _blocks(
    tensors: Mapping[str, Tensor], head: int, num_layers: int, hidden_size: int
) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for layer in range(num_layers):
        name = f"{head}.{layer}.linear"
        if blocks and f"{name}.weight" not in tensors and f"{name}.bias" not in tensors:
            blocks.append(blocks[-1])
            continue
        weight = _tensor(tensors, f"{name}.weight", (hidden_size, hidden_size))
        blocks.append(Block(weight, _tensor(tensors, f"{name}.bias", (hidden_size,))))
    return tuple(blocks)


def _outputs(
    tensors: Mapping[str, Tensor], num_heads: int, num_layers: int, shape: tuple[int, int]
) -> tuple[Tensor, ...]:
    """All heads have an output matrix of their own, or none has."""
    if not any(_OUTPUT.fullmatch(name) for name in tensors):
        return ()
    return tuple(
        _tensor(tensors, f"{head}.{num_layers}.weight", shape) for head in range(num_heads)
    )


def _tensor(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None:
        raise CheckpointError(
            f"The Medusa heads are incomplete: tensor {name!r} is missing; download or train them "
            "again."
        )
    if tuple(tensor.shape) != shape:
        raise CheckpointError(
            f"The Medusa heads do not fit the target: tensor {name!r} has the shape "
            f"{list(tensor.shape)}, and the target asks for {list(shape)}; choose heads that were "
            "trained for it."
        )
    return tensor


def _token_ids(offsets: Tensor | None, vocab_size: int) -> IntArray | None:
    if offsets is None:
        return None
    ids: IntArray = offsets.data.astype(np.int64) + np.arange(len(offsets.data))
    is_sound = ids.ndim == 1 and len(ids) > 0 and bool(np.all(np.diff(ids) > 0))
    if not is_sound or ids[0] < 0 or ids[-1] >= vocab_size:
        raise CheckpointError(
            f"The Medusa heads do not fit the target: their tensor {D2T!r} names tokens that are "
            f"not ascending ids below {vocab_size}; choose heads that were trained for it."
        )
    return ids
