"""Questions whose answers are known: each was decoded alone, without drafts, in another process.

By contracts C2 and C3 the server must give the same answers bit for bit, whoever drafts and however
many other requests there are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.load.own_server import SERVED_NAME
from oneglance.bench.prompts import BenchPrompt
from oneglance.config import SamplingParams
from oneglance.constraints import Constraint
from oneglance.llm import LLM

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
SYSTEM_PROMPTS = (
    None,
    "You are a helpful assistant. Answer briefly.",
    "Answer as a pirate would, in short sentences, and never mention that you are told to.",
)
RAW_SHARE = 0.25
"""Of questions that are no chats."""
GREEDY_SHARE = 0.5
LEAST_TOKENS = 8
ENDINGS: Sequence[Mapping[str, Any]] = (
    *({}, {}, {"stop": [". "]}, {"presence_penalty": 0.5}, {"ignore_eos": True}),
)
SCHEMA_EVERY = 4
"""One of so many questions wants JSON."""
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["title", "count"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class LoadQuestion:
    """A request, and the same thing for decoding in this process.

    Attributes:
        id: names it in findings.
        path: of the API.
        prompt: messages, or a text that is continued as it is.
        sampling: fields of `SamplingParams`, which are those of the API too.
        schema: JSON schema that the answer has to obey; None: any text.
    """

    id: str
    path: str
    prompt: str | tuple[Mapping[str, str], ...]
    sampling: Mapping[str, Any]
    schema: Mapping[str, Any] | None = None

    def body(self, **more: Any) -> dict[str, Any]:
        """Of the request."""
        name = "prompt" if isinstance(self.prompt, str) else "messages"
        body = {"model": SERVED_NAME, name: self.prompt, **self.sampling, **more}
        if self.schema is not None:
            named = {"name": "answer", "schema": self.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def params(self) -> SamplingParams:
        """For decoding in this process."""
        fields = dict(self.sampling)
        fields["stop"] = tuple(fields.get("stop", ()))
        if self.schema is not None:
            fields["constraint"] = Constraint.json_schema(self.schema)
        return SamplingParams(**fields)


@dataclass(frozen=True)
class ExpectedAnswer:
    """What every answer to a question must be."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    prompt_tokens: int


def make_questions(
    prompts: Sequence[BenchPrompt], count: int, most_tokens: int, seed: int
) -> list[LoadQuestion]:
    """Different questions: chats and plain texts, greedy and with seeds, with stops and penalties.

    Args:
        prompts: what they are about, in turn.
        count: how many.
        most_tokens: of an answer.
        seed: of the choices.
    """
    random_source = random.Random(seed)
    return [
        _make_question(prompts[index % len(prompts)], index, most_tokens, random_source)
        for index in range(count)
    ]


def _make_question(
    prompt: BenchPrompt, index: int, most_tokens: int, random_source: random.Random
) -> LoadQuestion:
    sampling = _sampling(random_source, most_tokens)
    name = f"{index} {prompt.id}"
    if index % SCHEMA_EVERY == SCHEMA_EVERY - 1:
        messages = ({"role": "user", "content": prompt.text},)
        return LoadQuestion(name, CHAT, messages, sampling, SCHEMA)
    sampling |= random_source.choice(ENDINGS)
    if random_source.random() < RAW_SHARE:
        return LoadQuestion(name, COMPLETION, prompt.text, sampling)
    system = random_source.choice(SYSTEM_PROMPTS)
    user = {"role": "user", "content": prompt.text}
    told = () if system is None else ({"role": "system", "content": system},)
    return LoadQuestion(name, CHAT, (*told, user), sampling)


def _sampling(random_source: random.Random, most_tokens: int) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        "max_tokens": random_source.randint(min(LEAST_TOKENS, most_tokens), most_tokens),
        "temperature": 0.0,
    }
    if random_source.random() >= GREEDY_SHARE:
        sampling |= {
            "temperature": random_source.choice((0.6, 0.8, 1.0)),
            "seed": random_source.randrange(2**63),
            **random_source.choice(({}, {"top_p": 0.9}, {"top_k": 40}, {"min_p": 0.05})),
        }
    return sampling


def long_question(prompt: BenchPrompt, tokens: int) -> LoadQuestion:
    """A greedy chat whose answer has exactly so many tokens."""
    sampling = {"max_tokens": tokens, "temperature": 0.0, "ignore_eos": True}
    messages = ({"role": "user", "content": prompt.text},)
    return LoadQuestion(f"long {prompt.id}", CHAT, messages, sampling)


def expected_answer(llm: LLM, question: LoadQuestion) -> ExpectedAnswer:
    """Decodes a question alone and without drafts."""
    is_raw = isinstance(question.prompt, str)
    done = llm.generate(question.prompt, raw=is_raw, params=question.params(), drafter="none")
    token_ids = tuple(token.token_id for token in done.tokens)
    return ExpectedAnswer(done.text, token_ids, done.finish_reason, done.prompt_tokens)
