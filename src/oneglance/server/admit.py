"""From a checked body to requests of the scheduler, and to their handles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oneglance.config import SamplingParams
from oneglance.constraints import Constraint
from oneglance.decode.watch import PassWatcher
from oneglance.drafters.base import DraftHints
from oneglance.errors import (
    CapacityError,
    DrainingError,
    OneglanceError,
    OverloadError,
)
from oneglance.scheduler.handle import Handle, Listener
from oneglance.scheduler.request import Drafting, Request
from oneglance.server.errors import ApiError, busy, draining, invalid, unknown_model
from oneglance.server.keys import Client
from oneglance.server.sampling import TokenLimit, sampling_params
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.common import SharedFields, Speculation, text_of
from oneglance.server.schema.completions import DEFAULT_MAX_TOKENS, CompletionRequest
from oneglance.server.schema.tools import Tool
from oneglance.server.service import Service
from oneglance.server.tools.conversation import knows_calls, template_messages
from oneglance.server.tools.grammar import form_of

RETRY_SECONDS = 5
"""When a server that is shutting down may be back."""


@dataclass(frozen=True)
class Watching:
    """What sets an answer apart that the page shows.

    Attributes:
        watcher: is shown its passes.
        listener: is told its pieces, in the scheduler's thread.
        remembers: see `DraftHints`.
    """

    watcher: PassWatcher | None = None
    listener: Listener | None = None
    remembers: bool = True


@dataclass
class Admitted:
    """Answers in progress that belong to one request of HTTP.

    Attributes:
        handles: of each prompt its answers, in the order of the response's `index`.
        num_choices: answers to each prompt.
        num_prompt_tokens: of all prompts, each counted once.
        echoes: for each answer the text that it repeats before its own.
        has_calls: answers may hold tool calls.
    """

    num_choices: int
    num_prompt_tokens: int
    handles: list[Handle] = field(default_factory=list)
    echoes: list[str] = field(default_factory=list)
    has_calls: bool = False

    @property
    def num_cached_tokens(self) -> int:
        """Of the tokens of prompts, how many were cached before this request came."""
        firsts = self.handles[:: self.num_choices]
        return sum(handle.progress.cached_tokens for handle in firsts)

    def cancel(self) -> None:
        """Gives all answers up."""
        for handle in self.handles:
            handle.cancel()


def admit_completion(service: Service, body: CompletionRequest, client: Client) -> Admitted:
    """Submits the answers that a completion asks for.

    May wait for the scheduler: not to be called in the event loop.

    Raises:
        ApiError: the request can't be served; nothing of it runs then.
    """
    _check_shared(service, body, len(body.prompts))
    if body.best_of is not None and body.best_of != body.num_choices:
        raise invalid(
            f"best_of = {body.best_of} is not offered; leave it out, or set it to n = "
            f"{body.num_choices}.",
            "best_of",
        )
    if body.echo and body.logprobs is not None:
        raise invalid(
            "echo and logprobs do not go together, since prompts have no logprobs here; leave out "
            "one of them.",
            "echo",
        )
    most = service.settings.max_output_tokens
    default = DEFAULT_MAX_TOKENS if most is None else min(most, DEFAULT_MAX_TOKENS)
    limit = TokenLimit(body.max_tokens or default, most)
    vocab_size = service.tokenizer.vocab_size
    params = sampling_params(body, limit, body.logprobs or 0, vocab_size)
    prompts = [_prompt_tokens(service, index, each) for index, each in enumerate(body.prompts)]
    echoes = ["" for _ in prompts]
    if body.echo:
        texts = zip(body.prompts, prompts, strict=True)
        echoes = [
            text if isinstance(text, str) else service.tokenizer.decode(tokens)
            for text, tokens in texts
        ]
    admitted = _submit(service, body, client, prompts, params, "prompt")
    admitted.echoes = [echo for echo in echoes for _ in range(body.num_choices)]
    return admitted


def admit_chat(
    service: Service, body: ChatRequest, client: Client, watching: Watching = Watching()
) -> Admitted:
    """Submits the answers that a chat asks for; as `admit_completion`."""
    _check_shared(service, body, 1)
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid(
            f"top_logprobs = {body.top_logprobs} goes with logprobs: true only; set that.",
            "top_logprobs",
        )
    if None not in (body.max_tokens, body.max_completion_tokens):
        raise invalid(
            "max_tokens and max_completion_tokens are two names of one limit; send one of them.",
            "max_tokens",
        )
    form = form_of(body)
    vocab_size = service.tokenizer.vocab_size
    params = sampling_params(
        body, _chat_limit(service, body), body.num_top_logprobs or 0, vocab_size, form.constraint
    )
    tokens = _chat_tokens(service, body, form.tools)
    admitted = _submit(service, body, client, [tokens], params, "messages", form.param, watching)
    admitted.echoes = [""] * body.num_choices
    admitted.has_calls = bool(form.tools)
    return admitted


def _chat_limit(service: Service, body: ChatRequest) -> TokenLimit:
    most = service.settings.max_output_tokens
    if body.max_completion_tokens is not None:
        return TokenLimit(body.max_completion_tokens, most, "max_completion_tokens")
    return TokenLimit(body.max_tokens, most)


def _check_shared(service: Service, body: SharedFields, num_prompts: int) -> None:
    settings = service.settings
    if body.model not in settings.names:
        raise unknown_model(body.model, settings.names)
    if body.stream_options is not None and not body.is_streamed:
        raise invalid("stream_options goes with stream: true only.", "stream_options")
    if num_prompts * body.num_choices > settings.max_choices:
        many = f"{num_prompts} prompts with " if num_prompts > 1 else ""
        raise invalid(
            f"{many}n = {body.num_choices} are more answers than the {settings.max_choices} that "
            "this server gives at a time; ask for fewer.",
            "prompt" if num_prompts > settings.max_choices else "n",
        )
    drafter = None if body.speculation is None else body.speculation.drafter
    if drafter is not None and settings.allowed_drafter(drafter) is None:
        allowed = dict.fromkeys((settings.drafter, *settings.allowed_drafters))
        raise invalid(
            f"The drafter {drafter[:60]!r} is not among those that requests may name here: "
            f"{', '.join(allowed)}, alone or joined by +.",
            "speculation.drafter",
        )


def _prompt_tokens(service: Service, index: int, prompt: str | list[int]) -> list[int]:
    if isinstance(prompt, str):
        try:
            tokens = service.llm.encode(prompt, raw=True)
        except OneglanceError as error:
            raise invalid(str(error), "prompt") from None
    else:
        tokens = prompt
    size = service.tokenizer.vocab_size
    unknown = next((token for token in tokens if token >= size), None)
    if unknown is not None:
        raise invalid(f"Prompt {index} has the token {unknown}; ids are below {size}.", "prompt")
    if not tokens:
        raise invalid(f"Prompt {index} is empty; give at least one token.", "prompt")
    return tokens


def _chat_tokens(service: Service, body: ChatRequest, tools: Sequence[Tool]) -> list[int]:
    template = service.llm.checkpoint.chat_template
    if template is None:
        raise invalid(
            f"{service.settings.names[0]!r} has no chat template; use /v1/completions.", "model"
        )
    messages, listed = template_messages(body.messages, tools, knows_calls(template.source))
    try:
        return template.encode(service.tokenizer, messages, tools=listed)
    except OneglanceError as error:
        raise invalid(str(error), "messages") from None


def _submit(
    service: Service,
    body: SharedFields,
    client: Client,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    param: str,
    form_param: str | None = None,
    watching: Watching = Watching(),
) -> Admitted:
    """Submits all prompts, or none.

    Args:
        service: that answers.
        body: of the request.
        client: who asks.
        prompts: token ids of each.
        params: of all answers.
        param: what of the request the prompts come from.
        form_param: what of the request a constraint comes from.
        watching: who looks on.
    """
    admitted = Admitted(body.num_choices, sum(map(len, prompts)))
    for prompt in prompts:
        if len(prompt) > service.max_prompt_tokens:
            raise invalid(
                f"The prompt has {len(prompt)} tokens and this server takes "
                f"{service.max_prompt_tokens}; shorten it.",
                param,
                "context_length_exceeded",
            )
    common: dict[str, Any] = {
        "params": params,
        "drafting": _drafting(service, body.speculation),
        "hints": DraftHints(_prediction(service, body), client.tenant, watching.remembers),
        "priority": client.priority,
        "deadline_seconds": service.settings.request_seconds,
        "prefix_group": client.tenant,
        "watcher": watching.watcher,
    }
    try:
        for prompt in prompts:
            request = Request(tuple(prompt), **common)
            admitted.handles += service.scheduler.submit_choices(
                request, body.num_choices, watching.listener
            )
    except OneglanceError as error:
        admitted.cancel()
        constraint = params.constraint
        if isinstance(constraint, Constraint) and str(error).startswith(constraint.name):
            raise invalid(str(error), form_param) from None
        raise _refusal(service, body, error, param) from None
    return admitted


def _refusal(service: Service, body: SharedFields, error: OneglanceError, param: str) -> ApiError:
    if isinstance(error, OverloadError):
        stats = service.scheduler.stats()
        return busy(stats.num_waiting, retry_seconds(stats.num_waiting, stats.num_decoding))
    if isinstance(error, DrainingError):
        return draining(RETRY_SECONDS)
    if isinstance(error, CapacityError):
        return invalid(str(error), param, "context_length_exceeded")
    if body.prediction is not None:
        return invalid(str(error), "prediction")
    return invalid(str(error), None if body.speculation is None else "speculation")


def retry_seconds(num_waiting: int, num_running: int) -> int:
    """When a client that is refused should come again: a second for each round that waits."""
    return min(60, 1 + num_waiting // max(1, num_running))


def _drafting(service: Service, asked: Speculation | None) -> Drafting:
    if asked is None:
        return Drafting()
    drafter = "none" if asked.off else asked.drafter
    meant = None if drafter is None else service.settings.allowed_drafter(drafter)
    return Drafting(drafter if meant is None else meant, asked.k, asked.tree)


def _prediction(service: Service, body: SharedFields) -> tuple[int, ...]:
    if body.prediction is None:
        return ()
    try:
        return tuple(service.tokenizer.encode(text_of(body.prediction.content)))
    except OneglanceError as error:
        raise invalid(str(error), "prediction") from None
