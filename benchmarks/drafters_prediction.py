"""A prediction that is right but for some tokens, made of the answer itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oneglance.bench.measure import Ask
from oneglance.bench.plan import Group
from oneglance.bench.subject import Question, Subject
from oneglance.checkpoints.base import Tokenizer

SHARE_CHANGED = 0.05
"""Of the tokens of a prediction that is "95 % right"."""


def nearly_right(tokens: Sequence[int], seed: int, share: float = SHARE_CHANGED) -> list[int]:
    """The tokens of an answer, some of them replaced by other tokens of the same answer.

    The same arguments give the same result on every machine. What replaces a token is taken from
    the answer, so that a prediction looks like text of its kind.

    Args:
        tokens: the answer.
        seed: another seed, other tokens.
        share: of the tokens that are replaced; rounded to whole tokens, at least one.
    """
    changed = list(tokens)
    if len(set(tokens)) < 2:
        return changed  # there is no other token to put in
    choices = random.Random(seed)
    count = max(1, round(share * len(tokens)))
    for position in sorted(choices.sample(range(len(tokens)), count)):
        others = sorted(set(tokens) - {tokens[position]})
        changed[position] = choices.choice(others)
    return changed


@dataclass
class OwnAnswerQuestions:
    """Makes questions that predict the model's own answer, changed here and there.

    Attributes:
        ask: makes the questions without a prediction.
        plain: gives the answer.
        tokenizer: of the model.
    """

    ask: Ask
    plain: Subject
    tokenizer: Tokenizer
    _predictions: dict[tuple[str, float], str] = field(default_factory=dict)

    def __call__(self, group: Group) -> Question:
        """The question of a group."""
        question = self.ask(group)
        key = group.prompt.id, group.temperature
        if key not in self._predictions:
            self._predictions[key] = self._own_answer(question, group.prompt.seed)
        return replace(question, prediction=self._predictions[key])

    def _own_answer(self, question: Question, seed: int) -> str:
        """The answer, changed here and there; it is not timed."""
        tokens = self.plain.answer(question).token_ids
        assert tokens is not None, "plain decoding tells its tokens"
        own = [token for token in tokens if token not in self.tokenizer.eos_ids]
        return self.tokenizer.decode(nearly_right(own, seed))
