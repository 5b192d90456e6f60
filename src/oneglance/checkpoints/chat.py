"""Chat templates: Jinja source that came with a model, rendered as Hugging Face renders it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from oneglance.checkpoints.base import ChatTemplate, Tokenizer
from oneglance.errors import CheckpointError, ParameterError

FIRST_MARK, LAST_MARK = 0xE000, 0xF8FF
"""Characters for private use, which text hardly ever has."""


class JinjaChatTemplate(ChatTemplate):
    """A chat template in a sandbox, with what Hugging Face's templates may rely on."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], origin: str) -> None:
        """Compiles a template.

        Args:
            source: Jinja source.
            special_tokens: variables of the template, such as "bos_token" and its spelling.
            origin: where it comes from, for messages.

        Raises:
            CheckpointError: the source has a syntax error.
        """
        self.source = source
        self._special_tokens = dict(special_tokens)
        try:
            self._template = _environment().from_string(source)
        except Exception as error:  # Besides its own, Jinja lets errors of Python's compiler pass.
            raise CheckpointError(
                f"{origin}: the chat template is not sound Jinja: {_line(error)}. "
                "Download the model again, or use the prompt as it is, without a template."
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The prompt text; see `ChatTemplate.render`.

        Raises:
            ParameterError: the template refuses the messages or fails on them.
        """
        variables: dict[str, Any] = {
            **self._special_tokens,
            "messages": [dict(message) for message in messages],
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(variables)
        except Exception as error:  # A template is a program: it can fail in any way.
            raise ParameterError(
                f"The model's chat template refuses the messages: {_line(error)}. "
                "Give each message a role that the model knows and a content, in due order."
            ) from error

    def encode(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Token ids of the rendered conversation; see `ChatTemplate.encode`.

        Where a message spells a control token, a mark stands for the spelling while the template
        renders, and text with marks is encoded as mere text. Otherwise the result is that of
        encoding the rendered text with `parse_special=True`. A model that expects the
        beginning-of-text token gets it once, whether or not the template writes it.

        Raises:
            ParameterError: the template refuses the messages or fails on them, or it cuts up what
                a message says where that spells a control token.
        """
        spellings = [tokenizer.token_label(token_id) for token_id in sorted(tokenizer.special_ids)]
        guard = _Guard.of(spellings, [messages, tools], self.source)
        rendered = self.render(guard.hide(messages), add_generation_prompt, guard.hide(tools))
        token_ids: list[int] = []
        for run in guard.runs(rendered):
            token_ids += tokenizer.encode(guard.restore(run), parse_special=guard.mark not in run)
        if tokenizer.adds_bos and tokenizer.bos_id is not None:
            begins = token_ids[:1] == [tokenizer.bos_id]
            return token_ids if begins else [tokenizer.bos_id, *token_ids]
        return token_ids


@dataclass
class _Guard:
    """Hides control spellings in messages behind marks, and brings them back.

    A piece of text is hidden as mark, index, mark. Hidden are whole spellings, and the beginning
    of one at the end of a value as well as the end of one at the beginning, lest a template that
    puts two values next to each other completes it.
    """

    mark: str
    spellings: re.Pattern[str] | None
    heads: frozenset[str]
    tails: frozenset[str]
    hidden: list[str]

    @classmethod
    def of(cls, spellings: Sequence[str], values: Any, source: str) -> _Guard:
        used = set().union(source, *spellings, *_texts(values))
        mark = next((c for c in map(chr, range(FIRST_MARK, LAST_MARK)) if c not in used), None)
        if mark is None:
            raise ParameterError(
                "The messages use every character for private use. Remove some of U+E000 to U+F8FF."
            )
        known = sorted(filter(None, spellings), key=len, reverse=True)
        return cls(
            mark=mark,
            spellings=re.compile(f"({'|'.join(map(re.escape, known))})") if known else None,
            heads=frozenset(text[:size] for text in known for size in range(1, len(text))),
            tails=frozenset(text[size:] for text in known for size in range(1, len(text))),
            hidden=[],
        )

    def hide(self, value: Any) -> Any:
        """A value with all its texts guarded, however deep they lie."""
        if isinstance(value, str):
            return self._hide_in_text(value)
        if isinstance(value, Mapping):
            # Keys are chosen by users only within schemas and arguments.
            return {self.hide(key): self.hide(each) for key, each in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(each) for each in value]
        return value

    def runs(self, rendered: str) -> list[str]:
        """Cuts rendered text, at control tokens, into runs that either have marks or have none."""
        if self.spellings is None or self.mark not in rendered:
            return [rendered]
        runs: list[str] = []
        for part in self.spellings.split(rendered):
            if self.mark in part or not runs or self.mark in runs[-1]:
                runs.append(part)
            else:
                runs[-1] += part
        return runs

    def restore(self, run: str) -> str:
        """The run with what is hidden in it.

        Raises:
            ParameterError: the template has taken a mark apart.
        """
        pattern = f"{self.mark}([0-9]+){self.mark}"
        text = re.sub(pattern, lambda match: self.hidden[int(match[1])], run)
        if self.mark in text:
            raise ParameterError(
                "The model's chat template cuts a message where it spells a control token. "
                "Remove the spelling from the message."
            )
        return text

    def _hide_in_text(self, value: str) -> str:
        if self.spellings is None:
            return value
        text = self.spellings.sub(lambda match: self._hide(match[0]), value)
        body = text.strip()
        start = text.find(body)
        end = start + len(body)
        longest = max(map(len, self.heads | self.tails), default=0)
        for size in range(min(longest, len(body)), 0, -1):
            if body[-size:] in self.heads:
                text = text[: end - size] + self._hide(body[-size:]) + text[end:]
                body = body[:-size]
                break
        for size in range(min(longest, len(body)), 0, -1):
            if body[:size] in self.tails:
                return text[:start] + self._hide(body[:size]) + text[start + size :]
        return text

    def _hide(self, text: str) -> str:
        self.hidden.append(text)
        return f"{self.mark}{len(self.hidden) - 1}{self.mark}"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.items()))
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


class _GenerationTag(Extension):
    """`{% generation %}`, by which templates mark the assistant's words; it renders its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Returns the body between the tags."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _GenerationTag],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment


def _line(error: Exception) -> str:
    """What went wrong, on one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
