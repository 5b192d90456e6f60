"""Predicted outputs: the user says what the answer will probably be, such as a file to be edited.

The draft is what the prediction says from the place on that the answer has reached in it. It is a
function of the answer so far, so it is verified as point masses. Costs microseconds; pays where
most of the answer is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oneglance.checkpoints.base import Tokenizer
from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.drafters.paths import PathTree, until_end
from oneglance.drafters.predicted_alignment import Alignment, Place
from oneglance.drafters.predicted_evidence import Clue
from oneglance.drafters.predicted_index import PredictionIndex
from oneglance.engine.prefix import common_length
from oneglance.errors import ParameterError
from oneglance.types import Proposal

_REMEDY = (
    "write predicted:FILE, or give prediction= in Python, with the text that the answer will "
    "probably be"
)
_KEPT = 0.95
"""How often the next token is right, too, once a place was the right one."""
_LEAST_REACHED = 0.3
"""After a divergence a draft ends where it would be reached more seldom than this."""
_MEMORY = 0.9
"""Weight of the past in the estimate of how much of a draft is accepted."""


@dataclass
class PredictedSession:
    """One request: where its answer is in the prediction, and how far the last draft went."""

    index: PredictionIndex
    alignment: Alignment
    eos_ids: frozenset[int]
    draft: list[int] = field(default_factory=list)
    clue: Clue = Clue.READING
    rates: dict[Clue, float] = field(default_factory=dict)


class PredictedDrafter(Drafter[PredictedSession]):
    """Reads on in the prediction, and finds back into it after each divergence."""

    name = "predicted"
    uses_prediction = True

    def __init__(self, prediction: Sequence[int] = ()) -> None:
        """Takes the prediction of requests that bring none of their own; empty: they must."""
        self._index = PredictionIndex(prediction)

    def check(self, hints: DraftHints) -> None:
        """Refuses a request without a prediction.

        Raises:
            ParameterError: neither the request nor the drafter has one.
        """
        if not hints.prediction and not self._index:
            raise ParameterError(
                f"The drafter predicted has no prediction, or an empty one; {_REMEDY}."
            )

    def start(self, context: DraftContext) -> PredictedSession:
        """Begins at the beginning of the request's prediction, or else of the drafter's."""
        prediction = context.hints.prediction
        index = PredictionIndex(prediction) if prediction else self._index
        return PredictedSession(index, Alignment(index), context.eos_ids)

    def propose(self, requests: Sequence[DraftRequest[PredictedSession]]) -> list[Proposal]:
        """Reads on from the most credible place; with a node budget from others, too."""
        return [self._propose(request) for request in requests]

    def observe(self, session: PredictedSession, tokens: Sequence[int]) -> None:
        """Follows the answer, and learns how much of the last draft was right."""
        if session.draft and tokens:
            agreed = common_length(session.draft, tokens) / len(session.draft)
            rate = _share_kept(session, session.clue)
            session.rates[session.clue] = _MEMORY * rate + (1 - _MEMORY) * agreed
        session.draft = []
        for token in tokens:
            session.alignment.observe(token)

    def close(self, session: PredictedSession) -> None:
        """Forgets the request."""
        session.draft = []

    def _propose(self, request: DraftRequest[PredictedSession]) -> Proposal:
        """Grows the tree place by place; `expected` counts the first place's path only.

        The others are there for when that one is wrong, and mostly it is then the only loss.
        """
        session = request.session
        session.draft = []
        num_tokens = min(request.num_draft_tokens, request.max_depth)
        if num_tokens < 1:
            return Proposal.empty(self.name)
        tree = PathTree(request.num_tree_nodes)
        for place in session.alignment.places():
            path = self._read(session, place, num_tokens)
            if request.num_tree_nodes is not None and not tree:
                path = path[: request.num_tree_nodes]
            tree.add(path)
            if not session.draft:
                session.draft, session.clue = path, place.clue
            if request.num_tree_nodes is None or not tree.has_room:
                break
        expected = len(session.draft) * _share_kept(session, session.clue)
        return tree.proposal(self.name, expected)

    def _read(self, session: PredictedSession, place: Place, num_tokens: int) -> list[int]:
        limit = min(num_tokens, _longest(session, place.clue, num_tokens))
        following = session.alignment.edits.read(place.at, limit)
        return list(until_end([*place.pending, *following][:limit], session.eos_ids))


def _longest(session: PredictedSession, clue: Clue, num_tokens: int) -> int:
    """How far to read on from a place that is right as often as its clue has been."""
    if clue is Clue.READING:
        return num_tokens
    reached = session.alignment.evidence.rate(clue) / _LEAST_REACHED
    return 1 + max(0, math.floor(math.log(reached) / -math.log(_KEPT)))


def _share_kept(session: PredictedSession, clue: Clue) -> float:
    """The share of a draft that is accepted, by the clue that it began from."""
    return session.rates.get(clue, session.alignment.evidence.rate(clue))


def read_prediction(path: str, tokenizer: Tokenizer) -> list[int]:
    """The token ids of a prediction that is kept in a file.

    Raises:
        ParameterError: the file cannot be read, is not UTF-8, or holds nothing.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ParameterError(
            f"The prediction {path!r} cannot be read ({reason}); give a file that can."
        ) from None
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"The prediction {path!r} is not UTF-8 (byte {error.start}); convert it to UTF-8."
        ) from None
    tokens = tokenizer.encode(text)
    if not tokens:
        raise ParameterError(f"The prediction {path!r} is empty; {_REMEDY}.")
    return tokens
