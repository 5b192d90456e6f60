"""From the words after `--drafter` to a drafter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.other_vocabulary import OtherVocabularyDrafter
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import OneglanceError, ParameterError, UnsupportedError
from oneglance.sampling.noise import SequentialNoise
from tests.tiny_models import TinyShape, vocabulary, write_tiny_gguf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    words = vocabulary()
    words[10], words[11] = words[11], words[10]
    write_tiny_gguf(folder / "tiny.gguf", seed=0)
    write_tiny_gguf(folder / "wider.gguf", shape=TinyShape(vocab_padding=7))
    write_tiny_gguf(folder / "swapped.gguf", metadata={"tokenizer.ggml.tokens": words})
    return folder


def engine_of(checkpoint: Checkpoint) -> ReferenceEngine:
    return ReferenceEngine(checkpoint.config, checkpoint.weights)


def setup(
    folder: Path,
    target: str = "tiny.gguf",
    engine_config: EngineConfig = EngineConfig(),
    make_engine: Callable[[Checkpoint], ReferenceEngine] = engine_of,
) -> DrafterSetup:
    checkpoint = load_checkpoint(folder / target)
    return DrafterSetup(
        target=checkpoint,
        target_engine=engine_of(checkpoint),
        load_checkpoint=lambda name: load_checkpoint(folder / name, name=name),
        make_engine=make_engine,
        engine_config=engine_config,
        local_drafts=lambda _: [],
        make_length=lambda _, num_prompt: PartLength(Control(), num_prompt),
    )


def draft(drafter: Drafter[Any], params: SamplingParams) -> Any:
    session = drafter.start(DraftContext((5, 6, 7), params, SequentialNoise(0)))
    try:
        return drafter.propose([DraftRequest(session, 4)])[0]
    finally:
        drafter.close(session)


def test_names_without_argument(folder: Path) -> None:
    assert type(make_drafter("none", setup(folder))) is NoDrafter
    assert type(make_drafter("ngram", setup(folder))) is NgramDrafter


def test_lookahead_and_predicted_take_what_follows_the_colon(folder: Path) -> None:
    wide = make_drafter("lookahead:2,3,2", setup(folder))
    narrow = make_drafter("lookahead", setup(folder))
    # Without any n-gram in the prompt only the window drafts: its second column, if it has one.
    assert len(draft(wide, SamplingParams())) == 1
    assert len(draft(narrow, SamplingParams())) == 0
    file = folder / "prediction.txt"
    file.write_text("the line", encoding="utf-8")
    assert len(draft(make_drafter(f"predicted:{file}", setup(folder)), SamplingParams())) > 0
    assert len(draft(make_drafter("predicted", setup(folder)), SamplingParams())) == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lookahead:3", "write lookahead:W,N,G"),
        ("predicted:missing.txt", "'missing.txt' cannot be read"),
        ("", "Unknown drafter ''"),
        (
            "eagles",
            "choose one of: auto, cascade, draft, eagle, grammar, lookahead, medusa, ngram, none, "
            "predicted, self, suffix",
        ),
        ("eagle", "write eagle:PATH"),
        ("cascade:eagle:x,draft:tiny.gguf", "The drafter eagle cannot draft for a draft model"),
        ("ngram:3", "ngram takes no argument; leave out '3'"),
        ("none:x", "none takes no argument"),
        ("draft", "write draft:MODEL"),
        ("draft:", "write draft:MODEL"),
        ("cascade", "write cascade:INNER,draft:MODEL"),
        ("cascade:ngram", "write cascade:INNER,draft:MODEL"),
        ("cascade:ngram,draft:", "write cascade:INNER,draft:MODEL"),
        ("cascade:,draft:tiny.gguf", "write cascade:INNER,draft:MODEL"),
        ("cascade:ngram,tiny.gguf", "write cascade:INNER,draft:MODEL"),
        ("cascade:none,draft:tiny.gguf", "The drafter none cannot draft for a draft model"),
        ("cascade:self:skip,draft:tiny.gguf", "The drafter self cannot draft for a draft model"),
        ("cascade:ngram+lookahead,draft:tiny.gguf", "where INNER is one other drafter"),
        ("cascade:nothing,draft:tiny.gguf", "Unknown drafter 'nothing'"),
    ],
)
def test_what_cannot_be_made_is_refused(folder: Path, spec: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_drafter(spec, setup(folder))


def test_a_model_may_have_a_colon_in_its_name(folder: Path) -> None:
    write_tiny_gguf(folder / "a:b.gguf", seed=0)
    drafter = make_drafter("draft:a:b.gguf", setup(folder))
    assert drafter.name == "draft:a:b.gguf"
    assert draft(drafter, SamplingParams()).drafter == "draft:a:b.gguf"


@pytest.mark.parametrize("pair", [("tiny.gguf", "wider.gguf"), ("wider.gguf", "tiny.gguf")])
def test_laws_have_the_width_of_the_vocabulary(folder: Path, pair: tuple[str, str]) -> None:
    """Of whatever width the matrices of the two models are."""
    target, name = pair
    proposal = draft(
        make_drafter(f"draft:{name}", setup(folder, target)), SamplingParams(temperature=1.0)
    )
    assert len(proposal) == 4
    assert {law.shape for law in proposal.draft_probs} == {(len(vocabulary()),)}


def test_a_cascade_of_three(folder: Path) -> None:
    write_tiny_gguf(folder / "b,c.gguf", seed=1)
    spec = "cascade:ngram,draft:tiny.gguf,draft:b,c.gguf"
    drafter = make_drafter(spec, setup(folder))
    assert drafter.name == spec
    alone = draft(make_drafter("draft:b,c.gguf", setup(folder)), SamplingParams())
    proposal = draft(drafter, SamplingParams())
    assert proposal.drafter == spec
    assert proposal.tokens.tolist() == alone.tokens.tolist()
    assert len(proposal) > 0


@pytest.mark.parametrize(
    "spec", ["cascade:ngram,draft:swapped.gguf", "cascade:ngram,draft:tiny.gguf,draft:swapped.gguf"]
)
def test_a_cascade_of_another_vocabulary_is_refused(folder: Path, spec: str) -> None:
    with pytest.raises(
        UnsupportedError, match=r"'swapped.gguf' cannot stand in a cascade for 'tiny'"
    ):
        make_drafter(spec, setup(folder))


def test_another_vocabulary_drafts_by_string_or_by_token(folder: Path) -> None:
    drafter = make_drafter("draft:swapped.gguf", setup(folder))
    assert type(drafter) is OtherVocabularyDrafter
    assert type(make_drafter("draft:wider.gguf", setup(folder))) is DraftModelDrafter
    assert drafter.name == "draft:swapped.gguf"
    assert draft(drafter, SamplingParams()).drafter == "draft:swapped.gguf"


def test_a_vocabulary_that_cannot_pass_text_is_refused_before_an_engine_is_made(
    folder: Path,
) -> None:
    def no_engine(checkpoint: Checkpoint) -> ReferenceEngine:
        raise AssertionError(f"an engine was made for {checkpoint.name}")

    words = vocabulary()
    words[words.index("q")] = "qq"
    write_tiny_gguf(folder / "lacking.gguf", metadata={"tokenizer.ggml.tokens": words})
    message = r"'lacking.gguf' cannot draft for 'tiny': .* draft model has no token for 'q'"
    with pytest.raises(UnsupportedError, match=message):
        make_drafter("draft:lacking.gguf", setup(folder, make_engine=no_engine))


def test_errors_of_loading_are_passed_on(folder: Path) -> None:
    with pytest.raises(OneglanceError, match=r"missing.gguf"):
        make_drafter("draft:missing.gguf", setup(folder))


@pytest.mark.parametrize("kept_prefixes", [0, 1])
def test_the_engine_configuration_reaches_the_draft_model(folder: Path, kept_prefixes: int) -> None:
    engines: list[ReferenceEngine] = []

    def noted(checkpoint: Checkpoint) -> ReferenceEngine:
        engines.append(engine_of(checkpoint))
        return engines[-1]

    config = EngineConfig(kept_prefixes=kept_prefixes)
    drafter = make_drafter("draft:tiny.gguf", setup(folder, "tiny.gguf", config, noted))
    for _ in range(4):
        draft(drafter, SamplingParams())
    # Four times the same prompt: each takes the place of the one before.
    assert num_open(engines[0]) == kept_prefixes


def num_open(engine: ReferenceEngine) -> int:
    count = 0
    for sequence in range(20):
        try:
            engine.length(sequence)
        except ParameterError:
            continue
        count += 1
    return count
