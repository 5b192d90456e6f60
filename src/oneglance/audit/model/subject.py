"""A loaded model as the audit runs it: encoded prompts, and decoders with any drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneglance.audit.model.broken import BrokenDecoder
from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.length import DraftLengthSpec
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafting import DrafterSet
from oneglance.engine.base import Engine

PROMPTS = (
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "def is_even(number):\n    return number % 2 == 0\n\ndef is_odd(number):\n",
    "The cat sat on the mat. The dog sat on the rug. The cat sat on the mat. The dog sat on",
    "red, green, blue, red, green, blue, red, green, blue, red,",
)
"""Texts with much to look up and with little, of different lengths."""


@dataclass
class Subject:
    """A model under audit.

    Attributes:
        checkpoint: its files.
        engine: what it runs on.
        engine_config: how that was made, to make another with other threads.
        drafters: makes drafters by name.
        k: draft tokens on a path.
        tree_nodes: draft tokens per pass on all branches; None: chains.
    """

    checkpoint: Checkpoint
    engine: Engine
    engine_config: EngineConfig
    drafters: DrafterSet
    k: DraftLengthSpec = 4
    tree_nodes: int | None = None

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts, without a chat template."""
        tokenizer = self.checkpoint.tokenizer
        return [tokenizer.encode(text, add_bos=tokenizer.adds_bos) for text in prompts]

    @property
    def vocabulary(self) -> Vocabulary:
        """What decoding must know of the tokens."""
        tokenizer = self.checkpoint.tokenizer
        return Vocabulary(tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes)

    def decoder(self, drafter: Drafter[Any], is_biased: bool = False) -> Decoder:
        """Decodes with a drafter; `is_biased`: by a rule that is not exact."""
        kind = BrokenDecoder if is_biased else Decoder
        return kind(
            target=self.engine,
            vocabulary=self.vocabulary,
            drafter=drafter,
            k=self.k,
            tree_nodes=self.tree_nodes,
            engine_config=self.engine_config,
        )


def run(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    hints: Sequence[DraftHints] | None = None,
) -> list[DecodingSequence]:
    """Answers prompts together; the sequences in the order of the prompts."""
    found = {
        index: sequence
        for index, sequence, _ in decoder.run(prompts, [params] * len(prompts), hints)
    }
    return [found[index] for index in range(len(prompts))]
