"""What an EAGLE head is: its shape, and what of the target it reads.

EAGLE-1, Li et al., arXiv:2401.15077; EAGLE-3, Li et al., arXiv:2503.01840; the parallel form,
P-EAGLE, arXiv:2602.01469. A row of the head at position i pairs the target's feature of token i
with token i + 1, and predicts token i + 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oneglance.config import ModelConfig, RopeScaling

EagleKind = Literal["eagle1", "eagle3"]
"""EAGLE-2 is EAGLE-1 with another tree: its files are the same."""


@dataclass(frozen=True)
class EagleConfig:
    """Shape of a head, D wide.

    Attributes:
        kind: "eagle1": one feature of the target, no norms before the layer, the layer's output is
            read by the target's output matrix. "eagle3": features of several layers, norms, an
            output matrix for `draft_vocab_size` tokens.
        hidden_size: D.
        target_hidden_size: width of one feature of the target.
        feature_layers: of which layers of the target the features are, in the order in which they
            are joined: i is the residual stream that enters layer i, the number of the target's
            layers is its final normalised state (as `Batch.hidden_layers`).
        intermediate_size: of the feed-forward part.
        num_heads, num_kv_heads, head_dim: of attention.
        num_layers: decoder layers; those after the first are ordinary ones.
        rms_norm_eps: of all norms.
        rope_theta, rope_scaling: of rotation.
        vocab_size: of the target, rows of the embedding.
        draft_vocab_size: tokens that the head can draft.
        norm_before_residual: "eagle3" only: the residual is the normalised feature.
        has_fc_bias: the matrix that joins features (and, in "eagle1", the embedding) has a bias.
        has_qkv_bias: queries, keys and values have one.
        has_qk_norm: heads of queries and keys are normalised.
        num_slots: tokens that one pass drafts after the last known pair; 1: one, the head runs
            once for each token. More: "eagle3" only, rows beyond the first get the embedding of
            `mask_token_id` and, as their feature, the learned `mask_hidden`.
        mask_token_id: token whose embedding those rows get.
    """

    kind: EagleKind
    hidden_size: int
    target_hidden_size: int
    feature_layers: tuple[int, ...]
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    vocab_size: int
    draft_vocab_size: int
    num_layers: int = 1
    rope_scaling: RopeScaling | None = None
    norm_before_residual: bool = False
    has_fc_bias: bool = False
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    num_slots: int = 1
    mask_token_id: int | None = None

    @property
    def feature_size(self) -> int:
        """Width F of the target's features, joined."""
        return len(self.feature_layers) * self.target_hidden_size

    @property
    def fc_inputs(self) -> int:
        """Width of what the joining matrix reads: features, in "eagle1" after the embedding."""
        return self.feature_size + (self.hidden_size if self.kind == "eagle1" else 0)

    @property
    def layer_inputs(self) -> int:
        """Width of what queries, keys and values of the first layer read."""
        return self.hidden_size * (2 if self.kind == "eagle3" else 1)

    def as_model(self, context_length: int) -> ModelConfig:
        """The same shape as that of a decoder, for what needs no more: caches and rotation.

        Args:
            context_length: of the target.
        """
        return ModelConfig(
            architecture=self.kind,
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            intermediate_size=self.intermediate_size,
            context_length=context_length,
            rms_norm_eps=self.rms_norm_eps,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
            has_qkv_bias=self.has_qkv_bias,
            has_qk_norm=self.has_qk_norm,
        )


def default_feature_layers(kind: EagleKind, num_target_layers: int) -> tuple[int, ...]:
    """The layers that published heads read unless their configuration names others.

    Args:
        kind: of the head.
        num_target_layers: L; of "eagle3" they are 2, L // 2 and L − 3.
    """
    if kind == "eagle1":
        return (num_target_layers,)
    return (2, num_target_layers // 2, num_target_layers - 3)
