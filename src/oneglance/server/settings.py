"""Settings of `oneglance serve`: from options, environment and a file, in this order of rank."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from oneglance.config import EngineKind, WeightsForm
from oneglance.drafters.spec import split_spec
from oneglance.environment import SERVE_PREFIX
from oneglance.errors import ParameterError
from oneglance.scheduler.config import SchedulerConfig

FREE_DRAFTERS = ("none", "ngram", "suffix", "lookahead", "predicted")
"""Drafters that cost no memory to speak of and read no file."""


def _listed(value: object) -> object:
    """A list as a variable or an option writes it: words separated by commas."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_listed)]
AtLeastOne = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServerSettings(BaseModel):
    """How a server is set up. Each field is a key of the file and a variable of the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str = "smollm2-135m"
    """Name of a model, or its file."""
    drafter: str = "auto"
    """Who drafts for requests that do not say."""
    k: Literal["auto"] | AtLeastOne = "auto"
    """Most draft tokens in a row, for requests that do not say."""
    tree_nodes: AtLeastOne | None = None
    """Draft tokens per pass on all branches together, for requests that do not say."""
    engine: EngineKind = "auto"
    """What runs the model."""
    weights: WeightsForm = "auto"
    """What becomes of float weights."""
    threads: AtLeastOne | None = None
    """Threads of the native engine."""
    pages: AtLeastOne | None = None
    """Pages of 64 positions in the key-value cache; unset: it grows as needed."""

    host: str = "127.0.0.1"
    """Address to listen at; others than this machine reach only another one, such as 0.0.0.0."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen at; 0 takes a free one."""
    served_names: Words = ()
    """Names by which requests may call the model; unset: its own."""
    keys_file: Path | None = None
    """File with a line NAME KEY for each client; unset: anyone is let in."""
    page: bool = True
    """Show the page at / and answer what it asks for."""
    cors_origins: Words = ()
    """Origins whose pages may call the server from a browser; unset: none."""
    allowed_drafters: Words = FREE_DRAFTERS
    """Drafters that a request may name besides the one above, alone or joined by +."""

    max_body_bytes: AtLeastOne = 4 * 1024 * 1024
    """Largest body that is read."""
    max_prompt_tokens: AtLeastOne | None = None
    """Longest prompt; unset: what the model's context holds."""
    max_output_tokens: AtLeastOne | None = None
    """Longest answer, and the length of answers that set none; unset: what the context holds."""
    max_choices: AtLeastOne = 16
    """Most answers to one request, over all its prompts."""
    max_running: AtLeastOne = 32
    """Most answers in progress at the same time."""
    max_waiting: AtLeastOne = 256
    """Most answers that may wait; further requests get 429."""
    cached_tokens: Annotated[int, Field(ge=0)] = 32_768
    """Tokens whose keys and values are kept for prompts that begin alike."""
    request_seconds: Seconds | None = None
    """Longest time that a request may take; unset: as long as it takes."""
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """How long answers in progress may go on when the server is told to end."""
    log_prompts: bool = False
    """Put prompts and answers into the log."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which requests may call the model."""
        is_path = Path(self.model).expanduser().exists()
        return self.served_names or (Path(self.model).name if is_path else self.model,)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    def scheduler_config(self) -> SchedulerConfig:
        """How much may run and wait at the same time."""
        return SchedulerConfig(
            max_running=self.max_running,
            max_waiting=self.max_waiting,
            cached_tokens=self.cached_tokens,
        )

    def allowed_drafter(self, spec: str) -> str | None:
        """The drafter that a request means; None: requests may not name it.

        Others could read files of this machine, fetch models or fill its memory. For the sake of
        memory, too, drafters that are joined come once each, in the order of the setting.
        """
        if spec == self.drafter:
            return spec
        parts = {str(part) for part in split_spec(spec)}
        if not parts <= set(self.allowed_drafters):
            return None
        return "+".join(name for name in dict.fromkeys(self.allowed_drafters) if name in parts)


def read_settings(
    options: Mapping[str, Any], variables: Mapping[str, str], file: Path | None
) -> ServerSettings:
    """Puts settings together: an option outranks a variable, a variable outranks the file.

    Args:
        options: by name, those that were given.
        variables: by name, as `Environment.serve` has them.
        file: TOML with the names as keys; None: there is none.

    Raises:
        ParameterError: the file cannot be read, or a name or a value cannot be used.
    """
    sources = {
        **dict.fromkeys(read := _read_file(file), "file"),
        **dict.fromkeys(variables, "variable"),
        **dict.fromkeys(options, "option"),
    }
    try:
        return ServerSettings.model_validate({**read, **variables, **options})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        spelling = _spelling(name, sources[name], file)
        if first["type"] == "extra_forbidden":
            known = ", ".join(ServerSettings.model_fields)
            raise ParameterError(f"{spelling} is no setting; there are {known}.") from None
        raise ParameterError(
            f"{spelling} = {first['input']!r} cannot be used: {first['msg'].rstrip('.').lower()}."
        ) from None


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # not there; neither UTF-8 nor TOML
        reason = " ".join(str(error).split())
        raise ParameterError(
            f"The settings {str(file)!r} cannot be read ({reason}); write TOML, such as "
            "port = 8000."
        ) from None


def _spelling(name: str, source: str, file: Path | None) -> str:
    if source == "file":
        return f"{name} in {str(file)!r}"
    if source == "variable":
        return f"{SERVE_PREFIX}{name.upper()}"
    return f"--{name.replace('_', '-')}"
