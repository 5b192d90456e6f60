"""The command line of the benchmark under load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.drafters_options import add_llama_options, check_llama_options
from benchmarks.options import whole_number, writable_path
from oneglance.bench.prompts import BUILT_IN
from oneglance.errors import ParameterError
from oneglance.llm import DEFAULT_MODEL

LEVELS = (1, 2, 4, 8, 16, 32)


def parse_arguments(description: str, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line.

    Args:
        description: of the script; its first line is shown.
        words: instead of those that the script was called with.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name or a path")
    parser.add_argument(
        "--drafter", default="auto", help="of the server, see `oneglance serve`; default auto"
    )
    parser.add_argument("--prompts", type=Path, metavar="FILE", default=BUILT_IN, help="JSON lines")
    parser.add_argument(
        "--limit-per-category", type=whole_number, metavar="N", help="the first N prompts of each"
    )
    parser.add_argument(
        "--levels",
        type=whole_number,
        nargs="+",
        default=list(LEVELS),
        metavar="N",
        help="requests at once; default: %(default)s",
    )
    parser.add_argument(
        "--requests",
        type=whole_number,
        default=16,
        metavar="N",
        help="of a round, at least; two for each stream, at least; default %(default)s",
    )
    parser.add_argument("--max-tokens", type=whole_number, default=128, help="default %(default)s")
    parser.add_argument("--rounds", type=whole_number, default=3, help="default %(default)s")
    parser.add_argument("--threads", type=whole_number, help="of all servers (default: all cores)")
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write figures to FILE")
    add_llama_options(parser, default_model="the same as ours", default_setting="plain")
    return parser.parse_args(words)


def check_arguments(options: argparse.Namespace) -> None:
    """Refuses what does not go together, before anything is loaded.

    Raises:
        ParameterError: what is missing or has no effect.
    """
    check_llama_options(options)
    if len(set(options.levels)) < len(options.levels):
        raise ParameterError(
            f"--levels {' '.join(map(str, options.levels))} names a number twice; name each once."
        )
