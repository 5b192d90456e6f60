"""`oneglance serve`: the model behind OpenAI's API, for many clients at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneglance.cli.options import count_option, number_option, takes, text_option
from oneglance.errors import UnsupportedError

if TYPE_CHECKING:
    from oneglance.server.settings import ServerSettings

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "pydantic")


@dataclass(frozen=True)
class ServeOptions:
    """Options that override what the file and the environment say; None: not given."""

    model: Annotated[
        str | None, text_option("Name of a model, or its file.", "-m", "--model", metavar="MODEL")
    ] = None
    drafter: Annotated[
        str | None, text_option("Who drafts.", "-d", "--drafter", metavar="DRAFTER")
    ] = None
    k: Annotated[
        str | None, text_option("Most tokens to draft in a row.", "-k", metavar="N|auto")
    ] = None
    tree_nodes: Annotated[
        int | None, count_option("Draft up to N tokens for a pass, on several branches.")
    ] = None
    engine: Annotated[
        str | None, text_option("What runs the model.", metavar="auto|native|reference")
    ] = None
    weights: Annotated[
        str | None, text_option("What becomes of float weights.", metavar="auto|bf16|f32")
    ] = None
    threads: Annotated[int | None, count_option("Threads of the native engine.")] = None
    host: Annotated[str | None, text_option("Address to listen at.", metavar="ADDRESS")] = None
    port: Annotated[int | None, count_option("Port to listen at; 0 takes a free one.")] = None
    keys_file: Annotated[
        Path | None, typer.Option(help="File with a line NAME KEY for each client.", metavar="FILE")
    ] = None
    served_names: Annotated[
        str | None, text_option("What requests may call the model.", metavar="NAME,NAME…")
    ] = None
    max_running: Annotated[int | None, count_option("Most answers in progress.")] = None
    max_waiting: Annotated[
        int | None, count_option("Most answers that wait; further ones get 429.")
    ] = None
    max_output_tokens: Annotated[int | None, count_option("Longest answer.")] = None
    drain_seconds: Annotated[
        float | None, number_option("How long answers may go on after SIGTERM.")
    ] = None
    log_prompts: Annotated[
        bool | None,
        typer.Option(
            "--log-prompts/--no-log-prompts", help="Put prompts and answers into the log."
        ),
    ] = None

    page: Annotated[
        bool | None,
        typer.Option("--page/--no-page", help="Show a page at / on which passes can be watched."),
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value is not None}


@takes(ServeOptions)
def serve(
    options: ServeOptions,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="TOML file of settings.", metavar="FILE"),
    ] = None,
) -> None:
    """Serve a model by OpenAI's API; SIGTERM or Ctrl-C ends it when its answers have ended."""
    require_server()
    from oneglance.environment import SERVER_KEYS_VARIABLE, read_environment
    from oneglance.server.keys import read_keys
    from oneglance.server.logs import start_logging
    from oneglance.server.settings import read_settings

    environment = read_environment()
    settings = read_settings(options.given(), environment.serve, config)
    keys = read_keys(settings.keys_file, environment.server_keys, SERVER_KEYS_VARIABLE)
    start_logging()
    _run(settings, keys)


def _run(settings: ServerSettings, keys: Any) -> None:
    from rich.console import Console

    from oneglance.cli.progress import progress_bar
    from oneglance.config import EngineConfig
    from oneglance.llm import load
    from oneglance.server.run import listen, serve_until_told

    engine = EngineConfig(
        kind=settings.engine,
        num_threads=settings.threads,
        weights=settings.weights,
        num_pages=settings.pages,
    )
    with listen(settings) as listener:
        with progress_bar(Console(stderr=True)) as report:
            llm = load(
                settings.model, settings.drafter, settings.k, engine, report, settings.tree_nodes
            )
        with llm:
            serve_until_told(llm, settings, keys, listener)


def require_server() -> None:
    """Refuses to serve without what it needs.

    Raises:
        UnsupportedError: something is not installed.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"Serving needs {missing[0].replace('_', '-')}, which is not installed: "
            "pip install 'oneglance[serve]'."
        )
