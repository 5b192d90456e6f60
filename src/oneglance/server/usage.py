"""Tokens that a request took, in OpenAI's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneglance.completion import Completion
from oneglance.server.admit import Admitted


def usage_of(admitted: Admitted, completions: Sequence[Completion]) -> dict[str, Any]:
    """The object `usage`: a prompt counts once, however many answers it gets."""
    num_tokens = sum(len(completion.tokens) for completion in completions)
    predictions = [completion.prediction_usage for completion in completions]
    known = [each for each in predictions if each is not None]
    return {
        "prompt_tokens": admitted.num_prompt_tokens,
        "completion_tokens": num_tokens,
        "total_tokens": admitted.num_prompt_tokens + num_tokens,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": admitted.num_cached_tokens},
        "completion_tokens_details": {
            "audio_tokens": 0,
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": sum(each.accepted for each in known),
            "rejected_prediction_tokens": sum(each.rejected for each in known),
        },
    }
