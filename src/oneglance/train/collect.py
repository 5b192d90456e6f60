"""Collects the target's own answers to the user's prompts; can be stopped and resumed at any point.

Each answer is a function of its job, so that what a stopped run had in progress is simply answered
again: no answer is lost, none is there twice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from oneglance.checkpoints.base import Checkpoint, unique_tensors
from oneglance.errors import ParameterError
from oneglance.llm import LLM
from oneglance.train.answering import Answerer
from oneglance.train.answers import (
    SHARD_TOKENS,
    AnswerWriter,
    finished_jobs,
    locked,
    open_collection,
)
from oneglance.train.prompts import Job, check_prompts, make_jobs
from oneglance.types import ProgressCallback

STAGE = "collect answers"
SAMPLED_BYTES = 4096
"""Bytes of each weight that go into the target's fingerprint."""


@dataclass(frozen=True)
class CollectionPlan:
    """What is collected.

    Attributes:
        prompts: JSON lines, see `read_prompts`.
        num_answers: how many; None: one for every prompt.
        temperatures: of the answers, in turn; 0 is greedy.
        max_tokens: of an answer.
        max_prompt_tokens: longer prompts are left out.
        seed: of the sampled answers.
        batch_size: answers in progress at a time; changes no answer.
        shard_tokens: a shard is written when it has so many.
    """

    prompts: tuple[Path, ...]
    num_answers: int | None = None
    temperatures: tuple[float, ...] = (0.0, 1.0)
    max_tokens: int = 256
    max_prompt_tokens: int = 512
    seed: int = 0
    batch_size: int = 32
    shard_tokens: int = SHARD_TOKENS

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        if not self.prompts:
            raise ParameterError("There are no prompts to answer; name files of JSON lines.")
        if not self.temperatures or any(not 0 <= t < float("inf") for t in self.temperatures):
            raise ParameterError(
                f"The temperatures {list(self.temperatures)} cannot be used; give numbers of 0 or "
                "more, such as 0,1."
            )
        for name in ("num_answers", "max_tokens", "max_prompt_tokens", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} = {value} cannot be used; it must be at least 1.")


@dataclass(frozen=True)
class CollectionReport:
    """What a run has collected.

    Attributes:
        num_answers: that it added.
        num_tokens: in them, prompts excluded.
        num_prompt_tokens: in their prompts.
        num_too_long: prompts that were left out.
        seconds: it took.
    """

    num_answers: int
    num_tokens: int
    num_prompt_tokens: int
    num_too_long: int
    seconds: float


def collect(
    llm: LLM,
    plan: CollectionPlan,
    hidden_layers: Sequence[int],
    folder: Path,
    progress: ProgressCallback | None = None,
) -> CollectionReport:
    """Adds to a collection what it still lacks.

    Interrupted at any point, the answers that were complete are kept (by Ctrl-C or an error all
    of them, by a kill those of the shards that were written).

    Args:
        llm: the target.
        plan: what to collect.
        hidden_layers: whose states are kept, see `Batch.hidden_layers`.
        folder: made if it is missing.
        progress: told how many answers there are.

    Raises:
        ParameterError: the prompts cannot be read, or the folder holds something else.
    """
    num_answers = plan.num_answers or check_prompts(plan.prompts)
    report = progress or (lambda *_: None)
    tokenizer = llm.tokenizer
    with locked(folder):
        open_collection(folder, manifest(llm, plan, hidden_layers))
        done = finished_jobs(folder)
        source = _Source(llm, plan, num_answers, done)
        answerer = Answerer(
            llm.engine, tokenizer.vocab_size, tokenizer.eos_ids, hidden_layers, plan.batch_size
        )
        writer = AnswerWriter(folder, plan.shard_tokens)
        counts, started = [0, 0, 0], time.perf_counter()
        try:
            with closing(answerer.answer(source.jobs())) as answers:
                for answer in answers:
                    writer.add(answer)
                    counts[0] += 1
                    counts[1] += len(answer.best)
                    counts[2] += answer.prompt_length
                    there = len(done) + counts[0] + source.num_too_long
                    report(STAGE, there, num_answers)
        finally:
            writer.flush()
    seconds = time.perf_counter() - started
    return CollectionReport(counts[0], counts[1], counts[2], source.num_too_long, seconds)


def manifest(llm: LLM, plan: CollectionPlan, hidden_layers: Sequence[int]) -> dict[str, object]:
    """All that decides an answer and its states, as JSON values.

    `num_answers` does not: more can be asked for later.

    Raises:
        ParameterError: a file of prompts cannot be read.
    """
    return {
        "target": fingerprint(llm.checkpoint),
        "engine": f"{llm.engine.info.kind}, weights {llm.engine.info.weights}",
        "hidden_layers": list(hidden_layers),
        "prompts": [sha256_of_file(path) for path in plan.prompts],
        "temperatures": list(plan.temperatures),
        "max_tokens": plan.max_tokens,
        "max_prompt_tokens": plan.max_prompt_tokens,
        "seed": plan.seed,
    }


def fingerprint(target: Checkpoint) -> str:
    """A hash of the target: its shape, its vocabulary, and the first bytes of every weight."""
    digest = hashlib.sha256(f"{target.config}{target.tokenizer.fingerprint()}".encode())
    for tensor in unique_tensors(target.weights):
        digest.update(tensor.quantization.encode())
        digest.update(tensor.data.reshape(-1)[:SAMPLED_BYTES].tobytes())
    return digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hash of a file's bytes.

    Raises:
        ParameterError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ParameterError(
            f"{str(path)!r} cannot be read ({error.strerror}); name a file of JSON lines."
        ) from None


class _Source:
    """The jobs that are still to do, with the tokens of their prompts."""

    def __init__(self, llm: LLM, plan: CollectionPlan, num_answers: int, done: set[int]) -> None:
        self._llm = llm
        self._plan = plan
        self._num_answers = num_answers
        self._done = done
        self.num_too_long = 0

    def jobs(self) -> Iterator[tuple[Job, list[int]]]:
        plan = self._plan
        longest = min(plan.max_prompt_tokens, self._llm.engine.config.context_length - 1)
        jobs = make_jobs(
            plan.prompts, plan.temperatures, self._num_answers, plan.max_tokens, plan.seed
        )
        for job in jobs:
            if job.number in self._done:
                continue
            tokens = self._llm.encode(job.prompt.text, raw=job.prompt.is_raw)
            if len(tokens) > longest:
                self.num_too_long += 1
            elif tokens:
                yield job, tokens
