"""Times the packed matrix products of two models, at several row counts, against the memory.

For each shape and weight type the weights are repeated until they exceed the caches, then swept
once per measurement. Row counts alternate, together with a plain read of a large array, so that
whatever else the machine does hits all of them alike; medians are reported.

    python -m benchmarks.matmul_shapes --json matmul.json
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from oneglance import _native

SHAPES = {
    "SmolLM2-135M": {
        "qkv": (960, 576),
        "o": (576, 576),
        "gate+up": (3072, 576),
        "down": (576, 1536),
        "head": (49152, 576),
    },
    "Qwen2.5-1.5B": {
        "q, o": (1536, 1536),
        "k, v": (256, 1536),
        "gate, up": (8960, 1536),
        "down": (1536, 8960),
        "head": (151936, 1536),
    },
}
"""Outputs and inputs of each matrix."""
TYPES = {
    "SmolLM2-135M": ("Q4_0", "Q4_1", "Q8_0"),
    "Qwen2.5-1.5B": ("Q4_K", "Q6_K"),
}
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 32)


@dataclass(frozen=True)
class Measurement:
    """One matrix in one form: medians over the alternating repeats.

    Attributes:
        gigabytes_per_second: packed bytes over time, by number of rows.
        ratio_to_one_row: time by number of rows, in units of that of one row.
        read_gigabytes_per_second: a plain read by the same threads between the sweeps.
    """

    model: str
    matrix: str
    outputs: int
    inputs: int
    quantization: str
    form: str
    threads: int
    gigabytes_per_second: dict[int, float]
    ratio_to_one_row: dict[int, float]
    read_gigabytes_per_second: float


def random_weights(quantization: str, outputs: int, inputs: int) -> np.ndarray:
    """Bytes of a matrix in a GGML type; the numbers don't matter, as long as none is unusual."""
    values, num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[quantization]]
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 0x40, (64, inputs // values * num_bytes), dtype=np.uint8)
    return np.resize(pattern, (outputs, pattern.shape[1]))


def measure(
    model: str,
    matrix: str,
    quantization: str,
    runtime: _native.Runtime,
    big: np.ndarray,
    repeats: int,
    sweep_bytes: int,
) -> Measurement:
    """Times one matrix at all row counts."""
    outputs, inputs = SHAPES[model][matrix]
    raw = random_weights(quantization, outputs, inputs)
    packed = [_native.pack(raw, quantization, outputs, inputs, 2)]
    while len(packed) * packed[0].num_bytes < sweep_bytes:
        packed.append(_native.pack(raw, quantization, outputs, inputs, 2))
    x = np.random.default_rng(1).normal(size=(max(ROWS), inputs)).astype(np.float32)
    quantized = {rows: _native.quantize_rows(runtime, x[:rows]) for rows in ROWS}
    seconds: dict[int, list[float]] = {rows: [] for rows in ROWS}
    reads: list[float] = []
    for _ in range(repeats):
        reads.append(_native.time_read(runtime, big))
        for rows in ROWS:
            seconds[rows].append(_native.time_sweep(runtime, packed, quantized[rows]))
    swept = len(packed) * packed[0].num_bytes
    medians = {rows: median(times) for rows, times in seconds.items()}
    return Measurement(
        model=model,
        matrix=matrix,
        outputs=outputs,
        inputs=inputs,
        quantization=quantization,
        form=packed[0].form,
        threads=runtime.num_threads,
        gigabytes_per_second={rows: swept / medians[rows] / 1e9 for rows in ROWS},
        ratio_to_one_row={rows: medians[rows] / medians[1] for rows in ROWS},
        read_gigabytes_per_second=big.nbytes / median(reads) / 1e9,
    )


def print_line(result: Measurement) -> None:
    """One row of the table."""
    ratios = "  ".join(f"{result.ratio_to_one_row[rows]:5.2f}" for rows in ROWS[1:])
    print(
        f"{result.matrix:9} {result.outputs:6} x {result.inputs:<4} {result.quantization:4} "
        f"{result.threads}t  {result.gigabytes_per_second[1]:5.1f} of "
        f"{result.read_gigabytes_per_second:5.1f} GB/s   {ratios}",
        flush=True,
    )


def parse_arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--isa", default="", help="kernels to use; the best ones by default")
    parser.add_argument("--models", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sweep-mebibytes", type=int, default=128)
    parser.add_argument("--json", type=Path, help="also write the results here")
    return parser.parse_args()


def main() -> None:
    """Measures and prints, a line for each matrix, form and number of threads."""
    arguments = parse_arguments()
    big = np.ones(256 << 20, dtype=np.uint8)
    results: list[Measurement] = []
    for model in arguments.models:
        print(f"\n{model}: time at {', '.join(map(str, ROWS[1:]))} rows over that at one row")
        for threads in arguments.threads:
            runtime = _native.Runtime(arguments.isa, threads)
            for matrix in SHAPES[model]:
                for quantization in TYPES[model]:
                    result = measure(
                        model,
                        matrix,
                        quantization,
                        runtime,
                        big,
                        arguments.repeats,
                        arguments.sweep_mebibytes << 20,
                    )
                    print_line(result)
                    results.append(result)
    if arguments.json is not None:
        report = {
            "machine": platform.processor() or platform.machine(),
            "isa": _native.Runtime(arguments.isa, 1).isa,
            "results": [asdict(result) for result in results],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
