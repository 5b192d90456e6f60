"""Perplexity of the native engine against the reference engine on the same model and text.

    python -m benchmarks.perplexity --json docs/measurements/perplexity.json

Two targets are compared with the reference engine, which computes in float32: the file's own
weights ("as in the file"), and the same weights given as float32, of which the native engine makes
8-bit groups ("8-bit groups"). Both use the same float weights as the reference, so that whatever
differs is the native engine's own: activations in 8 bits, a float16 cache, and in the second case
the rounding of the weights.

The reference engine takes its time, half an hour for the default settings; it goes on where it was
if it is interrupted, and is not run again for windows that it has seen.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.corpus import Corpus, cut_windows, language_reference
from benchmarks.float_copies import with_float_weights
from benchmarks.options import checked_main, whole_number, writable_path
from benchmarks.reference_states import ReferenceStates, logits_in_chunks, sha256_of_model
from benchmarks.scoring import Score, WindowScore, score_window
from oneglance.bench.report import write_report
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.cli.provenance import provenance
from oneglance.config import EngineConfig
from oneglance.engine.base import Engine
from oneglance.engine.native.engine import NativeEngine
from oneglance.llm import DEFAULT_MODEL

STATES = Path("build/perplexity")


def make_subjects(checkpoint: Checkpoint) -> dict[str, NativeEngine]:
    """The engines to compare with the reference engine, by name."""
    config, engine_config = checkpoint.config, EngineConfig(kind="native")
    return {
        "as in the file": NativeEngine(config, checkpoint.weights, engine_config),
        "8-bit groups": NativeEngine(config, with_float_weights(checkpoint.weights), engine_config),
    }


def score_all(
    checkpoint: Checkpoint,
    windows: Sequence[Sequence[int]],
    states: ReferenceStates,
    subjects: Mapping[str, Engine],
    console: Console,
) -> dict[str, list[WindowScore]]:
    """A score for each window and subject; progress goes to the console."""
    head = checkpoint.weights.head.dequantize()[: checkpoint.config.vocab_size]
    scores: dict[str, list[WindowScore]] = {name: [] for name in subjects}
    for window in track(windows, "windows", console=console):
        reference = states.of(window)
        logits = {name: logits_in_chunks(engine, window) for name, engine in subjects.items()}
        for name, score in score_window(window, reference, head, logits).items():
            scores[name].append(score)
    return scores


def make_report(
    options: argparse.Namespace,
    checkpoint: Checkpoint,
    corpus: Corpus,
    scores: Mapping[str, Sequence[WindowScore]],
) -> dict[str, Any]:
    """What `--json` writes: where the figures come from, the figures, every window."""
    return {
        **provenance(shlex.join(["python", "-m", "benchmarks.perplexity", *sys.argv[1:]])),
        "model": options.model,
        "model_sha256": sha256_of_model(checkpoint.path),
        "quantization": checkpoint.quantization_summary(),
        "text": corpus.name,
        "text_sha256": corpus.sha256,
        "window": options.window,
        "windows": options.windows,
        "subjects": {
            name: {**asdict(Score.of(windows)), "windows": [asdict(item) for item in windows]}
            for name, windows in scores.items()
        },
    }


def print_report(report: Mapping[str, Any], console: Console) -> None:
    """One column for each subject."""
    subjects = report["subjects"]
    table = Table("", *subjects, title=f"{report['model']}: {report['quantization']}")
    lines = {
        "tokens": ("num_tokens", "d"),
        "reference perplexity": ("reference_perplexity", ".4f"),
        "native perplexity": ("perplexity", ".4f"),
        "ratio": ("ratio", ".5f"),
        "standard error of the ratio": ("ratio_error", ".5f"),
        "mean KL, nats": ("mean_kl", ".6f"),
        "same most likely token": ("agreement", ".2%"),
    }
    for label, (key, form) in lines.items():
        table.add_row(label, *(format(subject[key], form) for subject in subjects.values()))
    console.print(table)


def parse_arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or path (default %(default)s)")
    parser.add_argument(
        "--window", type=whole_number, default=512, help="tokens of a window (default %(default)s)"
    )
    parser.add_argument(
        "--windows", type=whole_number, default=40, help="how many (default %(default)s)"
    )
    parser.add_argument(
        "--states", type=Path, default=STATES, help="folder of finished windows (%(default)s)"
    )
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write figures to FILE")
    return parser.parse_args()


def main() -> None:
    """Compares, prints a table and writes the file."""
    options = parse_arguments()
    console = Console()
    checkpoint = load_checkpoint(resolve(options.model))
    corpus = language_reference()
    windows = cut_windows(corpus.text, checkpoint.tokenizer, options.window, options.windows)
    states = ReferenceStates(checkpoint, options.states)
    scores = score_all(checkpoint, windows, states, make_subjects(checkpoint), console)
    report = make_report(options, checkpoint, corpus, scores)
    print_report(report, console)
    if options.json is not None:
        write_report(options.json, report)


if __name__ == "__main__":
    checked_main(main)
