"""What is measured of a loaded engine: passes, their kernels, decoding, prompts, the memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from benchmarks.bare_kernels import (
    attention_task,
    products_of,
    products_task,
    runtime_of,
)
from benchmarks.kernel_times import timed_kernels
from benchmarks.subject import Subject
from oneglance.bench.machine import memory_reader
from oneglance.bench.timing import seconds_of
from oneglance.engine.base import Batch, SequenceId, TreeRows
from oneglance.engine.prefill import prefill
from oneglance.errors import ParameterError

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
CONTEXTS = (64, 512, 2048)
KERNEL_ROWS = (1, 8, 32)
TYPICAL_CONTEXT = 512
"""Behind which the parts of a pass are timed, and llama.cpp's passes, if it is measured at all."""
PREFILL_TOKENS = 512
PLAIN_TOKENS = 64
PASSES = 3
"""Passes of one setting, one after the other; all are samples."""
PROMPT = "The river rises in the mountains and flows through three countries before"

Task = Callable[[], Any]


def pass_tasks(
    subject: Subject, contexts: tuple[int, ...], rows: tuple[int, ...]
) -> dict[str, Task]:
    """Seconds of passes, `PASSES` of them: a chain of rows behind a context, logits of all rows."""
    tasks: dict[str, Task] = {}
    for context in contexts:
        tokens = subject.text_tokens(context + max(rows))
        sequence = subject.open_with(tokens[:context])
        for count in rows:
            batch = chain(sequence, tokens[context : context + count])
            tasks[f"pass {context} {count}"] = partial(time_passes, subject, batch)
    return tasks


def fitting_contexts(subject: Subject, contexts: Iterable[int], rows: int) -> tuple[int, ...]:
    """Contexts behind which so many rows fit the model's, ascending.

    Raises:
        ParameterError: there is none.
    """
    longest = subject.checkpoint.config.context_length - rows
    fitting = tuple(sorted({context for context in contexts if context <= longest}))
    if not fitting:
        raise ParameterError(
            f"The model has a context of {longest + rows} tokens, so {rows} rows do not fit behind "
            f"any of {sorted(contexts)}; give a context of at most {longest}."
        )
    return fitting


def typical_context(contexts: tuple[int, ...]) -> int:
    """The one of these that stands for all."""
    return TYPICAL_CONTEXT if TYPICAL_CONTEXT in contexts else max(contexts)


def chain(sequence: SequenceId, tokens: tuple[int, ...]) -> Batch:
    """A pass that checks a chain of draft tokens."""
    return Batch((TreeRows.chain(sequence, tokens, wants_logits=True),))


def time_passes(subject: Subject, batch: Batch) -> list[float]:
    """Seconds of some passes, whose rows are dropped by the next."""
    return [seconds_of(lambda: subject.engine.forward(batch)) for _ in range(PASSES)]


def kernel_tasks(subject: Subject, context: int, rows: tuple[int, ...]) -> dict[str, Task]:
    """Where a pass spends its time: each kernel's call within it, and the bare kernels alone."""
    tokens = subject.text_tokens(context + max(rows))
    sequence = subject.open_with(tokens[:context])
    packed = products_of(subject)
    tasks: dict[str, Task] = {}
    for count in rows:
        batch = chain(sequence, tokens[context : context + count])
        tasks[f"kernels {context} {count}"] = partial(time_kernels, subject, batch)
        tasks[f"products {context} {count}"] = products_task(subject, packed, count)
        tasks[f"attention {context} {count}"] = attention_task(subject, context, count)
    return tasks


def time_kernels(subject: Subject, batch: Batch) -> dict[str, float]:
    """Seconds by kernel, and "pass" for the whole."""
    with timed_kernels() as seconds:
        whole = seconds_of(lambda: subject.engine.forward(batch))
    return {"pass": whole, **seconds}


def prefill_task(subject: Subject) -> Task:
    """Seconds to feed a prompt of `PREFILL_TOKENS` to an empty sequence."""
    tokens = subject.text_tokens(PREFILL_TOKENS)

    def feed() -> float:
        sequence = subject.engine.open()
        chunk = subject.engine_config.prefill_chunk
        seconds = seconds_of(lambda: prefill(subject.engine, sequence, tokens, chunk))
        subject.engine.close(sequence)
        return seconds

    return feed


def plain_task(subject: Subject, prompt: str, max_tokens: int) -> Task:
    """One greedy answer without drafting, by the loop that users run.

    The sample has its tokens, the seconds of the whole call, and those that read the prompt.
    """

    def answer() -> dict[str, float]:
        start = time.perf_counter()
        completion = subject.llm.generate(prompt, raw=True, max_tokens=max_tokens)
        seconds = time.perf_counter() - start
        return {
            "tokens": len(completion.tokens),
            "seconds": seconds,
            "prefill_seconds": completion.stats.prefill_seconds,
        }

    return answer


def read_task(subject: Subject) -> Task:
    """Seconds to read `READ_BYTES` of memory once, by the engine's own threads."""
    return memory_reader(runtime_of(subject))
