"""A server as the audit sees it: what it offers, and requests in the form that it takes."""

from __future__ import annotations

from typing import Any, Literal

from oneglance.audit.endpoint.answer import Answer, parse_answer, parse_stream
from oneglance.audit.endpoint.connection import (
    BrokenAnswerError,
    Connection,
    RefusedError,
    Stream,
)
from oneglance.errors import EndpointError

Api = Literal["completions", "chat"]

APIS: tuple[Api, ...] = ("completions", "chat")

NUM_TOP = (20, 5)
"""Alternatives to ask for at each position: the most that common servers give, then OpenAI's."""

NEUTRAL: tuple[dict[str, Any], ...] = ({"top_k": 0, "min_p": 0}, {"top_k": -1, "min_p": 0}, {})
"""What switches off truncation that a server applies by default, in the forms that servers take."""


class Server:
    """One API of one server.

    Attributes:
        api: completions or chat.
        name: shown in verdicts.
        num_top: alternatives per position that it gives; 0: no logprobs at all.
        neutral: parameters that leave its law alone.
    """

    def __init__(self, connection: Connection, api: Api, model: str) -> None:
        """Asks one short question with each form of a parameter, to see what it takes.

        Raises:
            RefusedError: the server has no such API.
            EndpointError: it cannot be reached, or fails on the simplest request.
        """
        self.api = api
        self.name = api
        self.model = model
        self.connection = connection
        self.num_top = 0
        self.neutral: dict[str, Any] = {}
        probe = "Hello"
        try:
            self.ask(probe, max_tokens=1, temperature=0)
            self.neutral = next(form for form in NEUTRAL if self._takes(probe, form))
            self.num_top = self._find_num_top(probe)
        except BrokenAnswerError as error:
            raise EndpointError(
                f"{connection.url} fails on the simplest request ({error}); see the server's log."
            ) from None

    def ask(self, prompt: str | list[str], **params: Any) -> Answer:
        """The answer to a prompt.

        Args:
            prompt: a text; for chat it is one user message.
            params: of the API; `top` asks for logprobs in this API's form.

        Raises:
            RefusedError: the server does not do that.
            BrokenAnswerError: it failed.
            EndpointError: it cannot be reached.
        """
        return parse_answer(self.ask_raw(prompt, **params))

    def ask_raw(self, prompt: str | list[str], **params: Any) -> dict[str, Any]:
        """The answer as the server sends it; arguments and errors as for `ask`."""
        return self.connection.post(self._path, self._payload(prompt, params))

    def greedy(self, prompt: str, max_tokens: int, **params: Any) -> Answer:
        """The greedy answer, with logprobs where the server gives them; errors as for `ask`."""
        return self.ask(prompt, max_tokens=max_tokens, temperature=0, top=self.num_top, **params)

    def sample(self, prompt: str, max_tokens: int, **params: Any) -> Answer:
        """An answer from the model's own law, with logprobs if offered; errors as for `ask`."""
        law = {"temperature": 1, "top_p": 1, **self.neutral}
        return self.ask(prompt, max_tokens=max_tokens, top=self.num_top, **law, **params)

    def stream(self, prompt: str, **params: Any) -> tuple[Stream, Answer]:
        """The same as `ask`, streamed: the events, and what they make together."""
        stream = self.connection.stream(self._path, self._payload(prompt, params))
        return stream, parse_stream(stream)

    @property
    def _path(self) -> str:
        return "/completions" if self.api == "completions" else "/chat/completions"

    def _payload(self, prompt: str | list[str], params: dict[str, Any]) -> dict[str, Any]:
        params = dict(params)
        top = params.pop("top", 0)
        payload: dict[str, Any] = {"model": self.model, **params}
        if self.api == "completions":
            payload["prompt"] = prompt
            if top:
                payload["logprobs"] = top
        else:
            payload["messages"] = [{"role": "user", "content": prompt}]
            if top:
                payload |= {"logprobs": True, "top_logprobs": top}
        return payload

    def _takes(self, prompt: str, form: dict[str, Any]) -> bool:
        try:
            self.ask(prompt, max_tokens=1, temperature=1, top_p=1, **form)
        except RefusedError:
            return not form
        return True

    def _find_num_top(self, prompt: str) -> int:
        for count in NUM_TOP:
            try:
                answer = self.ask(prompt, max_tokens=1, temperature=0, top=count)
            except RefusedError:
                continue
            if answer.tokens:
                return max(1, len(answer.tokens[0].top))
        return 0


def list_models(connection: Connection) -> list[dict[str, Any]]:
    """What the server says of its models; empty where it says nothing.

    Raises:
        EndpointError: it cannot be reached.
    """
    try:
        listed = connection.get("/models")
    except (RefusedError, BrokenAnswerError):
        return []
    found = listed.get("data") if isinstance(listed, dict) else None
    return [item for item in found or () if isinstance(item, dict)]


def context_of(model: dict[str, Any]) -> int | None:
    """The context length in a server's description of a model, as vLLM or llama.cpp give it."""
    meta = model.get("meta") or {}
    for value in (model.get("max_model_len"), model.get("context_length"), meta.get("n_ctx")):
        if isinstance(value, int) and value > 0:
            return value
    return None


def open_servers(
    connection: Connection, model: str | None, apis: tuple[Api, ...]
) -> tuple[list[Server], int | None]:
    """The APIs that a server has, and its context length if it tells.

    Raises:
        EndpointError: it cannot be reached, or has none of the APIs.
    """
    models = list_models(connection)
    chosen = model or (str(models[0].get("id", "default")) if models else "default")
    described = next((item for item in models if item.get("id") == chosen), {})
    servers, reasons = [], []
    for api in apis:
        try:
            servers.append(Server(connection, api, chosen))
        except RefusedError as error:
            reasons.append(f"{api}: {error}")
    if not servers:
        raise EndpointError(
            f"{connection.url} answers neither completions nor chat ({'; '.join(reasons)}); check "
            "the URL and --model."
        )
    return servers, context_of(described)
