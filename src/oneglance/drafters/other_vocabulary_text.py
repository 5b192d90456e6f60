"""One request's text in the tokens of a draft model with another vocabulary, and their cache.

What the target decides comes as bytes. Where the draft model's own tokens already say these
bytes, they stay, with their keys and values, even if the last one says more than is decided;
where they differ, they are dropped, and what is missing is encoded together with a few tokens
before it. Nothing of this is as long as the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.other_vocabulary_tokens import encode_aligned
from oneglance.engine.base import Engine
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore, common_length

LOOK_BEHIND = 8
"""Tokens of context with which text is encoded anew. Words are cut by rules that look at a few
characters, so that more context changes nothing."""


class DraftText:
    """Prompt, answer and draft as the draft model reads them.

    Attributes:
        tokens: in the draft's vocabulary: what is decided, then what is drafted. A control token
            of the target is the draft's of the same name; one that the draft lacks is left out.
        num_unchanged: so many of `tokens` are as they were when this was last set to their number.
        is_encoded: whether the last token comes from encoding decided text, so that the draft
            model itself would perhaps have taken a longer one.
    """

    def __init__(self, pair: VocabularyPair, prompt: Sequence[int]) -> None:
        """Encodes a prompt, given in the target's tokens."""
        draft = pair.draft
        self._pair = pair
        self.tokens: list[int] = []
        if draft.adds_bos and draft.bos_id is not None:
            self.tokens.append(draft.bos_id)
        self.num_unchanged = 0
        self.is_encoded = True
        # The text since the last control token, and where in it the tokens from `_first` on end.
        self._first = len(self.tokens)
        self._ends: list[int] = []
        self._confidences: list[float] = []
        self._decided = bytearray()
        self._ahead = b""
        self._recent: list[int] = []
        self.observe(prompt)

    @property
    def ahead(self) -> bytes:
        """Drafted text beyond what is decided."""
        return self._ahead

    @property
    def behind(self) -> list[int]:
        """The target's last few decided tokens, back to a control token at most."""
        return self._recent

    @property
    def pending(self) -> bytes:
        """Decided text that no draft token says yet: the beginning of a character."""
        return bytes(self._decided[self._end :])

    @property
    def last(self) -> bytes:
        """What the last token says; nothing if that is a control token."""
        return self._pair.draft_bytes(self.tokens[-1]) if self._ends else b""

    @property
    def ahead_confidences(self) -> list[tuple[int, float]]:
        """For each token that says something beyond what is decided: how far, how surely."""
        size = len(self._decided)
        found: list[tuple[int, float]] = []
        for end, confidence in zip(reversed(self._ends), reversed(self._confidences), strict=True):
            if end <= size:
                break
            found.append((end - size, confidence))
        return found[::-1]

    def append(self, token: int, confidence: float) -> None:
        """Adds a drafted token, which begins with what is pending or has its beginning.

        Args:
            token: id of the draft's, no control token.
            confidence: how probable it is that the target's text goes on like this.
        """
        data = self._pair.draft_bytes(token)
        self._ahead += data[len(self.pending) :]
        self._ends.append(self._end + len(data))
        self._confidences.append(confidence)
        self.tokens.append(token)
        self.is_encoded = False

    def pop(self) -> None:
        """Takes away the last token, which says something that is decided."""
        assert not self._ahead, "there is a draft"
        self._keep(len(self._ends) - 1)

    def drop_ahead(self) -> None:
        """Forgets the draft; decided text that it had a part in is encoded anew."""
        if self._ahead:
            self._retract(len(self._decided))
            self._encode_missing()

    def observe(self, tokens: Sequence[int]) -> None:
        """Adds what the target decided, in its own tokens."""
        data = b""
        for token in tokens:
            said = self._pair.target_bytes(token)
            data += said
            if said:
                self._recent = [*self._recent[-LOOK_BEHIND + 1 :], token]
            else:
                self._decide(data)
                self._pass_control(token)
                data = b""
        self._decide(data)

    @property
    def _end(self) -> int:
        """Where in the text the last token ends."""
        return self._ends[-1] if self._ends else 0

    def _decide(self, data: bytes) -> None:
        if not data:
            return
        old = len(self._decided)
        num_agreed = common_length(self._ahead, data)
        self._decided += data
        if num_agreed < min(len(self._ahead), len(data)):
            self._retract(old + num_agreed)
        else:
            self._ahead = self._ahead[len(data) :]
        self._encode_missing()

    def _pass_control(self, token: int) -> None:
        self.drop_ahead()
        of_draft = self._pair.control_for_draft(token)
        is_double = of_draft == self._pair.draft.bos_id and self.tokens == [of_draft]
        if of_draft is not None and not is_double:
            self.tokens.append(of_draft)
        self._first = len(self.tokens)
        self._ends, self._confidences, self._recent = [], [], []
        self._decided.clear()

    def _retract(self, size: int) -> None:
        """Drops all tokens that end after `size` bytes of the text."""
        count = len(self._ends)
        while count > 0 and self._ends[count - 1] > size:
            count -= 1
        self._keep(count)
        self._ahead = b""

    def _keep(self, count: int) -> None:
        """Keeps so many tokens of the text since the last control token."""
        del self._ends[count:]
        del self._confidences[count:]
        del self.tokens[self._first + count :]
        self.num_unchanged = min(self.num_unchanged, len(self.tokens))

    def _encode_missing(self) -> None:
        """Encodes decided text that no token says, joined on where old and new tokens meet."""
        if self._end >= len(self._decided):
            return
        from_token = max(0, len(self._ends) - LOOK_BEHIND)
        start = self._ends[from_token - 1] if from_token else 0
        window = bytes(self._decided[start:])
        ids, ends = encode_aligned(self._pair.draft, window, self._pair.draft_bytes)
        places = {start + end: index + 1 for index, end in enumerate(ends)}
        places[start] = 0
        num_kept = len(self._ends)
        while num_kept > from_token and self._ends[num_kept - 1] not in places:
            num_kept -= 1
        num_old = places.get(self._ends[num_kept - 1] if num_kept else 0, 0)
        self._keep(num_kept)
        new = ids[num_old:]
        self.tokens += new
        self._ends += [start + end for end in ends[num_old:]]
        self._confidences += [1.0] * len(new)
        self.is_encoded = bool(new) or self.is_encoded


class TextCache:
    """The keys and values of a `DraftText` in the draft model's engine."""

    def __init__(
        self,
        engine: Engine,
        prefixes: PrefixStore,
        text: DraftText,
        prefill_chunk: int,
        tenant: str = "",
    ) -> None:
        """Opens a sequence, with what is kept of the text's beginning; nothing is fed yet.

        Args:
            engine: holds the draft model.
            prefixes: keeps sequences of it.
            text: is drafted for.
            prefill_chunk: most tokens of a pass that only feeds.
            tenant: who may begin with what is kept of it.
        """
        self.sequence = prefixes.open(text.tokens, tenant)
        self._tenant = tenant
        self._engine = engine
        self._prefixes = prefixes
        self._text = text
        self._prefill_chunk = prefill_chunk
        text.num_unchanged = engine.length(self.sequence)

    def rows(self, count: int) -> list[int]:
        """The last `count` tokens, or as many as there are; all before them are in the cache."""
        tokens = self._text.tokens
        start = max(0, len(tokens) - count)
        self._truncate(min(self._text.num_unchanged, start))
        cached = self._engine.length(self.sequence)
        prefill(self._engine, self.sequence, tokens[cached:start], self._prefill_chunk)
        self._text.num_unchanged = start
        return tokens[start:]

    def keep(self, rows: Sequence[int]) -> None:
        """Commits the first rows of a pass, as many as there are in `rows`."""
        self._engine.commit(self.sequence, range(len(rows)))
        self._text.num_unchanged += len(rows)

    def close(self) -> None:
        """Ends the request; its cache may serve the next one."""
        self._truncate(self._text.num_unchanged)
        if length := self._engine.length(self.sequence):
            self._prefixes.keep(self.sequence, self._text.tokens[:length], self._tenant)
        else:  # nothing was drafted: it must not take the place of what is worth keeping
            self._engine.close(self.sequence)

    def _truncate(self, length: int) -> None:
        if length < self._engine.length(self.sequence):
            self._engine.truncate(self.sequence, length)
