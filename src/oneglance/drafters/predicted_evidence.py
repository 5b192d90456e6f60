"""What speaks for a place of the prediction, and how often each clue has been right so far."""

from __future__ import annotations

from enum import Enum, auto

_PRIOR_WEIGHT = 2.0
"""A prior counts as so many observations, so that two or three surprises turn an order round."""
_MEMORY = 0.9
"""Weight of the past when another outcome is learned."""


class Clue(Enum):
    """Why the answer may have arrived at a place, the most credible first until more is known."""

    READING = auto()
    """Three tokens in a row have agreed, or it is the beginning."""
    AGREED = auto()
    """One or two tokens have agreed since the place was chosen."""
    EDIT = auto()
    """An edit that was seen before is made again."""
    NGRAM = auto()
    """The answer ends with three or more tokens that come before it."""
    PAIR = auto()
    """The answer ends with the two tokens that come before it."""
    TOKEN = auto()
    """The answer's last token occurs just before it, soon after the divergence."""
    CHANGED = auto()
    """As many tokens were replaced as have come since the divergence."""
    INSERTED = auto()
    """What has come since the divergence was inserted."""


_PRIORS = {
    Clue.READING: 0.95,
    Clue.AGREED: 0.8,
    Clue.EDIT: 0.75,
    Clue.NGRAM: 0.7,
    Clue.PAIR: 0.6,
    Clue.TOKEN: 0.55,
    Clue.CHANGED: 0.5,
    Clue.INSERTED: 0.35,
}


class Evidence:
    """How often each clue pointed to the right next token, in one answer."""

    def __init__(self) -> None:
        """Starts from what is usual for edited texts."""
        self._right = {clue: _PRIOR_WEIGHT * rate for clue, rate in _PRIORS.items()}
        self._seen = dict.fromkeys(_PRIORS, _PRIOR_WEIGHT)

    def rate(self, clue: Clue) -> float:
        """How likely a place with this clue is the right one, 0 to 1."""
        return self._right[clue] / self._seen[clue]

    def note(self, clue: Clue, is_right: bool) -> None:
        """Learns whether the token at a place was the one that came."""
        self._right[clue] = _MEMORY * self._right[clue] + is_right
        self._seen[clue] = _MEMORY * self._seen[clue] + 1.0

    def ranked(self, *clues: Clue) -> list[Clue]:
        """Some clues, the one that is right most often first; equals as they are given."""
        return sorted(clues, key=self.rate, reverse=True)
