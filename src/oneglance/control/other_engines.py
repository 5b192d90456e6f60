"""The advice of `oneglance plan` in the words of other engines."""

from __future__ import annotations

import json
from collections.abc import Callable

from oneglance.errors import ParameterError

Setting = Callable[[str, str | None, int], str]


def settings_for(engine: str, drafter: str, num_draft_tokens: int) -> str:
    """Options of another engine's command line.

    Args:
        engine: "vllm", "llama.cpp" or "sglang".
        drafter: one of ours; one that the other engine lacks becomes its nearest: all that need no
            model are looked up in the text.
        num_draft_tokens: K; 0: speculation does not pay.

    Raises:
        ParameterError: another engine is not known.
    """
    if engine not in _SETTINGS:
        known = ", ".join(_SETTINGS)
        raise ParameterError(f"--for {engine!r} is not known; choose one of {known}.")
    if num_draft_tokens == 0:
        return "# Speculation does not pay here: leave it off, which is the default."
    kind, _, model = drafter.partition(":")
    return _SETTINGS[engine](kind, model if kind == "draft" else None, num_draft_tokens)


def _vllm(kind: str, draft_model: str | None, num_draft_tokens: int) -> str:
    config: dict[str, object] = {"num_speculative_tokens": num_draft_tokens}
    if kind == "suffix":
        config |= {"method": "suffix"}
    elif draft_model is None:
        config |= {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    else:
        config |= {"method": "draft_model", "model": draft_model}
    return f"--speculative-config '{json.dumps(config)}'"


def _llama_cpp(_: str, draft_model: str | None, num_draft_tokens: int) -> str:
    if draft_model is None:
        return f"--spec-type ngram-simple --spec-ngram-simple-size-m {num_draft_tokens}"
    return f"--spec-type draft-simple -md {draft_model} --spec-draft-n-max {num_draft_tokens}"


def _sglang(_: str, draft_model: str | None, num_draft_tokens: int) -> str:
    if draft_model is None:
        return (
            f"--speculative-algorithm NGRAM --speculative-num-draft-tokens {num_draft_tokens + 1}"
        )
    return (
        f"--speculative-algorithm STANDALONE --speculative-draft-model-path {draft_model} "
        f"--speculative-num-steps {num_draft_tokens} --speculative-eagle-topk 1 "
        f"--speculative-num-draft-tokens {num_draft_tokens + 1}"
    )


_SETTINGS: dict[str, Setting] = {"vllm": _vllm, "llama.cpp": _llama_cpp, "sglang": _sglang}
