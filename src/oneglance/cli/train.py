"""`oneglance train eagle | medusa | draft`: a drafter for the user's own model."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.options import (
    Options,
    count_option,
    number_option,
    switch_option,
    takes,
    text_option,
)
from oneglance.cli.train_options import TrainOptions, parse_numbers
from oneglance.errors import UnsupportedError

if TYPE_CHECKING:
    from oneglance.train.task import TaskSettings

app = typer.Typer(
    help="Train a drafter on a model's own answers.", no_args_is_help=True, rich_markup_mode=None
)

VocabOption = Annotated[
    int, count_option("Draft the N most frequent tokens of the answers.", "--vocab")
]
LossOption = Annotated[
    str,
    text_option(
        "What is made small: cross-entropy, divergence, or the log of the acceptance.",
        "--loss",
        metavar="ce|kl|lk",
    ),
]
OwnHeadOption = Annotated[
    bool,
    switch_option("Train an output matrix instead of using rows of the model's.", "--own-head"),
]
DecayOption = Annotated[
    float, number_option("Weight of each drafted token in training ÷ the one before.", "--decay")
]
FormOption = Annotated[
    str, text_option("How matrices are written.", "--form", metavar="F32|F16|Q5_1|Q4_1")
]


@app.command()
@takes(TrainOptions)
def eagle(
    options: TrainOptions,
    vocab: VocabOption = 8192,
    layers: Annotated[int, count_option("Decoder layers.")] = 1,
    ffn: Annotated[int | None, count_option("Size of their feed-forward parts.")] = None,
    features: Annotated[
        str | None,
        text_option("States that it reads, as layers; by default 2, L/2, L-3.", metavar="N,N…"),
    ] = None,
    steps: Annotated[int, count_option("Tokens that are drafted in training.")] = 3,
    parallel: Annotated[
        bool, switch_option("Draft all of them in one pass.", "--parallel")
    ] = False,
    stride: Annotated[
        int, count_option("Learn each further token at every N-th place of the one before.")
    ] = 1,
    init: Annotated[
        str, text_option("First weights.", metavar="random|last-layer|FOLDER OF A HEAD")
    ] = "random",
    own_head: OwnHeadOption = False,
    loss: LossOption = "kl",
    decay: DecayOption = 0.8,
    form: FormOption = "F16",
) -> None:
    """An EAGLE-3 head: drafts from the model's own states, one token after another or at once."""
    require_torch()
    from oneglance.train.eagle_task import EagleSettings

    settings: dict[str, Any] = {
        "vocab": vocab,
        "layers": layers,
        "ffn": ffn,
        "features": None if features is None else parse_numbers("--features", features, int),
        "steps": steps,
        "parallel": parallel,
        "stride": stride,
        "init": init,
        "own_head": own_head,
        "loss": loss,
        "decay": decay,
        "form": form,
    }
    _run(options, EagleSettings(**settings))


@app.command()
@takes(TrainOptions)
def medusa(
    options: TrainOptions,
    vocab: VocabOption = 8192,
    heads: Annotated[int, count_option("How many tokens ahead.")] = 3,
    blocks: Annotated[int, count_option("Residual blocks of each head.")] = 1,
    own_head: OwnHeadOption = False,
    loss: LossOption = "ce",
    decay: DecayOption = 0.8,
    form: FormOption = "F16",
) -> None:
    """Medusa heads: each guesses one token further ahead from the model's last state."""
    require_torch()
    from oneglance.train.medusa_task import MedusaSettings

    settings: dict[str, Any] = {
        "vocab": vocab,
        "heads": heads,
        "blocks": blocks,
        "own_head": own_head,
        "loss": loss,
        "decay": decay,
        "form": form,
    }
    _run(options, MedusaSettings(**settings))


@app.command()
@takes(TrainOptions)
def draft(
    options: TrainOptions,
    vocab: Annotated[
        int, count_option("Train on the N most frequent tokens of the answers.", "--vocab")
    ] = 8192,
    layers: Annotated[int, count_option("Begin from so many first layers of the model.")] = 4,
    loss: LossOption = "kl",
) -> None:
    """A small model of the same vocabulary, for --drafter draft:PATH."""
    require_torch()
    from oneglance.train.draft_task import DraftSettings

    _run(options, DraftSettings(vocab=vocab, layers=layers, loss=loss))


def _run(options: TrainOptions, settings: TaskSettings) -> None:
    from rich.console import Console

    from oneglance.bench.subject import without_folders
    from oneglance.cli.progress import progress_bar
    from oneglance.cli.provenance import provenance
    from oneglance.train.run import TrainingJob, collect_answers, train

    command = without_folders(shlex.join(["oneglance", *sys.argv[1:]]))
    engine = Options(engine=options.engine, weights=options.weights, threads=options.threads)
    job = TrainingJob(
        model=options.model,
        settings=settings,
        training=options.training_plan(),
        answers=options.out / "answers" if options.answers is None else options.answers,
        more_answers=tuple(options.more_answers),
        out=options.out,
        collection=options.collection_plan(),
        engine=engine.engine_config(),
        command=command,
        machine=provenance(command),
    )
    console = Console(stderr=True)
    with progress_bar(console) as progress:
        report = collect_answers(job, progress)
        facts = train(job, progress)
    if report is not None and report.num_answers:
        typer.echo(
            f"{report.num_answers} answers of {report.num_tokens} tokens collected, "
            f"{report.num_tokens / report.seconds:.0f} tokens/s; {report.num_too_long} prompts "
            "were too long."
        )
    found = facts["held_out"]
    typer.echo(
        f"{settings.kind} in {options.out}: first-token acceptance "
        f"{found['acceptance'][0]:.3f}, mean accepted length "
        f"{found['mean_accepted_length']:.2f} on held-out answers, {facts['num_steps']} steps."
    )


def require_torch() -> None:
    """Refuses to train without PyTorch.

    Raises:
        UnsupportedError: it is not installed.
    """
    if find_spec("torch") is None:
        raise UnsupportedError(
            "Training needs PyTorch, which is not installed: pip install 'oneglance[train]'."
        )
