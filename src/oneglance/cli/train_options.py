"""The options that all kinds of `oneglance train` share: declared once, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.options import (
    EngineOption,
    WeightsOption,
    count_option,
    number_option,
    text_option,
)
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.train.collect import CollectionPlan
    from oneglance.train.plan import TrainingPlan


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
    more_answers: Annotated[
        list[Path],
        typer.Option(
            help="Folder of answers that were collected before, to learn from too; may be "
            "repeated.",
            metavar="FOLDER",
        ),
    ] = field(default_factory=list)
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
    threads: Annotated[
        int | None, count_option("Threads of the native engine and of training.", "--threads")
    ] = None
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
    precision: Annotated[
        str,
        text_option(
            "Of products in training; bf16 is faster where the processor multiplies it.",
            "--precision",
            metavar="f32|bf16",
        ),
    ] = "f32"
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
            precision=self.precision,  # type: ignore[arg-type]
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
