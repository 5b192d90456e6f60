"""Runs an answer to be shown: recorded once, then raced against plain decoding."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from oneglance.completion import Completion
from oneglance.config import SamplingParams
from oneglance.constraints import Constraint
from oneglance.llm import LLM, Prompt
from oneglance.show.record import Recorder
from oneglance.show.trace import Answer, Pass, Race, Request, Run, Seconds, Trace

MAX_SEED = 2**31


def with_seed(params: SamplingParams) -> SamplingParams:
    """Parameters whose answer can be given twice: a sampled one without a seed is drawn one."""
    if params.is_greedy or params.seed is not None:
        return params
    return replace(params, seed=secrets.randbelow(MAX_SEED))


def shown_request(
    params: SamplingParams,
    *,
    prompt: str,
    system: str | None,
    raw: bool,
    model: str,
    drafter: str,
    k: str,
    tree_nodes: int | None,
) -> Request:
    """A request as a trace shows it; the arguments are fields of `Request` but for `params`."""
    own = ("temperature", "seed", "logits_processors")
    given = {name: getattr(params, name) for name in params.__dataclass_fields__}
    default = SamplingParams()
    return Request(
        prompt=prompt,
        system=system,
        raw=raw,
        model=model,
        drafter=drafter,
        k=k,
        tree_nodes=tree_nodes,
        temperature=params.temperature,
        seed=None if params.is_greedy else params.seed,
        sampling={
            name: _shown_value(value)
            for name, value in given.items()
            if name not in own and value != getattr(default, name)
        },
    )


def _shown_value(value: Any) -> Any:
    """As JSON can have it."""
    if isinstance(value, Constraint):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def show_answer(
    llm: LLM,
    prompt: Prompt,
    request: Request,
    params: SamplingParams,
    rounds: int,
    origin: Mapping[str, Any],
    on_pass: Callable[[Pass], None] = lambda _: None,
) -> Trace:
    """Answers a prompt, records how, and lets plain and speculative decoding take turns.

    Args:
        llm: the model, with the drafter and K that are meant; loaded without kept prefixes, lest
            one run profit from another.
        prompt: what the model gets.
        request: the same as the trace shows it.
        params: of the request; for a race with a seed where it samples (see `with_seed`), so that
            all runs are the same answer.
        rounds: of the race; 0: there is none. Nor is there one where nothing drafts.
        origin: goes into the trace.
        on_pass: told of each pass of the recorded answer as it comes.
    """
    is_repeatable = params.is_greedy or params.seed is not None
    assert is_repeatable or not rounds, "a race needs an answer that repeats"
    # Which touches every weight once, so that no run has to wait for the disk.
    llm.generate(prompt, raw=request.raw, params=params, drafter="none", max_tokens=1)
    completion, passes = record(llm, prompt, request.raw, params, on_pass)
    race = None
    if rounds and llm.drafter_name != "none":
        race = _race(llm, prompt, request.raw, params, rounds, completion)
    answer = Answer(
        completion.text,
        completion.finish_reason,
        completion.prompt_tokens,
        len(completion.tokens),
        completion.stats.accepted,
    )
    return Trace(request, completion.engine.to_dict(), answer, passes, race, origin)


def record(
    llm: LLM,
    prompt: Prompt,
    raw: bool,
    params: SamplingParams,
    on_pass: Callable[[Pass], None] = lambda _: None,
) -> tuple[Completion, tuple[Pass, ...]]:
    """One answer with its passes; arguments as for `show_answer`."""
    recorder = Recorder(llm.tokenizer)
    completion = None
    pieces = llm.stream(prompt, raw=raw, params=params, tenant="show recorded", watcher=recorder)
    for piece in pieces:
        on_pass(recorder.record(piece.trace))
        completion = piece.completion
    assert completion is not None, "the last piece of a stream carries the completion"
    return completion, tuple(recorder.passes)


def _race(
    llm: LLM,
    prompt: Prompt,
    raw: bool,
    params: SamplingParams,
    rounds: int,
    recorded: Completion,
) -> Race:
    """Both ways in turn; which goes first changes, lest a machine that slows down favour one."""
    plain: list[Run] = []
    speculative: list[Run] = []
    answers = {(recorded.token_ids, recorded.text)}
    plain_text = ""
    for number in range(rounds):
        turns = [("none", plain), (None, speculative)]
        for drafter, runs in turns if number % 2 == 0 else reversed(turns):
            # A drafter that learns from past answers must not have seen this one.
            tenant = f"show {number}"
            start = perf_counter()
            completion = llm.generate(
                prompt, raw=raw, params=params, drafter=drafter, tenant=tenant
            )
            runs.append(_run(completion, perf_counter() - start))
            answers.add((completion.token_ids, completion.text))
            plain_text = completion.text if drafter == "none" else plain_text
    return Race(tuple(plain), tuple(speculative), plain_text, len(answers) == 1)


def _run(completion: Completion, seconds: float) -> Run:
    stats = completion.stats
    return Run(
        decode_seconds=seconds - stats.prefill_seconds,
        num_tokens=len(completion.tokens),
        passes=stats.passes,
        drafted=stats.drafted,
        accepted=stats.accepted,
        seconds=Seconds(stats.draft_seconds, stats.verify_seconds, stats.accept_seconds),
    )
