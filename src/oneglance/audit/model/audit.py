"""`oneglance audit model`: bits, identities and laws of a loaded model, drafter by drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oneglance.audit.model.bits import audit_bits
from oneglance.audit.model.identity import audit_identity, hints_of, plain_answers
from oneglance.audit.model.law import ModelSizes, audit_law, sample
from oneglance.audit.model.subject import PROMPTS, Subject
from oneglance.audit.verdict import Verdict, settle
from oneglance.config import EngineConfig
from oneglance.control.length import DraftLengthSpec
from oneglance.drafters.base import Drafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafting import DrafterSet, read_model
from oneglance.engine.factory import make_engine
from oneglance.types import ProgressCallback

TESTS_PER_DRAFTER = 4
TESTS_OF_PLAIN = 2


def audit_model(
    model: str,
    drafters: Sequence[str],
    *,
    k: DraftLengthSpec = 4,
    tree_nodes: int | None = None,
    engine_config: EngineConfig = EngineConfig(),
    sizes: ModelSizes = ModelSizes(),
    prompts: Sequence[str] = PROMPTS,
    progress: ProgressCallback | None = None,
) -> list[Verdict]:
    """Loads a model and audits it with each drafter.

    Args:
        model: its name or path.
        drafters: names, as after `--drafter`.
        k: draft tokens on a path.
        tree_nodes: draft tokens per pass on all branches for sampled answers; None: chains.
            Greedy and seeded answers are compared in both shapes anyway.
        engine_config: what runs the model.
        sizes: how much is decoded.
        prompts: texts.
        progress: told about long work.

    Raises:
        OneglanceError: the model or a drafter cannot be used; the message says why.
    """
    checkpoint = read_model(model, progress)
    engine = make_engine(checkpoint.config, checkpoint.weights, engine_config, progress)
    made = DrafterSet(checkpoint, engine, engine_config, progress)
    subject = Subject(checkpoint, engine, engine_config, made, k, tree_nodes)
    try:
        found = {name: made.get(name) for name in drafters}
        return list(settle(_audit(subject, found, sizes, prompts, progress), sizes.alpha))
    finally:
        made.close()


def _audit(
    subject: Subject,
    drafters: dict[str, Drafter[Any]],
    sizes: ModelSizes,
    prompts: Sequence[str],
    progress: ProgressCallback | None,
) -> list[Verdict]:
    num_tests = TESTS_OF_PLAIN + TESTS_PER_DRAFTER * len(drafters)
    steps = 2 + 2 * len(drafters)

    def tell(what: str, done: int) -> None:
        if progress is not None:
            progress(what, done, steps)

    tell("bits of passes", 0)
    verdicts = list(audit_bits(subject, prompts))
    tell("plain decoding", 1)
    plain = plain_answers(subject, prompts, sizes.num_tokens)
    none = NoDrafter()
    hints = hints_of(none, plain["greedy"])
    verdicts += audit_law(subject, "none", none, prompts, sizes, hints, {}, num_tests)
    other_seed = replace(sizes, seed=sizes.seed + 1)
    _, sampled = sample(subject, none, prompts, other_seed, hints)
    for index, (name, drafter) in enumerate(drafters.items()):
        tell(f"{name}: answers", 2 + 2 * index)
        verdicts += audit_identity(subject, name, drafter, prompts, plain)
        tell(f"{name}: samples", 3 + 2 * index)
        hints = hints_of(drafter, plain["greedy"])
        verdicts += audit_law(subject, name, drafter, prompts, sizes, hints, sampled, num_tests)
    tell("done", steps)
    return verdicts
