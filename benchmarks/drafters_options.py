"""The command line of the drafters' benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.drafters_stages import STAGES
from benchmarks.options import whole_number, writable_path
from oneglance.bench.plan import parse_temperatures
from oneglance.errors import ParameterError


def temperatures(text: str) -> list[float]:
    """Numbers of at least 0, with commas between, as an argument's type.

    Raises:
        argparse.ArgumentTypeError: one is none, or comes twice.
    """
    try:
        return list(parse_temperatures(text))
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_arguments(description: str, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line.

    Args:
        description: of the script; its first line is shown.
        words: instead of those that the script was called with.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--stage", choices=STAGES, default="default", help="default %(default)s")
    parser.add_argument("--model", help="another target: a name or a path")
    parser.add_argument(
        "--drafters",
        nargs="+",
        metavar="DRAFTER",
        help="names as after `oneglance --drafter`, each with its settings if it has any: "
        "suffix@nodes=16, draft:MODEL@k=6; default: those of the stage",
    )
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="JSON lines")
    parser.add_argument(
        "--limit-per-category", type=whole_number, metavar="N", help="the first N prompts of each"
    )
    parser.add_argument(
        "--temperatures", type=temperatures, default=[0.0], help="with commas between; default 0"
    )
    parser.add_argument("--unseeded", action="store_true", help="sampled answers draw their own")
    parser.add_argument("--max-tokens", type=whole_number, help="of an answer; default: stage's")
    parser.add_argument("--rounds", type=whole_number, default=1, help="default %(default)s")
    parser.add_argument("--threads", type=whole_number, help="of the engine (default: all cores)")
    parser.add_argument("--json", type=writable_path, metavar="FILE", help="write figures to FILE")
    add_llama_options(parser, default_model=None, default_setting="all that its help names")
    return parser.parse_args(words)


def add_llama_options(
    parser: argparse.ArgumentParser, default_model: str | None, default_setting: str
) -> None:
    """Adds the options of llama.cpp's server.

    Args:
        parser: gets them.
        default_model: which file it has unless another is named, in words; None: one must be.
        default_setting: which of its settings are measured unless others are named, in words.
    """
    peer = parser.add_argument_group("llama.cpp's server, in the same groups, greedy only")
    peer.add_argument("--llama-server", type=Path, metavar="PATH", help="the program")
    model = "the target's file" if default_model is None else f"its file; default: {default_model}"
    peer.add_argument("--llama-model", type=Path, metavar="GGUF", help=model)
    peer.add_argument("--llama-draft", type=Path, metavar="GGUF", help="the draft model's file")
    peer.add_argument(
        "--llama-setting",
        action="append",
        metavar="NAME[=OPTIONS]",
        help="one of its ways to speculate, or one that OPTIONS describe; may be repeated; "
        f"default: {default_setting}",
    )


def check_llama_options(options: argparse.Namespace) -> None:
    """Refuses options of a program that is not named.

    Raises:
        ParameterError: names the first of them.
    """
    if options.llama_server is None:
        for name in ("llama_model", "llama_draft", "llama_setting"):
            if getattr(options, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise ParameterError(f"{flag} goes with --llama-server; name that program too.")


def check_arguments(options: argparse.Namespace) -> None:
    """Refuses what does not go together, before anything is loaded.

    Raises:
        ParameterError: what is missing or has no effect.
    """
    if options.prompts is None and options.stage != "edits":
        raise ParameterError(
            f"The stage {options.stage} has no prompts of its own; name them with --prompts."
        )
    if options.unseeded and all(number == 0 for number in options.temperatures):
        raise ParameterError(
            "--unseeded changes nothing where all answers are greedy; add a temperature above 0."
        )
    check_llama_options(options)
    if options.llama_server is None:
        return
    if options.llama_model is None:
        raise ParameterError("--llama-server needs the target's file; name it with --llama-model.")
    if 0 not in options.temperatures:
        raise ParameterError(
            "--llama-server is asked greedily only; add 0 to --temperatures, or leave it out."
        )
