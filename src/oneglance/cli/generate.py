"""`oneglance generate`: one prompt, one answer, streamed."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from oneglance.cli.options import Options, takes_options
from oneglance.cli.prompt import PromptArgument, RawOption, check_raw, read_prompt

if TYPE_CHECKING:
    from oneglance.completion import Completion
    from oneglance.config import SamplingParams
    from oneglance.llm import LLM


@takes_options
def generate(
    prompt: PromptArgument,
    options: Options,
    raw: RawOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and nothing else.")
    ] = False,
) -> None:
    """Answer one prompt; the text is streamed to stdout."""
    from oneglance.cli.answer import load_model, show_summary

    params = options.sampling_params()
    check_raw(raw, options.system)
    text = read_prompt(prompt, raw)
    request = options.request(text)
    with load_model(options) as llm:
        if as_json:
            completion = llm.generate(request, raw=raw, params=params)
            print_json(completion, has_trace=options.trace)
        else:
            completion = _stream(llm, request, raw, params, options.trace)
        show_summary(completion, params.max_tokens)


def _stream(
    llm: LLM,
    request: str | list[dict[str, str]],
    raw: bool,
    params: SamplingParams,
    is_tracing: bool,
) -> Completion:
    from rich.console import Console

    from oneglance.cli.answer import Shown, show_answer

    shown = Shown()
    with closing(llm.stream(request, raw=raw, params=params)) as pieces:
        show_answer(pieces, shown, Console(), llm.tokenizer, is_tracing)
    assert shown.completion is not None, "the last piece of a stream carries the completion"
    return shown.completion


def print_json(completion: Completion, has_trace: bool) -> None:
    """Prints the result as one JSON object on one line.

    Args:
        completion: the answer.
        has_trace: whether to add `trace`, a list with one object for each pass.
    """
    import dataclasses
    import json

    result = completion.to_dict()
    if has_trace:
        result["trace"] = [dataclasses.asdict(item) for item in completion.trace]
    # Where stdout cannot carry every character, JSON's own escapes can.
    is_unicode = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    print(json.dumps(result, ensure_ascii=not is_unicode))
