"""What users get back: a finished answer, and the pieces of one that streams."""

from __future__ import annotations

from dataclasses import dataclass

from oneglance.decode.sequence import DecodingSequence
from oneglance.drafters.spec import split_spec
from oneglance.types import EngineInfo, FinishReason, PassTrace, SpeculationStats, Token


@dataclass(frozen=True)
class PredictionUsage:
    """Tokens of a prediction that the target verified, counted over all passes.

    Attributes:
        accepted: tokens of the answer that were drafted from the prediction.
        rejected: tokens that were drafted from it and did not become part of the answer there; a
            token of the prediction counts as often as it was drafted.
    """

    accepted: int
    rejected: int

    def to_dict(self) -> dict[str, object]:
        """OpenAI's `completion_tokens_details`."""
        return {
            "accepted_prediction_tokens": self.accepted,
            "rejected_prediction_tokens": self.rejected,
        }


def _is_predicted(drafter: str | None) -> bool:
    """Whether a drafter is, or has among its parts, the one that reads a prediction."""
    return drafter is not None and any(part.name == "predicted" for part in split_spec(drafter))


@dataclass(frozen=True)
class Completion:
    """A finished answer.

    Attributes:
        text: the answer; no stop string, no control tokens.
        tokens: its tokens with their provenance.
        finish_reason: "stop" or "length".
        stop_reason: the stop string or end-of-text id that ended it, if one did.
        prompt_tokens: length of the prompt in tokens.
        drafter: who drafted.
        stats: counts and seconds.
        trace: what each pass did.
        seed: the request's seed.
        engine: what the model ran on.
    """

    text: str
    tokens: tuple[Token, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None
    prompt_tokens: int
    drafter: str
    stats: SpeculationStats
    trace: tuple[PassTrace, ...]
    seed: int | None
    engine: EngineInfo

    @classmethod
    def of(cls, sequence: DecodingSequence, drafter: str, engine: EngineInfo) -> Completion:
        """The answer of a sequence that has ended, with the drafter's name and the engine."""
        assert sequence.ending is not None, "the answer has not ended"
        return cls(
            text=sequence.text,
            tokens=tuple(sequence.tokens),
            finish_reason=sequence.ending.finish_reason,
            stop_reason=sequence.ending.stop_reason,
            prompt_tokens=len(sequence.history.prompt),
            drafter=drafter,
            stats=sequence.stats,
            trace=tuple(sequence.trace),
            seed=sequence.params.seed,
            engine=engine,
        )

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Ids of the delivered tokens."""
        return tuple(token.token_id for token in self.tokens)

    @property
    def prediction_usage(self) -> PredictionUsage | None:
        """What became of the prediction; None if there was none.

        A draft that several drafters made together counts as a whole.
        """
        if not _is_predicted(self.drafter):
            return None
        passes = [each for each in self.trace if _is_predicted(each.drafter)]
        drafted = sum(len(each.draft_tokens) - each.num_certain for each in passes)
        accepted = sum(_is_predicted(each.drafter) for each in self.tokens)
        return PredictionUsage(accepted, drafted - accepted)

    def _usage(self) -> dict[str, object]:
        usage: dict[str, object] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": len(self.tokens),
            "total_tokens": self.prompt_tokens + len(self.tokens),
        }
        prediction = self.prediction_usage
        if prediction is not None:
            usage["completion_tokens_details"] = prediction.to_dict()
        return usage

    @property
    def speculation(self) -> dict[str, object]:
        """Who drafted, and what became of it: counts, rates, seconds by phase."""
        stats = self.stats
        return {
            "drafter": self.drafter,
            "passes": stats.passes,
            "drafted": stats.drafted,
            "accepted": stats.accepted,
            "delivered": stats.delivered,
            "acceptance_rate": stats.acceptance_rate,
            "mean_accepted_length": stats.mean_accepted_length,
            "seconds": {
                "prefill": stats.prefill_seconds,
                "draft": stats.draft_seconds,
                "verify": stats.verify_seconds,
                "accept": stats.accept_seconds,
            },
        }

    def to_dict(self) -> dict[str, object]:
        """The object that `oneglance generate --json` prints."""
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "seed": self.seed,
            "usage": self._usage(),
            "engine": self.engine.to_dict(),
            "speculation": self.speculation,
        }


@dataclass(frozen=True)
class Piece:
    """One element of a stream; `str(piece)` is its text.

    Attributes:
        text: text that can no longer change, never half a character; may be empty.
        tokens: the tokens released with it.
        trace: what the pass did.
        completion: the whole answer, on the last piece only.
    """

    text: str
    tokens: tuple[Token, ...]
    trace: PassTrace
    completion: Completion | None

    def __str__(self) -> str:
        return self.text
