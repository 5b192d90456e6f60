"""Logprobs: numbers that can be probabilities, of the tokens and positions they stand beside."""

from __future__ import annotations

import math

from oneglance.audit.endpoint.answer import Answer, TokenInfo
from oneglance.audit.endpoint.session import Session
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict

ROUNDING = 2e-3
"""What probabilities that were rounded to a few digits may add up to beyond 1."""


def check_logprobs(session: Session) -> list[Verdict]:
    """Looks at the numbers of greedy and of sampled answers, position by position."""
    tally = Tally("logprobs: consistent", session.subject, "positions")
    ranks = Tally("logprobs: greedy takes the best", session.subject, "positions")
    if not session.server.num_top:
        for each in (tally, ranks):
            each.note("not offered", "The server gives no logprobs.")
        return [tally.verdict(""), ranks.verdict("")]
    for prompt in session.prompts:
        greedy = session.greedy(prompt)
        sampled = session.server.sample(prompt, session.sizes.num_tokens)
        for answer in (greedy, sampled):
            _judge_answer(tally, prompt, answer)
        _judge_ranks(ranks, session, prompt, greedy)
    return [
        tally.verdict("Each is at most 0, sums to at most 1, and agrees with its alternatives."),
        ranks.verdict("Each greedy token is the most probable one of its position."),
    ]


def _judge_answer(tally: Tally, prompt: str, answer: Answer) -> None:
    if answer.tokens is None and answer.text:
        tally.fault("An answer came without the logprobs that were asked for.", prompt=prompt)
    for position, token in enumerate(answer.tokens or ()):
        tally.size += 1
        what = _objection(token)
        if what is not None:
            tally.fault(
                f"At position {position}: {what}.",
                prompt=prompt,
                token=token.text,
                logprob=token.logprob,
                top=[list(pair) for pair in token.top],
            )
            return


def _objection(token: TokenInfo) -> str | None:
    """What is wrong with the numbers of one position; None if nothing is."""
    if token.logprob is None:
        return "the token has no logprob"
    values = [token.logprob, *(value for _, value in token.top)]
    if any(math.isnan(value) or value > ROUNDING for value in values):
        return "a logprob is above 0"
    listed = [value for text, value in token.top if text == token.text]
    others = [value for text, value in token.top if text != token.text]
    total = math.fsum(map(math.exp, others)) + max(map(math.exp, listed or [token.logprob]))
    if total > 1 + ROUNDING:
        return f"the probabilities add up to {total:.3f}"
    # Two tokens may have one text (parts of characters): one of them must fit.
    if listed and min(abs(value - token.logprob) for value in listed) > 0.01:
        return f"the token has {token.logprob:.3f}, and {listed[0]:.3f} among the alternatives"
    with_token = sum(map(math.exp, others)) + math.exp(token.logprob)
    if with_token > 1 + ROUNDING:
        return f"token and alternatives add up to {with_token:.3f}"
    if not listed and token.top and token.logprob > token.top[-1][1] + 0.01:
        return "the token is more probable than alternatives, and not among them"
    return None


def _judge_ranks(tally: Tally, session: Session, prompt: str, answer: Answer) -> None:
    for position, token in enumerate(answer.tokens or ()):
        if token.logprob is None or not token.top:
            continue
        tally.size += 1
        text, best = token.top[0]
        if best - token.logprob > session.bound():
            tally.fault(
                f"At position {position} {token.text!r} was taken, though {text!r} is "
                f"{best - token.logprob:.3f} nats more probable.",
                prompt=prompt,
                top=[list(pair) for pair in token.top],
            )
            return
