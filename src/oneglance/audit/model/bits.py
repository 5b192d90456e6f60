"""Contract C2: the bits of a row's logits, in passes of every shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from oneglance.audit.model.subject import Subject
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.types import Float32Array

CHUNKS = (1, 7, 32)
TAIL = 6
"""Last tokens of a text that are evaluated in the pass whose shape changes."""

Evaluate = Callable[[Engine, list[list[int]]], list[Float32Array]]
"""The logits of the last `TAIL` tokens of each text, however they are computed."""


def audit_bits(subject: Subject, prompts: Sequence[str]) -> Iterator[Verdict]:
    """Compares each way of evaluating the same tokens with the plainest one, bit by bit."""
    texts = [tokens * (1 + 2 * TAIL // len(tokens)) for tokens in subject.encode(prompts)]
    plain = one_by_one(subject.engine, texts)
    ways: list[tuple[str, str, Evaluate]] = [
        *((f"chunks of {size}", "prompts in chunks", _chunked(size)) for size in CHUNKS),
        ("all sequences in one pass", "batch", together),
        ("other branches around them", "tree", within_trees),
        ("a prefix of another sequence", "shared prefix", forked),
    ]
    by_check: dict[str, Tally] = {}
    for what, check, evaluate in ways:
        tally = by_check.setdefault(check, Tally(f"bits: {check}", "model", "rows"))
        compare(tally, what, plain, evaluate(subject.engine, texts))
    for tally in by_check.values():
        yield tally.verdict("Logits are the same, bit for bit.")
    yield _threads(subject, texts, plain)


def compare(
    tally: Tally, what: str, plain: Sequence[Float32Array], other: Sequence[Float32Array]
) -> None:
    """Adds rows that should have the same bits to a tally."""
    for index, (one, two) in enumerate(zip(plain, other, strict=True)):
        tally.size += len(one)
        is_equal = one.view(np.uint32) == two.view(np.uint32)
        if not is_equal.all():
            row = int(np.flatnonzero(~is_equal.all(axis=1))[0])
            largest = float(np.abs(one - two).max())
            tally.fault(f"With {what}, logits differ by up to {largest:.2g}.", text=index, row=row)


def one_by_one(engine: Engine, texts: list[list[int]]) -> list[Float32Array]:
    """Every token in a pass of its own."""
    return _chunked(1)(engine, texts)


def together(engine: Engine, texts: list[list[int]]) -> list[Float32Array]:
    """The last tokens of all texts in one pass."""
    sequences = [_fed(engine, tokens[:-TAIL]) for tokens in texts]
    trees = [
        TreeRows.chain(sequence, tokens[-TAIL:])
        for sequence, tokens in zip(sequences, texts, strict=True)
    ]
    output = engine.forward(Batch(tuple(trees)))
    for sequence in sequences:
        engine.close(sequence)
    return list(output.logits)


def within_trees(engine: Engine, texts: list[list[int]]) -> list[Float32Array]:
    """The last tokens on one branch of a tree that has a wrong token beside each of them."""
    found = []
    for tokens in texts:
        sequence = _fed(engine, tokens[:-TAIL])
        right = tokens[-TAIL:]
        # Row 2 i is wrong, row 2 i + 1 right; both hang off the right row before.
        rows = [token for each in right for token in (tokens[0], each)]
        parents = [max(-1, 2 * (index // 2) - 1) for index in range(len(rows))]
        tree = TreeRows(
            sequence, np.array(rows), np.array(parents), np.ones(len(rows), dtype=np.bool_)
        )
        found.append(engine.forward(Batch((tree,))).logits[0][1::2].copy())
        engine.close(sequence)
    return found


def forked(engine: Engine, texts: list[list[int]]) -> list[Float32Array]:
    """The last tokens after a prefix that another sequence fed, and after taking rows back."""
    found = []
    for tokens in texts:
        first = _fed(engine, tokens)
        second = engine.fork(first)
        engine.truncate(second, len(tokens) - TAIL)
        output = engine.forward(Batch((TreeRows.chain(second, tokens[-TAIL:]),)))
        found.append(output.logits[0].copy())
        engine.close(first)
        engine.close(second)
    return found


def _chunked(size: int) -> Evaluate:
    def evaluate(engine: Engine, texts: list[list[int]]) -> list[Float32Array]:
        return [_in_chunks(engine, tokens, size)[-TAIL:] for tokens in texts]

    return evaluate


def _in_chunks(engine: Engine, tokens: Sequence[int], size: int) -> Float32Array:
    sequence = engine.open()
    parts = []
    for start in range(0, len(tokens), size):
        chunk = tokens[start : start + size]
        output = engine.forward(Batch((TreeRows.chain(sequence, chunk),)))
        parts.append(output.logits[0].copy())
        engine.commit(sequence, range(len(chunk)))
    engine.close(sequence)
    return np.concatenate(parts)


def _fed(engine: Engine, tokens: Sequence[int]) -> int:
    sequence = engine.open()
    if tokens:
        engine.forward(Batch((TreeRows.chain(sequence, tokens, wants_logits=False),)))
        engine.commit(sequence, range(len(tokens)))
    return sequence


def _threads(subject: Subject, texts: list[list[int]], plain: Sequence[Float32Array]) -> Verdict:
    """The same passes on engines with other numbers of threads."""
    tally = Tally("bits: threads", "model", "rows")
    if subject.engine.info.kind != "native":
        tally.note("not offered", "This engine has one thread.")
        return tally.verdict("")
    for count in {1, 2, 3} - {subject.engine.info.num_threads}:
        config = replace(subject.engine_config, num_threads=count)
        engine = make_engine(subject.checkpoint.config, subject.checkpoint.weights, config)
        compare(tally, f"{count} threads", plain, together(engine, texts))
    return tally.verdict("Logits are the same, bit for bit.")
