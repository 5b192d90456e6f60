"""The audit of a loaded model: passes what is exact, and finds what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from oneglance.audit.model.audit import audit_model
from oneglance.audit.model.bits import audit_bits, compare, forked, one_by_one, together
from oneglance.audit.model.identity import audit_identity, plain_answers
from oneglance.audit.model.law import ModelSizes, audit_law, sample
from oneglance.audit.model.record import RecordingDrafter
from oneglance.audit.model.subject import PROMPTS, Subject
from oneglance.audit.statistics import counts_p, uniform_p
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import settle
from oneglance.checkpoints import load_checkpoint
from oneglance.config import EngineConfig
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafting import DrafterSet
from oneglance.engine.base import Batch, PassOutput
from oneglance.engine.factory import make_engine
from oneglance.sampling.softmax import softmax
from oneglance.testing import Script, ScriptedDrafter, ScriptedEngine, random_script
from oneglance.types import Float64Array
from tests.tiny_models import write_tiny_gguf

SIZES = ModelSizes(num_tokens=10, num_samples=100, num_sampled_tokens=12)
TINY_SIZES = ModelSizes(num_tokens=10, num_samples=10, num_sampled_tokens=6, alpha=1e-4)
TEXTS = (PROMPTS[0], PROMPTS[-1])
NO_HINTS = [DraftHints()] * len(TEXTS)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("audit") / "tiny.gguf")


@pytest.fixture(scope="module")
def subject(tiny: Path) -> Iterator[Subject]:
    checkpoint = load_checkpoint(tiny)
    config = EngineConfig()
    engine = make_engine(checkpoint.config, checkpoint.weights, config)
    drafters = DrafterSet(checkpoint, engine, config)
    yield Subject(checkpoint, engine, config, drafters)
    drafters.close()


class ScriptedSubject(Subject):
    """A scripted model, whose laws are flat enough to sample from."""

    def __init__(self) -> None:
        engine = ScriptedEngine(SCRIPT, V, context_length=256)
        super().__init__(None, engine, EngineConfig(), None)  # type: ignore[arg-type]

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        return [[ord(character) % V for character in text] for text in prompts]

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))


V = 8
NEAR = random_script(V, seed=8, spread=2.0)


def by_last_two(script: Script) -> Script:
    return lambda prefix: script(prefix[-2:])


SCRIPT = by_last_two(random_script(V, seed=7))


def near_law(prefix: tuple[int, ...]) -> Float64Array:
    return softmax((SCRIPT(prefix) + NEAR(prefix[-2:])).astype(np.float64))


def far_law(prefix: tuple[int, ...]) -> Float64Array:
    return softmax(-SCRIPT(prefix).astype(np.float64))


DRAFTERS = {
    "laws": ScriptedDrafter(near_law),
    "tree of laws": ScriptedDrafter(far_law, branches=(2, 1)),
    "point masses": ScriptedDrafter(near_law, kind="top"),
}


def test_a_right_model_passes(tiny: Path) -> None:
    told: list[str] = []
    verdicts = audit_model(
        str(tiny),
        ["self:skip:1"],
        sizes=TINY_SIZES,
        prompts=TEXTS,
        progress=lambda what, _done, _total: told.append(what),
    )
    assert {verdict.status for verdict in verdicts} <= {"pass", "unclear", "not offered"}
    checks = {(verdict.subject, verdict.check) for verdict in verdicts}
    assert ("model", "bits: tree") in checks
    assert ("self:skip:1", "greedy answers") in checks
    assert ("self:skip:1", "tokens that drafts favour") in checks
    assert all(verdict.power for verdict in verdicts if verdict.check == "sampled tokens")
    assert told[-1] == "done"


@pytest.mark.parametrize("drafter", ["eagle", "suffix+eagle"])
def test_a_head_that_reads_states_passes(drafter: str) -> None:
    """Record and negative control show it what it needs to see."""
    verdicts = audit_model("smollm2-135m", [drafter], sizes=TINY_SIZES, prompts=TEXTS)
    assert {verdict.status for verdict in verdicts} <= {"pass", "unclear", "not offered"}
    assert (drafter, "sampled tokens") in {(each.subject, each.check) for each in verdicts}


def test_the_record_hides_nothing_of_its_drafter() -> None:
    """Whatever a drafter has or does, the one that records it has or passes on."""

    class Special(NgramDrafter):
        """Has another value of everything."""

    inner = Special()
    for name, value in vars(Drafter).items():
        if not name.startswith("_") and isinstance(value, bool | int | float | tuple):
            setattr(inner, name, (3,) if isinstance(value, tuple) else value + 1)
    recording = RecordingDrafter(inner, V, seed=0)
    for name, value in vars(Drafter).items():
        if name.startswith("_"):
            continue
        if callable(value):
            assert name in vars(RecordingDrafter), f"{name} is not passed on"
        else:
            assert getattr(recording, name) == getattr(inner, name) != value, name


@pytest.mark.parametrize("kind", DRAFTERS)
def test_the_negative_control_is_caught(kind: str) -> None:
    """A biased rule shows in the same numbers that are unsuspicious of the right one."""
    subject = ScriptedSubject()
    right, _ = sample(subject, DRAFTERS[kind], TEXTS, SIZES, NO_HINTS)
    biased, _ = sample(subject, DRAFTERS[kind], TEXTS, SIZES, NO_HINTS, is_biased=True)
    assert len(right.pooled()) == SIZES.num_samples * SIZES.num_sampled_tokens
    assert uniform_p(right.pooled()) > 1e-4
    assert counts_p(right.favoured) > 1e-4
    assert counts_p(biased.favoured) < 1e-3


def test_the_record_of_a_right_rule_has_its_level() -> None:
    """Over many audits p-values of the favoured tokens are not too small too often."""
    subject = ScriptedSubject()
    few = ModelSizes(num_samples=8, num_sampled_tokens=6)
    found = []
    for seed in range(40):
        kind = list(DRAFTERS)[seed % 3]
        samples, _ = sample(subject, DRAFTERS[kind], TEXTS, replace(few, seed=seed), NO_HINTS)
        found.append(counts_p(samples.favoured))
    assert np.mean(np.array(found) < 0.1) < 0.1 + 4 * (0.1 * 0.9 / 40) ** 0.5


def test_the_control_is_a_verdict() -> None:
    subject = ScriptedSubject()
    drafter = DRAFTERS["laws"]
    _, plain = sample(subject, NoDrafter(), TEXTS, SIZES, NO_HINTS)
    verdicts = {
        verdict.check: verdict
        for verdict in settle(
            audit_law(subject, "laws", drafter, TEXTS, SIZES, NO_HINTS, plain, 4), 1e-4
        )
    }
    assert {verdict.status for verdict in verdicts.values()} == {"pass"}
    assert verdicts["negative control"].detail.startswith("A rule that draws from the full law")
    assert verdicts["tokens that drafts favour"].adjusted_p is not None
    few = ModelSizes(num_samples=2, num_sampled_tokens=2)
    verdict = list(audit_law(subject, "laws", drafter, TEXTS, few, NO_HINTS, plain, 4))[-1]
    assert (verdict.check, verdict.status) == ("negative control", "unclear")


class ShapedEngine(ScriptedEngine):
    """Logits depend on the number of rows in a pass, by the last bits."""

    def forward(self, batch: Batch) -> PassOutput:
        output = super().forward(batch)
        num_rows = sum(len(tree.tokens) for tree in batch.trees)
        wobble = np.float32(1 + 1e-6 * min(num_rows, 8))
        return PassOutput(tuple(rows * wobble for rows in output.logits))


def test_bits_that_depend_on_the_shape_are_found() -> None:
    texts = [[0, 1, 2, 0, 1, 2, 1, 0], [2, 1, 0, 1, 2, 2, 1, 0]]
    script = random_script(3, seed=1)
    for engine, status in ((ScriptedEngine(script, 3), "pass"), (ShapedEngine(script, 3), "fault")):
        for way in (together, forked):
            tally = Tally("bits", "model", "rows")
            compare(tally, "another shape", one_by_one(engine, texts), way(engine, texts))
            assert tally.verdict("").status == status
            assert tally.size == 12


@dataclass
class _Broken:
    """An engine's rows with a wrong token in every pass of more than one row."""

    inner: object

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def forward(self, batch: Batch) -> PassOutput:
        output = self.inner.forward(batch)  # type: ignore[attr-defined]
        is_wide = any(len(tree.tokens) > 1 for tree in batch.trees)
        rows = [rows[:, ::-1].copy() if is_wide else rows for rows in output.logits]
        return PassOutput(tuple(rows), hidden=output.hidden)


def test_answers_and_bits_of_a_broken_engine_are_found(subject: Subject) -> None:
    plain = plain_answers(subject, TEXTS, 8)
    broken = Subject(
        subject.checkpoint,
        _Broken(subject.engine),  # type: ignore[arg-type]
        subject.engine_config,
        subject.drafters,
    )
    found = list(audit_identity(broken, "ngram", NgramDrafter(), TEXTS, plain))
    assert [verdict.status for verdict in found] == ["fault", "fault"]
    assert "differ from token" in found[0].detail
    bits = {verdict.check: verdict.status for verdict in audit_bits(broken, TEXTS)}
    assert bits["bits: tree"] == "fault"
