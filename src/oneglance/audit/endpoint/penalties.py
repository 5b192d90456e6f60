"""Penalties and logit bias: they must reach every position, not only the end of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from oneglance.audit.endpoint.answer import Answer, TokenInfo, is_special
from oneglance.audit.endpoint.compare import first_divergence, shared_length
from oneglance.audit.endpoint.connection import RefusedError
from oneglance.audit.endpoint.session import Session
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict

PENALTY = 2.0
"""The strongest that OpenAI's API takes."""

MANY = 8
"""A token that comes so often cannot do so under the strongest penalty on its frequency. One on its
presence may be too weak to move a token that is certain enough."""

MOST_HIDDEN = 4
"""How often a token may stand in the text that a chat template adds, where servers count it."""

BIASED_IDS = (1000, 300, 40, 20)
"""Ids to force, tried in turn: every vocabulary has one of them, and few are control tokens."""


def check_penalties(session: Session) -> list[Verdict]:
    """Greedy answers with each penalty: it has an effect, and counts every delivered token."""
    return [_check_penalty(session, name) for name in ("frequency_penalty", "presence_penalty")]


def _check_penalty(session: Session, name: str) -> Verdict:
    tally = Tally(name, session.subject)
    for prompt in session.prompts:
        try:
            with_it = session.server.greedy(prompt, session.sizes.num_tokens, **{name: PENALTY})
            if session.against is not None:
                reference = session.against.greedy(
                    prompt, session.sizes.num_tokens, **{name: PENALTY}
                )
                _compare(tally, session, prompt, with_it, reference, name)
        except RefusedError as error:
            tally.note("not offered", f"{name} was refused ({error}).")
            break
        tally.size += 1
        without = session.greedy(prompt)
        must_show = name == "frequency_penalty" and _repeats(without) >= MANY
        if must_show and with_it.text == without.text:
            tally.fault(
                f"{name} = {PENALTY} changes nothing, though a token comes "
                f"{_repeats(without)} times.",
                prompt=prompt,
                text=without.text,
            )
            continue
        _judge_choices(tally, session, prompt, with_it, without, name)
    return tally.verdict(f"{name} counts every token of the answer, at every position.")


def _compare(
    tally: Tally, session: Session, prompt: str, one: Answer, other: Answer, name: str
) -> None:
    found = first_divergence(
        one,
        other,
        session.bound(),
        lambda before, token: -_penalty(name, Counter(before)[token]),
    )
    if found is not None:
        tally.note(
            found.status,
            f"With {name}, against the reference: {found.sentence()}",
            prompt=prompt,
            answer=one.text,
            other_answer=other.text,
            **found.to_dict(),
        )


def _repeats(answer: Answer) -> int:
    """How often the commonest token, or word, of an answer comes."""
    units = answer.token_texts or answer.text.split()
    return max(Counter(units).values(), default=0)


def _penalty(name: str, count: int) -> float:
    return PENALTY * (count if name == "frequency_penalty" else min(count, 1))


def _judge_choices(
    tally: Tally, session: Session, prompt: str, with_it: Answer, without: Answer, name: str
) -> None:
    """Finds a position where another token would have been better, penalties included.

    Only for servers whose logprobs are the model's own. Alternatives that the prompt contains are
    left out, since some servers count the prompt's tokens too.
    """
    if with_it.tokens is None or not _are_raw(session, with_it, without):
        return
    # What a chat template adds to the prompt is not known; an alternative may stand there.
    hidden = _penalty(name, MOST_HIDDEN) if session.server.api == "chat" else 0.0
    counts: Counter[str] = Counter()
    for position, token in enumerate(with_it.tokens):
        better = _better(token, counts, prompt, name)
        if better is not None and better[1] > hidden + session.bound():
            tally.fault(
                f"At position {position} {token.text!r} was taken; with its {counts[token.text]} "
                f"earlier occurrences {better[0]!r} is {better[1]:.2f} nats better.",
                prompt=prompt,
                text=with_it.text,
                top=[list(pair) for pair in token.top],
            )
            return
        counts[token.text] += 1


def _are_raw(session: Session, with_it: Answer, without: Answer) -> bool:
    """Whether logprobs leave the penalties out: then both answers agree where they part."""
    shared = shared_length(with_it, without)
    if with_it.tokens is None or without.tokens is None:
        return False
    if shared == 0 or shared >= min(len(with_it.tokens), len(without.tokens)):
        return False
    one, other = dict(with_it.tokens[shared].top), dict(without.tokens[shared].top)
    both = one.keys() & other.keys()
    return bool(both) and all(abs(one[text] - other[text]) <= session.bound() for text in both)


def _better(
    token: TokenInfo, counts: Counter[str], prompt: str, name: str
) -> tuple[str, float] | None:
    """The best alternative and by how much it beats the token that was taken."""
    if token.logprob is None:
        return None
    own = token.logprob - _penalty(name, counts[token.text])
    rivals = [
        (text, value - _penalty(name, counts[text]) - own)
        for text, value in token.top
        if text.strip() and text.strip() not in prompt and not is_special(text)
    ]
    return max(rivals, key=lambda pair: pair[1], default=None)


def check_logit_bias(session: Session) -> list[Verdict]:
    """Forces one token by a bias of 100: it must stand at every position, and nothing else."""
    tally = Tally("logit_bias", session.subject)
    length = min(12, session.sizes.num_tokens)
    for prompt in session.prompts[:3]:
        try:
            answer = _forced(session, prompt, length)
        except RefusedError as error:
            tally.note("not offered", f"logit_bias was refused ({error}).")
            break
        if answer is None:
            tally.note("unclear", "Every forced token ended the answer or is no text.")
            continue
        tally.size += 1
        plain = session.greedy(prompt)
        if answer.text and plain.text.startswith(answer.text):
            tally.fault("A bias of 100 changes nothing.", prompt=prompt, text=answer.text)
        elif not _is_one_token(answer):
            tally.fault(
                "A bias of 100 does not reach every position.", prompt=prompt, text=answer.text
            )
    return [tally.verdict("A token that is forced stands at every position.")]


def _forced(session: Session, prompt: str, length: int) -> Answer | None:
    for token_id in BIASED_IDS:
        try:
            answer = session.server.greedy(prompt, length, logit_bias={str(token_id): 100})
        except RefusedError:
            if token_id == BIASED_IDS[-1]:
                raise
            continue
        if answer.finish_reason == "length" and answer.text.isascii() and answer.text.strip():
            return answer
    return None


def _is_one_token(answer: Answer) -> bool:
    """Whether an answer is one token over and over; of a text without tokens, one period."""
    texts: Sequence[str] | None = answer.token_texts
    if texts is not None:
        return all(one == other for one, other in pairwise(texts))
    periods = range(1, len(answer.text) // 2 + 1)
    return any(
        answer.text == (answer.text[:size] * len(answer.text))[: len(answer.text)]
        for size in periods
    )
