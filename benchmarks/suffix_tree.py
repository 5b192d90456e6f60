"""What the suffix drafter's tree costs: microseconds per token and per draft, and bytes.

    python -m benchmarks.suffix_tree [--sizes N ...] [--drafts N] [--nodes N] [--json FILE]

For three kinds of text: random ids, of which nothing repeats for long; lines drawn from a few
hundred, with names that change, as in code; and a random text that is repeated whole, as when a
file is edited. Prints, for each size of the tree: microseconds to append a token and to remove it
again (all tokens in one call); the mean microseconds of a draft, in chains and in trees, after
each of the last tokens, once from the sequence itself and once from a memory that holds all of it
but what is being written; nodes and bytes per token, the spare room of growing arrays included.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterable
from time import perf_counter

from benchmarks.options import checked_main, whole_number, writable_path
from oneglance import _native
from oneglance.bench.report import write_report
from oneglance.cli.provenance import provenance

VOCAB_SIZE = 49_152
DEPTH = 64
NUM_LINES = 400
NEWLINE = 198


def random_ids(count: int, rng: random.Random) -> list[int]:
    """Nothing but chance."""
    return [rng.randrange(VOCAB_SIZE) for _ in range(count)]


def code_like(count: int, rng: random.Random) -> list[int]:
    """Lines of 4 to 13 tokens, some far more frequent than others; in a third, one token new."""
    lines = [[rng.randrange(2_000) for _ in range(rng.randrange(4, 14))] for _ in range(NUM_LINES)]
    tokens: list[int] = []
    while len(tokens) < count:
        line = list(lines[min(int(rng.paretovariate(0.7)) - 1, NUM_LINES - 1)])
        if rng.random() < 1 / 3:
            line[rng.randrange(len(line))] = rng.randrange(VOCAB_SIZE)
        tokens += [*line, NEWLINE]
    return tokens[:count]


def twice(count: int, rng: random.Random) -> list[int]:
    """A random text and its copy."""
    return (random_ids((count + 1) // 2, rng) * 2)[:count]


TEXTS: dict[str, Callable[[int, random.Random], list[int]]] = {
    "random ids": random_ids,
    "code-like": code_like,
    "a copy": twice,
}


def measure(tokens: list[int], num_drafts: int, num_nodes: int) -> dict[str, float]:
    """The figures of one text; the drafts are those at its end."""
    tree = _native.SuffixTree(DEPTH)
    sequence = tree.start()
    append_seconds = _seconds(lambda: tree.append(sequence, tokens))
    figures = {
        "append_us": 1e6 * append_seconds / len(tokens),
        "nodes_per_token": tree.num_nodes / len(tokens),
        "bytes_per_token": tree.num_bytes / len(tokens),
    }
    num_drafts = min(num_drafts, (len(tokens) + 1) // 2)
    split = len(tokens) - num_drafts
    for shape, max_nodes in (("chain", -1), ("tree", num_nodes)):
        limits = _native.DraftLimits(max_tokens=16, max_nodes=max_nodes)
        figures[f"{shape}_us"] = 1e6 * _draft_seconds(tokens, split, limits)
        figures[f"{shape}_of_memory_us"] = 1e6 * _memory_seconds(tokens, split, limits)
    figures["remove_us"] = 1e6 * _seconds(lambda: tree.remove(sequence)) / len(tokens)
    return figures


def _draft_seconds(tokens: list[int], split: int, limits: _native.DraftLimits) -> float:
    """Of a draft after each token from `split` on, which is then appended."""
    tree = _native.SuffixTree(DEPTH)
    sequence = tree.start()
    tree.append(sequence, tokens[:split])
    seconds = 0.0
    for token in tokens[split:]:
        tree.append(sequence, [token])
        seconds += _seconds(lambda: tree.draft_after(sequence, limits))
    return seconds / (len(tokens) - split)


def _memory_seconds(tokens: list[int], split: int, limits: _native.DraftLimits) -> float:
    """Of a draft after each text that ends beyond `split`, where the tree ends."""
    tree = _native.SuffixTree(DEPTH)
    tree.append(tree.start(), tokens[:split])
    texts = [tokens[max(0, end - DEPTH) : end] for end in range(split + 1, len(tokens) + 1)]

    def draft_all() -> None:
        for text in texts:
            tree.draft_of(text, limits)

    return _seconds(draft_all) / len(texts)


def _seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def measure_all(
    sizes: Iterable[int], num_drafts: int, num_nodes: int
) -> dict[str, dict[str, float]]:
    """Figures by text and size, printed as they come."""
    results: dict[str, dict[str, float]] = {}
    for name, make in TEXTS.items():
        for size in sizes:
            figures = measure(make(size, random.Random(0)), num_drafts, num_nodes)
            label = f"{name}, {size:,}"
            if not results:
                print(f"{'':20}" + "".join(f"{column.replace('_', ' '):>20}" for column in figures))
            results[label] = figures
            print(f"{label:20}" + "".join(f"{x:20.2f}" for x in figures.values()), flush=True)
    return results


def main() -> None:
    """Reads the options, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=whole_number, nargs="+", default=[1_000, 10_000, 100_000], help="tokens"
    )
    parser.add_argument("--drafts", type=whole_number, default=1_000, help="drafts to measure")
    parser.add_argument("--nodes", type=whole_number, default=16, help="of drafted trees")
    parser.add_argument("--json", type=writable_path, help="file to write the figures to")
    options = parser.parse_args()
    load_average = os.getloadavg()
    results = measure_all(options.sizes, options.drafts, options.nodes)
    if options.json is not None:
        command = shlex.join(["python", "-m", "benchmarks.suffix_tree", *sys.argv[1:]])
        settings = {"depth": DEPTH, "nodes": options.nodes, "load_average_before": load_average}
        write_report(options.json, {**provenance(command), **settings, "samples": results})


if __name__ == "__main__":
    checked_main(main)
