"""Where an answer ends: stop strings, max_tokens, end of text, the end of the context."""

from __future__ import annotations

from collections.abc import Iterator

from oneglance.audit.endpoint.answer import Answer, ends, is_special, joins_to
from oneglance.audit.endpoint.connection import BrokenAnswerError, RefusedError
from oneglance.audit.endpoint.session import Session
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict

ROOM = 6
"""Tokens that a prompt leaves free in the context."""

STOP_LENGTH = 3
"""Characters of a stop string: more than most tokens have, so that it spans several."""


def check_stop(session: Session) -> list[Verdict]:
    """Cuts known answers at strings that occur in them, alone and with a limit at the same token.

    The earliest event must win, and text, tokens and usage must be cut alike.
    """
    tally = Tally("stop strings", session.subject)
    for prompt in session.prompts:
        whole = session.greedy(prompt)
        if not session.is_repeatable(prompt):
            continue  # cut answers could not be compared with the whole
        for stop, start in _stops(whole.text):
            _check_one_stop(tally, session, prompt, whole, stop, start)
    return [tally.verdict("Answers end just before the string, in text, tokens and usage alike.")]


def _stops(text: str) -> Iterator[tuple[str, int]]:
    """Strings of an answer, and where each first occurs: early, in the middle, late."""
    seen = set()
    for share in (0.1, 0.3, 0.5, 0.8):
        index = int(share * len(text))
        stop = text[index : index + STOP_LENGTH]
        start = text.find(stop)
        if len(stop) == STOP_LENGTH and stop.strip() and start >= 0 and start not in seen:
            seen.add(start)
            yield stop, start


def _check_one_stop(
    tally: Tally, session: Session, prompt: str, whole: Answer, stop: str, start: int
) -> None:
    size = session.sizes.num_tokens
    _judge_stop(tally, session.server.greedy(prompt, size, stop=[stop]), prompt, whole, stop, start)
    needed = _tokens_to(whole, start + len(stop))
    if needed is None or needed >= size:
        return
    # Both events fall on one token, and with speculation into one pass: the string comes first.
    at_limit = session.server.greedy(prompt, needed, stop=[stop])
    _judge_stop(tally, at_limit, prompt, whole, stop, start)


def _judge_stop(
    tally: Tally, answer: Answer, prompt: str, whole: Answer, stop: str, start: int
) -> None:
    tally.size += 1
    facts = {"prompt": prompt, "stop": stop, "text": answer.text, "expected": whole.text[:start]}
    if answer.text != whole.text[:start]:
        is_longer = len(answer.text) > start
        what = "goes on past the stop string" if is_longer else "ends before the stop string"
        tally.fault(f"The answer {what} {stop!r}.", **facts)
        return
    if answer.finish_reason != "stop":
        tally.fault(f"The finish reason is {answer.finish_reason!r}, not 'stop'.", **facts)
    needed = _tokens_to(whole, start + len(stop))
    if needed is None:
        return
    num_listed = len(answer.tokens or ())
    if num_listed > needed:
        extra = num_listed - needed
        tally.fault(f"The list of tokens goes {extra} beyond the stop string.", **facts)
    if answer.completion_tokens is not None and answer.completion_tokens > needed:
        counted = answer.completion_tokens
        tally.fault(f"Usage counts {counted} tokens where {needed} reach the string.", **facts)


def _tokens_to(answer: Answer, num_characters: int) -> int | None:
    """How many first tokens make up so many characters; None where that cannot be known."""
    texts = answer.token_texts
    if texts is None or not joins_to(texts, answer.text):
        return None
    return next(index + 1 for index, end in enumerate(ends(texts)) if end >= num_characters)


def check_max_tokens(session: Session) -> list[Verdict]:
    """Asks for shorter answers: so many tokens are delivered, and so many are counted."""
    tally = Tally("max_tokens and usage", session.subject)
    size = session.sizes.num_tokens
    for prompt in session.prompts:
        whole = session.greedy(prompt)
        _judge_length(tally, whole, whole, size, prompt, is_stable=True)
        for limit in (1, 2, 3, 5, 8, 13):
            if limit < size:
                short = session.server.greedy(prompt, limit)
                _judge_length(tally, short, whole, limit, prompt, session.is_repeatable(prompt))
    return [tally.verdict("As many tokens are delivered and counted as were asked for.")]


def _judge_length(
    tally: Tally, answer: Answer, whole: Answer, limit: int, prompt: str, is_stable: bool
) -> None:
    tally.size += 1
    counted, texts = answer.completion_tokens, answer.token_texts
    facts = {"prompt": prompt, "max_tokens": limit, "text": answer.text, "counted": counted}
    if counted is not None and counted > limit:
        tally.fault(f"{counted} tokens are counted where at most {limit} were asked for.", **facts)
    if answer.finish_reason == "length" and counted is not None and counted < limit:
        tally.fault(f"It ends by length with {counted} of {limit} tokens.", **facts)
    if answer.finish_reason not in ("length", "stop"):
        tally.fault(f"The finish reason is {answer.finish_reason!r}.", **facts)
    if texts is None:
        return
    # An end of text may be counted and not listed.
    missing = 0 if counted is None else counted - len(texts)
    if missing < 0 or missing > (answer.finish_reason == "stop"):
        tally.fault(f"{counted} tokens are counted and {len(texts)} listed.", **facts)
    if joins_to(texts, answer.text) is False:
        tally.fault("The listed tokens do not make up the text.", **facts, tokens=list(texts))
    whole_texts = whole.token_texts
    if is_stable and whole_texts is not None and texts != whole_texts[: len(texts)]:
        tally.fault("It is not the beginning of the longer answer.", **facts, whole=whole.text)


def check_end_of_text(session: Session) -> list[Verdict]:
    """Looks for answers that go on after the token that ends them."""
    tally = Tally("end of text", session.subject)
    num_ended = 0
    for prompt in session.prompts:
        answer = session.greedy(prompt)
        tally.size += 1
        num_ended += answer.finish_reason == "stop"
        texts = answer.token_texts or ()
        for position, text in enumerate(texts[:-1]):
            if is_special(text) and text:
                tally.fault(
                    f"The answer goes on after {text!r}, its token {position}.",
                    prompt=prompt,
                    tokens=list(texts),
                )
                break
    right = f"No answer goes on after an end of text; {num_ended} of {tally.size} ended by one."
    return [tally.verdict(right)]


def check_context_end(session: Session) -> list[Verdict]:
    """Asks for more than the context has room for: the answer must end by length, unharmed."""
    tally = Tally("end of the context", session.subject)
    length = session.context_length
    if length is None:
        tally.note("not offered", "The server does not tell its context length; give --context.")
        return [tally.verdict("")]
    try:
        found = _prompt_of(session, length - ROOM)
        if found is None:
            tally.note("unclear", "No prompt of the right length was found.")
            return [tally.verdict("")]
        prompt, room = found[0], length - found[1]
        answer = session.server.greedy(prompt, 4 * ROOM)
    except RefusedError as error:
        tally.note("not offered", f"The server refuses more than has room ({error}).")
        return [tally.verdict("")]
    except BrokenAnswerError as error:
        tally.size += 1
        tally.fault(f"The server fails near the end of its context of {length} tokens: {error}.")
        return [tally.verdict("")]
    tally.size += 1
    counted = answer.completion_tokens
    if answer.finish_reason not in ("length", "stop"):
        tally.fault(f"The finish reason is {answer.finish_reason!r}.", text=answer.text)
    elif counted is not None and counted > room + 1:
        tally.fault(f"{counted} tokens are counted where {room} have room.", text=answer.text)
    return [tally.verdict("The answer ends where the context does.")]


def _prompt_of(session: Session, num_tokens: int) -> tuple[str, int] | None:
    """A prompt of about so many tokens and no more, and how many it has by the usage."""

    def ask(count: int) -> tuple[str, int | None]:
        prompt = "The" + " a" * count
        return prompt, session.server.ask(prompt, max_tokens=1, temperature=0).prompt_tokens

    few, more = (ask(count)[1] for count in (8, 16))
    if few is None or more is None or more <= few:
        return None
    per_word = (more - few) / 8
    count = 8 + int((num_tokens - few) / per_word)
    for _ in range(4):
        prompt, found = ask(count)
        if found is None:
            return None
        if 0 <= num_tokens - found <= per_word:
            return prompt, found
        count += int((num_tokens - found) // per_word)
    return None
