"""The options that `generate` and `chat` share: declared once, and what they mean."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_type_hints

import typer

from oneglance.cli.constraint_options import (
    GRAMMAR_HELP,
    JSON_SCHEMA_HELP,
    REGEX_HELP,
    read_constraint,
)
from oneglance.errors import ParameterError

if TYPE_CHECKING:
    from oneglance.config import EngineConfig, EngineKind, SamplingParams, WeightsForm


def _real(text: str | float) -> float:
    """Reads a number; unlike typer's own reader it names the text that is not one."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def _whole(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


def text_option(help_text: str, *names: str, metavar: str = "TEXT") -> Any:
    """An option that takes a text."""
    return typer.Option(*names, help=help_text, metavar=metavar)


def number_option(help_text: str, *names: str) -> Any:
    """An option that takes a number."""
    return typer.Option(*names, help=help_text, metavar="NUMBER", parser=_real)


def count_option(help_text: str, *names: str) -> Any:
    """An option that takes a whole number."""
    return typer.Option(*names, help=help_text, metavar="N", parser=_whole)


def switch_option(help_text: str, name: str) -> Any:
    """An option that is on when it is named."""
    return typer.Option(name, help=help_text)


EngineOption = Annotated[
    str, text_option("What runs the model.", "--engine", metavar="auto|native|reference")
]
WeightsOption = Annotated[
    str,
    text_option(
        "Keep the file's float weights as bf16 or f32; auto makes them 8 bits.",
        "--weights",
        metavar="auto|bf16|f32",
    ),
]
ThreadsOption = Annotated[int | None, count_option("Threads of the native engine.", "--threads")]


@dataclass(frozen=True)
class Options:
    """Values of the shared options; the defaults of the law are those of `SamplingParams`."""

    model: Annotated[
        str,
        text_option(
            "Name of a model (see oneglance models) or its file.", "-m", "--model", metavar="MODEL"
        ),
    ] = "smollm2-135m"
    drafter: Annotated[
        str,
        text_option(
            "Who drafts: auto, none, ngram, suffix, lookahead, predicted:FILE, draft:MODEL, "
            "self:lowbit, or some joined by +; docs/drafters.md has all.",
            "-d",
            "--drafter",
            metavar="DRAFTER",
        ),
    ] = "auto"
    k: Annotated[str, text_option("Most tokens to draft in a row.", "-k", metavar="N|auto")] = (
        "auto"
    )
    tree_nodes: Annotated[
        int | None, count_option("Draft up to N tokens for a pass, on several branches.")
    ] = None
    temperature: Annotated[
        float, number_option("Divides the logits; 0 is greedy.", "-t", "--temperature")
    ] = 0.0
    top_k: Annotated[int, count_option("Keep the N most probable tokens; 0 keeps all.")] = 0
    top_p: Annotated[
        float, number_option("Keep the fewest tokens of this probability; 1 keeps all.")
    ] = 1.0
    min_p: Annotated[
        float, number_option("Keep tokens of at least this share of the best one; 0 keeps all.")
    ] = 0.0
    repetition_penalty: Annotated[
        float, number_option("Divides the logits of tokens seen before; 1 is off.")
    ] = 1.0
    presence_penalty: Annotated[
        float, number_option("Subtracted once from the logit of each token in the answer.")
    ] = 0.0
    frequency_penalty: Annotated[
        float, number_option("Subtracted for each time that a token is in the answer.")
    ] = 0.0
    logit_bias: Annotated[
        list[str],
        text_option("Added to the logit of a token; may be repeated.", metavar="ID=VALUE"),
    ] = field(default_factory=list)
    seed: Annotated[
        int | None,
        count_option("The same seed gives the same tokens, with any drafter.", "-s", "--seed"),
    ] = None
    max_tokens: Annotated[int, count_option("Most tokens to deliver.", "-n", "--max-tokens")] = 256
    min_tokens: Annotated[int, count_option("Fewest tokens before the answer may end.")] = 0
    stop: Annotated[
        list[str], text_option("Ends the answer where it appears, unshown; may be repeated.")
    ] = field(default_factory=list)
    ignore_eos: Annotated[
        bool, switch_option("Go on after an end-of-text token.", "--ignore-eos")
    ] = False
    json_schema: Annotated[
        str | None, text_option(JSON_SCHEMA_HELP, "--json-schema", metavar="FILE")
    ] = None
    grammar: Annotated[str | None, text_option(GRAMMAR_HELP, "--grammar", metavar="FILE")] = None
    regex: Annotated[str | None, text_option(REGEX_HELP, "--regex", metavar="REGEX")] = None
    system: Annotated[str | None, text_option("System message of the conversation.")] = None
    engine: EngineOption = "auto"
    weights: WeightsOption = "auto"
    threads: ThreadsOption = None
    trace: Annotated[
        bool, switch_option("Show each pass: tokens kept, rejected, the target's own.", "--trace")
    ] = False

    def sampling_params(self) -> SamplingParams:
        """The request's parameters.

        Raises:
            ParameterError: an option has a value that has no meaning; the message names it.
        """
        from oneglance.config import SamplingParams

        return SamplingParams(
            max_tokens=self.max_tokens,
            min_tokens=self.min_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=parse_logit_bias(self.logit_bias),
            stop=tuple(check_text("--stop", text) for text in self.stop),
            ignore_eos=self.ignore_eos,
            seed=self.seed,
            constraint=read_constraint(self.json_schema, self.grammar, self.regex),
        )

    def engine_config(self) -> EngineConfig:
        """Which engine, with how many threads, and what becomes of float weights.

        Raises:
            ParameterError: an option has a value that it does not take, or that the engine which
                is asked for cannot honour; the message names it.
        """
        from oneglance.config import MAX_THREADS, EngineConfig, EngineKind, WeightsForm

        _check_choice("--engine", self.engine, get_args(EngineKind))
        _check_choice("--weights", self.weights, get_args(WeightsForm))
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ParameterError(
                f"--threads {self.threads} cannot be had; give 1 to {MAX_THREADS}."
            )
        if self.engine == "reference" and self.threads not in (None, 1):
            raise ParameterError(
                f"--threads {self.threads} cannot be had with --engine reference, which has one "
                "thread; drop one of the two."
            )
        return EngineConfig(
            kind=cast("EngineKind", self.engine),
            num_threads=self.threads,
            weights=cast("WeightsForm", self.weights),
        )

    def arguments(self, *names: str) -> list[str]:
        """The words of a command line that ask for these values; none for what is the default.

        Args:
            names: of fields; none: all of them.
        """
        words: list[str] = []
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if (names and item.name not in names) or value == _default_of(item):
                continue
            option = "-k" if item.name == "k" else f"--{item.name.replace('_', '-')}"
            if value is True:
                words.append(option)
                continue
            for each in value if isinstance(value, list) else [value]:
                words += [option, str(each)]
        return words

    def engine_arguments(self) -> list[str]:
        """`arguments` that choose the engine."""
        return self.arguments("engine", "weights", "threads")

    def draft_length(self) -> int | Literal["auto"]:
        """The value of `-k`; see `parse_draft_length`."""
        return parse_draft_length(self.k)

    def request(self, user_text: str) -> str | list[dict[str, str]]:
        """What the library is asked: the text itself, or a conversation if there is `--system`.

        A model without a chat template continues a text, and refuses a conversation.
        """
        if self.system is None:
            return user_text
        return [
            {"role": "system", "content": check_text("--system", self.system)},
            {"role": "user", "content": user_text},
        ]


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces a command's parameter `options: Options` by one parameter for each option."""
    return takes(Options)(command)


def takes(
    kind: type[Any], leave_out: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that replaces a command's parameter `options` by the fields of a dataclass.

    typer reads a command's signature, so the decorated function is given one in which the fields
    stand where `options` stood.

    Args:
        kind: the dataclass, its fields annotated as typer wants them.
        leave_out: fields that are no option of this command; they have their default.
    """
    return lambda command: _with_options(kind, command, leave_out)


def _with_options(
    kind: type[Any], command: Callable[..., None], leave_out: tuple[str, ...]
) -> Callable[..., None]:
    hints = get_type_hints(kind, include_extras=True)
    offered = [item for item in dataclasses.fields(kind) if item.name not in leave_out]
    fields = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default_of(item),
            annotation=hints[item.name],
        )
        for item in offered
    ]
    own_hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]

    def run(**values: Any) -> None:
        shared = {item.name: values.pop(item.name) for item in fields}
        command(options=kind(**shared), **values)

    arguments = [item for item in own if item.default is inspect.Parameter.empty]
    options = [item for item in own if item not in arguments]
    parameters = [*arguments, *fields, *options]
    signature = inspect.Signature(parameters)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _default_of(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return inspect.Parameter.empty if item.default is dataclasses.MISSING else item.default


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise ParameterError(f"{name} {value!r} is not known; choose {known}.")


def parse_draft_length(text: str) -> int | Literal["auto"]:
    """Reads `-k`: "auto" or a whole number of at least 1.

    Raises:
        ParameterError: anything else; 0 is told how to switch drafting off.
    """
    if text == "auto":
        return "auto"
    remedy = "give a whole number of at least 1, or auto"
    try:
        length = int(text)
    except ValueError:
        raise ParameterError(f"-k {text!r} is not a number; {remedy}.") from None
    if length < 1:
        raise ParameterError(
            f"-k {length} drafts nothing; {remedy}, or switch drafting off with --drafter none."
        )
    return length


def parse_logit_bias(pairs: list[str]) -> dict[int, float]:
    """Reads the values of `--logit-bias`, each written ID=VALUE.

    Raises:
        ParameterError: one is not of that form, or an id is given twice.
    """
    biases: dict[int, float] = {}
    for pair in pairs:
        token_text, _, value_text = pair.partition("=")
        try:
            token, value = int(token_text), float(value_text)
        except ValueError:
            raise ParameterError(
                f"--logit-bias {pair!r} cannot be read; write a token id and a number, as in 42=-5."
            ) from None
        if token in biases:
            raise ParameterError(f"--logit-bias names token {token} twice; give it once.")
        biases[token] = value
    return biases


def check_text(name: str, text: str) -> str:
    """Returns the text if it is Unicode that can be written as UTF-8.

    Raises:
        ParameterError: it holds bytes that were not UTF-8, which Python keeps as lone surrogates.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"{name} is not UTF-8 text (at character {error.start}); convert it to UTF-8."
        ) from None
    return text
