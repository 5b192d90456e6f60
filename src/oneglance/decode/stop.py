"""When an answer ends, and what of it is delivered: the earliest event wins.

Tokens are pushed one by one, whether they came from a draft or not, so the outcome can't depend
on how many a pass yielded. Text, token ids and whatever goes with them are cut alike.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import dataclass

from oneglance.config import SamplingParams
from oneglance.types import FinishReason


@dataclass(frozen=True)
class Ending:
    """Why an answer ended.

    Attributes:
        finish_reason: "stop" for an end-of-text token or a stop string, "length" for max_tokens
            or a full context.
        stop_reason: the stop string, or the id of the end-of-text token; None for "length".
    """

    finish_reason: FinishReason
    stop_reason: str | int | None = None


class StopTracker:
    """Follows one answer token by token and cuts it at the first event that ends it.

    The rules, in this order for each token:

    1. An end-of-text token ends the answer (unless `ignore_eos`). It is its last token, as it is
       the model's and took a pass, and adds no text.
    2. A stop string that this token completes ends the answer before the string's first byte.
       A token that begins at or after the cut is dropped; one that straddles it is kept.
    3. The answer ends when it has `max_new_tokens` tokens.

    Text that might still turn out to be the beginning of a stop string, or of a character, is
    held back, and so are its tokens: what `take` has released is never taken back.
    """

    def __init__(
        self,
        params: SamplingParams,
        eos_ids: Collection[int],
        token_bytes: Callable[[int], bytes],
        max_new_tokens: int,
    ) -> None:
        """Starts an empty answer.

        Args:
            params: `stop`, `ignore_eos` and `min_tokens` are read.
            eos_ids: tokens that end an answer.
            token_bytes: the bytes that a token adds to the text.
            max_new_tokens: most tokens to deliver, at least 1; the context limit included.
        """
        assert max_new_tokens >= 1, "an answer has room for one token at least"
        self.ending: Ending | None = None
        self._eos_ids = frozenset() if params.ignore_eos else frozenset(eos_ids)
        self._stops = [(stop, stop.encode()) for stop in params.stop]
        self._min_tokens = params.min_tokens
        self._max_new_tokens = max_new_tokens
        self._token_bytes = token_bytes
        self._buffer = b""
        self._ends: list[int] = []  # for each kept token, where its bytes end in the buffer
        self._released_bytes = 0
        self._num_released = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer so far, those held back included."""
        return len(self._ends)

    @property
    def num_remaining(self) -> int:
        """Tokens that may still come before the length limit."""
        return self._max_new_tokens - len(self._ends)

    def push(self, token_id: int) -> bool:
        """Takes the next token; returns whether it belongs to the answer. Sets `ending`."""
        assert self.ending is None, "the answer has ended"
        start = len(self._buffer)
        if token_id in self._eos_ids:
            self._ends.append(start)
            self.ending = Ending("stop", token_id)
            return True
        self._buffer += self._token_bytes(token_id)
        self._ends.append(len(self._buffer))
        match = self._find_stop(start)
        if match is not None:
            cut, stop = match
            self._cut(cut)
            self.ending = Ending("stop", stop)
            return start < cut
        if len(self._ends) == self._max_new_tokens:
            self.ending = Ending("length")
        return True

    def ends_within(self, token_ids: Iterable[int]) -> bool:
        """Whether the answer would end with one of these tokens if they came next."""
        ahead = copy(self)
        ahead._ends = self._ends.copy()
        for token_id in token_ids:
            ahead.push(token_id)
            if ahead.ending is not None:
                return True
        return False

    def take(self) -> tuple[str, int]:
        """Releases what can no longer change.

        Returns:
            The text released by this call, and how many tokens of the answer have been released
            in all.
        """
        end = len(self._buffer) if self.ending is not None else len(self._buffer) - self._num_held()
        text = self._decoder.decode(
            self._buffer[self._released_bytes : end], final=self.ending is not None
        )
        self._released_bytes = end
        if self.ending is not None:
            return text, len(self._ends)
        # A token without bytes that lies where the text now ends may yet fall behind a cut there.
        while self._num_released < len(self._ends):
            index = self._num_released
            start = self._ends[index - 1] if index > 0 else 0
            if self._ends[index] > end or start >= end:
                break
            self._num_released += 1
        return text, self._num_released

    def _find_stop(self, start: int) -> tuple[int, str] | None:
        """Earliest stop string that the bytes from `start` on complete, with its position."""
        if len(self._ends) < self._min_tokens:
            return None
        found: list[tuple[int, int, str]] = []
        for stop, encoded in self._stops:
            position = self._buffer.find(encoded, max(0, start - len(encoded) + 1))
            if position >= 0:
                found.append((position, len(encoded), stop))
        if not found:
            return None
        position, _, stop = min(found)
        return position, stop

    def _cut(self, cut: int) -> None:
        starts = [0, *self._ends[:-1]]
        num_kept = sum(token_start < cut for token_start in starts)
        self._buffer = self._buffer[:cut]
        self._ends = [min(token_end, cut) for token_end in self._ends[:num_kept]]

    def _num_held(self) -> int:
        """Length of the longest end of the buffer that begins a stop string."""
        longest = 0
        for _, encoded in self._stops:
            for length in range(min(len(encoded) - 1, len(self._buffer)), longest, -1):
                if self._buffer.endswith(encoded[:length]):
                    longest = length
                    break
        return longest
