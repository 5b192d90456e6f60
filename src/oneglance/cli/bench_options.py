"""What `oneglance bench` is asked, checked before anything is loaded."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oneglance.cli.options import Options, parse_draft_length
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.bench.plan import Plan
    from oneglance.bench.prompts import PromptFile

DEFAULT_DRAFTERS = ("ngram", "suffix", "auto")


@dataclass(frozen=True)
class BenchOptions:
    """Values of the command's options.

    Attributes:
        model: the target; None: the default one.
        drafters: with their settings; empty: the default ones.
        k: values of K with commas between.
        prompts: a file of JSON lines; None: those of the package.
        limit_per_category: the first prompts of each; None: all.
        temperatures: with commas between.
        max_tokens: of an answer.
        rounds: how many times each prompt is answered.
        endpoints: servers, each URL or NAME=URL.
        endpoint_model: name that they are sent.
        json_path: where the report goes.
        html_path: where the page goes.
        is_resumed: go on with an interrupted run.
        engine: the options that say what runs the model.
    """

    model: str | None
    drafters: tuple[str, ...]
    k: str
    prompts: Path | None
    limit_per_category: int | None
    temperatures: str
    max_tokens: int
    rounds: int
    endpoints: tuple[str, ...]
    endpoint_model: str | None
    json_path: Path | None
    html_path: Path | None
    is_resumed: bool
    engine: Options

    @property
    def has_variants(self) -> bool:
        """Whether our model is measured: not where servers are named and nothing of it is."""
        return not self.endpoints or self.model is not None or bool(self.drafters)

    @property
    def model_name(self) -> str:
        """The target."""
        return self.engine.model if self.model is None else self.model

    def check(self) -> None:
        """Refuses what has no effect or cannot be done.

        Raises:
            ParameterError: names it.
        """
        from oneglance.bench.plan import parse_temperatures

        self.engine.engine_config()
        self.lengths()
        parse_temperatures(self.temperatures)
        for name, path in (("--json", self.json_path), ("--html", self.html_path)):
            if path is not None and (path.is_dir() or not path.parent.is_dir()):
                raise ParameterError(
                    f"{name} {str(path)!r} cannot be written; name a file in a folder that exists."
                )
        if self.is_resumed and self.report_path is None:
            raise ParameterError(
                "--resume needs the file beside which the runs are kept; name it with --json or "
                "--html."
            )
        if self.endpoint_model is not None and not self.endpoints:
            raise ParameterError(
                f"--endpoint-model {self.endpoint_model!r} is sent to no server; name one with "
                "--endpoint."
            )
        if not self.has_variants:
            self._check_servers_only()

    @property
    def report_path(self) -> Path | None:
        """The file beside which finished groups are kept."""
        return self.json_path or self.html_path

    def lengths(self) -> list[int | Literal["auto"]]:
        """The values of K.

        Raises:
            ParameterError: one is none, or comes twice.
        """
        lengths = [parse_draft_length(word) for word in self.k.split(",")]
        if len(set(lengths)) < len(lengths):
            raise ParameterError(f"-k {self.k} names a length twice; name each once.")
        return lengths

    def drafters_with_lengths(self) -> list[str]:
        """Every drafter with every K."""
        from oneglance.bench.variant import with_lengths

        return with_lengths(self.drafters or DEFAULT_DRAFTERS, self.lengths())

    def read_prompts(self) -> PromptFile:
        """The prompts.

        Raises:
            ParameterError: the file cannot be read.
        """
        from oneglance.bench.prompts import BUILT_IN, read_prompts

        return read_prompts(self.prompts or BUILT_IN)

    def plan(self, file: PromptFile) -> Plan:
        """What is asked."""
        from oneglance.bench.plan import Plan, parse_temperatures
        from oneglance.bench.prompts import first_of_each_category

        return Plan(
            prompts=first_of_each_category(file.prompts, self.limit_per_category),
            temperatures=parse_temperatures(self.temperatures),
            rounds=self.rounds,
            max_tokens=self.max_tokens,
        )

    def command(self) -> str:
        """The command line that asks for this, without this machine's folders."""
        from oneglance.bench.subject import without_folders

        given = (
            *(("--model", self.model),),
            *(("--drafter", each) for each in self.drafters),
            ("-k", None if self.k == "auto" else self.k),
            ("--prompts", self.prompts),
            ("--limit-per-category", self.limit_per_category),
            ("--temperatures", None if self.temperatures == "0" else self.temperatures),
            ("--max-tokens", self.max_tokens),
            ("--rounds", self.rounds),
            *(("--endpoint", each) for each in self.endpoints),
            ("--endpoint-model", self.endpoint_model),
            ("--json", self.json_path),
            ("--html", self.html_path),
        )
        words = [str(word) for pair in given if pair[1] is not None for word in pair]
        words += self.engine.engine_arguments()
        return " ".join(
            shlex.quote(without_folders(word)) for word in ["oneglance", "bench", *words]
        )

    def _check_servers_only(self) -> None:
        useless = [*self.engine.engine_arguments()[:1], *(["-k"] if self.k != "auto" else [])]
        if useless:
            raise ParameterError(
                f"{useless[0]} has no effect where only servers are measured; name --model or "
                "--drafter to measure ours beside them, or drop it."
            )
