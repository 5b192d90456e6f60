"""Answers of both APIs in one form: text, tokens with their laws, ending and usage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneglance.audit.endpoint.connection import BrokenAnswerError, Stream

_SPECIAL = re.compile(r"<\|?[\w/|▁ -]+\|?>|")
"""How control tokens look in lists of tokens: <|im_end|>, </s>, or nothing at all."""


def is_special(text: str) -> bool:
    """Whether a token looks like a control token."""
    return _SPECIAL.fullmatch(text) is not None


@dataclass(frozen=True)
class TokenInfo:
    """A delivered token with what the server says of its position.

    Attributes:
        text: as the server writes it.
        logprob: natural log of its probability; None where the server leaves it out.
        top: the most probable tokens there, (text, logprob), best first.
    """

    text: str
    logprob: float | None
    top: tuple[tuple[str, float], ...]

    def score(self, text: str) -> float | None:
        """Logprob of a token at this position; None if it is not listed."""
        if text == self.text and self.logprob is not None:
            return self.logprob
        return next((value for other, value in self.top if other == text), None)


@dataclass(frozen=True)
class Answer:
    """One choice of an answer.

    Attributes:
        text: its text.
        finish_reason: as the server says it.
        tokens: with logprobs; None where the server gives none.
        completion_tokens: of the usage; None where it is left out.
        prompt_tokens: of the usage; None where it is left out.
    """

    text: str
    finish_reason: str | None
    tokens: tuple[TokenInfo, ...] | None
    completion_tokens: int | None
    prompt_tokens: int | None

    @property
    def token_texts(self) -> tuple[str, ...] | None:
        """Texts of the tokens; None where the server gives none."""
        return None if self.tokens is None else tuple(token.text for token in self.tokens)

    @property
    def units(self) -> tuple[str, ...]:
        """The answer as a sequence: its tokens, or its characters where those are not given."""
        texts = self.token_texts
        return tuple(self.text) if texts is None else texts


def parse_answer(body: dict[str, Any], choice: int = 0) -> Answer:
    """Reads an answer that was not streamed.

    Raises:
        BrokenAnswerError: it has not the shape that the API prescribes.
    """
    try:
        chosen = body["choices"][choice]
        text = chosen["text"] if "text" in chosen else chosen["message"]["content"]
        usage = body.get("usage") or {}
        return Answer(
            text=text or "",
            finish_reason=chosen.get("finish_reason"),
            tokens=_tokens(chosen.get("logprobs")),
            completion_tokens=usage.get("completion_tokens"),
            prompt_tokens=usage.get("prompt_tokens"),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise BrokenAnswerError(
            f"the answer has another shape than the API's ({error!r})"
        ) from None


def parse_stream(stream: Stream) -> Answer:
    """Puts the pieces of a streamed answer together.

    Raises:
        BrokenAnswerError: an event has not the shape that the API prescribes, or is an error.
    """
    text, finish_reason, has_tokens = "", None, False
    tokens: list[TokenInfo] = []
    usage: dict[str, Any] = {}
    try:
        for event in stream.events:
            if "error" in event:
                raise BrokenAnswerError(f"the stream carries an error ({event['error']})")
            usage = event.get("usage") or usage
            for chosen in event.get("choices") or ():
                part = chosen["text"] if "text" in chosen else chosen["delta"].get("content")
                text += part or ""
                found = _tokens(chosen.get("logprobs"))
                has_tokens = has_tokens or found is not None
                tokens += found or ()
                finish_reason = chosen.get("finish_reason") or finish_reason
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise BrokenAnswerError(f"an event has another shape than the API's ({error!r})") from None
    return Answer(
        text=text,
        finish_reason=finish_reason,
        tokens=tuple(tokens) if has_tokens else None,
        completion_tokens=usage.get("completion_tokens"),
        prompt_tokens=usage.get("prompt_tokens"),
    )


def _tokens(logprobs: Any) -> tuple[TokenInfo, ...] | None:
    """Reads the lists of either API; servers give the form of chat for completions, too."""
    if not logprobs:
        return None
    if logprobs.get("content") is not None:
        return tuple(
            TokenInfo(
                _text_of(entry),
                entry.get("logprob"),
                _ranked((_text_of(top), top["logprob"]) for top in entry.get("top_logprobs") or ()),
            )
            for entry in logprobs["content"]
        )
    if logprobs.get("tokens") is None:
        return None
    texts = logprobs["tokens"]
    values = logprobs.get("token_logprobs") or [None] * len(texts)
    tops = logprobs.get("top_logprobs") or [{}] * len(texts)
    return tuple(
        TokenInfo(text, value, _ranked((top or {}).items()))
        for text, value, top in zip(texts, values, tops, strict=True)
    )


def _ranked(pairs: Any) -> tuple[tuple[str, float], ...]:
    found = [(text, float(value)) for text, value in pairs if value is not None]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


def _text_of(entry: dict[str, Any]) -> str:
    """The text of an entry; where it is no whole character, its bytes in writing."""
    data = entry.get("bytes")
    text = str(entry["token"])
    if data and "\ufffd" in text:
        return "".join(f"\\x{byte:02x}" for byte in data)
    return text


def joins_to(texts: Sequence[str], text: str) -> bool | None:
    """Whether tokens make up a text; None where they are not plain text, so that nobody knows."""
    whole = "".join(part for part in texts if not is_special(part))
    if not (whole.isascii() and text.isascii()) or "\\x" in whole:
        return None
    return whole == text


def ends(texts: Sequence[str]) -> list[int]:
    """Number of characters up to the end of each token."""
    total, found = 0, []
    for text in texts:
        total += len(text)
        found.append(total)
    return found
