"""An EAGLE head as a PyTorch module, float32, for training and as the tests' oracle.

What it computes is what the native engine computes from the same file; names of parameters are
those of the file (`heads/eagle_names.py`).

In all methods B is the batch, T the columns of a sequence, D the head's width, F that of the
joined features, V_d the draft vocabulary. Column t holds the target's features of token t and
token t + 1. Step j of column t is the (j + 1)-th token that is drafted there: it predicts token
t + 2 + j, stands at position t + j, and sees what it would see when drafting: the real pairs
0..t of step 0, and steps 1..j of its own column. So the multi-step training of EAGLE-3
("training-time test", arXiv:2503.01840) and the slots of the parallel form have one attention.

Later steps may be evaluated at some columns only, ever fewer, each at columns of the step before:
[C] are the columns of a step, C = T at step 0. Training is cheaper by that (P-EAGLE,
arXiv:2602.01469, drops them at random).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from oneglance.engine.rope import rope_frequencies
from oneglance.heads.eagle_config import EagleConfig

KeysValues = tuple[Tensor, Tensor]  # [B, KV heads, T, head_dim] each


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight, over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalises rows of any leading shape."""
        scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return x * scale * self.weight


class Mlp(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., D] to [..., D]."""
        out: Tensor = self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Attention(nn.Module):
    """Attention of one step to the real pairs before it and to its own column's steps."""

    def __init__(self, config: EagleConfig, inputs: int) -> None:
        super().__init__()
        self.config = config
        q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(inputs, q_size, bias=config.has_qkv_bias)
        self.k_proj = nn.Linear(inputs, kv_size, bias=config.has_qkv_bias)
        self.v_proj = nn.Linear(inputs, kv_size, bias=config.has_qkv_bias)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)
        if config.has_qk_norm:
            self.q_norm = RmsNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RmsNorm(config.head_dim, config.rms_norm_eps)
        frequencies = torch.tensor(rope_frequencies(config.as_model(1)), dtype=torch.float64)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(
        self, x: Tensor, columns: Tensor, before: list[KeysValues]
    ) -> tuple[Tensor, KeysValues]:
        """Evaluates one step.

        Args:
            x: [B, C, inputs].
            columns: [C] of this step.
            before: keys and values of the steps before, in order; none for step 0. Those of step 0
                are of all columns, others of this step's.

        Returns:
            [B, C, D], and this step's keys and values.
        """
        config = self.config
        queries, keys, values = self._heads(x, columns + len(before))
        group = config.num_heads // config.num_kv_heads
        every = [
            (k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1))
            for k, v in [*before, (keys, values)]
        ]
        scale = config.head_dim**-0.5
        real_keys, real_values = every[0]
        num_columns = real_keys.shape[2]
        future = torch.arange(num_columns, device=x.device) > columns[:, None]
        scores = (queries @ real_keys.transpose(-1, -2) * scale).masked_fill(future, -torch.inf)
        own = [(queries * k).sum(dim=-1, keepdim=True) * scale for k, _ in every[1:]]
        weights = torch.cat([scores, *own], dim=-1).softmax(dim=-1)
        mixed = weights[..., :num_columns] @ real_values
        for index, (_, own_values) in enumerate(every[1:]):
            mixed = mixed + weights[..., num_columns + index, None] * own_values
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out, (keys, values)

    def _heads(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, heads, C, head_dim] of inputs at positions [C]."""
        split = [
            project(x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        ]
        queries, keys, values = split
        if self.config.has_qk_norm:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        angles = positions[:, None].double() * self.get_buffer("frequencies")
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return _rotate(queries, cos, sin), _rotate(keys, cos, sin), values


class Layer(nn.Module):
    """One decoder layer; the first one of a head has inputs of its own."""

    def __init__(self, config: EagleConfig, index: int) -> None:
        super().__init__()
        hidden, eps, is_first = config.hidden_size, config.rms_norm_eps, index == 0
        self.has_pair = config.kind == "eagle3" and is_first
        self.norm_before_residual = config.norm_before_residual
        if self.has_pair or not is_first:
            self.input_layernorm = RmsNorm(hidden, eps)
        if self.has_pair:
            self.hidden_norm = RmsNorm(hidden, eps)
        self.self_attn = Attention(config, config.layer_inputs if is_first else hidden)
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        self.mlp = Mlp(config)

    def forward(
        self, hidden: Tensor, embedded: Tensor, columns: Tensor, before: list[KeysValues]
    ) -> tuple[Tensor, KeysValues]:
        """Evaluates one step.

        Args:
            hidden: [B, C, D] the stream.
            embedded: [B, C, D] embeddings; only a first layer of "eagle3" reads them.
            columns: [C] of this step.
            before: keys and values of the steps before in this layer.
        """
        residual = hidden
        if self.has_pair:
            normed = self.hidden_norm(hidden)
            residual = normed if self.norm_before_residual else hidden
            x = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        elif hasattr(self, "input_layernorm"):
            x = self.input_layernorm(hidden)
        else:
            x = hidden
        mixed, kept = self.self_attn(x, columns, before)
        stream = residual + mixed
        out: Tensor = stream + self.mlp(self.post_attention_layernorm(stream))
        return out, kept


class EagleModule(nn.Module):
    """A head. What it shares with the target is held as buffers that no checkpoint stores.

    `state_dict()` has the names of `heads.eagle_names.tensor_shapes` but for `d2t`, which is data:
    give it to `write_eagle`.
    """

    def __init__(
        self,
        config: EagleConfig,
        embedding: Tensor,
        shared_head: Tensor | None = None,
    ) -> None:
        """Makes a head with random weights.

        Args:
            config: its shape.
            embedding: [V, D] of the target; stays as it is.
            shared_head: [V_d, D] the rows of the target's output matrix for the draft vocabulary,
                which stay as they are; None: the head has a matrix `lm_head` of its own.
        """
        super().__init__()
        self.config = config
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("shared_head", shared_head, persistent=False)
        self.fc = nn.Linear(config.fc_inputs, config.hidden_size, bias=config.has_fc_bias)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        if config.kind == "eagle3":
            self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        if shared_head is None:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        if config.num_slots > 1:
            self.mask_hidden = nn.Parameter(torch.randn(1, 1, config.feature_size))

    def forward(self, features: Tensor, tokens: Tensor, num_steps: int = 1) -> list[Tensor]:
        """Unrolls the draft of every column.

        A head with `num_slots` > 1 drafts in parallel: its steps from 1 on do not look at tokens
        or at outputs. In any other, step j reads the true token t + 1 + j and the output of step
        j − 1. Columns whose tokens lie beyond the end are to be masked in the loss: column t has
        a token to predict at step j where t + 2 + j is in the text.

        Args:
            features: [B, T, F] of tokens 0..T − 1, joined in the order of `feature_layers`.
            tokens: [B, T] tokens 1..T.
            num_steps: how many tokens each column drafts, at least 1.

        Returns:
            For each step the outputs [B, T, D], un-normalised; `logits` makes laws of them.
        """
        return self.unroll(features, tokens, [slice(None)] * num_steps)

    def unroll(self, features: Tensor, tokens: Tensor, choices: Sequence[slice]) -> list[Tensor]:
        """Unrolls the draft of some columns.

        Args:
            features: as in `forward`.
            tokens: as in `forward`.
            choices: for each step, which of the columns of the step before; the first is of all.

        Returns:
            For each step the outputs [B, C, D].
        """
        outputs: list[Tensor] = []
        before: list[list[KeysValues]] = [[] for _ in self.layers]
        hidden = self.fuse(features)
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        for step, chosen in enumerate(choices):
            columns = columns[chosen]
            if step > 0:
                hidden = self._next_hidden(outputs[-1][:, chosen])
                before = [[kept[0], *_at(kept[1:], chosen)] for kept in before]
            drafted = self._tokens_of(tokens, step)[:, columns]
            hidden = self._step(hidden, drafted, columns, before)
            outputs.append(hidden)
        return outputs

    def fuse(self, features: Tensor) -> Tensor:
        """What enters the head in place of an output: [B, T, F] to [B, T, D].

        In "eagle1" a feature enters as it is: the matrix `fc` takes the embedding too.
        """
        if self.config.kind == "eagle1":
            return features
        fused: Tensor = self.fc(features)
        return fused

    def logits(self, outputs: Tensor) -> Tensor:
        """[..., D] to [..., V_d]."""
        normed = self.norm(outputs) if self.config.kind == "eagle3" else outputs
        has_own = hasattr(self, "lm_head")
        matrix = self.lm_head.weight if has_own else self.get_buffer("shared_head")
        return nn.functional.linear(normed, matrix)

    def _step(
        self, hidden: Tensor, tokens: Tensor, columns: Tensor, before: list[list[KeysValues]]
    ) -> Tensor:
        embedded = nn.functional.embedding(tokens, self.get_buffer("embedding"))
        if self.config.kind == "eagle1":
            hidden = self.fc(torch.cat([embedded, hidden], dim=-1))
        for layer, kept in zip(self.layers, before, strict=True):
            hidden, keys_values = layer(hidden, embedded, columns, kept)
            kept.append(keys_values)
        return hidden

    def _next_hidden(self, output: Tensor) -> Tensor:
        if self.config.num_slots == 1:
            return output
        fused: Tensor = self.fc(self.mask_hidden)
        return fused.expand_as(output)

    def _tokens_of(self, tokens: Tensor, step: int) -> Tensor:
        """The tokens of a step; those beyond the end are 0."""
        if step == 0:
            return tokens
        if self.config.num_slots > 1:
            return torch.full_like(tokens, self.config.mask_token_id or 0)
        return nn.functional.pad(tokens[:, step:], (0, step))


def _at(kept: list[KeysValues], chosen: slice) -> list[KeysValues]:
    """Keys and values of some columns."""
    return [(keys[:, :, chosen], values[:, :, chosen]) for keys, values in kept]


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates element i with element i + head_dim / 2."""
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
