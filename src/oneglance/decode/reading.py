"""Parts of a text that a pass evaluates only so that the cache and the drafter know them."""

from __future__ import annotations

from dataclasses import dataclass

from oneglance.decode.sequence import DecodingSequence
from oneglance.engine.base import Engine, PassOutput, TreeRows


@dataclass(frozen=True)
class Chunk:
    """The next part of a sequence's prompt; of its answer too, where it had to be begun again.

    Attributes:
        sequence: whose text it is.
        tokens: at least one.
    """

    sequence: DecodingSequence
    tokens: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def rows(self) -> TreeRows:
        """A chain off what is committed."""
        return TreeRows.chain(self.sequence.handle, self.tokens, wants_logits=False)

    def num_attended(self, target: Engine) -> int:
        """Sum over its rows of the tokens before the chunk."""
        return len(self.tokens) * target.length(self.sequence.handle)

    def commit(self, target: Engine, output: PassOutput, place: int) -> None:
        """Keeps its rows, and shows the drafter the hidden states that it wants to see.

        Args:
            target: has evaluated them.
            output: of the pass.
            place: which of the pass's trees it was.
        """
        s = self.sequence
        start = target.length(s.handle)
        target.commit(s.handle, range(len(self.tokens)))
        if layers := s.drafter.hidden_layers:
            hidden = {layer: output.hidden[layer][place] for layer in layers}
            s.drafter.see_hidden(s.session, start, hidden)
