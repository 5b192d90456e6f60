"""The law that a request asks for: OpenAI's words into `SamplingParams`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from oneglance.config import SamplingParams
from oneglance.constraints import Constraint
from oneglance.errors import ParameterError
from oneglance.server.errors import invalid
from oneglance.server.schema.common import SharedFields


@dataclass(frozen=True)
class TokenLimit:
    """How long an answer may be.

    Attributes:
        asked: most tokens that the request asks for; None: it does not say.
        most: that the server gives; None: no limit.
        name: what the request calls it.
    """

    asked: int | None
    most: int | None
    name: str = "max_tokens"

    def value(self) -> int | None:
        """Most tokens of the answer; None: as many as the context holds.

        Raises:
            ApiError: the request asks for more than the server gives.
        """
        if self.asked is not None and self.most is not None and self.asked > self.most:
            raise invalid(
                f"{self.name} = {self.asked} is more than the {self.most} tokens that this server "
                "gives; ask for fewer.",
                self.name,
            )
        return self.most if self.asked is None else self.asked


def sampling_params(
    body: SharedFields,
    limit: TokenLimit,
    num_top_logprobs: int,
    vocab_size: int,
    constraint: Constraint | None = None,
) -> SamplingParams:
    """The parameters of each of a request's answers.

    Args:
        body: the request; what it leaves out is OpenAI's default, temperature 1 among them.
        limit: of the answer's length.
        num_top_logprobs: alternatives to report with each token.
        vocab_size: of the model.
        constraint: what the answers may be; None: anything.

    Raises:
        ApiError: a value cannot be used.
    """
    asked = limit.value()
    if asked is not None and body.min_tokens is not None and body.min_tokens > asked:
        raise invalid(
            f"min_tokens = {body.min_tokens} is more than the {asked} tokens of the answer; "
            "lower it.",
            "min_tokens",
        )
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if "" in stops:
        raise invalid("A stop string is empty; leave it out.", "stop")
    try:
        return SamplingParams(
            max_tokens=asked,
            min_tokens=body.min_tokens or 0,
            temperature=_or(body.temperature, 1.0),
            top_k=body.top_k or 0,
            top_p=_top_p(body.top_p),
            min_p=_or(body.min_p, 0.0),
            repetition_penalty=_or(body.repetition_penalty, 1.0),
            presence_penalty=_or(body.presence_penalty, 0.0),
            frequency_penalty=_or(body.frequency_penalty, 0.0),
            logit_bias=_logit_bias(body.logit_bias or {}, vocab_size),
            stop=tuple(stops),
            ignore_eos=bool(body.ignore_eos),
            # Seeds with a sign become those of the package one to one.
            seed=None if body.seed is None else body.seed % 2**64,
            top_logprobs=num_top_logprobs,
            constraint=constraint,
        )
    except ParameterError as error:
        name = str(error).partition(" = ")[0]
        raise invalid(str(error), name if name in type(body).model_fields else None) from None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _top_p(value: float | None) -> float:
    """0 keeps the best token alone, as any share does that it reaches."""
    return max(_or(value, 1.0), sys.float_info.min)


def _logit_bias(biases: dict[str, float], vocab_size: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for text, value in biases.items():
        token = int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
        if not 0 <= token < vocab_size:
            raise invalid(
                f"logit_bias names {text[:20]!r}, which is no token; name ids from 0 to "
                f"{vocab_size - 1}.",
                "logit_bias",
            )
        found[token] = value
    return found
