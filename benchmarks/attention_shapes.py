"""Time of one layer's tree attention, by context and number of rows.

    python -m benchmarks.attention_shapes [--threads N] [--isa NAME] [--f32]

Prints microseconds a layer (the fastest of several runs, chains of rows behind a committed
prefix), and with `--json` one JSON object instead.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oneglance import _native

CONTEXTS = (64, 512, 2048)
ROWS = (1, 8, 32)
PAGE_SIZE = 64
REPEATS = 40


@dataclass(frozen=True)
class Shape:
    """Heads of a model."""

    name: str
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_layers: int


SHAPES = (
    Shape("SmolLM2-135M", 9, 3, 64, 30),
    Shape("Qwen2.5-Coder-0.5B", 14, 2, 64, 24),
    Shape("Qwen2.5-Coder-1.5B", 12, 2, 128, 28),
)


def chain_pass(context: int, rows: int) -> _native.Pass:
    """A pass of one sequence: a chain of `rows` behind a prefix of `context` positions."""
    num_pages = -(-(context + rows) // PAGE_SIZE)
    lengths = np.arange(1, rows + 1)
    return _native.Pass(
        page_size=PAGE_SIZE,
        positions=_ints(context + np.arange(rows)),
        first_rows=_ints([0]),
        row_counts=_ints([rows]),
        prefix_lengths=_ints([context]),
        kept_counts=_ints([0]),
        page_starts=_ints([0, num_pages]),
        pages=_ints(np.arange(num_pages)),
        ancestor_starts=_ints(np.concatenate([[0], np.cumsum(lengths)])),
        ancestors=_ints(np.concatenate([np.arange(length) for length in lengths])),
    )


def make_attention(
    shape: Shape, context: int, rows: int, runtime: _native.Runtime, is_half: bool
) -> Callable[[], float]:
    """The attention of one pass on random keys and values.

    Returns:
        Runs it, and gives the seconds of all layers; they take turns, so that each finds its cache
        as in a pass.
    """
    num_pages = -(-(context + rows) // PAGE_SIZE)
    cache = _native.KvCache(
        shape.num_layers, shape.num_kv_heads, shape.head_dim, PAGE_SIZE, is_half
    )
    cache.grow(num_pages)
    table = np.ones((context + rows, shape.head_dim // 2), dtype=np.float32)
    workspace = _native.Workspace(runtime, table, table)
    rng = np.random.default_rng(0)
    kv_shape = (context + rows, shape.num_kv_heads, shape.head_dim)
    fill = chain_pass(0, context + rows)
    for layer in range(shape.num_layers):
        keys, values = rng.standard_normal((2, *kv_shape), dtype=np.float32)
        _native.store_kv(runtime, fill, cache, layer, keys, values)
    queries = rng.standard_normal((rows, shape.num_heads, shape.head_dim), dtype=np.float32)
    described = chain_pass(context, rows)

    def run() -> float:
        start = time.perf_counter()
        for layer in range(shape.num_layers):
            _native.attend(described, cache, layer, workspace, queries)
        return time.perf_counter() - start

    return run


def attention_seconds(
    shape: Shape, context: int, rows: int, runtime: _native.Runtime, is_half: bool
) -> float:
    """Seconds of one layer, in the fastest of several runs."""
    run = make_attention(shape, context, rows, runtime, is_half)
    return min(run() for _ in range(REPEATS)) / shape.num_layers


def measure(runtime: _native.Runtime, is_half: bool) -> dict[str, dict[str, float]]:
    """Microseconds a layer, by model and "context x rows"."""
    return {
        shape.name: {
            f"{context} x {rows}": 1e6 * attention_seconds(shape, context, rows, runtime, is_half)
            for context in CONTEXTS
            for rows in ROWS
        }
        for shape in SHAPES
    }


def main() -> None:
    """Reads the options, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--isa", default="", help="instruction set; the best one by default")
    parser.add_argument("--f32", action="store_true", help="keep keys and values as float32")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    runtime = _native.Runtime(options.isa, options.threads)
    results = measure(runtime, is_half=not options.f32)
    if options.json:
        settings = {
            "isa": runtime.isa,
            "threads": options.threads,
            "kv": "f32" if options.f32 else "f16",
        }
        print(json.dumps({**settings, "microseconds_per_layer": results}, indent=2))
        return
    print(f"microseconds a layer, {runtime.isa}, {options.threads} threads")
    for name, cells in results.items():
        print(f"\n{name}\n{'context':>8} " + " ".join(f"{rows:>4} rows" for rows in ROWS))
        for context in CONTEXTS:
            row = " ".join(f"{cells[f'{context} x {rows}']:9.1f}" for rows in ROWS)
            print(f"{context:>8} {row}")


def _ints(values: object) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.asarray(values, dtype=np.int32)


if __name__ == "__main__":
    main()
