"""The target answers many prompts at once, and the states that a drafter reads are kept.

A lean form of `decode/loop.py` without drafts: slots are filled again as soon as an answer ends,
prompts are fed in the passes that decode the others, and hidden states are taken from those very
passes. Answers are those of `LLM.batch` with the same parameters (contracts C2 and C3).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oneglance.engine.base import Batch, Engine, PassOutput, SequenceId, TreeRows
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise, noise_for
from oneglance.sampling.row_kernels import row_kernels
from oneglance.sampling.warp import log_law
from oneglance.train.prompts import Job
from oneglance.types import Float32Array

Float16Array = NDArray[np.float16]
Int32Array = NDArray[np.int32]

PROMPT_ROWS = 64
"""Most prompt tokens that a pass takes beside the rows that decode."""
FLOAT16_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Answer:
    """An answer with what the target computed on the way to it; N tokens, L layers.

    Attributes:
        job: number of the job.
        key: of the prompt.
        is_greedy: each of its tokens is the argmax.
        tokens: [N] prompt and answer; an end-of-text token that ends it is part of it.
        prompt_length: so many first tokens are the prompt.
        hidden: [N − 1, L, D] states of every token but the last, which was never evaluated.
        log_normalizers: [N − prompt_length] of the row of logits that each answer token was
            chosen from: logit − this = log of the target's own probability.
        best: [N − prompt_length] argmax of those rows.
    """

    job: int
    key: int
    is_greedy: bool
    tokens: Int32Array
    prompt_length: int
    hidden: Float16Array
    log_normalizers: Float32Array
    best: Int32Array


@dataclass
class _Slot:
    """An answer in progress."""

    job: Job
    handle: SequenceId
    tokens: list[int]
    history: TokenHistory
    noise: KeyedNoise
    prompt_length: int
    num_fed: int = 0
    hidden: list[Float16Array] = field(default_factory=list)
    log_normalizers: list[float] = field(default_factory=list)
    best: list[int] = field(default_factory=list)

    @property
    def num_waiting(self) -> int:
        """Tokens that no pass has taken yet; 1 while it decodes."""
        return len(self.tokens) - self.num_fed


class Answerer:
    """Answers jobs in batches."""

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        eos_ids: frozenset[int],
        hidden_layers: Sequence[int],
        batch_size: int,
    ) -> None:
        """Prepares; nothing is opened yet.

        Args:
            engine: of the target.
            vocab_size: tokens that have a meaning.
            eos_ids: tokens that end an answer.
            hidden_layers: whose states are kept, see `Batch.hidden_layers`.
            batch_size: answers in progress at a time.
        """
        self._engine = engine
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids
        self._layers = tuple(hidden_layers)
        self._batch_size = batch_size

    def answer(self, jobs: Iterable[tuple[Job, Sequence[int]]]) -> Generator[Answer]:
        """Answers come as they end, which is not their order.

        Whatever ends the iteration, no sequence is left open.

        Args:
            jobs: each with the token ids of its prompt, which must fit the context.
        """
        waiting = iter(jobs)
        slots: list[_Slot] = []
        try:
            while True:
                while len(slots) < self._batch_size and (job := next(waiting, None)) is not None:
                    slots.append(self._open(*job))
                if not slots:
                    return
                ended = self._pass(slots)
                for slot in ended:
                    slots.remove(slot)
                    self._engine.close(slot.handle)
                    yield _answer_of(slot)
        finally:
            with ExitStack() as endings:
                for slot in slots:
                    endings.callback(self._engine.close, slot.handle)

    def _open(self, job: Job, prompt: Sequence[int]) -> _Slot:
        noise = noise_for(job.params)
        assert isinstance(noise, KeyedNoise), "an answer is a function of its job"
        handle = self._engine.open()
        return _Slot(job, handle, list(prompt), TokenHistory(prompt), noise, len(prompt))

    def _pass(self, slots: Sequence[_Slot]) -> list[_Slot]:
        """One pass; returns the slots whose answers have ended."""
        trees, taking = self._trees(slots)
        output = self._engine.forward(Batch(tuple(trees), hidden_layers=self._layers))
        ended = []
        for index, (tree, slot) in enumerate(zip(trees, taking, strict=True)):
            self._engine.commit(slot.handle, range(len(tree.tokens)))
            slot.num_fed += len(tree.tokens)
            slot.hidden.append(self._states(output, index))
            if slot.num_waiting == 0:
                self._choose(slot, output.logits[index][0, : self._vocab_size])
                if self._is_over(slot):
                    ended.append(slot)
        return ended

    def _trees(self, slots: Sequence[_Slot]) -> tuple[list[TreeRows], list[_Slot]]:
        """The rows of a pass, and whose they are: all that decode, and of prompts what fits."""
        room = PROMPT_ROWS
        trees: list[TreeRows] = []
        taking: list[_Slot] = []
        for slot in slots:
            is_prompt = slot.num_fed < slot.prompt_length
            count = min(slot.num_waiting, room) if is_prompt else 1
            room -= count if is_prompt else 0
            if count == 0:
                continue
            tokens = slot.tokens[slot.num_fed : slot.num_fed + count]
            wants = [False] * (count - 1) + [count == slot.num_waiting]
            trees.append(TreeRows.chain(slot.handle, tokens, wants))
            taking.append(slot)
        return trees, taking

    def _states(self, output: PassOutput, index: int) -> Float16Array:
        states = np.stack([output.hidden[layer][index] for layer in self._layers], axis=1)
        # Some layers have a few values of thousands; none is known beyond float16, and it is
        # better to cut one off than to train on infinity.
        return np.clip(states, -FLOAT16_MAX, FLOAT16_MAX).astype(np.float16)

    def _choose(self, slot: _Slot, logits: Float32Array) -> None:
        best = row_kernels().argmax(logits)
        token = best
        if not slot.job.params.is_greedy:
            law = log_law(logits, slot.job.params, slot.history, eos_ids=self._eos_ids)
            token = slot.noise.sample_from(law, slot.history.num_output)
        slot.log_normalizers.append(row_kernels().log_normalizer(logits))
        slot.best.append(best)
        slot.tokens.append(token)
        slot.history.append(token)

    def _is_over(self, slot: _Slot) -> bool:
        length = self._engine.config.context_length
        is_long = slot.history.num_output == slot.job.params.max_tokens
        return slot.tokens[-1] in self._eos_ids or is_long or len(slot.tokens) >= length


def _answer_of(slot: _Slot) -> Answer:
    return Answer(
        job=slot.job.number,
        key=slot.job.prompt.key,
        is_greedy=slot.job.params.is_greedy,
        tokens=np.asarray(slot.tokens, dtype=np.int32),
        prompt_length=slot.prompt_length,
        hidden=np.concatenate(slot.hidden),
        log_normalizers=np.asarray(slot.log_normalizers, dtype=np.float32),
        best=np.asarray(slot.best, dtype=np.int32),
    )
