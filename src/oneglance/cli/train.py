"""`oneglance train eagle | medusa | draft`: a drafter for the user's own model."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.options import (
    EngineOption,
    Options,
    ThreadsOption,
    WeightsOption,
    count_option,
    number_option,
    switch_option,
    takes,
    text_option,
)
from oneglance.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from oneglance.train.collect import CollectionPlan
    from oneglance.train.plan import TrainingPlan
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


@dataclass(frozen=True)
class TrainOptions:
    """Options that all kinds of drafters share."""

    model: Annotated[
        str,
        text_option("The model to draft for, as for generate.", "-m", "--model", metavar="MODEL"),
    ]
    out: Annotated[
        Path,
        typer.Option(help="Folder for the drafter; run again, training goes on.", metavar="FOLDER"),
    ]
    data: Annotated[
        list[Path],
        typer.Option(
            help="Prompts for the model to answer: JSON lines (.gz too) with prompt, turns or "
            "text; may be repeated. Without it the answers that are there are used.",
            metavar="FILE",
        ),
    ] = field(default_factory=list)
    answers: Annotated[
        Path | None,
        typer.Option(help="Folder of the answers; by default OUT/answers.", metavar="FOLDER"),
    ] = None
    num_answers: Annotated[
        int | None, count_option("Answers to collect in all; by default one for each prompt.")
    ] = None
    temperatures: Annotated[
        str, text_option("Temperatures of the answers, in turn.", metavar="NUMBER,NUMBER…")
    ] = "0,1"
    max_tokens: Annotated[int, count_option("Most tokens of an answer.", "-n", "--max-tokens")] = (
        256
    )
    max_prompt_tokens: Annotated[int, count_option("Leave out longer prompts.")] = 512
    batch: Annotated[int, count_option("Answers in progress at a time.")] = 32
    engine: EngineOption = "auto"
    weights: WeightsOption = "auto"
    threads: ThreadsOption = None
    learning_rate: Annotated[float, number_option("Highest learning rate.", "--learning-rate")] = (
        1e-3
    )
    epochs: Annotated[int, count_option("Most times through the answers.")] = 10
    batch_tokens: Annotated[int, count_option("Tokens of a step.")] = 2048
    max_length: Annotated[int, count_option("Use the last N tokens of longer answers.")] = 512
    warmup_steps: Annotated[int, count_option("Steps over which the rate rises.")] = 50
    held_out: Annotated[
        float, number_option("Share of the prompts for evaluation.", "--held-out")
    ] = 0.03
    evaluate_every: Annotated[int, count_option("Steps between evaluations.")] = 200
    patience: Annotated[int, count_option("End after N evaluations without a better one.")] = 5
    seed: Annotated[int, count_option("Of sampled answers, first weights and order.")] = 0

    def collection_plan(self) -> CollectionPlan | None:
        """What to collect; None without prompts.

        Raises:
            ParameterError: an option has a value that cannot be used, or asks for answers where
                there are no prompts.
        """
        from oneglance.train.collect import CollectionPlan

        if not self.data:
            if self.num_answers is not None:
                raise ParameterError(
                    f"--num-answers {self.num_answers} needs prompts to answer; name them with "
                    "--data."
                )
            return None
        return CollectionPlan(
            prompts=tuple(self.data),
            num_answers=self.num_answers,
            temperatures=parse_numbers("--temperatures", self.temperatures, float),
            max_tokens=self.max_tokens,
            max_prompt_tokens=self.max_prompt_tokens,
            seed=self.seed,
            batch_size=self.batch,
        )

    def training_plan(self) -> TrainingPlan:
        """How to train.

        Raises:
            ParameterError: an option has a value that cannot be used.
        """
        from oneglance.train.plan import TrainingPlan

        return TrainingPlan(
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            batch_tokens=self.batch_tokens,
            max_length=self.max_length,
            warmup_steps=self.warmup_steps,
            held_out=self.held_out,
            evaluate_every=self.evaluate_every,
            patience=self.patience,
            seed=self.seed,
        )


@app.command()
@takes(TrainOptions)
def eagle(
    options: TrainOptions,
    vocab: VocabOption = 8192,
    ffn: Annotated[int | None, count_option("Size of the feed-forward part.")] = None,
    features: Annotated[
        str | None,
        text_option("States that it reads, as layers; by default 2, L/2, L-3.", metavar="N,N…"),
    ] = None,
    steps: Annotated[int, count_option("Tokens that are drafted in training.")] = 3,
    parallel: Annotated[
        bool, switch_option("Draft all of them in one pass.", "--parallel")
    ] = False,
    init: Annotated[str, text_option("First weights.", metavar="random|last-layer")] = "random",
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
        "ffn": ffn,
        "features": None if features is None else parse_numbers("--features", features, int),
        "steps": steps,
        "parallel": parallel,
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

    from oneglance.cli.progress import progress_bar
    from oneglance.cli.provenance import provenance
    from oneglance.train.run import TrainingJob, collect_answers, train

    command = shlex.join(["oneglance", *sys.argv[1:]])
    engine = Options(engine=options.engine, weights=options.weights, threads=options.threads)
    job = TrainingJob(
        model=options.model,
        settings=settings,
        training=options.training_plan(),
        answers=options.out / "answers" if options.answers is None else options.answers,
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


def parse_numbers(name: str, text: str, kind: type[Any]) -> tuple[Any, ...]:
    """Reads numbers that are separated by commas.

    Args:
        name: of the option, for messages.
        text: as it was given.
        kind: int or float.

    Raises:
        ParameterError: one is no such number.
    """
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            f"{name} {text!r} cannot be read; write numbers separated by commas, as in 0,1."
        ) from None
