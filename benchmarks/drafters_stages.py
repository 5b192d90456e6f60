"""What the drafters' benchmark measures: models, their weights, and which drafters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.float_copies import with_float_weights
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.config import EngineConfig, WeightsForm
from oneglance.engine.factory import make_engine
from oneglance.llm import DEFAULT_MODEL, LLM

CODE_EDITS = Path(__file__).parent / "data" / "code_edits.jsonl"
PAIR_TARGET, PAIR_DRAFT = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"


@dataclass(frozen=True)
class Stage:
    """One setting of the benchmark.

    Attributes:
        title: what it is about, for people.
        model: the target, unless another is asked for.
        drafters: measured unless others are asked for.
        max_tokens: of an answer, unless told otherwise.
        predicts_own_answer: each prompt comes with the model's own answer as its prediction,
            changed here and there.
        weights: "bf16": the target is a copy with every weight as a float, kept as bfloat16.
    """

    title: str
    model: str
    drafters: tuple[str, ...]
    max_tokens: int = 128
    predicts_own_answer: bool = False
    weights: WeightsForm = "auto"


STAGES = {
    "default": Stage(
        "The default model",
        DEFAULT_MODEL,
        ("ngram", "suffix", "lookahead", "eagle", "suffix+eagle"),
    ),
    "pair": Stage(
        "The real pair on functions to complete",
        PAIR_TARGET,
        (
            "ngram",
            "suffix",
            "lookahead",
            f"draft:{PAIR_DRAFT}",
            f"draft:{DEFAULT_MODEL}",
            f"suffix+draft:{PAIR_DRAFT}",
            f"cascade:suffix,draft:{PAIR_DRAFT}",
        ),
    ),
    "edits": Stage(
        "The real pair on code edits",
        PAIR_TARGET,
        ("ngram", "suffix", "predicted", f"draft:{PAIR_DRAFT}", f"suffix+draft:{PAIR_DRAFT}"),
        max_tokens=1024,
    ),
    "prediction": Stage(
        "The default model with a prediction that is 95 % right",
        DEFAULT_MODEL,
        ("predicted",),
        predicts_own_answer=True,
    ),
    "float": Stage(
        "The default model with weights in bfloat16",
        DEFAULT_MODEL,
        ("self:lowbit",),
        weights="bf16",
    ),
}


def load_target(stage: Stage, model: str, num_threads: int | None) -> LLM:
    """Loads the stage's target; it keeps no prompt, so that each answer reads its own.

    Args:
        stage: says what becomes of the weights.
        model: a name of the catalog, or a path.
        num_threads: None: as many as this process has processors.

    Raises:
        OneglanceError: the model is unknown, cannot be fetched, read or run.
    """
    engine_config = EngineConfig(
        kind="native", num_threads=num_threads, kept_prefixes=0, weights=stage.weights
    )
    checkpoint = load_checkpoint(resolve(model), model)
    if stage.weights != "auto":
        checkpoint = replace(checkpoint, weights=with_float_weights(checkpoint.weights))
    engine = make_engine(checkpoint.config, checkpoint.weights, engine_config, None)
    return LLM(checkpoint, engine, "none", engine_config=engine_config)
