"""Decoding with a rule that is not exact: the negative control, for audits and tests only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneglance.audit.rules.mutations import resampling_from_target
from oneglance.audit.rules.tables import Rule
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Delivery
from oneglance.engine.base import Batch
from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.select import accept


def accept_by_default(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """The rule that decoding would choose."""
    return accept(proposal, target, noise)


BIASED_RULE: Rule = resampling_from_target(accept_by_default)
"""After a rejection the next token comes from the full law instead of the residual: the subtlest
of the common mistakes, since every token stays possible and the text looks right."""


@dataclass(frozen=True)
class BrokenDecoder(Decoder):
    """A decoder that accepts by another rule.

    Attributes:
        rule: decides which draft tokens stay.
    """

    rule: Rule = BIASED_RULE

    def step(self, sequences: Sequence[DecodingSequence]) -> list[Delivery]:
        """One pass, as `decode.step.step` does it, with this decoder's rule."""
        requests = [sequence.draft_request(len(sequences)) for sequence in sequences]
        proposals = self.drafter.propose(requests)
        pairs = list(zip(sequences, proposals, strict=True))
        layers = self.drafter.hidden_layers
        rows = tuple(each.rows(draft) for each, draft in pairs)
        output = self.target.forward(Batch(rows, layers))
        deliveries = []
        for place, (sequence, proposal) in enumerate(pairs):
            logits = output.logits[place]
            law = sequence.law(logits, proposal)
            assert isinstance(sequence.noise, Noise), "the control is for requests without a seed"
            acceptance = self.rule(proposal, law, sequence.noise)
            start = self.target.length(sequence.handle)
            path = [0, *(node + 1 for node in acceptance.path)]
            self.target.commit(sequence.handle, path)
            decided, delivery = sequence.deliver(proposal, acceptance, law)
            self.drafter.see(sequence.session, proposal, logits)
            if layers:
                hidden = {layer: output.hidden[layer][place][path] for layer in layers}
                self.drafter.see_hidden(sequence.session, start, hidden)
            self.drafter.observe(sequence.session, decided)
            deliveries.append(delivery)
        return deliveries
