"""Draft models that are functions of the prefix, and short ways to ask them for drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.engine.base import Batch, PassOutput
from oneglance.sampling.noise import KeyedNoise, Noise, SequentialNoise
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Float32Array

V = 5
PROMPT = (3, 1, 4, 1)
GREEDY = SamplingParams()


class Recorder(ScriptedEngine):
    """Notes what each pass was asked to evaluate, behind how many rows."""

    def __init__(self, seed: int = 2, context_length: int = 64, vocab_size: int = V) -> None:
        super().__init__(random_script(vocab_size, seed), vocab_size, context_length)
        self.calls: list[list[tuple[int, list[int]]]] = []
        self.requests: list[tuple[int | None, int | None]] = []

    def forward(self, batch: Batch) -> PassOutput:
        self.requests.append((batch.num_top, batch.top_vocab_size))
        self.calls.append(
            [
                (self.length(tree.sequence) + tree.num_kept, tree.tokens[tree.num_kept :].tolist())
                for tree in batch.trees
            ]
        )
        return super().forward(batch)


def peaked(*tokens: int, share: float = 0.9) -> ScriptedEngine:
    """A model that says these tokens, then the first of them again, each with this probability."""
    rest = np.log((1 - share) / (V - 1))

    def script(prefix: tuple[int, ...]) -> Float32Array:
        logits = np.full(V, rest, dtype=np.float32)
        logits[tokens[(len(prefix) - len(PROMPT)) % len(tokens)]] = np.log(share)
        return logits

    return ScriptedEngine(script, V)


def begin(
    drafter: Drafter[Any],
    params: SamplingParams = GREEDY,
    noise: Noise | KeyedNoise | None = None,
    prompt: Sequence[int] = PROMPT,
    eos_ids: frozenset[int] = frozenset(),
) -> Any:
    return drafter.start(DraftContext(tuple(prompt), params, noise or SequentialNoise(0), eos_ids))


def answered(
    decoder: Decoder, prompts: Sequence[Sequence[int]], max_tokens: int
) -> tuple[list[tuple[int, ...]], int]:
    """The greedy answers to some prompts together, and how many drafted tokens were verified."""
    params = [SamplingParams(max_tokens=max_tokens)] * len(prompts)
    found = {index: sequence for index, sequence, _ in decoder.run(prompts, params)}
    outputs = [found[index].history.output for index in range(len(prompts))]
    return outputs, sum(sequence.stats.drafted for sequence in found.values())


def propose(drafter: Drafter[Any], session: Any, count: int, tree_nodes: int | None = None) -> Any:
    """The proposal for one request alone."""
    return drafter.propose([DraftRequest(session, count, tree_nodes)])[0]
