"""Greedy answers: the same again, one token at a time, together, and as another server gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from oneglance.audit.endpoint.answer import Answer, is_special
from oneglance.audit.endpoint.compare import first_divergence
from oneglance.audit.endpoint.connection import RefusedError
from oneglance.audit.endpoint.session import Session
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict

EXTREMES: dict[str, dict[str, Any]] = {
    "top_k": {"top_k": 1},
    "top_p": {"top_p": 1e-6},
    "min_p": {"min_p": 1.0},
}
"""Truncations to the one most probable token: sampling with them is greedy at every position."""


def compare(tally: Tally, session: Session, prompt: str, first: Answer, second: Answer) -> None:
    """Adds two answers that should be equal to a tally."""
    tally.size += 1
    found = first_divergence(first, second, session.bound())
    if found is not None:
        tally.note(
            found.status,
            found.sentence(),
            prompt=prompt,
            answer=first.text,
            other_answer=second.text,
            **found.to_dict(),
        )


def check_repeat(session: Session) -> list[Verdict]:
    """Asks the same again: caches and batches of any shape must not change an answer."""
    tally = Tally("greedy: the same again", session.subject)
    for prompt in session.prompts:
        compare(tally, session, prompt, session.greedy(prompt), session.greedy(prompt, 1))
    return [tally.verdict("Every greedy answer came again.")]


def check_together(session: Session) -> list[Verdict]:
    """Asks all at once: a request's answer must not depend on those beside it."""
    tally = Tally("greedy: alone and together", session.subject)
    size = session.sizes.num_tokens
    alone = [session.greedy(prompt) for prompt in session.prompts]
    with ThreadPoolExecutor(len(session.prompts)) as pool:
        together = list(
            pool.map(lambda prompt: session.server.greedy(prompt, size), session.prompts)
        )
    for prompt, one, other in zip(session.prompts, alone, together, strict=True):
        compare(tally, session, prompt, one, other)
    return [tally.verdict("Answers are the same alone and beside others.")]


def check_against(session: Session) -> list[Verdict]:
    """Compares with the reference server."""
    check = "greedy: as the reference"
    if session.against is None:
        return []
    tally = Tally(check, session.subject)
    for prompt in session.prompts:
        compare(tally, session, prompt, session.greedy(prompt), session.reference(prompt))
    return [tally.verdict("Every greedy answer is the reference's.")]


def check_stepwise(session: Session) -> list[Verdict]:
    """Decodes one token per request, which is plain decoding, and compares with the whole answer.

    A request for a single token leaves nothing to speculate on. Text is appended to the prompt, so
    that only completions can do this; where the tokens of the appended text are not those of the
    answer (the usage tells) a position is passed over.
    """
    if session.server.api != "completions":
        return []
    tally = Tally("greedy: one token at a time", session.subject, "tokens")
    for prompt in session.prompts:
        _step_through(tally, session, prompt)
    return [tally.verdict("Each token is the one that a request for it alone gives.")]


def _step_through(tally: Tally, session: Session, prompt: str) -> None:
    whole = session.greedy(prompt)
    texts = whole.token_texts
    if texts is None or whole.prompt_tokens is None:
        tally.note("not offered", "Without logprobs and usage positions cannot be told apart.")
        return
    for position in range(len(texts)):
        before = "".join(texts[:position])
        single = session.server.greedy(prompt + before, 1)
        if single.prompt_tokens != whole.prompt_tokens + position:
            continue
        tally.size += 1
        found = first_divergence(
            _from(whole, position, 1, single.finish_reason), single, session.bound()
        )
        if found is not None:
            tally.note(
                found.status,
                f"After {position} tokens: {found.sentence()}",
                prompt=prompt,
                before=before,
                **found.to_dict(),
            )
            return


def _from(answer: Answer, start: int, count: int, finish_reason: str | None) -> Answer:
    """A part of an answer as though it had been asked for alone."""
    assert answer.tokens is not None, "the caller has looked"
    tokens = answer.tokens[start : start + count]
    # A control token has a name in the list, and no text in the answer.
    text = "".join(token.text for token in tokens if not is_special(token.text))
    return Answer(text, finish_reason, tokens, count, None)


def check_extremes(session: Session) -> list[Verdict]:
    """Samples with truncations that leave one token: the answer must be the greedy one."""
    verdicts = []
    for name, params in EXTREMES.items():
        tally = Tally(f"{name}: every position is truncated", session.subject)
        law = {"temperature": 1.0, "top_p": 1.0, **session.server.neutral, **params}
        for prompt in session.prompts:
            try:
                sampled = session.server.ask(
                    prompt, max_tokens=session.sizes.num_tokens, top=session.server.num_top, **law
                )
            except RefusedError as error:
                tally.note("not offered", f"{name} was refused ({error}).")
                break
            compare(tally, session, prompt, session.greedy(prompt), sampled)
        verdicts.append(tally.verdict(f"Sampling with {params} is greedy, as it must be."))
    return verdicts
